#include "services/redis/session.h"

#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {

// Client libraries want all of the fields; -1 is what is not counted here.
std::string ClientLine(const ClientFacts& facts, int64_t now_ms) {
  const CommandInfo* command = facts.command->load(std::memory_order_relaxed);
  return absl::StrCat(
      "id=", facts.id, " addr=", facts.peer, " laddr=", facts.local, " fd=-1 name=", facts.name,
      " age=", (now_ms - facts.since_ms) / 1000, " idle=-1 flags=", facts.subscribed ? "P" : "",
      facts.tracking ? "t" : "", facts.redirect_broken ? "R" : "",
      facts.subscribed || facts.tracking ? "" : "N", " db=0 sub=", facts.subscribed ? 1 : 0,
      " psub=0 ssub=0 multi=-1 qbuf=-1 qbuf-free=-1 argv-mem=-1 multi-mem=-1 rbs=-1 rbp=-1 obl=-1 "
      "oll=-1 omem=-1 tot-mem=-1 events=r cmd=",
      command == nullptr ? "NULL" : AbslOf(command->name), " user=", facts.user,
      " redir=", facts.tracking ? static_cast<int64_t>(facts.redirect) : -1,
      " lib-name=", facts.library, " lib-ver=", facts.library_version, " resp=", facts.protocol);
}

bool IsClientName(std::string_view name) {
  return name.size() <= kMostNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

uint64_t Clients::Add(ClientFacts facts, std::function<void()> end, Told::Notify notify) {
  const std::lock_guard<std::mutex> lock(mutex_);
  facts.id = ++last_id_;
  list_bytes_ += ListBytesOf(facts);
  clients_.emplace(last_id_, Client{std::move(facts), std::move(end), std::move(notify)});
  return last_id_;
}

void Clients::Set(const ClientFacts& facts) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = clients_.find(facts.id);
  if (it == clients_.end()) return;
  list_bytes_ += ListBytesOf(facts) - ListBytesOf(it->second.facts);
  it->second.facts = facts;
}

void Clients::Remove(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  list_bytes_ -= ListBytesOf(it->second.facts);
  clients_.erase(it);
}

uint64_t Clients::ListBytesOf(const ClientFacts& facts) {
  constexpr uint64_t kWithoutNames = 512;
  return kWithoutNames + facts.peer.size() + facts.local.size() + facts.name.size() +
         facts.library.size() + facts.library_version.size() + facts.user.size();
}

uint64_t Clients::list_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return list_bytes_;
}

std::vector<ClientFacts> Clients::List() const {
  std::vector<ClientFacts> list;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [id, client] : clients_) list.push_back(client.facts);
  return list;
}

bool Clients::End(uint64_t id) {
  std::function<void()> end;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = clients_.find(id);
    if (it == clients_.end() || it->second.end == nullptr) return false;
    end = std::move(it->second.end);
    list_bytes_ -= ListBytesOf(it->second.facts);
    clients_.erase(it);
  }
  end();
  return true;
}

bool Clients::Has(uint64_t id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return clients_.contains(id);
}

bool Clients::Notify(uint64_t id, std::shared_ptr<Told> told) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = clients_.find(id);
  if (it == clients_.end() || it->second.notify == nullptr) return false;
  it->second.notify(std::move(told));  // which takes an instant
  return true;
}

size_t Clients::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return clients_.size();
}

std::shared_ptr<Fences::Token> Fences::Enter(std::string_view id, std::function<void()> end) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry& entry = entries_[std::string(id)];
    ++entry.tokens;
    entry.ends.push_back(std::move(end));
  }
  return std::make_shared<Token>(this, std::string(id));
}

void Fences::Leave(const std::string& id) {
  std::vector<std::function<void()>> waiters;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(id);
    if (it == entries_.end() || --it->second.tokens > 0) return;
    waiters = std::move(it->second.waiters);
    entries_.erase(it);
  }
  for (const auto& done : waiters) done();
}

// Those that there are now: of an agent that is no more. None begins with "".
void Fences::WaitForOthers(std::string_view prefix, std::function<void()> done) {
  std::vector<std::string> ids;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      if (prefix.empty() || id.compare(0, prefix.size(), prefix) != 0) ids.push_back(id);
    }
  }
  auto left = std::make_shared<std::atomic<size_t>>(ids.size() + 1);
  const auto one = [left, done = std::move(done)] {
    if (left->fetch_sub(1) == 1) done();
  };
  for (const std::string& id : ids) Wait(id, one);
  one();
}

void Fences::Wait(std::string_view id, std::function<void()> done) {
  if (id == "*") return WaitForOthers("", std::move(done));
  if (!id.empty() && id[0] == '!') return WaitForOthers(id.substr(1), std::move(done));
  std::vector<std::function<void()>> ends;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = entries_.find(id);
    if (it != entries_.end()) {
      ends = it->second.ends;
      it->second.waiters.push_back(std::move(done));
      done = nullptr;
    }
  }
  if (done != nullptr) done();
  for (const auto& end : ends) end();
}

}  // namespace pulse::redis
