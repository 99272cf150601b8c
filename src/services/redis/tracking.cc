#include "services/redis/tracking.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/clock.h"
#include "base/errors.h"
#include "base/shortage.h"

namespace pulse::redis {
namespace {

// An expiry that lies further away is looked at again by then: the clock may be set.
constexpr int64_t kLongestWaitMs = 1'000;
constexpr size_t kLeastGone = 1024;  // items of clients that are gone, before they are looked for

}  // namespace

Told::Changes Told::Take(size_t* bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  notified_ = false;
  if (bytes != nullptr) *bytes = bytes_;
  bytes_ = 0;
  Count(0);
  return std::exchange(changes_, {});
}

void Told::Count(size_t bytes) {
  if (bytes == counted_) return;
  share_.Set(bytes > 0 ? budget_ : nullptr, bytes);
  counted_ = bytes;
}

void Told::Add(std::string_view key) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (changes_.all) return;
    bytes_ += sizeof(std::string) + key.size();
    const bool is_tight = budget_ != nullptr && budget_->IsTight();
    if (bytes_ > (is_tight ? budget_->small() : kMostUntaken)) {
      changes_ = {true, {}};
      Count(0);
    } else {
      changes_.keys.emplace_back(key);
      // Some together, as all threads write there.
      if (budget_ != nullptr && bytes_ - counted_ >= budget_->small()) Count(bytes_);
    }
    if (std::exchange(notified_, true)) return;
  }
  NotifySoon();
}

void Told::AddAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_ = {true, {}};
    Count(0);
    if (std::exchange(notified_, true)) return;
  }
  NotifySoon();
}

std::vector<std::vector<std::string>> Told::GroupsOf(const Changes& changes) const {
  std::vector<std::vector<std::string>> groups;
  if (!options_.broadcast) {
    for (const std::string& key : changes.keys) groups.push_back({key});
    return groups;
  }
  const std::set<std::string> keys(changes.keys.begin(), changes.keys.end());
  // As in Redis, a key of two of them (the empty one, and another) is in both groups.
  const std::set<std::string> prefixes(options_.prefixes.begin(), options_.prefixes.end());
  for (const std::string& prefix : prefixes) {
    std::vector<std::string> group;
    for (auto it = keys.lower_bound(prefix); it != keys.end() && it->starts_with(prefix); ++it) {
      group.push_back(*it);
    }
    if (!group.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

void Told::NotifySoon() {
  Tracking::Writing* writing = Tracking::Writing::current();
  if (writing == nullptr) return notify_(shared_from_this());
  writing->told_.push_back(shared_from_this());
}

void Told::NotifyAgain(bool of_all) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (of_all) {
      changes_ = {true, {}};
      Count(0);
      notified_ = true;
    }
    if (!notified_) return;
  }
  notify_(shared_from_this());
}

bool Told::Wants(std::string_view key) const {
  return std::any_of(options_.prefixes.begin(), options_.prefixes.end(),
                     [&](const std::string& prefix) { return key.starts_with(prefix); });
}

Tracking::Writing::~Writing() {
  current() = before_;
  for (const std::shared_ptr<Told>& told : told_) told->notify_(told);
}

Tracking::~Tracking() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Tracking::Start(std::shared_ptr<Told> who) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) {
    PULSE_RETURN_IF_ERROR(StartThread(
        "keys that expire", [this] { RunExpiries(); }, &thread_));
  }
  auto& place = clients_[who->id()].told;
  if (place != nullptr) Count(*place, -1);
  Count(*who, 1);
  place = std::move(who);
  clients_now_.store(clients_.size(), std::memory_order_seq_cst);
  return absl::OkStatus();
}

void Tracking::Stop(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  Count(*it->second.told, -1);
  gone_items_ += it->second.items;
  clients_.erase(it);
  clients_now_.store(clients_.size(), std::memory_order_seq_cst);
  if (clients_.empty()) ForgetAll();
}

void Tracking::Count(const Told& told, int change) {
  if (told.options().broadcast) broadcasts_ += static_cast<size_t>(change);
  if (told.options().redirect != 0) redirections_ += static_cast<size_t>(change);
}

void Tracking::EndRedirection(uint64_t id, bool owed) {
  if (redirections_ == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [tracker, client] : clients_) {
    if (client.told->options().redirect == id) client.told->NotifyAgain(owed);
  }
}

