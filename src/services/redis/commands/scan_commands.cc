// Commands on all keys.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// Whether `c` is in the class that begins at pattern[*at], after its '['. Moves behind the ']'. As
// Redis's stringmatchlen: a range takes any three characters whose second is '-', unless the first
// one ends the class or is a backslash.
bool InClass(std::string_view pattern, size_t* at, char c) {
  bool negated = false;
  bool found = false;
  if (*at < pattern.size() && pattern[*at] == '^') {
    negated = true;
    ++*at;
  }
  while (*at < pattern.size()) {
    const std::string_view left = pattern.substr(*at);
    if (left.size() >= 2 && left[0] == '\\') {
      found |= left[1] == c;
      *at += 2;
    } else if (left[0] == ']') {
      ++*at;
      break;
    } else if (left.size() >= 3 && left[1] == '-') {
      auto low = static_cast<unsigned char>(left[0]);
      auto high = static_cast<unsigned char>(left[2]);
      if (low > high) std::swap(low, high);
      const auto byte = static_cast<unsigned char>(c);
      found |= byte >= low && byte <= high;
      *at += 3;
    } else {
      found |= left[0] == c;
      ++*at;
    }
  }
  return found != negated;
}

// As strtoul, by which Redis reads them, has it: with a sign, too, and "" is 0.
bool ReadCursor(std::string_view text, uint64_t* cursor) {
  *cursor = 0;
  if (text.empty()) return true;
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *cursor);
  if (negative) *cursor = 0 - *cursor;
  return error == std::errc() && end == text.data() + text.size();
}

struct ScanOptions {
  std::string_view pattern = "*";
  int64_t count = 10;
  bool strings = true;  // TYPE names the only type that there is
};

bool ReadScanOptions(Call& call, ScanOptions* options) {
  for (size_t i = 2; i < call.args.size(); i += 2) {
    if (i + 1 == call.args.size()) return Refuse(call, kSyntaxError);
    const std::string_view value = call.args[i + 1];
    if (EqualsIgnoringCase(call.args[i], "match")) {
      options->pattern = value;
    } else if (EqualsIgnoringCase(call.args[i], "type")) {
      options->strings = EqualsIgnoringCase(value, "string");
    } else if (EqualsIgnoringCase(call.args[i], "count")) {
      if (!ReadInteger(call, value, &options->count)) return false;
      if (options->count < 1) return Refuse(call, kSyntaxError);
    } else {
      return Refuse(call, kSyntaxError);
    }
  }
  return true;
}

void Scan(Call& call) {
  uint64_t cursor = 0;
  if (!ReadCursor(call.args[1], &cursor)) return call.reply.Error("ERR invalid cursor");
  ScanOptions options;
  if (!ReadScanOptions(call, &options)) return;
  std::string body;
  ReplyWriter keys(&body, call.reply.protocol());
  size_t matches = 0;
  const uint64_t most = MostOfScan(options.count, call.view.limits().max_reply);
  const auto use = [&](std::string_view key) {
    if (options.strings && MatchesPattern(options.pattern, key)) {
      keys.Bulk(key);
      ++matches;
    }
    return body.size() <= most;
  };
  uint64_t next = 0;
  bool known = true;
  if (!call.view.ScanStep(cursor, LiteralPrefix(options.pattern), options.count, use, &next,
                          &known)) {
    return;
  }
  if (!known) {
    return call.reply.Error(
        "ERR invalid cursor: this server has not given it, or has given too many others since; "
        "begin again with 0");
  }
  call.reply.Array(2);
  call.reply.Bulk(std::to_string(next));
  call.reply.Array(matches);
  call.reply.out()->append(body);
}

void Keys(Call& call) {
  std::string body;
  ReplyWriter keys(&body, call.reply.protocol());
  size_t matches = 0;
  const std::string_view pattern = call.args[1];
  const uint64_t most = call.view.limits().max_reply;
  const auto use = [&](std::string_view key) {
    if (MatchesPattern(pattern, key)) {
      keys.Bulk(key);
      ++matches;
    }
    return body.size() <= most;
  };
  if (!call.view.ForEachKey(LiteralPrefix(pattern), use)) return;
  // Who has more is to use SCAN.
  if (body.size() > most) return call.reply.Error("ERR too many keys for one reply; use SCAN");
  call.reply.Array(matches);
  call.reply.out()->append(body);
}

void CountKeys(Call& call) {
  uint64_t count = 0;
  if (call.view.CountKeys(&count)) call.reply.Integer(static_cast<int64_t>(count));
}

void RandomKey(Call& call) {
  std::optional<std::string> key;
  if (!call.view.ChooseKey(&key)) return;
  if (key.has_value()) {
    call.reply.Bulk(*key);
  } else {
    call.reply.Null();
  }
}

void Flush(Call& call) {
  const bool fits = call.args.size() == 1 ||
                    (call.args.size() == 2 && (EqualsIgnoringCase(call.args[1], "async") ||
                                               EqualsIgnoringCase(call.args[1], "sync")));
  if (!fits) return call.reply.Error(kSyntaxError);
  if (call.view.Clear()) call.reply.Ok();
}

}  // namespace

bool MatchesPattern(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  // Where to go on when what follows the last '*' does not match: one byte further on.
  size_t star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    size_t next = p;
    bool match = false;
    if (p < pattern.size()) {
      const char c = pattern[next++];
      if (c == '*') {
        star = next;
        star_text = t;
        p = next;
        continue;
      }
      if (c == '[') {
        match = InClass(pattern, &next, text[t]);
      } else if (c == '\\' && next < pattern.size()) {
        match = pattern[next++] == text[t];
      } else {
        match = c == '?' || c == text[t];
      }
    }
    if (match) {
      p = next;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string_view LiteralPrefix(std::string_view pattern) {
  return pattern.substr(0, pattern.find_first_of("*?[\\"));
}

absl::Span<const Handling> ScanCommands() {
  static constexpr Handling kHandlings[] = {
      {Command::kScan, Scan},           {Command::kKeys, Keys},      {Command::kDbsize, CountKeys},
      {Command::kRandomkey, RandomKey}, {Command::kFlushall, Flush}, {Command::kFlushdb, Flush},
  };
  return kHandlings;
}

}  // namespace pulse::redis
