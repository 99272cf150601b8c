// Expressions with words of their own within: CASE, searched or of a subject, and trim().
#include "services/graph/model/text.h"
#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {

// Of CASE x WHEN > 5, WHEN IS NULL, WHEN STARTS WITH 'a' ...: what follows goes on behind x.
bool Parser::AtPredicateOfSubject() const {
  for (const std::string_view symbol : {"=", "<>", "<", "<=", ">", ">=", "=~"}) {
    if (IsSymbol(symbol)) return true;
  }
  const bool with = (IsWord("STARTS") || IsWord("ENDS")) && IsWord("WITH", 1);
  return with || IsWord("IS") || IsWord("IN") || IsWord("CONTAINS") ||
         (IsSymbol(":") && IsSymbol(":", 1));
}

// The pairs of a CASE with a subject. Where one has several values or a predicate, all become
// predicates of a variable that stands for the subject.
void Parser::ParseWhens(Expr* expr) {
  struct Operand {
    ExprPtr expr;
    bool predicate;
  };
  std::vector<std::pair<std::vector<Operand>, ExprPtr>> whens;
  const auto variable = [&](Pos pos) {
    ExprPtr made = New(Expr::Kind::kVariable, pos);
    made->name = kCaseSubject;
    return Done(std::move(made));
  };
  bool plain = true;
  while (TakeWord("WHEN")) {
    std::vector<Operand> operands;
    do {
      const bool predicate = AtPredicateOfSubject();
      operands.push_back({predicate ? ParseComparison(variable(Here())) : ParseExpr(), predicate});
      plain = plain && !predicate && operands.size() == 1;
    } while (TakeSymbol(","));
    ExpectWord("THEN");
    whens.emplace_back(std::move(operands), ParseExpr());
  }
  if (failed()) return;
  if (!plain) expr->name = kCaseSubject;
  for (auto& [operands, result] : whens) {
    std::vector<ExprPtr> tests;
    for (Operand& operand : operands) {
      ExprPtr test = std::move(operand.expr);
      if (!plain && !operand.predicate) {
        const Pos pos = test->pos;
        test = Binary(Op::kEq, variable(pos), std::move(test));
      }
      tests.push_back(std::move(test));
    }
    expr->kids.push_back(Balanced(Op::kOr, std::move(tests)));
    expr->kids.push_back(std::move(result));
  }
}

ExprPtr Parser::ParseCase() {
  ExprPtr expr = New(Expr::Kind::kCase, Here());
  Advance();
  if (!IsWord("WHEN")) {
    expr->flag = true;
    expr->kids.push_back(ParseExpr());
  }
  if (!IsWord("WHEN")) Unexpected("WHEN");
  if (expr->flag) ParseWhens(expr.get());
  while (TakeWord("WHEN")) {
    expr->kids.push_back(ParseExpr());
    ExpectWord("THEN");
    expr->kids.push_back(ParseExpr());
  }
  expr->kids.push_back(TakeWord("ELSE") ? ParseExpr() : nullptr);
  ExpectWord("END");
  return Done(std::move(expr));
}

// Not a variable or a property of that name: an expression begins behind it.
bool Parser::IsFromOfTrim(size_t ahead) const {
  if (!IsWord("FROM", ahead) || IsSymbol(".", ahead - 1)) return false;
  for (const std::string_view word : {"IS", "IN", "AND", "OR", "XOR", "STARTS", "ENDS", "CONTAINS",
                                      "WHEN", "THEN", "ELSE", "END"}) {
    if (IsWord(word, ahead + 1)) return false;
  }
  const Lexeme::Kind next = Peek(ahead + 1).kind;
  return next == Lexeme::Kind::kSymbol ? IsSymbol("(", ahead + 1) : next != Lexeme::Kind::kEnd;
}

// trim([LEADING | TRAILING | BOTH] [characters] FROM text); null: it is a call as any other.
ExprPtr Parser::ParseTrim() {
  const bool leading = IsWord("LEADING", 2), trailing = IsWord("TRAILING", 2);
  const bool side = leading || trailing || IsWord("BOTH", 2);
  const size_t begin = side ? 3 : 2;
  size_t from = begin;
  const size_t end = Peek(1).match > at_ ? Peek(1).match - at_ : 0;
  while (from < end && !IsFromOfTrim(from)) {
    const size_t match = Peek(from).match;
    from = match > at_ + from ? match - at_ + 1 : from + 1;
  }
  if (from >= end) return nullptr;
  ExprPtr call = New(Expr::Kind::kCall, Here());
  call->name = leading ? "ltrim" : trailing ? "rtrim" : "btrim";
  for (size_t i = 0; i < begin; ++i) Advance();
  ExprPtr characters;
  if (!IsWord("FROM")) characters = ParseExpr();
  ExpectWord("FROM");
  call->kids.push_back(ParseExpr());
  if (characters != nullptr) call->kids.push_back(std::move(characters));
  ExpectSymbol(")");
  return Done(std::move(call));
}

}  // namespace pulse::cypher
