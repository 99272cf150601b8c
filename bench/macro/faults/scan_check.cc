#include "bench/macro/faults/scan_check.h"

#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr size_t kProblemsOfScan = 10;

}  // namespace

void ScanCheck::Judge(uint64_t key, const std::string_view* value) {
  ++checked_;
  if (std::string problem = ledger_->Check(key, value, *values_); !problem.empty()) {
    Note(std::move(problem));
  }
}

void ScanCheck::PassTo(uint64_t key) {
  for (; next_ < key; ++next_) {
    if (Mine(next_)) Judge(next_, nullptr);
  }
}

void ScanCheck::See(std::string_view key, std::string_view value) {
  const uint64_t number = key.size() == kKeyBytes ? DecodeKey(key) : ledger_->keys();
  if (number >= ledger_->keys()) {
    return Note(fmt::format("a key of {} bytes that was never written", key.size()));
  }
  if (number < next_) return Note(fmt::format("key {} is shown after key {}", number, next_ - 1));
  PassTo(number);
  ++next_;
  if (Mine(number)) {
    Judge(number, &value);
  } else if (!values_->Matches(number, value)) {
    Note(fmt::format("key {} holds {} bytes that were never its value", number, value.size()));
  }
}

void ScanCheck::Note(std::string problem) {
  ++wrong_;
  if (problems_.size() < kProblemsOfScan) problems_.push_back(std::move(problem));
}

}  // namespace pulse::bench
