// Types of values in queries: x IS :: LIST<INTEGER NOT NULL> | STRING. A type becomes a literal,
// which the function `IS TYPED` takes: a list of alternatives, each [types as bits, may be null,
// what the elements of lists may be].
#include <algorithm>

#include "services/graph/syntax/parser_impl.h"

namespace pulse::cypher {
namespace {

constexpr int64_t Bits(std::initializer_list<Type> types) {
  int64_t bits = 0;
  for (const Type type : types) bits |= int64_t{1} << static_cast<int>(type);
  return bits;
}
constexpr int64_t kNothing = 0, kAny = (int64_t{2} << static_cast<int>(kLastType)) - 1;
constexpr int64_t kProperty =
    Bits({Type::kBool, Type::kInt, Type::kFloat, Type::kString, Type::kDate, Type::kLocalTime,
          Type::kTime, Type::kLocalDateTime, Type::kDateTime, Type::kDuration, Type::kBytes,
          Type::kPoint});

struct TypeWords {
  std::string_view words[5];
  int64_t types;
};
// What begins with what is another one stands before it.
constexpr TypeWords kTypes[] = {
    {{"BOOLEAN"}, Bits({Type::kBool})},
    {{"BOOL"}, Bits({Type::kBool})},
    {{"STRING"}, Bits({Type::kString})},
    {{"VARCHAR"}, Bits({Type::kString})},
    {{"SIGNED", "INTEGER"}, Bits({Type::kInt})},
    {{"INTEGER"}, Bits({Type::kInt})},
    {{"INT"}, Bits({Type::kInt})},
    {{"FLOAT"}, Bits({Type::kFloat})},
    {{"DATE"}, Bits({Type::kDate})},
    {{"LOCAL", "TIME"}, Bits({Type::kLocalTime})},
    {{"LOCAL", "DATETIME"}, Bits({Type::kLocalDateTime})},
    {{"ZONED", "TIME"}, Bits({Type::kTime})},
    {{"ZONED", "DATETIME"}, Bits({Type::kDateTime})},
    {{"TIME", "WITHOUT", "TIME", "ZONE"}, Bits({Type::kLocalTime})},
    {{"TIME", "WITH", "TIME", "ZONE"}, Bits({Type::kTime})},
    {{"TIMESTAMP", "WITHOUT", "TIME", "ZONE"}, Bits({Type::kLocalDateTime})},
    {{"TIMESTAMP", "WITH", "TIME", "ZONE"}, Bits({Type::kDateTime})},
    {{"DURATION"}, Bits({Type::kDuration})},
    {{"BYTES"}, Bits({Type::kBytes})},
    {{"ANY", "NODE"}, Bits({Type::kNode})},
    {{"NODE"}, Bits({Type::kNode})},
    {{"ANY", "VERTEX"}, Bits({Type::kNode})},
    {{"VERTEX"}, Bits({Type::kNode})},
    {{"ANY", "RELATIONSHIP"}, Bits({Type::kEdge})},
    {{"RELATIONSHIP"}, Bits({Type::kEdge})},
    {{"ANY", "EDGE"}, Bits({Type::kEdge})},
    {{"EDGE"}, Bits({Type::kEdge})},
    {{"ANY", "MAP"}, Bits({Type::kMap})},
    {{"MAP"}, Bits({Type::kMap})},
    {{"PATH"}, Bits({Type::kPath})},
    {{"POINT"}, Bits({Type::kPoint})},
    {{"NOTHING"}, kNothing},
    {{"NULL"}, kNothing},
    {{"ANY", "PROPERTY", "VALUE"}, kProperty},
    {{"PROPERTY", "VALUE"}, kProperty},
    {{"ANY", "VALUE"}, kAny},
    {{"ANY"}, kAny},
};

}  // namespace

bool Parser::AtTypeTest() const {
  if (IsSymbol(":") && IsSymbol(":", 1)) return true;
  if (!IsWord("IS")) return false;
  const size_t at = IsWord("NOT", 1) ? 2 : 1;
  if (IsSymbol(":", at) && IsSymbol(":", at + 1)) return true;
  return IsWord("TYPED", at) && AtType(at + 1);  // and no label of that name
}

bool Parser::AtType(size_t ahead) const {
  return IsWord("LIST", ahead) || IsWord("ARRAY", ahead) || TypeAt(ahead, nullptr) > 0;
}

// How many words name a type there; 0: none do.
size_t Parser::TypeAt(size_t ahead, int64_t* types) const {
  for (const TypeWords& type : kTypes) {
    size_t count = 0;
    while (count < std::size(type.words) && !type.words[count].empty() &&
           IsWord(type.words[count], ahead + count)) {
      ++count;
    }
    if (count < std::size(type.words) && !type.words[count].empty()) continue;
    if (types != nullptr) *types = type.types;
    return count;
  }
  return 0;
}

bool Parser::TakeNotNull() {
  if (TakeSymbol("!")) return true;
  if (!IsWord("NOT") || !IsWord("NULL", 1)) return false;
  Advance();
  Advance();
  return true;
}

// Of a comprehension, as of labels: the one bar that it has, or the last of several.
bool Parser::BarEndsTypes() const {
  const uint32_t bracket = Peek().inside;
  if (angles_ > 0 || std::find(bars_.begin(), bars_.end(), bracket) == bars_.end()) return false;
  if (!AtType(1)) return true;
  for (size_t i = 1; at_ + i < tokens_[bracket].match; ++i) {
    if (Peek(i).inside == bracket && IsSymbol("|", i)) return false;
  }
  return true;
}

Value Parser::ParseTypes() {
  ValueList alternatives;
  do {
    ParseType(&alternatives);
  } while (!failed() && IsSymbol("|") && !BarEndsTypes() && TakeSymbol("|"));
  return Value::List(std::move(alternatives));
}

void Parser::ParseType(ValueList* alternatives) {
  Nesting nesting(this);
  if (failed()) return;
  const Value list = Value::Int(Bits({Type::kList}));
  const auto add = [&](Value types, bool nullable, Value elements) {
    alternatives->push_back(
        Value::List({std::move(types), Value::Bool(nullable), std::move(elements)}));
  };
  const size_t first = alternatives->size();
  int64_t types = 0;
  if (TakeWord("LIST") || TakeWord("ARRAY")) {
    ExpectSymbol("<");
    ++angles_;
    Value elements = ParseTypes();
    --angles_;
    ExpectSymbol(">");
    add(list, !TakeNotNull(), std::move(elements));
  } else if (const size_t words = TypeAt(0, &types); words > 0) {
    const bool nothing = IsWord("NOTHING");
    for (size_t i = 0; i < words; ++i) Advance();
    if (types == kAny && TakeSymbol("<")) {
      while (!failed()) {
        ParseType(alternatives);
        if (!TakeSymbol("|")) break;
      }
      ExpectSymbol(">");
    } else {
      const bool nullable = !nothing && !TakeNotNull();
      add(Value::Int(types), nullable, {});
      // Lists of such values are, too.
      if (types == kProperty) {
        const Value element = Value::List({Value::Int(types), Value::Bool(false), Value()});
        add(list, nullable, Value::List({element}));
      }
    }
  } else {
    Unexpected("a type");
  }
  while (!failed() && (TakeWord("LIST") || TakeWord("ARRAY"))) {
    if (alternatives->back().depth() >= kMaxParseDepth) {
      return Fail("NestingTooDeep", Here(), "this type is nested too deeply");
    }
    ValueList elements(alternatives->begin() + static_cast<std::ptrdiff_t>(first),
                       alternatives->end());
    alternatives->resize(first);
    add(list, !TakeNotNull(), Value::List(std::move(elements)));
  }
}

ExprPtr Parser::TypeTest(ExprPtr subject) {
  const Pos pos = subject->pos;
  const bool negated = TakeWord("IS") && TakeWord("NOT");
  if (!TakeWord("TYPED")) {
    ExpectSymbol(":");
    ExpectSymbol(":");
  }
  ExprPtr call = New(Expr::Kind::kCall, pos), types = New(Expr::Kind::kLiteral, Here());
  types->value = ParseTypes();
  call->name = "IS TYPED";
  call->kids.push_back(std::move(subject));
  call->kids.push_back(Done(std::move(types)));
  if (!negated) return Done(std::move(call));
  ExprPtr negation = New(Expr::Kind::kUnary, pos);
  negation->op = Op::kNot;
  negation->kids.push_back(Done(std::move(call)));
  return Done(std::move(negation));
}

}  // namespace pulse::cypher
