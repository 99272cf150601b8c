// Functions on strings. Positions and lengths count characters.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/syntax/error.h"
#include "services/graph/syntax/lexer.h"

namespace pulse::cypher {
namespace {

bool Want(EvalContext& ctx, std::string_view function, const Value& v, Type type) {
  if (v.type() == type) return true;
  ctx.TypeError(Concat(function, "() needs a ", TypeName(type), ", found a ", TypeName(v.type())));
  return false;
}

// Byte offset of the n-th character, or the end.
size_t Offset(std::string_view text, int64_t n) {
  size_t at = 0;
  while (n > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
    --n;
  }
  return at;
}
int64_t Length(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

// A length or position argument.
bool Count(EvalContext& ctx, std::string_view function, const Value& v) {
  if (!Want(ctx, function, v, Type::kInt)) return false;
  if (v.as_int() >= 0) return true;
  ctx.ArgumentError("NumberOutOfRange", Concat(function, "() takes no negative number"));
  return false;
}

Value Left(EvalContext& ctx, std::span<Value> a) {
  if (!Want(ctx, "left", a[0], Type::kString) || !Count(ctx, "left", a[1])) return {};
  const std::string_view text = a[0].as_string();
  return Value::String(text.substr(0, Offset(text, a[1].as_int())));
}
Value Right(EvalContext& ctx, std::span<Value> a) {
  if (!Want(ctx, "right", a[0], Type::kString) || !Count(ctx, "right", a[1])) return {};
  const std::string_view text = a[0].as_string();
  const int64_t skip = std::max<int64_t>(0, Length(a[0].as_string()) - a[1].as_int());
  return Value::String(text.substr(Offset(text, skip)));
}
Value Substring(EvalContext& ctx, std::span<Value> a) {
  if (!Want(ctx, "substring", a[0], Type::kString) || !Count(ctx, "substring", a[1])) return {};
  if (a.size() == 3 && !Count(ctx, "substring", a[2])) return {};
  const std::string_view text = a[0].as_string();
  const std::string_view rest = text.substr(Offset(text, a[1].as_int()));
  return Value::String(a.size() == 3 ? rest.substr(0, Offset(rest, a[2].as_int())) : rest);
}

constexpr std::string_view kSpaces = " \t\n\v\f\r";

// Whether a character of a text, which `one` is, is among those to take away.
bool IsTrimmed(std::string_view one, std::string_view characters) {
  for (size_t at = 0; at < characters.size();) {
    const size_t begin = at;
    NextCodePoint(characters, &at);
    if (characters.substr(begin, at - begin) == one) return true;
  }
  return false;
}

// Takes spaces away, or the characters of the second argument.
template <bool left, bool right>
Value TrimText(EvalContext& ctx, std::span<Value> a) {
  for (const Value& v : a) {
    if (!Want(ctx, left && right ? "trim" : left ? "ltrim" : "rtrim", v, Type::kString)) return {};
  }
  const std::string_view characters = a.size() > 1 ? std::string_view(a[1].as_string()) : kSpaces;
  std::string_view text = a[0].as_string();
  while (left && !text.empty()) {
    size_t end = 0;
    NextCodePoint(text, &end);
    if (!IsTrimmed(text.substr(0, end), characters)) break;
    text.remove_prefix(end);
  }
  while (right && !text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    if (!IsTrimmed(text.substr(begin), characters)) break;
    text = text.substr(0, begin);
  }
  return Value::String(text);
}

Value Replace(EvalContext& ctx, std::span<Value> a) {
  for (const Value& v : a) {
    if (!Want(ctx, "replace", v, Type::kString)) return {};
  }
  const std::string &text = a[0].as_string(), &from = a[1].as_string(), &to = a[2].as_string();
  if (from.empty()) return a[0];
  // What it takes is known before it is made.
  size_t found = 0;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += from.size()) {
    ++found;
    if (!ctx.Tick()) return {};
  }
  if (found == 0) return a[0];
  size_t size;
  if (__builtin_mul_overflow(found, to.size(), &size) ||
      __builtin_add_overflow(size, text.size() - found * from.size(), &size)) {
    return ctx.ArgumentError("NumberOutOfRange", "replace() makes a text that is too long");
  }
  if (!ctx.Fits(size) || !ctx.Tick(found)) return {};
  std::string out;
  out.reserve(size);
  size_t at = 0;
  for (size_t next; (next = text.find(from, at)) != std::string::npos; at = next + from.size()) {
    out.append(text, at, next - at).append(to);
  }
  out.append(text, at);
  return Value::TakeString(std::move(out));
}

Value Split(EvalContext& ctx, std::span<Value> a) {
  if (!Want(ctx, "split", a[0], Type::kString)) return {};
  std::vector<std::string> delimiters;
  if (a[1].is_list()) {
    for (const Value& v : a[1].as_list()) {
      if (!Want(ctx, "split", v, Type::kString)) return {};
      delimiters.push_back(v.as_string());
    }
  } else if (Want(ctx, "split", a[1], Type::kString)) {
    delimiters.push_back(a[1].as_string());
  }
  if (ctx.failed()) return {};
  const std::string_view text = a[0].as_string();
  ValueList parts;
  size_t begin = 0, at = 0, bytes = 0;
  while (at < text.size()) {
    const std::string* found = nullptr;
    for (const std::string& d : delimiters) {
      if (!d.empty() && text.compare(at, d.size(), d) == 0) found = &d;
      if (d.empty() && at > begin) found = &d;
    }
    if (found == nullptr) {
      ++at;
      while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
      continue;
    }
    parts.push_back(Value::String(text.substr(begin, at - begin)));
    at += found->size();
    begin = at;
    bytes += parts.back().Bytes();
    if (!ctx.Fits(bytes) || !ctx.Tick()) return {};
  }
  parts.push_back(Value::String(text.substr(begin)));
  return Value::List(std::move(parts));
}

// Of ASCII, and of the Latin, Greek and Cyrillic letters that have one of the other case.
uint32_t ChangeCase(uint32_t c, bool upper) {
  const auto in = [c](uint32_t low, uint32_t high) { return c >= low && c <= high; };
  if (upper) {
    if (in('a', 'z') || (in(0xE0, 0xFE) && c != 0xF7)) return c - 32;
    if (c == 0xFF) return 0x178;
    if (c == 0x131) return 'I';
    if (in(0x139, 0x148) || in(0x179, 0x17E)) return c - ((c & 1) ^ 1);
    if (in(0x100, 0x137) || in(0x14A, 0x177)) return c & ~1u;
    if (in(0x1E00, 0x1E95) || in(0x1EA0, 0x1EFF)) return c & ~1u;
    if (c == 0x3C2) return 0x3A3;
    if (in(0x3B1, 0x3CB)) return c - 32;
    if (c == 0x3AC) return 0x386;
    if (in(0x3AD, 0x3AF)) return c - 37;
    if (c == 0x3CC) return 0x38C;
    if (in(0x3CD, 0x3CE)) return c - 63;
    if (in(0x430, 0x44F)) return c - 32;
    if (in(0x450, 0x45F)) return c - 80;
    return c;
  }
  if (in('A', 'Z') || (in(0xC0, 0xDE) && c != 0xD7)) return c + 32;
  if (c == 0x178) return 0xFF;
  if (in(0x139, 0x148) || in(0x179, 0x17E)) return c + (c & 1);
  if (c != 0x130 && (in(0x100, 0x137) || in(0x14A, 0x177))) return c | 1u;
  if (c == 0x1E9E) return 0xDF;
  if (in(0x1E00, 0x1E95) || in(0x1EA0, 0x1EFF)) return c | 1u;
  if (in(0x391, 0x3AB) && c != 0x3A2) return c + 32;
  if (c == 0x386) return 0x3AC;
  if (in(0x388, 0x38A)) return c + 37;
  if (c == 0x38C) return 0x3CC;
  if (in(0x38E, 0x38F)) return c + 63;
  if (in(0x410, 0x42F)) return c + 32;
  if (in(0x400, 0x40F)) return c + 80;
  return c;
}

template <bool upper>
Value ToCase(EvalContext& ctx, std::span<Value> a) {
  if (!Want(ctx, upper ? "toUpper" : "toLower", a[0], Type::kString)) return {};
  const std::string& text = a[0].as_string();
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const int32_t c = NextCodePoint(text, &at);
    // Those that become two.
    if (upper && (c == 0xDF || c == 0x149)) {
      out += c == 0xDF ? "SS" : "\u02BCN";
      continue;
    }
    if (!upper && c == 0x130) {
      out += "i\u0307";
      continue;
    }
    AppendCodePoint(c < 0 ? 0xFFFD : ChangeCase(static_cast<uint32_t>(c), upper), &out);
  }
  return Value::TakeString(std::move(out));
}

Value CharLength(EvalContext& ctx, std::span<Value> a) {
  return Want(ctx, "char_length", a[0], Type::kString) ? Value::Int(Length(a[0].as_string()))
                                                       : Value();
}

Value Reverse(EvalContext& ctx, std::span<Value> a) {
  if (!ctx.Tick(a[0].Weight())) return {};
  if (a[0].is_list()) return Value::List(ValueList(a[0].as_list().rbegin(), a[0].as_list().rend()));
  if (!Want(ctx, "reverse", a[0], Type::kString)) return {};
  const std::string& text = a[0].as_string();
  std::string out;
  out.reserve(text.size());
  for (size_t end = text.size(); end > 0;) {
    size_t begin = end - 1;
    while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
    out.append(text, begin, end - begin);
    end = begin;
  }
  return Value::TakeString(std::move(out));
}

Value Size(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_string()) return Value::Int(Length(a[0].as_string()));
  if (a[0].is_list()) return Value::Int(static_cast<int64_t>(a[0].as_list().size()));
  if (a[0].is_map()) return Value::Int(static_cast<int64_t>(a[0].as_map().size()));
  return ctx.TypeError(Concat("size() does not take a ", TypeName(a[0].type())));
}

}  // namespace

