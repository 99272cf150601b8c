// Commands that read and write values.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// What follows a key and value in SET, and a key in GETEX.
struct SetOptions {
  bool if_absent = false;
  bool if_present = false;
  bool get = false;
  bool keep_expiry = false;
  bool persist = false;
  // What was given as an expiry, to be read by ReadExpiryOption; several times, the last one.
  bool expiry_given = false;
  std::string_view expiry;
  bool expiry_seconds = false;
  bool expiry_relative = false;
};

// Whether `word` is one of EX, PX, EXAT and PXAT, and what its number then means.
bool IsExpiryOption(std::string_view word, bool* seconds, bool* relative) {
  *seconds = EqualsIgnoringCase(word, "ex") || EqualsIgnoringCase(word, "exat");
  *relative = EqualsIgnoringCase(word, "ex") || EqualsIgnoringCase(word, "px");
  return *seconds || *relative || EqualsIgnoringCase(word, "pxat");
}

// False after an error reply.
bool ReadSetOptions(Call& call, size_t first, bool set, SetOptions* options) {
  for (size_t i = first; i < call.args.size(); ++i) {
    const std::string_view word = call.args[i];
    bool seconds = false;
    bool relative = false;
    const bool is_expiry = IsExpiryOption(word, &seconds, &relative);
    const bool is_same = is_expiry && options->expiry_given && options->expiry_seconds == seconds &&
                         options->expiry_relative == relative;
    const bool no_time = !options->expiry_given || is_same;
    if (set && EqualsIgnoringCase(word, "nx") && !options->if_present) {
      options->if_absent = true;
    } else if (set && EqualsIgnoringCase(word, "xx") && !options->if_absent) {
      options->if_present = true;
    } else if (set && EqualsIgnoringCase(word, "get")) {
      options->get = true;
    } else if (set && EqualsIgnoringCase(word, "keepttl") && no_time) {
      options->keep_expiry = true;
    } else if (!set && EqualsIgnoringCase(word, "persist") && no_time) {
      options->persist = true;
    } else if (is_expiry && no_time && !options->keep_expiry && !options->persist &&
               i + 1 < call.args.size()) {
      options->expiry = call.args[++i];
      options->expiry_seconds = seconds;
      options->expiry_relative = relative;
      options->expiry_given = true;
    } else {
      return Refuse(call, kSyntaxError);
    }
  }
  return true;
}

// False after an error reply.
bool ReadExpiryOption(Call& call, const SetOptions& options, int64_t* expires_ms) {
  *expires_ms = kNever;
  return !options.expiry_given || ReadExpiry(call, options.expiry, options.expiry_seconds,
                                             options.expiry_relative, true, expires_ms);
}

// A value, or none, as the reply to a read, which it counts.
void ReplyValue(Call& call, const Found& found) {
  CountRead(call, found);
  if (found.exists) {
    call.reply.Bulk(found.value.data);
  } else {
    call.reply.Null();
  }
}

std::string_view DataOf(const Found& found) {
  return found.exists ? found.value.data : std::string_view();
}

void Get(Call& call) {
  Found found;
  if (call.view.Get(call.args[1], &found)) ReplyValue(call, found);
}

void Set(Call& call) {
  SetOptions options;
  int64_t expires_ms = kNever;
  if (!ReadSetOptions(call, 3, true, &options)) return;
  if (!ReadExpiryOption(call, options, &expires_ms)) return;
  Found before;
  if (options.if_absent || options.if_present || options.get || options.keep_expiry) {
    if (!call.view.Get(call.args[1], &before)) return;
  }
  const bool set = !(options.if_absent && before.exists) && !(options.if_present && !before.exists);
  // First, as what was found is there until a write.
  if (options.get) {
    ReplyValue(call, before);
  } else if (set) {
    call.reply.Ok();
  } else {
    call.reply.Null();
  }
  if (set) {
    const int64_t kept = options.keep_expiry && before.exists ? before.value.expires_ms : kNever;
    call.view.Put(call.args[1], call.args[2], options.expiry_given ? expires_ms : kept);
  }
}

void SetWithExpiry(Call& call, bool seconds) {
  int64_t expires_ms = kNever;
  if (!ReadExpiry(call, call.args[2], seconds, true, true, &expires_ms)) return;
  call.view.Put(call.args[1], call.args[3], expires_ms);
  call.reply.Ok();
}

void SetIfAbsent(Call& call) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  if (!before.exists) call.view.Put(call.args[1], call.args[2], kNever);
  call.reply.Integer(before.exists ? 0 : 1);
}

