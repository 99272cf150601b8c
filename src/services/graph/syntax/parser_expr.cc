// Expressions, by precedence from OR down to atoms.
#include <algorithm>

#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {

ExprPtr Parser::New(Expr::Kind kind, Pos pos) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->pos = pos;
  return expr;
}

ExprPtr Parser::Done(ExprPtr expr) {
  expr->end = at_ == 0 ? 0 : tokens_[at_ - 1].end;
  for (const ExprPtr& kid : expr->kids) {
    if (kid != nullptr) expr->depth = std::max(expr->depth, kid->depth + 1);
  }
  if (expr->depth > kMaxExprDepth) {
    Fail("UnexpectedSyntax", expr->pos, "this expression has too many operators in a row");
  }
  return expr;
}

ExprPtr Parser::Binary(Op op, ExprPtr left, ExprPtr right) {
  ExprPtr expr = New(Expr::Kind::kBinary, left->pos);
  expr->op = op;
  expr->kids.push_back(std::move(left));
  expr->kids.push_back(std::move(right));
  return Done(std::move(expr));
}

// Operands with `word` between them. Thousands, as programs write them, are no deep tree.
ExprPtr Parser::Chain(std::string_view word, Op op, ExprPtr (Parser::*operand)()) {
  std::vector<ExprPtr> all;
  all.push_back((this->*operand)());
  while (TakeWord(word)) all.push_back((this->*operand)());
  return Balanced(op, std::move(all));
}

ExprPtr Parser::Balanced(Op op, std::vector<ExprPtr> all) {
  for (; all.size() > 1 && !failed(); all.resize((all.size() + 1) / 2)) {
    for (size_t i = 0; i < all.size(); i += 2) {
      ExprPtr both = i + 1 < all.size() ? Binary(op, std::move(all[i]), std::move(all[i + 1]))
                                        : std::move(all[i]);
      all[i / 2] = std::move(both);
    }
  }
  return std::move(all[0]);
}

ExprPtr Parser::ParseExpr() {
  Nesting nesting(this);
  if (failed()) return New(Expr::Kind::kLiteral, Here());
  return Chain("OR", Op::kOr, &Parser::ParseXor);
}

ExprPtr Parser::ParseXor() { return Chain("XOR", Op::kXor, &Parser::ParseAnd); }

ExprPtr Parser::ParseAnd() { return Chain("AND", Op::kAnd, &Parser::ParseNot); }

ExprPtr Parser::ParseNot() {
  const Pos pos = Here();
  int count = 0;
  while (TakeWord("NOT")) ++count;
  ExprPtr expr = ParseComparison();
  // Two of them do not cancel out: NOT has no meaning for a number, once or twice.
  for (; count > 0 && !failed(); --count) {
    ExprPtr negation = New(Expr::Kind::kUnary, pos);
    negation->op = Op::kNot;
    negation->kids.push_back(std::move(expr));
    expr = Done(std::move(negation));
  }
  return expr;
}

ExprPtr Parser::ParseComparison(ExprPtr left) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"=", Op::kEq}, {"<>", Op::kNe},
                                                             {"<", Op::kLt}, {"<=", Op::kLe},
                                                             {">", Op::kGt}, {">=", Op::kGe}};
  const auto next = [this] {
    return failed() ? std::end(kOps)
                    : std::find_if(std::begin(kOps), std::end(kOps),
                                   [this](const auto& entry) { return IsSymbol(entry.first); });
  };
  left = ParsePredicate(std::move(left));
  const auto* op = next();
  if (op == std::end(kOps)) return left;
  ExprPtr chain = New(Expr::Kind::kChain, left->pos);
  chain->kids.push_back(std::move(left));
  for (; op != std::end(kOps); op = next()) {
    Advance();
    chain->ops.push_back(op->second);
    chain->kids.push_back(ParsePredicate());
  }
  if (chain->ops.size() == 1) {
    return Binary(chain->ops[0], std::move(chain->kids[0]), std::move(chain->kids[1]));
  }
  return Done(std::move(chain));
}

// IS [NOT] [NFC | NFD | NFKC | NFKD] NORMALIZED, which is no label either.
bool Parser::AtNormalForm() const {
  if (!IsWord("IS")) return false;
  size_t i = IsWord("NOT", 1) ? 2 : 1;
  for (const std::string_view form : {"NFC", "NFD", "NFKC", "NFKD"}) {
    if (IsWord(form, i) && IsWord("NORMALIZED", i + 1)) return true;
  }
  return IsWord("NORMALIZED", i);
}

