// Functions on strings. Positions and lengths count characters.
#include <algorithm>

#include "services/graph/functions/functions.h"
#include "services/graph/functions/letter_case.h"
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

// Of these only a text that is null makes the result null.
Value Left(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_null()) return {};
  if (!Want(ctx, "left", a[0], Type::kString) || !Count(ctx, "left", a[1])) return {};
  const std::string_view text = a[0].as_string();
  return Value::String(text.substr(0, Offset(text, a[1].as_int())));
}
Value Right(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_null()) return {};
  if (!Want(ctx, "right", a[0], Type::kString) || !Count(ctx, "right", a[1])) return {};
  const std::string_view text = a[0].as_string();
  const int64_t skip = std::max<int64_t>(0, Length(a[0].as_string()) - a[1].as_int());
  return Value::String(text.substr(Offset(text, skip)));
}
Value Substring(EvalContext& ctx, std::span<Value> a) {
  if (a[0].is_null()) return {};
  if (!Want(ctx, "substring", a[0], Type::kString) || !Count(ctx, "substring", a[1])) return {};
  if (a.size() == 3 && !Count(ctx, "substring", a[2])) return {};
  const std::string_view text = a[0].as_string();
  const std::string_view rest = text.substr(Offset(text, a[1].as_int()));
  return Value::String(a.size() == 3 ? rest.substr(0, Offset(rest, a[2].as_int())) : rest);
}

// What Java calls white space: not what joins words.
bool IsWhite(int32_t code) {
  return IsSpaceCharacter(code) && code != 0xA0 && code != 0x2007 && code != 0x202F &&
         code != 0xFEFF;
}

// Whether a character of a text, which `one` is, is among those to take away; nullptr: spaces.
bool IsTrimmed(std::string_view one, const std::string* characters) {
  size_t at = 0;
  if (characters == nullptr) return IsWhite(NextCodePoint(one, &at));
  const std::string_view all = *characters;
  while (at < all.size()) {
    const size_t begin = at;
    NextCodePoint(all, &at);
    if (all.substr(begin, at - begin) == one) return true;
  }
  return false;
}

// Takes spaces away, or the characters of the second argument.
template <bool left, bool right>
Value TrimText(EvalContext& ctx, std::span<Value> a) {
  for (const Value& v : a) {
    if (!Want(ctx, left && right ? "trim" : left ? "ltrim" : "rtrim", v, Type::kString)) return {};
  }
  const std::string* const characters = a.size() > 1 ? &a[1].as_string() : nullptr;
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

// `to` before each character, and at the end: where the empty text is found.
Value Interleaved(EvalContext& ctx, const std::string& text, const std::string& to) {
  const auto places = static_cast<size_t>(Length(text)) + 1;
  size_t size;
  if (__builtin_mul_overflow(places, to.size(), &size) ||
      __builtin_add_overflow(size, text.size(), &size)) {
    return ctx.ArgumentError("NumberOutOfRange", "replace() makes a text that is too long");
  }
  if (!ctx.Fits(size) || !ctx.Tick(places)) return {};
  std::string out = to;
  out.reserve(size);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    at += Offset(std::string_view(text).substr(at), 1);
    out.append(text, begin, at - begin).append(to);
  }
  return Value::TakeString(std::move(out));
}

Value Replace(EvalContext& ctx, std::span<Value> a) {
  for (const Value& v : a) {
    if (!Want(ctx, "replace", v, Type::kString)) return {};
  }
  const std::string &text = a[0].as_string(), &from = a[1].as_string(), &to = a[2].as_string();
  if (from.empty()) return Interleaved(ctx, text, to);
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
    const auto code = static_cast<uint32_t>(c < 0 ? 0xFFFD : c);
    AppendCodePoint(upper ? UpperCaseOf(code) : LowerCaseOf(code), &out);
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
  if (a[0].is_bytes()) return Value::Int(static_cast<int64_t>(a[0].as_bytes().size()));
  return ctx.TypeError(Concat("size() does not take a ", TypeName(a[0].type())));
}

}  // namespace

void AddStringFunctions(std::vector<Function>* out) {
  constexpr uint32_t kString = Bit(Type::kString), kNull = Bit(Type::kNull),
                     kList = Bit(Type::kList);
  constexpr uint32_t kText = kString | kNull, kInt = Bit(Type::kInt) | kNull;
  out->push_back({"left", 2, 2, Left, kString, {kText, kInt, kAnyType}, false});
  out->push_back({"right", 2, 2, Right, kString, {kText, kInt, kAnyType}, false});
  out->push_back({"substring", 2, 3, Substring, kString, {kText, kInt, kInt}, false});
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
  out->push_back(
      {"size", 1, 1, Size, Bit(Type::kInt), {kText | kList | Bit(Type::kMap) | Bit(Type::kBytes)}});
}

}  // namespace pulse::cypher
