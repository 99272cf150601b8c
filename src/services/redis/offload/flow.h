// OffloadFlow: one client's connection to an OffloadedResp, and CheckedRead, one read of it. See
// offload_resp.h for what is answered here, and in which order. Private to offload_*.
//
// offload_flow.cc has what is forwarded, and what the connection is to the host; offload_reads.cc
// the reads, and what waits for them.
//
// Threads: the connection's loop, but for CheckedRead::Read. Nothing else blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/redis/commands/commands.h"
#include "services/redis/commands/value.h"
#include "services/redis/offload/shared.h"

namespace pulse::redis {

// May be answered by an agent.
bool IsOffloadable(Command command);

enum class Outcome {
  kAnswered,
  kDirty,
  kChanged,
  kNoView,
  kNotInMemory,
  kHostsClock,
};

// One read of keys: checks that they are clean, reads them, checks that they are unchanged, and
// writes the reply that the host would write. Values that the cache has (value_cache.h) are not
// read.
class CheckedRead {
 public:
  explicit CheckedRead(OffloadShared* shared) : shared_(shared) {}

  // The first check. kAnswered: the keys may be read.
  Outcome Begin(const std::vector<std::string_view>& keys);
  // Reads what the cache lacks, and waits for the device; any thread.
  void Read(const std::vector<std::string_view>& keys) { Fetch(keys, false); }
  // Reads what is in memory, without waiting. Returns whether files were read.
  bool ReadNow(const std::vector<std::string_view>& keys) { return Fetch(keys, true); }
  Outcome End(const std::vector<std::string_view>& keys, Command command, int protocol,
              std::string* reply);
  // The cache has all values.
  bool known() const { return missing_.empty(); }

  // Bytes of the values that were found.
  size_t ValueBytes() const;
  // Bytes that it holds, spare capacity for the next read included.
  size_t MemoryHeld() const;
  // Gives that memory back; between reads only.
  void Free();

 private:
  // The state that the first check saw, for the second one to compare with.
  struct Check {
    int64_t now_ms = 0;
    uint64_t validity = 0;
    uint64_t everything = 0;
    std::vector<uint64_t> hashes;
    std::vector<DirtyTable::Version> versions;
    std::vector<uint64_t> words;  // of the dirty table, for missing keys
  };
  struct Entry {
    bool exists = false;
    Value value;
  };

  bool Fetch(const std::vector<std::string_view>& keys, bool now);
  bool Unchanged() const;
  void CacheResults(const std::vector<std::string_view>& keys) const;
  void Write(Command command, ReplyWriter* reply) const;
  int64_t ExpiryReply(Command command, const Entry& entry) const;

  OffloadShared* const shared_;
  Check check_;
  std::vector<size_t> missing_;  // indexes of keys that the cache lacks
  std::vector<std::string> values_;
  std::vector<ReadView::Found> found_;
  std::vector<Entry> entries_;
};

class OffloadFlow final : public net::Flow {
 public:
  OffloadFlow(std::shared_ptr<OffloadShared> shared, net::Connection* connection)
      : shared_(std::move(shared)),
        connection_(connection),
        requests_(shared_->options.limits),
        replies_(shared_->options.limits),
        may_read_(!shared_->options.needs_auth),
        reader_(shared_.get()) {}
  ~OffloadFlow() override;

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    requests_.set_authenticated(IsAuthenticated() || !shared_->wants_password.load(kRelaxed) ||
                                HasPendingAuth());
    return requests_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return replies_.Next(bytes);
  }
  std::string ErrorReply(const absl::Status& error) override { return ErrorLine(error); }

  void OnRequest(net::Ticket ticket, std::string_view bytes) override;
  void OnRequestsEnd() override {
    SubmitBatch();
    ReleaseExcessMemory();
  }
  void OnRoom() override;
  void OnHostReply(net::Ticket ticket, std::string_view bytes, bool last,
                   std::string* out) override;
  std::string OnHostLost(net::Ticket ticket, bool sent) override;
  Preface HostPreface() override;
  absl::Status OnPreface(std::string_view bytes) override;
  void OnHostClosed() override;

  // Bytes that are kept from one request for the next.
  size_t MemoryKept() const;

 private:
  using Ticket = net::Ticket;
  using Slot = DirtyTable::Slot;

  // A command that changes the connection's state at the host, and so is repeated at the start of
  // each new connection to it.
  struct SetupCommand {
    std::string bytes;
    int aspects = 0;          // that it sets: bits of the following
    bool names_user = false;  // though another one may have come since
  };
  static constexpr int kProtocol = 1, kUser = 2, kName = 4;
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // The value that a SET gives its key as of `version`, if the host accepts it.
  struct CacheableWrite {
    uint64_t hash = 0;
    std::string key;
    std::string stored;
    DirtyTable::Version version;
    size_t bytes() const { return sizeof(*this) + key.size() + stored.size(); }
  };
  struct Forwarded {
    Ticket ticket = 0;
    const CommandInfo* command = nullptr;
    std::vector<Slot> slots;                    // marked in the dirty table
    std::unique_ptr<CacheableWrite> cacheable;  // null: nothing to cache
    SetupCommand setup;                         // to repeat, once it is accepted
    int protocol = 0;                           // that HELLO asks for; 0: none
    bool append_info = false;
    bool began_multi = false;  // a MULTI outside of any other
  };
  // A read that waits for the host or the device, or a write behind such reads.
  struct Waiting {
    Ticket ticket = 0;
    std::string bytes;
    const CommandInfo* command = nullptr;
    bool read = false;
  };
  struct BatchRead {
    Ticket ticket;
    Command command;
    std::vector<std::string> keys;
    CheckedRead reader;
  };
  struct Batch {
    uint64_t id = 0;
    std::vector<BatchRead> reads;
  };

