#include "services/redis/commands/watch.h"

#include <algorithm>

namespace pulse::redis {

void WatchTable::Set::Add(std::string_view key, int64_t expires_ms) {
  if (expires_ms != 0 && (first_expiry_ms_ == 0 || expires_ms < first_expiry_ms_)) {
    first_expiry_ms_ = expires_ms;
  }
  const auto [mine, added] = keys_.emplace(key);
  if (!added) return;
  bytes_ += BytesOf(key);
  const std::lock_guard<std::mutex> lock(table_->mutex_);
  table_->keys_[*mine].push_back(touched_);
  table_->watches_.fetch_add(1, std::memory_order_seq_cst);
}

void WatchTable::Set::Clear() {
  for (const std::string& key : keys_) table_->Remove(key, touched_);
  keys_.clear();
  bytes_ = 0;
  first_expiry_ms_ = 0;
  touched_->store(false, std::memory_order_relaxed);
}

bool WatchTable::Set::Broken(int64_t now_ms) const {
  return touched_->load(std::memory_order_acquire) ||
         (first_expiry_ms_ != 0 && first_expiry_ms_ <= now_ms);
}

void WatchTable::Remove(const std::string& key, const std::shared_ptr<std::atomic<bool>>& who) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = keys_.find(key);
  if (it == keys_.end()) return;
  auto& watchers = it->second;
  const auto mine = std::find(watchers.begin(), watchers.end(), who);
  if (mine == watchers.end()) return;
  watchers.erase(mine);
  watches_.fetch_sub(1, std::memory_order_seq_cst);
  if (watchers.empty()) keys_.erase(it);
}

void WatchTable::Touch(std::string_view key, bool by_client) {
  if (KeyListener* const who = listener()) who->OnChange(key, by_client);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = keys_.find(std::string(key));
  if (it == keys_.end()) return;
  for (const auto& watcher : it->second) watcher->store(true, std::memory_order_release);
}

void WatchTable::TouchAll(const std::function<bool(std::string_view)>& which) {
  if (KeyListener* const who = listener()) who->OnClear();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, watchers] : keys_) {
    if (which != nullptr && !which(key)) continue;
    for (const auto& watcher : watchers) watcher->store(true, std::memory_order_release);
  }
}

}  // namespace pulse::redis
