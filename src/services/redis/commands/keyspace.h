// Keyspace: what holds the keys, as the server of Redis's protocol sees it. `pulse serve` has them
// in a RocksDB (store.h), `pulse kv` in memory (services/kv). Commands (handlers.h) read and write
// through a View, so that they are written once.
//
// Threads: a keyspace is thread-safe; a view belongs to one thread at a time. Blocking: with
// `may_block` false, what would have to wait says kWouldBlock and has done nothing; the caller runs
// it again where it may wait. Errors: what a client did wrong becomes a reply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "rocksdb/slice.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/commands.h"
#include "services/redis/commands/plain_batch.h"
#include "services/redis/commands/value.h"
#include "services/redis/commands/watch.h"

namespace pulse::redis {

using Arguments = std::vector<std::string_view>;

// Counted by one thread, added to the server's now and then.
struct CommandCounts {
  uint64_t commands = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t waited = 0;  // commands that had to leave their loop
};

// What bounds a command's work.
struct KeyspaceLimits {
  uint64_t max_value = uint64_t{32} << 20;  // bytes that APPEND and the like may make
  // Of one reply of many keys or values, and of a transaction's; beyond it, an error instead.
  uint64_t max_reply = uint64_t{128} << 20;
};

// A key's value as a command finds it. Valid until the next call of the view that writes, or until
// the command's end.
struct Found {
  bool exists = false;
  Value value;
  rocksdb::PinnableSlice pin;  // may hold `value.data`
};

// What a command reads and writes through: the keys, and in a transaction what the commands before
// it have written. A call that returns false ends the command: it would block, or failed.
class View {
 public:
  virtual ~View() = default;
  virtual bool Get(std::string_view key, Found* found) = 0;
  // All at one point in time. Beyond about `most_bytes` of values it reads no more, and `found` has
  // fewer than `count`, but at least one.
  virtual bool GetMany(const std::string_view* keys, size_t count, std::vector<Found>* found,
                       uint64_t most_bytes) = 0;
  // Whether all calls of the view see one point in time, until it writes.
  virtual bool holds_still() const { return false; }
  // How many exist, one that is named twice counted twice, at one point in time.
  virtual bool CountExisting(const std::string_view* keys, size_t count, size_t* existing) = 0;
  virtual void Put(std::string_view key, std::string_view data, int64_t expires_ms) = 0;
  // The same, of a value that is made from `before`, of this key or another: it keeps the expiry of
  // that, and memcached's flags where the store has them.
  virtual void PutFrom(const Found& before, std::string_view key, std::string_view data) {
    Put(key, data, before.exists ? before.value.expires_ms : kNever);
  }
  virtual void Delete(std::string_view key) = 0;
  // For a command that changes the expiry alone of a key: as Get, but the value may be missing; and
  // the change, after that call.
  virtual bool GetExpiry(std::string_view key, Found* found) { return Get(key, found); }
  virtual void SetExpiry(std::string_view key, const Found& found, int64_t expires_ms) {
    Put(key, found.value.data, expires_ms);
  }
  // All keys.
  virtual bool Clear() = 0;

  using UseKey = std::function<bool(std::string_view key)>;
  // Calls `use` for the keys that begin with `prefix`, while it returns true.
  virtual bool ForEachKey(std::string_view prefix, const UseKey& use) = 0;
  // One step of a SCAN from `cursor` on, over about `count` keys; `use` takes its key, and says
  // whether there is room for more.
  // `next` is 0 at the end. `known` false: it has not given this cursor, or has forgotten it, and
  // cannot go on from it.
  virtual bool ScanStep(uint64_t cursor, std::string_view prefix, int64_t count, const UseKey& use,
                        uint64_t* next, bool* known) = 0;
  virtual bool CountKeys(uint64_t* count) = 0;
  // Some key, or none.
  virtual bool ChooseKey(std::optional<std::string>* key) = 0;
  // How often a key was used, 0 to 255, where that is counted; and what it takes in memory.
  virtual std::optional<int> UseOf(std::string_view key) { return std::nullopt; }
  virtual std::optional<uint64_t> MemoryOf(std::string_view key) { return std::nullopt; }

  // Whose keys these are, in cluster mode.
  virtual ClusterNode node() const { return {}; }

  int64_t now_ms() const { return now_ms_; }
  const KeyspaceLimits& limits() const { return limits_; }
  bool blocked() const { return blocked_; }
  // What ended the command, as a reply without its "-"; empty: nothing did.
  const std::string& error() const { return error_; }

 protected:
  View(int64_t now_ms, const KeyspaceLimits& limits) : now_ms_(now_ms), limits_(limits) {}

  bool blocked_ = false;
  std::string error_;