  // offload_reads.cc
  bool CanAnswer(const CommandInfo* command);
  bool CanWait(const CommandInfo* command) const;
  void HandleKeyCommand(Ticket ticket, std::string_view bytes, const CommandInfo* command,
                        bool read);
  void EnqueueWaiting(Ticket ticket, std::string_view bytes, const CommandInfo* command, bool read);
  Waiting PopFront();
  Outcome TryAnswer(const CommandInfo& command, const Request& request, std::string* reply);
  void CountReason(Outcome outcome);
  void ReleaseExcessMemory();
  void DrainWaiting();
  size_t CountReadsBeforeWrite() const;
  bool ForwardWaitingWrite();
  void SubmitBatch();
  Outcome FillBatch(Batch* batch);
  void FinishBatch(Batch* batch);
  bool ForwardAllWaiting(std::atomic<uint64_t>* reason);
  void ForwardWaitingRead();
  void ForwardRead(Ticket ticket, std::string_view bytes, const CommandInfo* command);

  static constexpr std::string_view kTooManyWrites =
      "-ERR too many writes of one key are under way; try again\r\n";
  // False when it is not forwarded: the connection has to be closed, with kTooManyWrites.
  bool ForwardCommand(Ticket ticket, std::string_view bytes, const CommandInfo* command);
  void ForwardRenamed(Ticket ticket);
  void RecordConnectionState(std::string_view bytes, Forwarded* forwarded);
  void QueueSlots(const std::vector<Slot>& slots);
  void SortQueued();
  void DropQueued();
  void CancelMulti(const Forwarded& command);
  void ApplyAccepted(const Forwarded& command, std::string_view reply);
  std::deque<Forwarded>::iterator FindForwarded(Ticket ticket);
  void RememberSetup(const SetupCommand& setup);
  bool SlotsWrittenBy(const CommandInfo* command, std::vector<Slot>* slots);
  bool MayRead() const {
    return may_read_ &&
           (!shared_->options.needs_auth || permitted_run_ == shared_->run.load(kRelaxed));
  }
  // The host has accepted a command of this client, so that it is no stranger.
  bool IsAuthenticated() const { return may_read_ || accepted_ || !setup_commands_.empty(); }
  // An AUTH was forwarded and is not answered yet.
  bool HasPendingAuth() const;
  std::unique_ptr<CacheableWrite> PrepareCacheableWrite(const CommandInfo* command);
  bool MarkAll(const std::vector<Slot>& slots, DirtyTable::Version* alone);
  void CacheWrite(const Forwarded& command, std::string_view reply);
  void SettleMarks(const std::vector<Slot>& slots);
  void RefuseMarks(const std::vector<Slot>& slots);
  void AbandonCommand(Forwarded* command, bool sent);
  void FenceLostWrites();

  const std::shared_ptr<OffloadShared> shared_;
  net::Connection* const connection_;
  RequestSplitter requests_;
  ReplySplitter replies_;
  Request request_;
  bool accepted_ = false;  // the host has carried out a command of the client as its user
  bool may_read_;
  uint64_t run_ = 0;            // the host's, of this connection to it
  uint64_t permitted_run_ = 0;  // ... that has let it read
  int protocol_ = 2;
  bool multi_ = false;
  bool watching_ = false;
  Ticket last_multi_ = 0;
  // Slots that EXEC will write; the first `queued_sorted_` are sorted and unique.
  std::vector<Slot> queued_slots_;
  size_t queued_sorted_ = 0;
  bool queued_everything_ = false;  // too many: none is kept
  CheckedRead reader_;
  std::vector<std::string_view> keys_;
  std::string reply_;

  std::deque<Forwarded> forwarded_;  // commands that the host has not answered, in order
  size_t cacheable_bytes_ = 0;       // of their cacheable writes
  std::deque<Waiting> waiting_;      // in order
  size_t waiting_bytes_ = 0;
  bool front_missed_ = false;  // the first of these has to wait for the device
  uint64_t batch_ = 0;         // id of the batch that the pool reads; 0: none
  uint64_t last_batch_ = 0;

  // The connection to the host: its id for fences.
  std::string host_id_;
  bool host_known_ = false;  // the host knows the id; nothing is sent before
  std::vector<Slot> lost_;
  std::vector<SetupCommand> setup_commands_;  // accepted, in order
};

}  // namespace pulse::redis
