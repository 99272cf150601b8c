// The commands on keys, each a function of a Call: it reads and writes through the call's view, and
// appends one reply. When the view says that it cannot go on, the function returns, and what it has
// replied is dropped. May be called again from the start.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/redis/commands/keyspace.h"

namespace pulse::redis {

// Abseil's own type, as it is built for C++14.
inline absl::string_view AbslOf(std::string_view text) { return {text.data(), text.size()}; }

// Any command with kRead or kWrite in the table.
void RunCommand(Call& call);

// Who carries out which of them, by what they do.
using Handler = void (*)(Call& call);
struct Handling {
  Command command;
  Handler handler;
};
absl::Span<const Handling> BitCommands();
absl::Span<const Handling> StringCommands();
absl::Span<const Handling> SequenceCommands();
absl::Span<const Handling> KeyCommands();
absl::Span<const Handling> ScanCommands();
absl::Span<const Handling> ClusterCommands();

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kTooManyValues =
    "ERR too many values for one reply; ask for fewer keys";
// In a transaction, in place of the reply to a command that writes.
inline constexpr std::string_view kTooManyValuesWritten =
    "ERR too many values for one reply; this command was carried out";
inline constexpr std::string_view kNoCluster = "ERR This instance has cluster support disabled";
inline constexpr std::string_view kNotAnInteger = "ERR value is not an integer or out of range";

// MEMORY of the server, or HELP of a command on keys: it names no key, whatever the table says.
bool ConcernsNoKey(const CommandInfo& command, const Arguments& args);

inline void CountRead(Call& call, const Found& found) {
  ++(found.exists ? call.counts.hits : call.counts.misses);
}

// Replies with the error; false, for what reads arguments to return.
inline bool Refuse(Call& call, std::string_view error) {
  call.reply.Error(error);
  return false;
}

// An integer that a client gave. False, after an error reply, when it is none.
bool ReadInteger(Call& call, std::string_view text, int64_t* value);

// A time that a client gave, in seconds or milliseconds, relative to `now_ms` or absolute, as an
// expiry. False, after an error reply, when it is none; `positive` asks for one above 0.
bool ReadExpiry(Call& call, std::string_view text, bool seconds, bool relative, bool positive,
                int64_t* expires_ms);

// How many bytes of a value GETRANGE's `begin` and `end` mean, and from which one on.
uint64_t CountRange(uint64_t size, int64_t* begin, int64_t end);

// Of keys in a reply of SCAN: it ends early where those it has met are longer than so much for each
// of its COUNT, so that what it may need is known before.
inline constexpr uint64_t kScanBytesPerKey = 1024;
inline uint64_t MostOfScan(int64_t count, uint64_t most_reply) {
  uint64_t bytes = 0;
  const auto keys = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  return __builtin_mul_overflow(keys, kScanBytesPerKey, &bytes) ? most_reply
                                                                : std::min(bytes, most_reply);
}

// Redis's patterns: * ? [a-c] [^a] and a backslash before a character that stands for itself. Time
// is bounded by the product of the lengths.
bool MatchesPattern(std::string_view pattern, std::string_view text);
// What every match begins with.
std::string_view LiteralPrefix(std::string_view pattern);

}  // namespace pulse::redis