 private:
  const int64_t now_ms_;
  const KeyspaceLimits limits_;
};

// One command under way.
struct Call {
  const CommandInfo& command;
  const Arguments& args;
  View& view;
  ReplyWriter& reply;
  CommandCounts& counts;
};

class Keyspace {
 public:
  virtual ~Keyspace() = default;

  enum class RunResult { kDone, kWouldBlock };
  // A command that reads or writes keys, and whose arity fits. Appends one reply.
  virtual RunResult Run(const CommandInfo& command, const Arguments& args, bool may_block,
                        ReplyWriter* reply, CommandCounts* counts) = 0;

  // Plain GETs that follow each other, read together and each answered: the first ones, as many as
  // have about `most_bytes` of values between them; at least one. `ends` grows by as many as were
  // answered.
  virtual RunResult RunGets(const Request* requests, size_t count, uint64_t most_bytes,
                            bool may_block, ReplyWriter* reply, std::vector<size_t>* ends,
                            CommandCounts* counts) = 0;
  // SETs without options, together; `errors` has one text for each, empty for those carried out.
  virtual RunResult RunSets(absl::Span<const Request* const> sets, bool may_block,
                            absl::Span<std::string> errors) = 0;
  // Carries out the first ones of `batch`, in their order, as long as none would block, or has a
  // value that is too large for it; none where the keyspace has no such thing.
  virtual void RunPlain(PlainBatch* batch, ErrorStats* errors) {}
  virtual bool runs_plain() const { return false; }
  // Whether it pays to collect the SETs of several connections for RunSets.
  virtual bool CollectsSets() const = 0;

  // All commands of a transaction, or none of them: then the reply is the null array, as a watched
  // key has changed. `answer` is asked in each one's turn: true, and it has replied. It does so to
  // what does not concern keys, and to what is refused. Blocks.
  struct Queued {
    const CommandInfo* command;
    const Arguments* args;
  };
  using Answer = std::function<bool(const Queued&, ReplyWriter*)>;
  virtual void RunTransaction(const std::vector<Queued>& commands, const WatchTable::Set& watches,
                              const Answer& answer, ReplyWriter* reply, CommandCounts* counts) = 0;
  // Begins to watch `keys`. False when it would block.
  virtual bool Watch(const std::string_view* keys, size_t count, bool may_block,
                     WatchTable::Set* watches, std::string* error) = 0;

  // How many bytes a key's value has; without one, or where it cannot be known, 0. False when it
  // would block.
  virtual bool SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) {
    *bytes = 0;
    return true;
  }

  // No value has ever had more bytes. 0: that is not known, and SizeOfValue has to read the value,
  // so that it is asked only where room is short.
  virtual uint64_t largest_value() const { return 0; }

  virtual int64_t now_ms() const = 0;
  // The lines of a section of INFO that it knows more of ("memory", "stats", "keyspace", or one of
  // its own, which section_name names).
  virtual void AddInfo(std::string_view section, std::string* out) const = 0;
  virtual std::string_view section_name() const = 0;
  // What CONFIG GET tells of it, by name.
  using Setting = std::pair<std::string_view, std::string>;
  virtual std::vector<Setting> Settings() const = 0;
  // CONFIG SET: an error, or empty.
  virtual std::string Configure(std::string_view name, std::string_view value) {
    return CheckSetting(name, value);
  }
  // The same without its effect: an error where Configure would refuse it.
  virtual std::string CheckSetting(std::string_view name, std::string_view value) const;
  // What bounds the work of its commands; known once it is open.
  virtual const KeyspaceLimits& limits() const = 0;
  // About the largest value that it can hold; known once it is open.
  virtual uint64_t most_value() const { return UINT64_MAX; }
  // CONFIG RESETSTAT: its counters of INFO's "stats" begin anew.
  virtual void ResetCounters() {}

  // Makes what was written durable, where it is to be. Once; no call is under way or follows.
  virtual absl::Status Close() { return absl::OkStatus(); }

  virtual WatchTable* watch_table() { return &watch_; }
  // In cluster mode: the keys of one node's slots, for commands that name no other keys. Lives as
  // long as this.
  virtual Keyspace* Node(int index) { return this; }

 protected:
  // The end of a command: its reply, which begins at `begin`, or the view's error. What would block
  // has done nothing: `before` are the counts then.
  static RunResult EndCommand(const View& view, size_t begin, const CommandCounts& before,
                              ReplyWriter* reply, CommandCounts* counts);
  // The replies to a transaction's commands: `run` carries out what `answer` did not, and false
  // from it ends the transaction. Replies beyond `most_bytes` in all become errors; a
  // write behind them is carried out all the same.
  static bool RunQueued(const std::vector<Queued>& commands, uint64_t most_bytes,
                        const std::function<bool(const Queued&)>& run, const Answer& answer,
                        ReplyWriter* reply, CommandCounts* counts);

  WatchTable watch_;
};

}  // namespace pulse::redis