ExprPtr Parser::ParsePredicate(ExprPtr left) {
  if (left == nullptr) left = ParseSum();
  while (!failed()) {
    if (TakeWord("IN")) {
      left = Binary(Op::kIn, std::move(left), ParseSum());
    } else if (IsWord("STARTS") && IsWord("WITH", 1)) {
      Advance();
      Advance();
      left = Binary(Op::kStartsWith, std::move(left), ParseSum());
    } else if (IsWord("ENDS") && IsWord("WITH", 1)) {
      Advance();
      Advance();
      left = Binary(Op::kEndsWith, std::move(left), ParseSum());
    } else if (TakeWord("CONTAINS")) {
      left = Binary(Op::kContains, std::move(left), ParseSum());
    } else if (TakeSymbol("=~")) {
      left = Binary(Op::kRegex, std::move(left), ParseSum());
    } else if (AtTypeTest()) {
      left = TypeTest(std::move(left));
    } else if (AtNormalForm()) {
      status_ = CompileError("Unsupported", "Unsupported",
                             AtPosition(text_, Here(), "normal forms of texts are not supported"));
    } else if (IsWord("IS") && AtLabels()) {
      left = LabelTest(std::move(left));
    } else if (IsWord("IS")) {
      Advance();
      const bool negated = TakeWord("NOT");
      ExpectWord("NULL");
      ExprPtr test = New(Expr::Kind::kUnary, left->pos);
      test->op = negated ? Op::kIsNotNull : Op::kIsNull;
      test->kids.push_back(std::move(left));
      left = Done(std::move(test));
    } else {
      break;
    }
  }
  return left;
}

ExprPtr Parser::ParseSum() {
  ExprPtr left = ParseProduct();
  while (!failed() && (IsSymbol("+") || IsSymbol("-") || IsSymbol("||"))) {
    const Op op = IsSymbol("+") ? Op::kAdd : IsSymbol("-") ? Op::kSub : Op::kConcat;
    Advance();
    left = Binary(op, std::move(left), ParseProduct());
  }
  return left;
}

ExprPtr Parser::ParseProduct() {
  ExprPtr left = ParsePower();
  while (!failed() && (IsSymbol("*") || IsSymbol("/") || IsSymbol("%"))) {
    const Op op = IsSymbol("*") ? Op::kMul : IsSymbol("/") ? Op::kDiv : Op::kMod;
    Advance();
    left = Binary(op, std::move(left), ParsePower());
  }
  return left;
}

ExprPtr Parser::ParsePower() {
  ExprPtr left = ParseUnary();
  while (TakeSymbol("^")) left = Binary(Op::kPow, std::move(left), ParseUnary());
  return left;
}

ExprPtr Parser::ParseUnary() {
  const Pos pos = Here();
  std::vector<Op> signs;
  while (!failed() && (IsSymbol("-") || IsSymbol("+"))) {
    signs.push_back(IsSymbol("-") ? Op::kNegate : Op::kPlus);
    Advance();
  }
  ExprPtr expr;
  if (!signs.empty() && signs.back() == Op::kNegate && Peek().kind == Lexeme::Kind::kInteger &&
      Peek().integer == uint64_t{1} << 63) {
    // The one number that is written only with its sign.
    expr = ParseNumber(true);
    signs.pop_back();
  } else {
    expr = ParsePostfix();
  }
  for (; !signs.empty() && !failed(); signs.pop_back()) {
    ExprPtr sign = New(Expr::Kind::kUnary, pos);
    sign->op = signs.back();
    sign->kids.push_back(std::move(expr));
    expr = Done(std::move(sign));
  }
  return expr;
}

ExprPtr Parser::ParsePostfix(bool with_labels) {
  ExprPtr expr = ParseAtom();
  while (!failed()) {
    const Pos pos = expr->pos;
    if (IsSymbol(".")) {
      Advance();
      ExprPtr property = New(Expr::Kind::kProperty, pos);
      property->name = Name("a property key");
      property->kids.push_back(std::move(expr));
      expr = Done(std::move(property));
    } else if (IsSymbol("[")) {
      Advance();
      ExprPtr from, to;
      bool slice = TakeSymbol("..");
      if (!slice) {
        from = ParseExpr();
        slice = TakeSymbol("..");
      }
      if (slice && !IsSymbol("]")) to = ParseExpr();
      ExpectSymbol("]");
      ExprPtr access = New(slice ? Expr::Kind::kSlice : Expr::Kind::kIndex, pos);
      access->kids.push_back(std::move(expr));
      access->kids.push_back(std::move(from));
      if (slice) access->kids.push_back(std::move(to));
      expr = Done(std::move(access));
    } else if (with_labels && IsSymbol(":") && AtLabels()) {
      expr = LabelTest(std::move(expr));
    } else {
      break;
    }
  }
  return expr;
}

