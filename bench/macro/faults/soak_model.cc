#include "bench/macro/faults/soak_model.h"

#include <cstring>

#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr size_t kProblemsKept = 10;

}  // namespace

std::string SoakModel::Check(uint64_t key, const std::string_view* value) const {
  const State& state = states_[key];
  if (state.presence == Presence::kUnknown) return "";
  if (value == nullptr) {
    if (state.presence == Presence::kAbsent) return "";
    return fmt::format("key {} is missing, version {} was written", key, state.version);
  }
  if (!values_.Matches(key, *value)) {
    return fmt::format("key {} holds {} bytes that were never its value", key, value->size());
  }
  uint64_t stamp = 0;
  std::memcpy(&stamp, value->data(), sizeof(stamp));
  if (state.presence == Presence::kAbsent) {
    return fmt::format("key {} was deleted by version {} and holds version {}", key, state.version,
                       stamp);
  }
  if (stamp == state.version) return "";
  return fmt::format("key {} holds version {} instead of {}", key, stamp, state.version);
}

void ScanCheck::PassTo(uint64_t key) {
  for (; next_ < key; ++next_) {
    if (!Mine(next_)) continue;
    ++checked_;
    if (std::string problem = model_->Check(next_, nullptr); !problem.empty()) {
      Note(std::move(problem));
    }
  }
}

void ScanCheck::See(std::string_view key, std::string_view value) {
  const uint64_t number = key.size() == kKeyBytes ? DecodeKey(key) : model_->keys();
  if (number >= model_->keys()) {
    Note(fmt::format("a key of {} bytes that was never written", key.size()));
    return;
  }
  if (number < next_) {
    Note(fmt::format("key {} is shown after key {}", number, next_ - 1));
    return;
  }
  PassTo(number);
  ++next_;
  std::string problem;
  if (Mine(number)) {
    ++checked_;
    problem = model_->Check(number, &value);
  } else if (!model_->Belongs(number, value)) {
    problem = fmt::format("key {} holds {} bytes that were never its value", number, value.size());
  }
  if (!problem.empty()) Note(std::move(problem));
}

void ScanCheck::Note(std::string problem) {
  ++wrong_;
  if (problems_.size() < kProblemsKept) problems_.push_back(std::move(problem));
}

}  // namespace pulse::bench