void GetAndSet(Call& call) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  ReplyValue(call, before);
  call.view.Put(call.args[1], call.args[2], kNever);
}

void GetAndDelete(Call& call) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  ReplyValue(call, before);
  if (before.exists) call.view.Delete(call.args[1]);
}

void GetAndExpire(Call& call) {
  SetOptions options;
  if (!ReadSetOptions(call, 2, false, &options)) return;
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  int64_t expires_ms = kNever;
  // As Redis, which looks at the time only for a key that exists.
  if (before.exists && !ReadExpiryOption(call, options, &expires_ms)) return;
  ReplyValue(call, before);
  if (!before.exists) return;
  const bool drop = options.persist && before.value.expires_ms != kNever;
  if (options.expiry_given || drop) {
    call.view.SetExpiry(call.args[1], before, drop ? kNever : expires_ms);
  }
}

void GetSeveral(Call& call) {
  // What is found takes more than short values do: where nothing changes meanwhile, some at a time.
  constexpr size_t kTogether = 1024;
  const size_t count = call.args.size() - 1;
  const size_t step = call.view.holds_still() ? std::min(count, kTogether) : count;
  const uint64_t most = call.view.limits().max_reply;
  const size_t begin = call.reply.out()->size();
  const CommandCounts before = call.counts;
  uint64_t bytes = 0;
  std::vector<Found> found;
  call.reply.Array(count);
  for (size_t first = 0; first < count; first += step) {
    const size_t wanted = std::min(step, count - first);
    if (!call.view.GetMany(&call.args[1 + first], wanted, &found, most - bytes)) return;
    for (const Found& one : found) bytes += one.exists ? one.value.data.size() : 0;
    if (found.size() < wanted || (bytes > most && count > 1)) {
      call.reply.out()->resize(begin);
      call.counts = before;
      return call.reply.Error(kTooManyValues);
    }
    for (const Found& one : found) ReplyValue(call, one);
  }
}

void SetSeveral(Call& call, bool if_absent) {
  if (call.args.size() % 2 == 0) {
    return call.reply.Error(absl::StrCat("ERR wrong number of arguments for '",
                                         AbslOf(call.command.name), "' command"));
  }
  for (size_t i = 1; if_absent && i < call.args.size(); i += 2) {
    Found before;
    if (!call.view.Get(call.args[i], &before)) return;
    if (before.exists) return call.reply.Integer(0);
  }
  for (size_t i = 1; i < call.args.size(); i += 2) {
    call.view.Put(call.args[i], call.args[i + 1], kNever);
  }
  if (if_absent) {
    call.reply.Integer(1);
  } else {
    call.reply.Ok();
  }
}

void Add(Call& call, int64_t by) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  int64_t value = 0;
  if (before.exists && !ReadInteger(call, before.value.data, &value)) return;
  if (__builtin_add_overflow(value, by, &value)) {
    return call.reply.Error("ERR increment or decrement would overflow");
  }
  char text[24];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  call.view.PutFrom(before, call.args[1], {text, static_cast<size_t>(end - text)});
  call.reply.Integer(value);
}

// INCRBY and DECRBY.
void AddGiven(Call& call, bool negate) {
  int64_t by = 0;
  if (!ReadInteger(call, call.args[2], &by)) return;
  if (negate && by == INT64_MIN) return call.reply.Error("ERR decrement would overflow");
  Add(call, negate ? -by : by);
}

// What a number has, written without an exponent.
constexpr size_t kMostDigits = size_t{5} * 1024;

// All of `text` as a number, without blanks around it.
bool ParseFloat(std::string_view text, long double* value) {
  if (text.empty() || text.size() >= kMostDigits || isspace(static_cast<unsigned char>(text[0]))) {
    return false;
  }
  const std::string copy(text);
  char* end = nullptr;
  errno = 0;
  *value = strtold(copy.c_str(), &end);
  // A number that is too small to be told from 0 is none, as for Redis.
  const bool fits =
      errno != ERANGE || (std::fabs(*value) < 1 && std::fpclassify(*value) != FP_ZERO);
  return end == copy.c_str() + copy.size() && !std::isnan(*value) && fits;
}