ExprPtr Parser::ParseNumber(bool negative) {
  ExprPtr expr = New(Expr::Kind::kLiteral, Here());
  const uint64_t value = Peek().integer;
  if (value == uint64_t{1} << 63 && !negative) {
    Fail("IntegerOverflow", Here(), "this integer has more than 64 bits");
  }
  expr->value = Value::Int(static_cast<int64_t>(negative ? 0 - value : value));
  Advance();
  return Done(std::move(expr));
}

ExprPtr Parser::ParseAtom() {
  ExprPtr expr = New(Expr::Kind::kLiteral, Here());
  if (failed()) return expr;
  switch (Peek().kind) {
    case Lexeme::Kind::kInteger:
      return ParseNumber(false);
    case Lexeme::Kind::kFloat:
      expr->value = Value::Float(Peek().number);
      Advance();
      return Done(std::move(expr));
    case Lexeme::Kind::kString:
      expr->value = Value::String(Peek().text);
      Advance();
      return Done(std::move(expr));
    case Lexeme::Kind::kParameter:
      expr->kind = Expr::Kind::kParameter;
      expr->name = Peek().text;
      Advance();
      return Done(std::move(expr));
    case Lexeme::Kind::kName:
    case Lexeme::Kind::kQuotedName:
      return ParseCallOrVariable();
    default:
      break;
  }
  if (AtPattern()) return PatternExpr();
  if (TakeSymbol("(")) {
    expr = ParseExpr();
    ExpectSymbol(")");
    return expr;
  }
  if (IsSymbol("[")) return ParseBracket();
  if (IsSymbol("{")) return ParseMapLiteral();
  Unexpected("an expression");
  return expr;
}

ExprPtr Parser::PatternExpr() {
  ExprPtr expr = New(Expr::Kind::kPattern, Here());
  expr->pattern.push_back(ParsePatternPart());
  return Done(std::move(expr));
}

ExprPtr Parser::ParseCallOrVariable() {
  const Pos pos = Here();
  const bool quoted = Peek().kind == Lexeme::Kind::kQuotedName;
  if (!quoted) {
    ExprPtr literal = New(Expr::Kind::kLiteral, pos);
    if (TakeWord("NULL")) return Done(std::move(literal));
    if (IsWord("TRUE") || IsWord("FALSE")) {
      literal->value = Value::Bool(IsWord("TRUE"));
      Advance();
      return Done(std::move(literal));
    }
    if (IsWord("CASE")) return ParseCase();
    if (IsWord("EXISTS") && (IsSymbol("{", 1) || IsSymbol("(", 1))) return ParseExists();
    if ((IsWord("SHORTESTPATH") || IsWord("ALLSHORTESTPATHS")) && IsSymbol("(", 1)) {
      return PatternExpr();
    }
    if (IsWord("COUNT") && AtSubquery()) return ParseSubqueryExpr(Expr::Use::kCount);
    if (IsWord("COLLECT") && AtSubquery()) return ParseSubqueryExpr(Expr::Use::kCollect);
    const bool quantifier = IsWord("ALL") || IsWord("ANY") || IsWord("NONE") || IsWord("SINGLE");
    if (quantifier && IsSymbol("(", 1) && IsVariable(2) && IsWord("IN", 3))
      return ParseQuantifier();
    if (IsWord("REDUCE") && IsSymbol("(", 1)) return ParseReduce();
    if (IsWord("TRIM") && IsSymbol("(", 1)) {
      if (ExprPtr trim = ParseTrim()) return trim;
    }
    if (IsWord("COUNT") && IsSymbol("(", 1) && IsSymbol("*", 2) && IsSymbol(")", 3)) {
      for (int i = 0; i < 4; ++i) Advance();
      return Done(New(Expr::Kind::kCountStar, pos));
    }
  }
  // name(…) and name.name(…) are calls.
  size_t ahead = 1;
  while (IsSymbol(".", ahead) && IsName(ahead + 1)) ahead += 2;
  if (IsSymbol("(", ahead)) {
    ExprPtr call = New(Expr::Kind::kCall, pos);
    call->name = Name("a function");
    while (TakeSymbol(".")) call->name += "." + Name("a function");
    if (call->name.find(' ') != std::string::npos) {  // as operators are called among themselves
      Fail("UnknownFunction", pos, Concat("there is no function `", call->name, "`"));
    }
    ExpectSymbol("(");
    call->flag = TakeWord("DISTINCT");
    if (!IsSymbol(")")) {
      do {
        call->kids.push_back(ParseExpr());
      } while (TakeSymbol(","));
    }
    ExpectSymbol(")");
    return Done(std::move(call));
  }
  ExprPtr variable = New(Expr::Kind::kVariable, pos);
  if (!IsVariable() || Peek().text.empty()) Unexpected("an expression");
  variable->name = Variable();
  variable = Done(std::move(variable));
  if (IsSymbol("{") && !failed()) return ParseMapProjection(std::move(variable));
  return variable;
}

