// The parser's class: clauses in parser.cc, patterns in parser_pattern.cc, labels in
// parser_labels.cc, expressions in parser_expr.cc. The first error stays in status_; functions then
// return what is harmless, and callers stop where they would loop.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/graph/syntax/ast.h"
#include "services/graph/syntax/lexer.h"
#include "services/graph/syntax/parser.h"

namespace pulse::cypher {

class Parser {
 public:
  Parser(std::string_view text, std::vector<Lexeme> tokens, const StopHook* stop)
      : text_(text), tokens_(std::move(tokens)), stop_(stop) {}

  absl::StatusOr<std::unique_ptr<Query>> Run();

 private:
  class Nesting;

  // Tokens.
  const Lexeme& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool IsSymbol(std::string_view symbol, size_t ahead = 0) const {
    const Lexeme& t = Peek(ahead);
    return t.kind == Lexeme::Kind::kSymbol && t.text == symbol;
  }
  bool IsWord(std::string_view word, size_t ahead = 0) const {
    const Lexeme& t = Peek(ahead);
    return t.kind == Lexeme::Kind::kName && t.word == word;
  }
  bool IsName(size_t ahead = 0) const {
    const Lexeme& t = Peek(ahead);
    return t.kind == Lexeme::Kind::kName || t.kind == Lexeme::Kind::kQuotedName;
  }
  void Advance() {
    if (at_ + 1 < tokens_.size()) ++at_;
    if (stop_.Asks() && !failed()) status_ = StopCheck::Ended();
  }
  bool TakeSymbol(std::string_view symbol) {
    if (failed() || !IsSymbol(symbol)) return false;
    Advance();
    return true;
  }
  bool TakeWord(std::string_view word) {
    if (failed() || !IsWord(word)) return false;
    Advance();
    return true;
  }
  void ExpectSymbol(std::string_view symbol);
  void ExpectWord(std::string_view word);
  Pos Here() const { return Pos{Peek().begin}; }
  bool failed() const { return !status_.ok(); }
  void Fail(std::string_view detail, Pos pos, std::string_view message);
  // "expected X, found Y" here.
  void Unexpected(std::string_view expected);
  std::string Name(std::string_view what);  // of a label, key, function: any word
  std::string Variable();                   // no reserved word
  std::string Alias();                      // behind AS: any word
  bool IsVariable(size_t ahead = 0) const;

  // parser.cc
  std::unique_ptr<Query> ParseQuery(bool nested);
  std::vector<Clause> ParseSingleQuery(bool nested);
  bool ParseClause(std::vector<Clause>* clauses);
  void ParseLoadCsv(Clause* clause);
  void ParseMatch(Clause* clause);
  void SkipHint();
  void ParseProjection(Clause* clause);
  void ParseLet(Clause* clause);
  bool IsOrder() const;
  void ParseOrder(Clause* clause);
  void ParseMerge(Clause* clause);
  SetItem ParseSetTarget();
  void ParseSetItems(std::vector<SetItem>* items);
  void ParseRemoveItems(std::vector<SetItem>* items);
  void ParseForeach(Clause* clause);
  void ParseImports(Clause* clause);
  void ParseCall(Clause* clause);
  void ParseInTransactions(Clause* clause);
  void CheckComposition(const std::vector<Clause>& clauses, Pos end, bool finished);

  // parser_pattern.cc
  Pattern ParsePattern();
  PatternPart ParsePatternPart();
  bool ParseSelector(PatternPart* part);
  void ParseChain(PatternPart* part);
  bool AtElementVariable() const;  // in the brackets of a node or relationship
  NodePattern ParseNode();
  EdgePattern ParseEdge();
  void ParseRange(EdgePattern* edge);
  void ParseRepetition(EdgePattern* edge);
  bool AtQuantifiedPath() const;  // a bracket with a pattern in it, and how often behind it
  EdgePattern ParseQuantifiedPath();
  ExprPtr ParsePatternProperties();
  bool AtPattern(size_t ahead = 0) const;  // "(" begins a pattern of at least one relationship
  bool AtPatternComprehension() const;     // after such a pattern comes "|" or WHERE
  size_t AfterRepetition(size_t ahead) const;