void AddStringFunctions(std::vector<Function>* out) {
  constexpr uint32_t kString = Bit(Type::kString), kNull = Bit(Type::kNull),
                     kList = Bit(Type::kList);
  constexpr uint32_t kText = kString | kNull, kInt = Bit(Type::kInt) | kNull;
  out->push_back({"left", 2, 2, Left, kString, {kText, kInt, kAnyType}});
  out->push_back({"right", 2, 2, Right, kString, {kText, kInt, kAnyType}});
  out->push_back({"substring", 2, 3, Substring, kString, {kText, kInt, kInt}});
  out->push_back({"lTrim", 1, 2, TrimText<true, false>, kString, {kText, kText, kAnyType}});
  out->push_back({"rTrim", 1, 2, TrimText<false, true>, kString, {kText, kText, kAnyType}});
  out->push_back({"bTrim", 1, 2, TrimText<true, true>, kString, {kText, kText, kAnyType}});
  out->push_back({"trim", 1, 1, TrimText<true, true>, kString, {kText}});
  out->push_back({"replace", 3, 3, Replace, kString, {kText, kText, kText}});
  out->push_back({"split", 2, 2, Split, kList, {kText, kText | kList, kAnyType}});
  for (const std::string_view name : {"toLower", "lower"})
    out->push_back({name, 1, 1, ToCase<false>, kString, {kText}});
  for (const std::string_view name : {"toUpper", "upper"})
    out->push_back({name, 1, 1, ToCase<true>, kString, {kText}});
  for (const std::string_view name : {"char_length", "character_length"}) {
    out->push_back({name, 1, 1, CharLength, Bit(Type::kInt), {kText}});
  }
  out->push_back({"reverse", 1, 1, Reverse, kString | kList, {kText | kList}});
  out->push_back({"size", 1, 1, Size, Bit(Type::kInt), {kText | kList | Bit(Type::kMap)}});
}

}  // namespace pulse::cypher
