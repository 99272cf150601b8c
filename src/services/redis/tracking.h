// Tracking: clients that keep values themselves and are to be told when these change (CLIENT
// TRACKING). A client is told of the keys that it has read, each once, or in broadcast mode of all
// keys with its prefixes.
//
// A read registers its keys before it is carried out, and a write tells after it has changed the
// key, while it holds the key's lock (watch.h). So a client that was given an old value is told
// after that. The connection sees to it that it hears of both in this order. A key that expires is
// told of when its time is over; in broadcast mode when the store notices that, to the client that
// wrote it, too: a RocksDB when a command reads the key.
//
// Bounds: keys that are remembered are at most kMostKeys, and take at most kMostBytes with their
// clients; beyond that the client is told at once that the key has changed, so that it does not
// keep it. Clients that are gone are forgotten once half of what is remembered is theirs, or an
// eighth where there is no room. What a client has not taken yet is at most kMostUntaken bytes, and
// again so much with its connection, of all that redirect to it; beyond that it is told that
// everything has changed. What all connections may hold counts this, and where it is short, a
// client has no more than ByteBudget::small() before it is told so.
//
// With REDIRECT another connection is told, in RESP2 as if it had subscribed to a channel.
//
// Threads: Told belongs to its connection, but for what is marked; Tracking is thread-safe. Locks
// are held for an instant. A thread of its own waits for expiries, from the first Start on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "net/byte_budget.h"
#include "services/redis/commands/watch.h"

namespace pulse::redis {

// What a client of RESP2 subscribes to, to be told of another client's keys.
inline constexpr std::string_view kTrackingChannel = "__redis__:invalidate";

struct TrackingOptions {
  bool broadcast = false;
  bool opt_in = false;                // only reads behind CLIENT CACHING YES
  bool opt_out = false;               // all but those behind CLIENT CACHING NO
  bool no_loop = false;               // not of its own writes
  std::vector<std::string> prefixes;  // of broadcast: what its keys begin with
  uint64_t redirect = 0;              // the client that is told instead
};

// What one client is to be told.
class Told : public std::enable_shared_from_this<Told> {
 public:
  static constexpr size_t kMostUntaken = size_t{1} << 20;

  // `notify` is called when there is something, by any thread, once until Take.
  using Notify = std::function<void(std::shared_ptr<Told>)>;
  // `budget`: what it has is counted there; null: nowhere.
  Told(uint64_t id, TrackingOptions options, Notify notify,
       std::shared_ptr<net::ByteBudget> budget = nullptr)
      : id_(id),
        options_(std::move(options)),
        notify_(std::move(notify)),
        budget_(std::move(budget)) {}

  struct Changes {
    bool all = false;
    std::vector<std::string> keys;
  };
  // Any thread. `bytes`: what they take, about.
  Changes Take(size_t* bytes = nullptr);
  // What is told together, as in Redis: each key by itself; in broadcast mode those of a prefix,
  // each once.
  std::vector<std::vector<std::string>> GroupsOf(const Changes& changes) const;
  uint64_t id() const { return id_; }
  const TrackingOptions& options() const { return options_; }
  // Asks again for what was not taken, as who was to take it has ended; `of_all`: what it had taken
  // is lost.
  void NotifyAgain(bool of_all);
  // The client that it was redirected to is no more. Any thread.
  void Break() { broken_.store(true, std::memory_order_relaxed); }
  bool broken() const { return broken_.load(std::memory_order_relaxed); }

 private:
  friend class Tracking;
  void Add(std::string_view key);
  void AddAll();
  void NotifySoon();
  bool Wants(std::string_view key) const;
  void Count(size_t bytes);

  const uint64_t id_;
  const TrackingOptions options_;
  const Notify notify_;
  const std::shared_ptr<net::ByteBudget> budget_;
  std::atomic<bool> broken_{false};
  std::mutex mutex_;
  Changes changes_;
  size_t bytes_ = 0;
  size_t counted_ = 0;  // of them, in share_
  net::BudgetShare share_;
  bool notified_ = false;
};

class Tracking final : public KeyListener {
 public:
  static constexpr size_t kMostKeys = 1'000'000;
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  explicit Tracking(uint64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}
  ~Tracking() override;
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;

  // Tells `who` from now on; one of the same id is replaced.
  absl::Status Start(std::shared_ptr<Told> who);
  void Stop(uint64_t id);
  // A client has ended, which others may have redirected to. `owed`: it was not told of all that it
  // had taken for them.
  void EndRedirection(uint64_t id, bool owed = false);
  // Of a client not in broadcast mode: it is about to read these.
  void Remember(const std::shared_ptr<Told>& who, std::string_view key);
  // As if the key had changed.
  void Tell(const std::shared_ptr<Told>& who, std::string_view key) { who->Add(key); }
  // A key that is remembered expires then; 0: never. The earliest of several counts, until it
  // changes.
  void NoteExpiry(std::string_view key, int64_t expires_ms);

  bool active() const override { return clients_now_.load(std::memory_order_seq_cst) > 0; }
  void OnChange(std::string_view key, bool by_client) override;
  void OnExpiry(std::string_view key) override;
  void OnClear() override;

  struct Numbers {
    size_t clients = 0;
    size_t keys = 0;
    size_t items = 0;  // keys of clients
    size_t prefixes = 0;
  };
  Numbers numbers() const;

  // Who the calling thread carries out commands for, as long as it lives. At its end the clients
  // are notified that have something then, so that they are told of it together.
  class Writing {
   public:
    explicit Writing(uint64_t client) : client_(client), before_(std::exchange(current(), this)) {}
    ~Writing();
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

   private:
    friend class Told;
    friend class Tracking;
    static Writing*& current() {
      thread_local Writing* writing = nullptr;
      return writing;
    }
    static uint64_t client() { return current() == nullptr ? 0 : current()->client_; }
    const uint64_t client_;
    Writing* const before_;
    std::vector<std::shared_ptr<Told>> told_;
  };

 private:
  struct Entry {
    absl::flat_hash_set<uint64_t> clients;
    int64_t expires_ms = 0;
  };
  // Looked up without a copy of the key.
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
  };
  using Keys = std::unordered_map<std::string, Entry, KeyHash, std::equal_to<>>;

  static uint64_t BytesOf(std::string_view key) { return 192 + key.size(); }
  static constexpr uint64_t kClientBytes = 24;  // of an entry's clients, each
  struct Client {
    std::shared_ptr<Told> told;
    size_t items = 0;
  };
  void Count(const Told& told, int change);
  Keys::iterator Drop(Keys::iterator it);
  void Forget(Keys::iterator it, bool own_too);
  void TellBroadcasts(std::string_view key, bool own_too);
  void ForgetAll();
  // Clients that are gone. Costs as much as there are keys.
  void ForgetGone();
  void RunExpiries();

  const uint64_t most_bytes_;
  std::atomic<size_t> clients_now_{0};
  mutable std::mutex mutex_;
  std::map<uint64_t, Client> clients_;
  std::atomic<size_t> broadcasts_{0};  // of them
  std::atomic<size_t> redirections_{0};
  Keys keys_;
  size_t items_ = 0;
  uint64_t bytes_ = 0;
  size_t gone_items_ = 0;  // about so many are of clients that are gone
  std::set<std::pair<int64_t, const std::string*>> expiries_;  // of entries
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pulse::redis
