// CASE, searched or of a subject.
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

}  // namespace pulse::cypher