// As people write it: no exponent, no zeros at the end. Up to about 5000 characters.
std::string FormatFloat(long double value) {
  char text[kMostDigits];
  const int length = snprintf(text, sizeof(text), "%.17Lf", value);
  std::string out(text, static_cast<size_t>(length));
  if (out.find('.') != std::string::npos) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

void AddFloat(Call& call) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  long double value = 0;
  long double by = 0;
  if ((before.exists && !ParseFloat(before.value.data, &value)) || !ParseFloat(call.args[2], &by)) {
    return call.reply.Error("ERR value is not a valid float");
  }
  value += by;
  if (std::isnan(value) || std::isinf(value)) {
    return call.reply.Error("ERR increment would produce NaN or Infinity");
  }
  const std::string text = FormatFloat(value);
  call.view.PutFrom(before, call.args[1], text);
  call.reply.Bulk(text);
}

bool TooLong(Call& call, uint64_t size) {
  if (size <= call.view.limits().max_value) return false;
  call.reply.Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
  return true;
}

void Append(Call& call) {
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  const std::string_view old = DataOf(before);
  const std::string_view part = call.args[2];
  if (TooLong(call, uint64_t{old.size()} + part.size())) return;
  std::string value;
  value.reserve(old.size() + part.size());
  value.append(old).append(part);
  call.view.PutFrom(before, call.args[1], value);
  call.reply.Integer(static_cast<int64_t>(value.size()));
}

void Length(Call& call) {
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  call.reply.Integer(static_cast<int64_t>(DataOf(found).size()));
}

void GetRange(Call& call) {
  int64_t begin = 0;
  int64_t end = 0;
  if (!ReadInteger(call, call.args[2], &begin) || !ReadInteger(call, call.args[3], &end)) return;
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  const std::string_view value = DataOf(found);
  const uint64_t count = CountRange(value.size(), &begin, end);
  call.reply.Bulk(count == 0 ? "" : value.substr(static_cast<size_t>(begin), count));
}

void SetRange(Call& call) {
  int64_t offset = 0;
  if (!ReadInteger(call, call.args[2], &offset)) return;
  if (offset < 0) return call.reply.Error("ERR offset is out of range");
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  const std::string_view old = DataOf(before);
  const std::string_view part = call.args[3];
  if (part.empty()) return call.reply.Integer(static_cast<int64_t>(old.size()));
  const uint64_t end = static_cast<uint64_t>(offset) + part.size();
  if (TooLong(call, end)) return;
  std::string value;
  value.reserve(std::max<uint64_t>(old.size(), end));
  value.append(old);
  if (value.size() < end) value.resize(end, '\0');
  value.replace(static_cast<size_t>(offset), part.size(), part);
  call.view.PutFrom(before, call.args[1], value);
  call.reply.Integer(static_cast<int64_t>(value.size()));
}

constexpr Handling kHandlings[] = {
    {Command::kGet, Get},
    {Command::kSet, Set},
    {Command::kSetex, [](Call& call) { SetWithExpiry(call, true); }},
    {Command::kPsetex, [](Call& call) { SetWithExpiry(call, false); }},
    {Command::kSetnx, SetIfAbsent},
    {Command::kGetset, GetAndSet},
    {Command::kGetdel, GetAndDelete},
    {Command::kGetex, GetAndExpire},
    {Command::kMget, GetSeveral},
    {Command::kMset, [](Call& call) { SetSeveral(call, false); }},
    {Command::kMsetnx, [](Call& call) { SetSeveral(call, true); }},
    {Command::kIncr, [](Call& call) { Add(call, 1); }},
    {Command::kDecr, [](Call& call) { Add(call, -1); }},
    {Command::kIncrby, [](Call& call) { AddGiven(call, false); }},
    {Command::kDecrby, [](Call& call) { AddGiven(call, true); }},
    {Command::kIncrbyfloat, AddFloat},
    {Command::kAppend, Append},
    {Command::kStrlen, Length},
    {Command::kGetrange, GetRange},
    {Command::kSubstr, GetRange},
    {Command::kSetrange, SetRange},
};

}  // namespace

uint64_t CountRange(uint64_t size, int64_t* begin, int64_t end) {
  const auto length = static_cast<int64_t>(size);
  if (*begin < 0 && end < 0 && *begin > end) return 0;
  if (*begin < 0) *begin = std::max<int64_t>(0, *begin + length);
  if (end < 0) end = std::max<int64_t>(0, end + length);
  end = std::min(end, length - 1);
  return *begin > end ? 0 : static_cast<uint64_t>(end - *begin) + 1;
}

absl::Span<const Handling> StringCommands() { return kHandlings; }

}  // namespace pulse::redis