void Tracking::Remember(const std::shared_ptr<Told>& who, std::string_view key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = clients_.find(who->id());
  if (known == clients_.end() || known->second.told != who) return;
  const bool full = bytes_ + BytesOf(key) + kClientBytes > most_bytes_;
  if (gone_items_ > std::max(kLeastGone, items_ / (full ? 8 : 2))) ForgetGone();
  auto it = keys_.find(key);
  if (it != keys_.end() && it->second.clients.contains(who->id())) return;
  const uint64_t bytes = kClientBytes + (it == keys_.end() ? BytesOf(key) : 0);
  if (bytes_ + bytes > most_bytes_) return who->Add(key);
  if (it == keys_.end()) {
    // The oldest cannot be told; any one makes room.
    while (keys_.size() >= kMostKeys) Forget(keys_.begin(), true);
    it = keys_.try_emplace(std::string(key)).first;
  }
  it->second.clients.insert(who->id());
  bytes_ += bytes;
  ++known->second.items;
  ++items_;
}

void Tracking::NoteExpiry(std::string_view key, int64_t expires_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = keys_.find(key);
  if (it == keys_.end() || expires_ms == 0) return;
  // Who comes late may have seen an expiry that is no longer so.
  int64_t& known = it->second.expires_ms;
  if (known != 0 && known <= expires_ms) return;
  if (known != 0) expiries_.erase({known, &it->first});
  known = expires_ms;
  expiries_.emplace(expires_ms, &it->first);
  if (expiries_.begin()->second == &it->first) wake_.notify_all();
}

// Tells its clients.
void Tracking::Forget(Keys::iterator it, bool own_too) {
  for (const uint64_t id : it->second.clients) {
    const auto client = clients_.find(id);
    size_t& items = client == clients_.end() ? gone_items_ : client->second.items;
    items -= std::min<size_t>(items, 1);
    if (client == clients_.end() || client->second.told->options().broadcast) continue;
    const bool own = !own_too && id == Writing::client();
    if (own && client->second.told->options().no_loop) continue;
    client->second.told->Add(it->first);
  }
  Drop(it);
}

Tracking::Keys::iterator Tracking::Drop(Keys::iterator it) {
  if (it->second.expires_ms != 0) expiries_.erase({it->second.expires_ms, &it->first});
  bytes_ -= BytesOf(it->first) + kClientBytes * it->second.clients.size();
  items_ -= it->second.clients.size();
  return keys_.erase(it);
}

void Tracking::ForgetAll() {
  expiries_.clear();
  keys_.clear();
  items_ = bytes_ = gone_items_ = 0;
  for (auto& [id, client] : clients_) client.items = 0;
}

void Tracking::ForgetGone() {
  // They are counted anew: one that tracks again has what it had before.
  for (auto& [id, client] : clients_) client.items = 0;
  gone_items_ = 0;
  for (auto it = keys_.begin(); it != keys_.end();) {
    auto& clients = it->second.clients;
    const size_t before = clients.size();
    absl::erase_if(clients, [this](uint64_t id) {
      const auto client = clients_.find(id);
      if (client == clients_.end()) return true;
      ++client->second.items;
      return false;
    });
    items_ -= before - clients.size();
    bytes_ -= kClientBytes * (before - clients.size());
    it = clients.empty() ? Drop(it) : std::next(it);
  }
}

void Tracking::OnChange(std::string_view key, bool by_client) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto it = keys_.find(key); it != keys_.end()) Forget(it, !by_client);
  TellBroadcasts(key, /*own_too=*/!by_client);
}

// Who has read it is told when its time is over, whoever notices.
void Tracking::OnExpiry(std::string_view key) {
  if (broadcasts_ == 0) return;  // of many keys at a time
  const std::lock_guard<std::mutex> lock(mutex_);
  TellBroadcasts(key, /*own_too=*/true);
}

void Tracking::TellBroadcasts(std::string_view key, bool own_too) {
  if (broadcasts_ == 0) return;
  for (const auto& [id, client] : clients_) {
    const TrackingOptions& options = client.told->options();
    const bool own = !own_too && id == Writing::client();
    if (!options.broadcast || (own && options.no_loop)) continue;
    if (client.told->Wants(key)) client.told->Add(key);
  }
}

void Tracking::OnClear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, client] : clients_) client.told->AddAll();
  ForgetAll();
}

Tracking::Numbers Tracking::numbers() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Numbers n{clients_.size(), keys_.size(), items_, 0};
  std::set<std::string_view> prefixes;
  for (const auto& [id, client] : clients_) {
    const auto& of_client = client.told->options().prefixes;
    prefixes.insert(of_client.begin(), of_client.end());
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
