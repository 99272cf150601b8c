#include "services/graph/session/running.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

RunningEntry::~RunningEntry() {
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  list_->entries_.erase(facts_.number);
}

void RunningEntry::BeginQuery(std::string_view text) {
  // What is shown of a query.
  constexpr size_t kShown = 10'000;
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  facts_.query = text.substr(0, kShown);
  facts_.query_number = ++list_->last_query_;
}

void RunningEntry::EndQuery() {
  const std::lock_guard<std::mutex> lock(list_->mutex_);
  facts_.query.clear();
  facts_.query_number = 0;
}

std::unique_ptr<RunningEntry> RunningList::Add(const Caller& caller, int64_t timeout_nanos) {
  RunningFacts facts;
  facts.caller = caller;
  facts.began_wall_nanos = ClockNanos(CLOCK_REALTIME);
  facts.began_nanos = NowNanos();
  const std::lock_guard<std::mutex> lock(mutex_);
  facts.number = ++last_;
  facts.id = Concat("transaction-", facts.number);
  const int64_t deadline = timeout_nanos > 0 ? facts.began_nanos + timeout_nanos : 0;
  auto entry = std::make_unique<RunningEntry>(this, facts, deadline);
  entries_[facts.number] = entry.get();
  return entry;
}

std::vector<RunningFacts> RunningList::List(const Caller& caller) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<RunningFacts> list;
  for (const auto& [number, entry] : entries_) {
    if (!caller.may_admin && entry->facts_.caller.user != caller.user) continue;
    list.push_back(entry->facts_);
    list.back().terminated = entry->is_terminated();
  }
  return list;
}

std::function<void()> RunningList::End(RunningEntry* entry) {
  if (entry->terminated_.exchange(true, std::memory_order_relaxed)) return nullptr;
  return entry->on_terminate_;
}

RunningList::Ended RunningList::Terminate(std::string_view id, const Caller& caller) {
  std::function<void()> tell;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = std::find_if(entries_.begin(), entries_.end(),
                                 [id](const auto& item) { return item.second->facts_.id == id; });
    if (it == entries_.end()) return Ended::kNoSuch;
    if (!caller.may_admin && it->second->facts_.caller.user != caller.user) {
      return Ended::kForbidden;
    }
    tell = End(it->second);
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
    for (const auto& [number, entry] : entries_) {
      if (entry->deadline_ == 0 || now < entry->deadline_) continue;
      if (auto tell = End(entry)) all.push_back(std::move(tell));
    }
  }
  for (const auto& tell : all) tell();
}

}  // namespace pulse::cypher
