#include "services/redis/tracking.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "services/redis/session.h"

namespace pulse::redis {
namespace {

// An expiry that lies further away is looked at again by then: the clock may be set.
constexpr int64_t kLongestWaitMs = 1'000;

}  // namespace

Told::Changes Told::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  notified_ = false;
  bytes_ = 0;
  return std::exchange(changes_, {});
}

void Told::Add(std::string_view key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (changes_.all) return;
    bytes_ += sizeof(std::string) + key.size();
    if (bytes_ > kMostUntaken) {
      changes_ = {true, {}};
    } else {
      changes_.keys.emplace_back(key);
    }
    if (std::exchange(notified_, true)) return;
  }
  notify_();
}

void Told::AddAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_ = {true, {}};
    if (std::exchange(notified_, true)) return;
  }
  notify_();
}

bool Told::Wants(std::string_view key) const {
  return std::any_of(options_.prefixes.begin(), options_.prefixes.end(),
                     [&](const std::string& prefix) { return key.starts_with(prefix); });
}

Tracking::~Tracking() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Tracking::Start(std::shared_ptr<Told> who) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& place = clients_[who->id()];
  if (place != nullptr && place->options().broadcast) --broadcasts_;
  broadcasts_ += who->options().broadcast ? 1 : 0;
  place = std::move(who);
  clients_now_.store(clients_.size(), std::memory_order_seq_cst);
  if (!thread_.joinable()) thread_ = std::thread([this] { RunExpiries(); });
}

void Tracking::Stop(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  if (it->second->options().broadcast) --broadcasts_;
  clients_.erase(it);
  clients_now_.store(clients_.size(), std::memory_order_seq_cst);
  // Its keys go as they change, or with the last client.
  if (clients_.empty()) ForgetAll();
}

void Tracking::Remember(const std::shared_ptr<Told>& who, std::string_view key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = clients_.find(who->id());
  if (known == clients_.end() || known->second != who) return;
  auto it = keys_.find(std::string(key));
  if (it == keys_.end()) {
    // The oldest cannot be told; any one makes room.
    for (int i = 0; keys_.size() >= kMostKeys && i < 2; ++i) Forget(keys_.begin(), true);
    if (!memory_->Take(BytesOf(key))) return who->Add(key);
    it = keys_.try_emplace(std::string(key)).first;
  }
  if (it->second.clients.contains(who->id())) return;
  if (!memory_->Take(kClientBytes)) {
    if (it->second.clients.empty()) Forget(it, true);
    return who->Add(key);
  }
  it->second.clients.insert(who->id());
  ++items_;
}

void Tracking::NoteExpiry(std::string_view key, int64_t expires_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = keys_.find(std::string(key));
  if (it == keys_.end()) return;
  if (it->second.expires_ms != 0) expiries_.erase({it->second.expires_ms, &it->first});
  it->second.expires_ms = expires_ms;
  if (expires_ms == 0) return;
  expiries_.emplace(expires_ms, &it->first);
  if (expiries_.begin()->second == &it->first) wake_.notify_all();
}

// Tells its clients.
void Tracking::Forget(Keys::iterator it, bool own_too) {
  for (const uint64_t id : it->second.clients) {
    const auto client = clients_.find(id);
    if (client == clients_.end() || client->second->options().broadcast) continue;
    const bool own = !own_too && id == Writing::current();
    if (own && client->second->options().no_loop) continue;
    client->second->Add(it->first);
  }
  if (it->second.expires_ms != 0) expiries_.erase({it->second.expires_ms, &it->first});
  memory_->Give(BytesOf(it->first) + kClientBytes * it->second.clients.size());
  items_ -= it->second.clients.size();
  keys_.erase(it);
}

void Tracking::ForgetAll() {
  for (const auto& [key, entry] : keys_) {
    memory_->Give(BytesOf(key) + kClientBytes * entry.clients.size());
  }
  expiries_.clear();
  keys_.clear();
  items_ = 0;
}

void Tracking::OnChange(std::string_view key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = keys_.find(std::string(key)); it != keys_.end()) Forget(it, false);
  if (broadcasts_ == 0) return;
  for (const auto& [id, client] : clients_) {
    const TrackingOptions& options = client->options();
    if (!options.broadcast || (options.no_loop && id == Writing::current())) continue;
    if (client->Wants(key)) client->Add(key);
  }
}

void Tracking::OnClear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, client] : clients_) client->AddAll();
  ForgetAll();
}

Tracking::Numbers Tracking::numbers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Numbers n{clients_.size(), keys_.size(), items_, 0};
  std::set<std::string_view> prefixes;
  for (const auto& [id, client] : clients_) {
    prefixes.insert(client->options().prefixes.begin(), client->options().prefixes.end());
  }
  n.prefixes = prefixes.size();
  return n;
}

void Tracking::RunExpiries() {
  pthread_setname_np(pthread_self(), "pulse-tracking");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const int64_t now_ms = WallMillis();
    while (!expiries_.empty() && expiries_.begin()->first <= now_ms) {
      Forget(keys_.find(*expiries_.begin()->second), true);
    }
    if (expiries_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_for(lock, std::chrono::milliseconds(
                               std::min(kLongestWaitMs, expiries_.begin()->first - now_ms)));
    }
  }
}

}  // namespace pulse::redis