  // parser_labels.cc
  bool AtLabels(size_t ahead = 0) const;  // ":" or IS, and what labels begin with
  size_t AfterLabels(size_t ahead) const;
  LabelExpr ParseLabels(bool relationship);
  size_t AfterDynamic(size_t ahead) const;  // $(…), $all(…), $any(…); `ahead`: there is none
  void ParseDynamic(LabelExpr* out);
  ExprPtr LabelTest(ExprPtr subject);
  void ParseLabelOr(std::string_view what, bool* colon, LabelExpr* out);
  void ParseLabelNot(std::string_view what, LabelExpr* out);
  void MixedLabels(Pos pos);
  bool BarEndsLabels() const;
  // A "|" directly within a bracket that was marked is none of labels: it parts a comprehension.
  void MarkBar(size_t bracket) { bars_.push_back(static_cast<uint32_t>(bracket)); }
  void TakeBar();

  // parser_types.cc
  bool AtNormalForm() const;
  bool AtTypeTest() const;  // IS ::, IS TYPED or ::
  bool AtType(size_t ahead) const;
  size_t TypeAt(size_t ahead, int64_t* types) const;
  bool TakeNotNull();
  bool BarEndsTypes() const;
  Value ParseTypes();
  void ParseType(ValueList* alternatives);
  ExprPtr TypeTest(ExprPtr subject);

  // parser_case.cc
  bool IsFromOfTrim(size_t ahead) const;
  ExprPtr ParseTrim();
  ExprPtr ParseCase();
  bool AtPredicateOfSubject() const;
  void ParseWhens(Expr* expr);

  // parser_expr.cc
  ExprPtr ParseExpr();
  ExprPtr Balanced(Op op, std::vector<ExprPtr> all);
  ExprPtr Chain(std::string_view word, Op op, ExprPtr (Parser::*operand)());
  ExprPtr ParseXor();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  // Both go on behind `left` where there is one.
  ExprPtr ParseComparison(ExprPtr left = nullptr);
  ExprPtr ParsePredicate(ExprPtr left = nullptr);
  ExprPtr ParseSum();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary();
  ExprPtr ParsePostfix(bool with_labels = true);
  ExprPtr ParseAtom();
  ExprPtr ParseNumber(bool negative);
  ExprPtr ParseExists();
  bool AtSubquery() const;
  ExprPtr ParseSubqueryExpr(Expr::Use use);
  void ParseSubqueryParts(Expr::Use use, Query* query);
  ExprPtr ParseCallOrVariable();
  ExprPtr ParseQuantifier();
  ExprPtr ParseReduce();
  ExprPtr ParseBracket();
  ExprPtr ParseMapLiteral();
  ExprPtr ParseMapProjection(ExprPtr subject);
  ExprPtr PatternExpr();
  ExprPtr New(Expr::Kind kind, Pos pos) const;
  // Sets where the text of `expr` ends, and bounds its depth.
  ExprPtr Done(ExprPtr expr);
  ExprPtr Binary(Op op, ExprPtr left, ExprPtr right);
  std::string_view TextFrom(Pos pos) const;  // to the last token taken

  const std::string_view text_;
  const std::vector<Lexeme> tokens_;
  StopCheck stop_;
  size_t at_ = 0;
  int depth_ = 0;
  int angles_ = 0;              // of types, around here
  std::vector<uint32_t> bars_;  // brackets whose "|" is still to come
  absl::Status status_;
};

// Counts one level of nesting while it lives.
class Parser::Nesting {
 public:
  explicit Nesting(Parser* parser) : parser_(parser) {
    if (++parser->depth_ > kMaxParseDepth) {
      parser->Fail("UnexpectedSyntax", parser->Here(), "the query nests too deeply");
    }
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --parser_->depth_; }

 private:
  Parser* const parser_;
};

}  // namespace pulse::cypher
