// Label expressions, of nodes and of relationships: names, %, !, & and |, and brackets; or names
// with colons between them, as Cypher wrote them before GQL. The two do not mix.
#include <algorithm>

#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {

ExprPtr HasDynamicLabels(ExprPtr subject, DynamicLabels labels) {
  auto call = std::make_unique<Expr>();
  auto any = std::make_unique<Expr>();
  call->kind = Expr::Kind::kCall;
  call->name = kHasDynamicLabels;
  call->pos = any->pos = labels.pos;
  any->value = Value::Bool(labels.any);
  call->kids.push_back(std::move(subject));
  call->kids.push_back(std::move(labels.names));
  call->kids.push_back(std::move(any));
  return call;
}

bool Parser::AtLabels(size_t i) const {
  const bool is = IsWord("IS", i);
  if (!is && !IsSymbol(":", i)) return false;
  ++i;
  if (is && (IsWord("NOT", i) || IsWord("NULL", i))) return false;
  return IsName(i) || IsSymbol("!", i) || IsSymbol("%", i) || IsSymbol("(", i) ||
         AfterDynamic(i) != i;
}

size_t Parser::AfterDynamic(size_t i) const {
  const Lexeme& t = Peek(i);
  const bool word = t.kind == Lexeme::Kind::kParameter && (t.text == "any" || t.text == "all");
  if (!(word || IsSymbol("$", i)) || !IsSymbol("(", i + 1) || Peek(i + 1).match == 0) return i;
  return Peek(i + 1).match - at_ + 1;
}

void Parser::ParseDynamic(LabelExpr* out) {
  DynamicLabels labels;
  labels.pos = Here();
  labels.any = Peek().text == "any";
  Advance();
  ExpectSymbol("(");
  labels.names = ParseExpr();
  ExpectSymbol(")");
  out->dynamic.push_back(std::move(labels));
}

// Where labels that begin at `i` end, by their tokens alone; brackets are stepped over.
size_t Parser::AfterLabels(size_t i) const {
  bool operand = true;
  for (++i;; ++i) {
    if (!operand) {
      if (!IsSymbol(":", i) && !IsSymbol("&", i) && !IsSymbol("|", i)) return i;
      operand = true;
    } else if (IsSymbol("(", i)) {
      if (Peek(i).match == 0) return i;
      i = Peek(i).match - at_;
      operand = false;
    } else if (IsName(i) || IsSymbol("%", i)) {
      operand = false;
    } else if (AfterDynamic(i) != i) {
      i = AfterDynamic(i) - 1;
      operand = false;
    } else if (!IsSymbol("!", i) && !IsSymbol(":", i)) {
      return i;
    }
  }
}

// subject:A:B:$(x): the names are one test, and each dynamic one is one more.
ExprPtr Parser::LabelTest(ExprPtr subject) {
  const Pos pos = subject->pos;
  LabelExpr labels = ParseLabels(false);
  if (!labels.dynamic.empty() && subject->kind != Expr::Kind::kVariable) {
    Fail("InvalidLabelExpression", labels.dynamic[0].pos,
         "dynamic labels, $(…), are of a variable");
  }
  if (failed()) return subject;
  std::vector<ExprPtr> tests;
  for (DynamicLabels& dynamic : labels.dynamic) {
    ExprPtr variable = New(Expr::Kind::kVariable, pos);
    variable->name = subject->name;
    tests.push_back(Done(HasDynamicLabels(Done(std::move(variable)), std::move(dynamic))));
  }
  if (tests.empty() || !labels.names.empty()) {
    ExprPtr test = New(Expr::Kind::kHasLabels, pos);
    test->names = std::move(labels.names);
    test->label_ops = std::move(labels.ops);
    test->kids.push_back(std::move(subject));
    tests.insert(tests.begin(), Done(std::move(test)));
  }
  return Balanced(Op::kAnd, std::move(tests));
}

void Parser::TakeBar() {
  bars_.pop_back();
  ExpectSymbol("|");
}

void Parser::MixedLabels(Pos pos) {
  Fail("InvalidLabelExpression", pos,
       "a colon between labels does not mix with &, |, ! and %: write A&B for A:B, A|B for A|:B");
}

