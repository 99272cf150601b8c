// Compares what an iterator shows with a ledger: every key in order, none left out. For one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/macro/faults/crash_ledger.h"

namespace pulse::bench {

class ScanCheck {
 public:
  // Begins at `begin`. Of the keys whose number leaves `residue` when divided by `modulus`, state
  // and presence are checked, of the others, which may have writers, only that the value is theirs.
  ScanCheck(const CrashLedger* ledger, const ValueMaker* values, uint64_t begin,
            uint64_t modulus = 1, uint64_t residue = 0)
      : ledger_(ledger), values_(values), next_(begin), modulus_(modulus), residue_(residue) {}

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
  void Judge(uint64_t key, const std::string_view* value);
  void Note(std::string problem);

  const CrashLedger* const ledger_;
  const ValueMaker* const values_;
  uint64_t next_;
  const uint64_t modulus_;
  const uint64_t residue_;
  uint64_t checked_ = 0;
  uint64_t wrong_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace pulse::bench
