#include "services/graph/session/plan_cache.h"

#include <algorithm>
#include <utility>

namespace pulse::cypher {
namespace {

// Whether a plan that was made for `then` nodes may be poor for `now`.
bool IsStale(uint64_t then, uint64_t now) {
  constexpr uint64_t kFactor = 8, kSmall = 128;
  const uint64_t low = std::min(then, now), high = std::max(then, now);
  return high > kSmall && high / kFactor > low;
}

}  // namespace

const std::vector<std::string>& Statement::columns() const {
  static const std::vector<std::string> kNone;
  return schema || plan->explain ? kNone : plan->columns;
}

std::string_view Statement::type() const {
  if (schema) return "s";
  if (!plan->writes) return "r";
  return plan->columns.empty() ? "w" : "rw";
}

std::shared_ptr<const Statement> PlanCache::Find(std::string_view text, uint64_t nodes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = by_text_.find(text);
  if (it == by_text_.end()) return nullptr;
  if (IsStale(it->second->nodes, nodes)) {
    Erase(it->second);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, it->second);
  return entries_.front().statement;
}

void PlanCache::Put(std::shared_ptr<const Statement> statement, uint64_t nodes) {
  // One text may not push out many others.
  if (most_entries_ == 0 || statement->text.size() > most_bytes_ / 16) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = by_text_.find(statement->text); it != by_text_.end()) Erase(it->second);
  bytes_ += statement->text.size();
  entries_.push_front({std::move(statement), nodes});
  by_text_[entries_.front().statement->text] = entries_.begin();
  while (entries_.size() > most_entries_ || bytes_ > most_bytes_) {
    Erase(std::prev(entries_.end()));
  }
}

void PlanCache::Erase(std::list<Entry>::iterator entry) {
  bytes_ -= entry->statement->text.size();
  by_text_.erase(entry->statement->text);
  entries_.erase(entry);
}

void PlanCache::Clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  by_text_.clear();
  entries_.clear();
  bytes_ = 0;
}

size_t PlanCache::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return entries_.size();
}

}  // namespace pulse::cypher
