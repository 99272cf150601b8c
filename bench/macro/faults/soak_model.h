// What a soak's database must hold: for every key the version last written, or that it is absent.
// Each key has one writer, so its state is certain at any time. Thread-compatible: different keys
// may be changed by different threads at once; the check of a key belongs to its writer, or to
// whoever comes after all writers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/macro/workload.h"

namespace pulse::bench {

class SoakModel {
 public:
  // Values begin with their version, so they take at least kMinValueBytes.
  static constexpr size_t kMinValueBytes = 16;
  SoakModel(uint64_t keys, size_t value_bytes, uint64_t seed)
      : states_(keys), values_(value_bytes, seed) {}

  uint64_t keys() const { return states_.size(); }

  // The version that the next write of `key` has.
  uint32_t NextVersion(uint64_t key) const { return states_[key].version + 1; }
  void Put(uint64_t key) { Write(key, Presence::kPresent); }
  void Delete(uint64_t key) { Write(key, Presence::kAbsent); }
  // A write of `key` failed: either state may follow, and the key is not checked again.
  void LoseTrack(uint64_t key) { states_[key].presence = Presence::kUnknown; }

  // Empty when `key` holds `value` (null: nothing) as it must; else what is wrong.
  std::string Check(uint64_t key, const std::string_view* value) const;
  // Whether `value` is one of `key`'s, of any version: all that a thread can say of others' keys.
  bool Belongs(uint64_t key, std::string_view value) const { return values_.Matches(key, value); }

 private:
  enum class Presence : uint8_t { kAbsent, kPresent, kUnknown };
  struct State {
    uint32_t version = 0;
    Presence presence = Presence::kAbsent;
  };
  void Write(uint64_t key, Presence to) {
    State& state = states_[key];
    ++state.version;
    if (state.presence != Presence::kUnknown) state.presence = to;
  }

  std::vector<State> states_;
  ValueMaker values_;
};

// Compares what an iterator shows with the model: every key in order, none left out.
class ScanCheck {
 public:
  // Begins at `begin`. Of the keys whose number leaves `residue` when divided by `modulus`, state
  // and presence are checked, of the others only that the value is theirs.
  ScanCheck(const SoakModel* model, uint64_t begin, uint64_t modulus = 1, uint64_t residue = 0)
      : model_(model), next_(begin), modulus_(modulus), residue_(residue) {}

  void See(std::string_view key, std::string_view value);
  // No key was left before `end`.
  void End(uint64_t end) { PassTo(end); }

  uint64_t checked() const { return checked_; }
  uint64_t wrong() const { return wrong_; }
  // The first few of them.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  bool Mine(uint64_t key) const { return key % modulus_ == residue_; }
  void PassTo(uint64_t key);
  void Note(std::string problem);

  const SoakModel* const model_;
  uint64_t next_;
  const uint64_t modulus_;
  const uint64_t residue_;
  uint64_t checked_ = 0;
  uint64_t wrong_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace pulse::bench
