// What a server knows of one connection, and of all of them.
//
// A Session is used by one thread at a time: the connection's loop, or the pool's thread that its
// commands were given to. Clients and Fences are thread-safe; their critical sections are short.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/byte_budget.h"
#include "services/redis/acl/acl_users.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/commands.h"
#include "services/redis/commands/watch.h"
#include "services/redis/tracking.h"

namespace pulse::redis {

// A connection as CLIENT LIST shows it.
struct ClientFacts {
  uint64_t id = 0;
  std::string peer;
  std::string local;  // the server's end of the connection
  std::string name;
  std::string library;
  std::string library_version;
  std::string user = "default";
  uint64_t user_id = 0;  // AclUser::id; 0: nobody yet
  int64_t since_ms = 0;
  int protocol = 2;
  bool tracking = false;
  uint64_t redirect = 0;  // of tracking
  bool redirect_broken = false;
  bool subscribed = false;
  // The last command; null: none yet. All copies of these facts have the same.
  std::shared_ptr<std::atomic<const CommandInfo*>> command =
      std::make_shared<std::atomic<const CommandInfo*>>(nullptr);
};

// A line of CLIENT LIST.
std::string ClientLine(const ClientFacts& facts, int64_t now_ms);

// What a client may call itself, and its library: it is shown in lists of one line each, and kept
// for each client.
inline constexpr size_t kMostNameBytes = 1024;
bool IsClientName(std::string_view name);

// Ids ascend, and are of this run: one of an earlier run, which a client behind an agent may still
// have, names nobody. They stay below 2^53 until 2255.
class Clients {
 public:
  Clients() : last_id_(static_cast<uint64_t>(ClockNanos(CLOCK_REALTIME)) / 1000) {}
  // `end` as Session::end; null: it cannot be ended from here. `notify` as Session::notify.
  uint64_t Add(ClientFacts facts, std::function<void()> end, Told::Notify notify);
  void Set(const ClientFacts& facts);
  void Remove(uint64_t id);
  std::vector<ClientFacts> List() const;
  // Ends one, which is no longer listed. False: there is none of this id, or it cannot be ended.
  bool End(uint64_t id);
  bool Has(uint64_t id) const;
  // Gives one the messages of another. False: there is none of this id, or it takes none.
  bool Notify(uint64_t id, std::shared_ptr<Told> told);
  size_t size() const;
  // What List takes, and lines of it (ClientLine), about.
  uint64_t list_bytes() const;

 private:
  static uint64_t ListBytesOf(const ClientFacts& facts);
  struct Client {
    ClientFacts facts;
    std::function<void()> end;
    Told::Notify notify;
  };
  mutable std::mutex mutex_;
  uint64_t last_id_;
  std::map<uint64_t, Client> clients_;
  uint64_t list_bytes_ = 0;
};

// Connections by the id that PULSE.HELLO gave them, and who waits for their end (PULSE.FENCE).
class Fences {
 public:
  // Present as long as it lives: with the connection, and with each piece of its work.
  class Token {
   public:
    Token(Fences* fences, std::string id) : fences_(fences), id_(std::move(id)) {}
    ~Token() { fences_->Leave(id_); }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    const std::string& id() const { return id_; }

   private:
    Fences* fences_;
    std::string id_;
  };
  // `end` is called when somebody waits for the end of connections of this id.
  std::shared_ptr<Token> Enter(std::string_view id, std::function<void()> end);
  // Calls `done`, here or on another thread, once there is no token of `id`. For "*", of any that
  // there is now; for "!PREFIX", of those that do not begin so: a new agent's own are not lost
  // ones.
  void Wait(std::string_view id, std::function<void()> done);

 private:
  void Leave(const std::string& id);
  void WaitForOthers(std::string_view prefix, std::function<void()> done);
  struct Entry {
    size_t tokens = 0;
    std::vector<std::function<void()>> ends;
    std::vector<std::function<void()>> waiters;
  };
  std::mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_;
};

// What the transactions of all connections may keep between them: commands before their EXEC, and
// the keys that they watch. Nothing else would bound it, as nobody has to send an EXEC.
class TransactionMemory {
 public:
  explicit TransactionMemory(uint64_t limit = uint64_t{256} << 20) : limit_(limit) {}
  // False: there is too much already.
  bool Take(uint64_t bytes) {
    uint64_t held = held_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - std::min(limit_, held)) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }
  // What makes it more, for errors; empty: nothing does.
  std::string_view option() const { return option_; }
  // Before anything is taken.
  void SetLimit(uint64_t limit, std::string_view option) {
    limit_ = limit;
    option_ = option;
  }