LabelExpr Parser::ParseLabels(bool relationship) {
  LabelExpr out;
  out.pos = Here();
  const bool is = IsWord("IS");
  Advance();
  bool colon = false;
  ParseLabelOr(relationship ? "a relationship type" : "a label", relationship ? &colon : nullptr,
               &out);
  // A:B:C, without another symbol.
  const bool chain = !relationship && IsSymbol(":");
  const bool one = out.ops.size() + out.dynamic.size() == 1;
  if (chain && (is || !one || (!out.ops.empty() && out.ops[0] != LabelOp::kName))) {
    MixedLabels(Here());
  }
  while (chain && TakeSymbol(":")) {
    if (AfterDynamic(0) != 0) {
      ParseDynamic(&out);
      continue;
    }
    if (!IsName()) {
      MixedLabels(Here());
      return out;
    }
    out.names.push_back(Name("a label"));
    out.ops.insert(out.ops.end(), {LabelOp::kName, LabelOp::kAnd});
    if (IsSymbol("&") || IsSymbol("|")) MixedLabels(Here());
  }
  // What names alone say needs no program: all of a node's, one of a relationship's.
  const LabelOp plain = relationship ? LabelOp::kOr : LabelOp::kAnd;
  const bool names_alone = std::all_of(out.ops.begin(), out.ops.end(), [plain](LabelOp op) {
    return op == LabelOp::kName || op == plain;
  });
  if (names_alone) out.ops.clear();
  if (!out.dynamic.empty() && (!out.ops.empty() || (relationship && out.names.size() > 0))) {
    Fail("InvalidLabelExpression", out.dynamic[0].pos,
         relationship
             ? "a dynamic type, $(…), stands alone"
             : "dynamic labels, $(…), stand beside others with & or :, not with |, ! or %");
  }
  return out;
}

// Of a comprehension, which has one bar: those before it are of labels, [x IN xs WHERE x:A|B | x].
bool Parser::BarEndsLabels() const {
  if (std::find(bars_.begin(), bars_.end(), Peek().inside) == bars_.end()) return false;
  size_t i = 0;
  do {
    ++i;  // the bar, or an ampersand
    while (IsSymbol("!", i)) ++i;
    if (IsSymbol("(", i)) {
      if (Peek(i).match == 0) return true;
      i = Peek(i).match - at_;
    } else if (!IsName(i) && !IsSymbol("%", i)) {
      return true;
    }
    ++i;
  } while (IsSymbol("&", i));
  return !IsSymbol("|", i);
}

// `colon`: set where a type was written as |:B; null where it may not be.
void Parser::ParseLabelOr(std::string_view what, bool* colon, LabelExpr* out) {
  const auto conjunction = [this, what, out] {
    ParseLabelNot(what, out);
    while (TakeSymbol("&")) {
      const bool two = !out->ops.empty();
      const size_t dynamic = out->dynamic.size();
      ParseLabelNot(what, out);
      if (two && out->dynamic.size() == dynamic) out->ops.push_back(LabelOp::kAnd);
    }
  };
  const auto symbols = [out] {
    return std::any_of(out->ops.begin(), out->ops.end(),
                       [](LabelOp op) { return op != LabelOp::kName && op != LabelOp::kOr; });
  };
  conjunction();
  while (IsSymbol("|") && !BarEndsLabels() && TakeSymbol("|")) {
    if (colon != nullptr && IsSymbol(":")) {
      if (symbols()) return MixedLabels(Here());
      *colon = true;
      Advance();
    }
    const Pos pos = Here();
    conjunction();
    out->ops.push_back(LabelOp::kOr);
    if (colon != nullptr && *colon && symbols()) return MixedLabels(pos);
  }
}

void Parser::ParseLabelNot(std::string_view what, LabelExpr* out) {
  Nesting nesting(this);
  if (failed()) return;
  bool negated = false;
  while (TakeSymbol("!")) negated = !negated;
  if (TakeSymbol("%")) {
    out->ops.push_back(LabelOp::kAny);
  } else if (TakeSymbol("(")) {
    ParseLabelOr(what, nullptr, out);
    if (IsSymbol(":")) MixedLabels(Here());
    ExpectSymbol(")");
  } else if (AfterDynamic(0) != 0) {
    if (negated) Unexpected(what);
    return ParseDynamic(out);
  } else {
    out->names.push_back(Name(what));
    out->ops.push_back(LabelOp::kName);
  }
  if (negated) out->ops.push_back(LabelOp::kNot);
}

}  // namespace pulse::cypher
