// A checker of recorded histories: is there an order of the operations, one after another, that
// agrees with what each returned and with which of them ended before another began? The search of
// Wing and Gong with Lowe's memory of states that were seen, for each key on its own, as
// linearizability is local. The model is a Redis string: value or none, and a time of expiry.
// Transactions are checked on a group of keys at once, without expiry: all parts of one take effect
// at one point.
//
// Times are nanoseconds of CLOCK_REALTIME, which is what expiry is measured with. An operation
// whose outcome is not known (the connection was lost) may take effect at any time after it began,
// or never: its end is kNever, and what it returned is not looked at. Where it is known when who
// would have carried it out had ended, `latest` bounds that.
//
// No threads, no I/O. Memory and time are bounded by `max_steps`; a search that exceeds it is
// reported as such, and is no success.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pulse::linear {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

enum class Kind : uint8_t { kGet, kSet, kDel, kIncr, kAppend, kExpire };

struct Operation {
  Kind kind = Kind::kGet;
  std::string argument;    // of kSet and kAppend
  int64_t expires_ms = 0;  // of kSet and kExpire: absolute; 0: never
  int64_t begin = 0;
  int64_t end = kNever;
  // What was returned. kGet: the value or none; kSet: nothing; else: the number.
  std::optional<std::string> result;
  uint32_t client = 0;
  int64_t latest = kNever;  // of one that is not known: it took effect by then, or never

  bool known() const { return end != kNever; }
};

struct Transaction {
  struct Part {
    size_t key = 0;       // its number in the group
    Operation operation;  // whose times and client are not looked at
  };
  std::vector<Part> parts;  // in their order
  int64_t begin = 0;
  int64_t end = kNever;
  uint32_t client = 0;
  int64_t latest = kNever;  // as above

  bool known() const { return end != kNever; }
};

// By key.
using History = std::map<std::string, std::vector<Operation>>;

struct Verdict {
  enum class Outcome { kLinearizable, kViolation, kTooLong } outcome = Outcome::kLinearizable;
  std::string key;
  // Of a violation: the operations around where the longest order ended.
  std::string report;

  bool ok() const { return outcome == Outcome::kLinearizable; }
};

Verdict CheckKey(const std::string& key, const std::vector<Operation>& operations,
                 uint64_t max_steps = 50'000'000);
// The first key that is not linearizable.
Verdict Check(const History& history, uint64_t max_steps = 50'000'000);

// Of a group of `keys` keys.
Verdict CheckTransactions(const std::string& group, size_t keys,
                          const std::vector<Transaction>& transactions,
                          uint64_t max_steps = 50'000'000);

std::string Describe(const Operation& operation);
std::string Describe(const Transaction& transaction);

}  // namespace pulse::linear
