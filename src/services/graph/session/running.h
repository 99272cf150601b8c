// What runs on a database now: transactions with their ids, who began them and their present query.
// SHOW TRANSACTIONS reads it, TERMINATE TRANSACTIONS ends them.
//
// Threads: any, for both classes; critical sections are short. The list outlives its entries.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "services/graph/session/caller.h"

namespace pulse::cypher {

struct RunningFacts {
  uint64_t number = 0;
  std::string id;  // "transaction-7"
  Caller caller;
  std::string query;  // the present one; empty: between two
  uint64_t query_number = 0;
  int64_t began_wall_nanos = 0;  // since 1970
  int64_t began_nanos = 0;       // monotonic
  bool terminated = false;
};

class RunningList;

// Listed as long as it lives.
class RunningEntry {
 public:
  RunningEntry(RunningList* list, const Caller& caller) : list_(list), caller_(caller) {}
  ~RunningEntry();
  RunningEntry(const RunningEntry&) = delete;
  RunningEntry& operator=(const RunningEntry&) = delete;

  std::string id() const;
  // Set when somebody has ended it: what the engine looks at.
  const std::atomic<bool>* terminated() const { return &terminated_; }
  bool is_terminated() const { return terminated_.load(std::memory_order_relaxed); }
  // Monotonic; 0: none.
  int64_t deadline() const { return deadline_; }
  bool is_late() const;
  int64_t began_wall_nanos() const { return began_wall_nanos_; }
  // `text` stays until EndQuery, or the end of this.
  void BeginQuery(std::string_view text);
  void EndQuery();

 private:
  friend class RunningList;
  RunningFacts FactsLocked() const;

  RunningList* const list_;
  const Caller caller_;
  // Constant once it is in the list.
  uint64_t number_ = 0;
  int64_t began_wall_nanos_ = 0, began_nanos_ = 0, deadline_ = 0;
  // Guarded by the list's mutex. Neighbours in the list, in which numbers ascend.
  RunningEntry* before_ = nullptr;
  RunningEntry* after_ = nullptr;
  std::string_view query_;
  uint64_t query_number_ = 0;
  std::atomic<bool> terminated_{false};
  std::function<void()> on_terminate_;
};

class RunningList {
 public:
  // `clock`: monotonic, in nanoseconds.
  explicit RunningList(std::function<int64_t()> clock = NowNanos) : clock_(std::move(clock)) {}

  // `timeout_nanos`: after which Sweep ends it; 0: never. `began`: on the clock; 0: now.
  std::unique_ptr<RunningEntry> Add(const Caller& caller, int64_t timeout_nanos, int64_t began = 0);
  int64_t Now() const { return clock_(); }
  // By number. Of others too if the caller may.
  std::vector<RunningFacts> List(const Caller& caller) const;

  // How many there are, and for how long the oldest has been there.
  struct Open {
    uint64_t count = 0;
    int64_t oldest_nanos = 0;
  };
  Open open() const;

  enum class Ended { kDone, kNoSuch, kForbidden };
  Ended Terminate(std::string_view id, const Caller& caller);
  // What somebody else has to do when it is ended, such as to roll back what waits for its client.
  // Called on any thread, maybe after the entry has gone: it must only post.
  void OnTerminate(RunningEntry* entry, std::function<void()> tell);
  // Ends what is past its deadline. To be called now and then where transactions wait for clients.
  void Sweep(int64_t now);

 private:
  friend class RunningEntry;
  // What to call outside of the lock; may be null.
  static std::function<void()> End(RunningEntry* entry);

  const std::function<int64_t()> clock_;
  mutable std::mutex mutex_;
  uint64_t last_ = 0;
  uint64_t last_query_ = 0;
  uint64_t count_ = 0;
  // Every statement enters and leaves: the list is made of the entries themselves.
  RunningEntry* oldest_ = nullptr;
  RunningEntry* newest_ = nullptr;
};

}  // namespace pulse::cypher
