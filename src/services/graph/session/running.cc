#include "services/graph/session/running.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

std::string RunningEntry::id() const { return Concat("transaction-", number_); }

RunningEntry::~RunningEntry() {
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  (before_ != nullptr ? before_->after_ : list_->oldest_) = after_;
  (after_ != nullptr ? after_->before_ : list_->newest_) = before_;
  --list_->count_;
}

bool RunningEntry::is_late() const { return deadline_ != 0 && list_->Now() >= deadline_; }

void RunningEntry::BeginQuery(std::string_view text) {
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  query_ = text;
  query_number_ = ++list_->last_query_;
}

void RunningEntry::EndQuery() {
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  query_ = {};
  query_number_ = 0;
}

RunningFacts RunningEntry::FactsLocked() const {
  // What is shown of a query.
  constexpr size_t kShown = 10'000;
  RunningFacts facts;
  facts.number = number_;
  facts.id = id();
  facts.caller = caller_;
  facts.query = query_.substr(0, kShown);
  facts.query_number = query_number_;
  facts.began_wall_nanos = began_wall_nanos_;
  facts.began_nanos = began_nanos_;
  facts.terminated = is_terminated();
  return facts;
}

std::unique_ptr<RunningEntry> RunningList::Add(const Caller& caller, int64_t timeout_nanos,
                                               int64_t began) {
  auto entry = std::make_unique<RunningEntry>(this, caller);
  entry->began_wall_nanos_ = ClockNanos(CLOCK_REALTIME);
  entry->began_nanos_ = began != 0 ? began : Now();
  entry->deadline_ = timeout_nanos > 0 ? entry->began_nanos_ + timeout_nanos : 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  entry->number_ = ++last_;
  entry->before_ = newest_;
  (newest_ != nullptr ? newest_->after_ : oldest_) = entry.get();
  newest_ = entry.get();
  ++count_;
  return entry;
}

std::vector<RunningFacts> RunningList::List(const Caller& caller) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<RunningFacts> list;
  for (const RunningEntry* entry = oldest_; entry != nullptr; entry = entry->after_) {
    if (!caller.may_admin && entry->caller_.user != caller.user) continue;
    list.push_back(entry->FactsLocked());
  }
  return list;
}

RunningList::Open RunningList::open() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (oldest_ == nullptr) return {};
  // It may have begun before it was in the list, and the clock been read by another CPU.
  return {count_, std::max<int64_t>(0, Now() - oldest_->began_nanos_)};
}

std::function<void()> RunningList::End(RunningEntry* entry) {
  if (entry->terminated_.exchange(true, std::memory_order_relaxed)) return nullptr;
  return entry->on_terminate_;
}

RunningList::Ended RunningList::Terminate(std::string_view id, const Caller& caller) {
  std::function<void()> tell;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    RunningEntry* entry = oldest_;
    while (entry != nullptr && entry->id() != id) entry = entry->after_;
    if (entry == nullptr) return Ended::kNoSuch;
    if (!caller.may_admin && entry->caller_.user != caller.user) return Ended::kForbidden;
    tell = End(entry);
  }
  if (tell) tell();
  return Ended::kDone;
}

void RunningList::OnTerminate(RunningEntry* entry, std::function<void()> tell) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entry->on_terminate_ = std::move(tell);
}

void RunningList::Sweep(int64_t now) {
  std::vector<std::function<void()>> all;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (RunningEntry* entry = oldest_; entry != nullptr; entry = entry->after_) {
      if (entry->deadline_ == 0 || now < entry->deadline_) continue;
      if (auto tell = End(entry)) all.push_back(std::move(tell));
    }
  }
  for (const auto& tell : all) tell();
}

}  // namespace pulse::cypher