ExprPtr Parser::ParseExists() {
  if (IsSymbol("(", 1)) {
    const Pos pos = Here();
    // exists(n.property) and exists((n)-->()).
    Advance();
    ExpectSymbol("(");
    ExprPtr inner = ParseExpr();
    ExpectSymbol(")");
    if (failed()) return inner;
    if (inner->kind == Expr::Kind::kPattern) {
      // A value everywhere, as a pattern alone is not.
      inner->pos = pos;
      inner->op = Op::kIsNotNull;
      return Done(std::move(inner));
    }
    const bool logical = inner->op == Op::kNot || inner->op == Op::kAnd || inner->op == Op::kOr ||
                         inner->op == Op::kXor;
    if (logical) {
      Fail("UnexpectedSyntax", pos, "exists() is of a property or a pattern; use EXISTS { }");
      return inner;
    }
    ExprPtr test = New(Expr::Kind::kUnary, pos);
    test->op = Op::kIsNotNull;
    test->kids.push_back(std::move(inner));
    return Done(std::move(test));
  }
  return ParseSubqueryExpr(Expr::Use::kExists);
}

// COUNT { … } is no map projection of a variable of that name: `{` comes before a pattern or a
// clause.
bool Parser::AtSubquery() const {
  if (!IsSymbol("{", 1)) return false;
  return IsSymbol("(", 2) ||
         (IsName(2) && !IsSymbol(":", 3) && !IsSymbol(",", 3) && !IsSymbol("}", 3));
}

ExprPtr Parser::ParseSubqueryExpr(Expr::Use use) {
  ExprPtr expr = New(Expr::Kind::kSubquery, Here());
  expr->use = use;
  Advance();
  ExpectSymbol("{");
  expr->subquery = std::make_unique<Query>();
  expr->subquery->pos = Here();
  const bool full = ((IsWord("LET") || IsWord("FILTER")) && IsName(1)) || IsWord("MATCH") ||
                    IsWord("OPTIONAL") || IsWord("WITH") || IsWord("UNWIND") || IsWord("CALL") ||
                    IsWord("RETURN") || IsWord("CREATE") || IsWord("MERGE");
  if (full || use == Expr::Use::kCollect) {
    Nesting nesting(this);
    ParseSubqueryParts(use, expr->subquery.get());
  } else {
    Clause match;
    match.pos = Here();
    match.pattern = ParsePattern();
    if (TakeWord("WHERE")) match.where = ParseExpr();
    expr->subquery->parts.emplace_back();
    expr->subquery->parts[0].push_back(std::move(match));
  }
  ExpectSymbol("}");
  return Done(std::move(expr));
}

void Parser::ParseSubqueryParts(Expr::Use use, Query* query) {
  using Kind = Clause::Kind;
  const std::string_view name = use == Expr::Use::kExists  ? "EXISTS"
                                : use == Expr::Use::kCount ? "COUNT"
                                                           : "COLLECT";
  bool more = true;
  while (more && !failed()) {
    std::vector<Clause> clauses;
    const Pos begin = Here();
    while (!failed() && ParseClause(&clauses)) {
      const auto kind = clauses.back().kind;
      const bool after = clauses.size() > 1 && clauses[clauses.size() - 2].kind == Kind::kReturn;
      if (after) Fail("InvalidClauseComposition", clauses.back().pos, "nothing may follow RETURN");
      if (kind != Kind::kMatch && kind != Kind::kWith && kind != Kind::kUnwind &&
          kind != Kind::kReturn && kind != Kind::kCall) {
        Fail("InvalidClauseComposition", clauses.back().pos,
             Concat(name, " may not contain updates"));
      }
    }
    if (clauses.empty()) Unexpected("a clause");
    const bool returns = !clauses.empty() && clauses.back().kind == Kind::kReturn;
    if (use == Expr::Use::kCollect && !failed() &&
        (!returns || clauses.back().items.size() + (clauses.back().star ? 1 : 0) != 1)) {
      Fail("InvalidClauseComposition", returns ? clauses.back().pos : begin,
           "COLLECT needs a query that returns one column");
    }
    query->parts.push_back(std::move(clauses));
    const Pos pos = Here();
    more = TakeWord("UNION");
    if (!more) break;
    const bool all = TakeWord("ALL");
    if (query->parts.size() > 1 && all != query->union_all) {
      Fail("InvalidClauseComposition", pos, "UNION and UNION ALL cannot be mixed in one query");
    }
    query->union_all = all;
  }
}

