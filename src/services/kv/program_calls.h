// What the calls of pulse/kv.h and pulse/kv_server.h have in common: a program's own, on keys in
// its process.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "pulse/kv.h"
#include "services/kv/core/batch.h"
#include "services/kv/core/partition.h"

namespace pulse::kv {

// By KvPolicy.
inline constexpr std::array kPolicies = {Policy::kNoEviction, Policy::kLfu, Policy::kLru,
                                         Policy::kRandom};

// A callback that this thread is in: of a store whose locks it holds, or of an owner.
class InCallback {
 public:
  explicit InCallback(const void* of) : of_(of), outer_(std::exchange(innermost_, this)) {}
  InCallback(const InCallback&) = delete;
  ~InCallback() { innermost_ = outer_; }
  static bool Of(const void* it) {
    const InCallback* at = innermost_;
    while (at != nullptr && at->of_ != it) at = at->outer_;
    return at != nullptr;
  }

 private:
  static inline thread_local const InCallback* innermost_ = nullptr;
  const void* const of_;
  const InCallback* const outer_;
};

[[gnu::cold]] inline absl::Status CallbackError() {
  return absl::FailedPreconditionError(
      "a callback called its own store: note what is to be done, and do it after the call");
}

[[gnu::cold]] inline absl::Status CodesError() {
  return absl::InvalidArgumentError("there are not as many codes as keys: or give none");
}

inline std::string KeyText(std::string_view key) {
  return absl::StrCat("key '", absl::CHexEscape({key.data(), std::min<size_t>(key.size(), 64)}),
                      key.size() > 64 ? "...'" : "'");
}

inline int64_t After(int64_t now_ms, int64_t ttl_ms) {
  int64_t sum;
  return __builtin_add_overflow(now_ms, ttl_ms, &sum) ? kKvNever : sum;
}

// The number that is stored as `text`, and `delta`.
inline absl::StatusOr<int64_t> SumOf(std::string_view text, int64_t delta, std::string_view key) {
  int64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number, 10);
  // As a client's INCR has it: no zeros in front, no "-0".
  if (error != std::errc() || end != last || text != std::string_view(std::to_string(number))) {
    return absl::FailedPreconditionError(
        absl::StrCat("the value of ", KeyText(key), ", of ", text.size(),
                     " bytes, is no decimal number of 64 bits: set it to one first"));
  }
  if (__builtin_add_overflow(number, delta, &number)) {
    return absl::OutOfRangeError(
        absl::StrCat("the sum of ", KeyText(key), " and ", delta, " does not fit into 64 bits"));
  }
  return number;
}

inline absl::Status CheckSetOptions(const KvSetOptions& options) {
  if ((options.ttl_ms == 0 || (options.ttl_ms > 0 && options.expires_ms == kKvNever)) &&
      !(options.only_if_absent && options.only_if_present)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "ttl_ms is below 0, or it and expires_ms, or both conditions, are given: give one");
}

inline absl::StatusCode CodeOf(Partition::Result result) {
  return result == Partition::Result::kStored     ? absl::StatusCode::kOk
         : result == Partition::Result::kNoMemory ? absl::StatusCode::kResourceExhausted
                                                  : absl::StatusCode::kInvalidArgument;
}

inline std::string_view KeyOf(std::string_view key) { return key; }
inline std::string_view KeyOf(const KvPair& pair) { return pair.key; }
inline size_t ValueSizeOf(std::string_view) { return 0; }
inline size_t ValueSizeOf(const KvPair& pair) { return pair.value.size(); }

inline bool IsNormal(absl::StatusCode code) {
  return code == absl::StatusCode::kOk || code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kAlreadyExists;
}

// What is normal has no words, and costs nothing.
inline absl::Status Plain(absl::StatusCode code) { return absl::Status(code, ""); }
inline absl::StatusCode FoundCode(bool found) {
  return found ? absl::StatusCode::kOk : absl::StatusCode::kNotFound;
}

// What Set does, with the key's partition held.
inline absl::StatusCode SetAt(Partition* partition, std::string_view key, uint64_t hash,
                              std::string_view value, const KvSetOptions& how,
                              const Candidate& candidate, uint64_t most_value,
                              uint32_t client_flags = 0) {
  if (key.size() > kMaxKeyBytes || value.size() > most_value) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (how.only_if_absent || how.only_if_present) {
    const bool exists = partition->Peek(key, hash) != nullptr;
    if (exists && how.only_if_absent) return absl::StatusCode::kAlreadyExists;
    if (!exists && how.only_if_present) return absl::StatusCode::kNotFound;
  }
  const int64_t now_ms = partition->now_ms();
  ItemFacts facts;
  facts.client_flags = client_flags;
  facts.expires_ms = how.ttl_ms > 0 ? After(now_ms, how.ttl_ms) : how.expires_ms;
  if (facts.expires_ms <= now_ms) {
    partition->Erase(key, hash);
    return absl::StatusCode::kOk;
  }
  Item* item = nullptr;
  const auto result =
      partition->PutAt(candidate.at, candidate.word, key, hash, value.size(), facts, &item);
  if (result == Partition::Result::kStored) CopyValue(item->value_bytes(), value);
  return CodeOf(result);
}

}  // namespace pulse::kv