 private:
  uint64_t limit_;
  std::string_view option_;
  std::atomic<uint64_t> held_{0};
};

struct Session {
  Session(WatchTable* table, TransactionMemory* memory, bool is_private)
      : private_listener(is_private), transactions(memory), watches(table) {}
  ~Session() {
    EndMulti();
    StopTracking();
  }

  const bool private_listener;
  ClientFacts facts;
  AclUsers::User user;  // null: AUTH comes first
  uint64_t users_version = 0;
  std::atomic<bool> authenticated{false};
  int protocol = 2;
  std::shared_ptr<Fences::Token> fence;
  std::function<void()> end;       // ends the connection; thread-safe
  std::atomic<bool> ended{false};  // it was called: nothing more of the client is carried out
  // Called with what the client is to be told; thread-safe. Null: the connection takes no such
  // messages.
  Told::Notify notify;
  // Of what connections hold; null: its replies are bounded elsewhere.
  std::shared_ptr<net::ByteBudget> buffers;

  // CLIENT TRACKING.
  Tracking* tracking = nullptr;
  std::shared_ptr<Told> told;  // null: nothing is tracked
  enum class Caching { kUnsaid, kYes, kNo };
  Caching caching = Caching::kUnsaid;  // CLIENT CACHING, for the next command
  // CLIENT REPLY.
  bool replies_off = false;
  int skip_replies = 0;  // of so many commands, the one that is under way counted

  // A client of RESP2 that has subscribed may do little else.
  bool hears_alone() const { return facts.subscribed && protocol < 3; }

  void StopTracking() {
    if (told != nullptr) tracking->Stop(facts.id);
    told.reset();
    facts.tracking = false;
    facts.redirect = 0;
    facts.redirect_broken = false;
    caching = Caching::kUnsaid;
  }

  struct Queued {
    std::string bytes;
    Request request;
    const CommandInfo* command;
    // While EXEC carries it out.
    bool remembered = false;  // its keys, for a client that tracks, before anything was done
    bool has_run = false;     // was let through
    bool is_tracked = false;  // what it read, as the client had it when this was done
  };
  TransactionMemory* const transactions;
  bool in_multi = false;
  bool broken_multi = false;  // a command could not be queued
  std::vector<std::unique_ptr<Queued>> queue;
  uint64_t queued_bytes = 0;
  WatchTable::Set watches;

  // `version`: of the users, before it was asked for.
  void SetUser(AclUsers::User who, uint64_t version) {
    user = std::move(who);
    users_version = version;
    facts.user = user == nullptr ? "default" : user->name();
    facts.user_id = user == nullptr ? 0 : user->id();
    authenticated.store(user != nullptr, std::memory_order_relaxed);
  }
  // Whether it may keep so much more for a transaction. A little is always there for everybody.
  bool TryReserve(uint64_t more) {
    const uint64_t kept = queued_bytes + watches.bytes() + more;
    const uint64_t counted = kept > kAlwaysKept ? kept - kAlwaysKept : 0;
    if (counted <= counted_) return true;
    if (!transactions->Take(counted - counted_)) return false;
    counted_ = counted;
    return true;
  }
  // Whether so much more would be too much, even if nobody else kept anything.
  bool NeverFits(uint64_t more) const {
    return queued_bytes + watches.bytes() + more > kAlwaysKept + transactions->limit();
  }
  // It keeps less now.
  void ReleaseUnused() {
    const uint64_t kept = queued_bytes + watches.bytes();
    const uint64_t counted = kept > kAlwaysKept ? kept - kAlwaysKept : 0;
    if (counted >= counted_) return;
    transactions->Give(counted_ - counted);
    counted_ = counted;
  }
  void Unwatch() {
    watches.Clear();
    ReleaseUnused();
  }
  // EXEC will refuse it.
  void BreakMulti() {
    broken_multi = true;
    queue.clear();
    queued_bytes = 0;
    ReleaseUnused();
  }
  void EndMulti() {
    BreakMulti();
    in_multi = broken_multi = false;
    Unwatch();
  }

 private:
  static constexpr uint64_t kAlwaysKept = uint64_t{16} << 10;
  uint64_t counted_ = 0;  // taken from `transactions`
};

}  // namespace pulse::redis