ExprPtr Parser::ParseQuantifier() {
  ExprPtr expr = New(Expr::Kind::kQuantifier, Here());
  expr->name2 = Peek().word;
  Advance();
  ExpectSymbol("(");
  expr->name = Variable();
  ExpectWord("IN");
  expr->kids.push_back(ParseExpr());
  ExpectWord("WHERE");
  expr->kids.push_back(ParseExpr());
  ExpectSymbol(")");
  return Done(std::move(expr));
}

ExprPtr Parser::ParseReduce() {
  ExprPtr expr = New(Expr::Kind::kReduce, Here());
  Advance();
  const size_t open = at_;
  ExpectSymbol("(");
  expr->name2 = Variable();
  ExpectSymbol("=");
  expr->kids.push_back(ParseExpr());
  ExpectSymbol(",");
  expr->name = Variable();
  ExpectWord("IN");
  MarkBar(open);
  expr->kids.push_back(ParseExpr());
  TakeBar();
  expr->kids.push_back(ParseExpr());
  ExpectSymbol(")");
  return Done(std::move(expr));
}

// A list, or a comprehension of either kind.
ExprPtr Parser::ParseBracket() {
  ExprPtr expr = New(Expr::Kind::kList, Here());
  const size_t open = at_;
  ExpectSymbol("[");
  if (IsVariable() && IsWord("IN", 1)) {
    expr->kind = Expr::Kind::kListComprehension;
    expr->name = Variable();
    Advance();
    MarkBar(open);
    expr->kids.push_back(ParseExpr());
    expr->kids.push_back(TakeWord("WHERE") ? ParseExpr() : nullptr);
    const bool projects = IsSymbol("|");
    projects ? TakeBar() : bars_.pop_back();
    expr->kids.push_back(projects ? ParseExpr() : nullptr);
    ExpectSymbol("]");
    return Done(std::move(expr));
  }
  const bool path = IsVariable() && IsSymbol("=", 1) && AtPattern(2);
  if (path || (AtPattern() && AtPatternComprehension())) {
    expr->kind = Expr::Kind::kPatternComprehension;
    expr->pattern.push_back(ParsePatternPart());
    MarkBar(open);
    expr->kids.push_back(TakeWord("WHERE") ? ParseExpr() : nullptr);
    TakeBar();
    expr->kids.push_back(ParseExpr());
    ExpectSymbol("]");
    return Done(std::move(expr));
  }
  if (!IsSymbol("]")) {
    do {
      expr->kids.push_back(ParseExpr());
    } while (TakeSymbol(","));
  }
  ExpectSymbol("]");
  return Done(std::move(expr));
}

ExprPtr Parser::ParseMapLiteral() {
  ExprPtr expr = New(Expr::Kind::kMap, Here());
  ExpectSymbol("{");
  if (!IsSymbol("}") && !failed()) {
    do {
      expr->names.push_back(Name("a key"));
      ExpectSymbol(":");
      expr->kids.push_back(ParseExpr());
    } while (TakeSymbol(","));
  }
  ExpectSymbol("}");
  return Done(std::move(expr));
}

ExprPtr Parser::ParseMapProjection(ExprPtr subject) {
  ExprPtr expr = New(Expr::Kind::kMapProjection, subject->pos);
  expr->kids.push_back(std::move(subject));
  ExpectSymbol("{");
  if (!IsSymbol("}") && !failed()) {
    do {
      if (TakeSymbol(".")) {
        if (TakeSymbol("*")) {
          expr->names.emplace_back(".*");
        } else {
          expr->names.push_back(Name("a property key"));
        }
        expr->kids.push_back(nullptr);
        continue;
      }
      const Pos pos = Here();
      expr->names.push_back(Name("a key"));
      if (TakeSymbol(":")) {
        expr->kids.push_back(ParseExpr());
      } else {
        ExprPtr variable = New(Expr::Kind::kVariable, pos);
        variable->name = expr->names.back();
        expr->kids.push_back(Done(std::move(variable)));
      }
    } while (TakeSymbol(","));
  }
  ExpectSymbol("}");
  return Done(std::move(expr));
}

}  // namespace pulse::cypher
