// OffloadFlow: one client's connection to an OffloadedResp, and Reader, one read of it. See
// offload_resp.h for what is answered here, and in which order. Private to offload_*.
//
// offload_flow.cc has what is forwarded, and what the connection is to the host; offload_reads.cc
// the reads, and what waits for them.
//
// Threads: the connection's loop, but for Reader::Read. Nothing else blocks.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/redis/commands.h"
#include "services/redis/offload_shared.h"
#include "services/redis/value.h"

namespace pulse::redis {

// May be answered by an agent.
bool AnsweredHere(Command command);

enum class Outcome {
  kAnswered,
  kDirty,
  kChanged,
  kNoView,
  kNotInMemory,
  kHostsClock,
};

// One read: checked, read, checked again, and written as the host would write it. What is known of
// its keys already (value_cache.h) is not read.
class Reader {
 public:
  explicit Reader(OffloadShared* shared) : shared_(shared) {}

  // kAnswered: may be read.
  Outcome Begin(const std::vector<std::string_view>& keys);
  // Waits for the device; any thread.
  void Read(const std::vector<std::string_view>& keys) { Fetch(keys, false); }
  // Whether files were read.
  bool ReadNow(const std::vector<std::string_view>& keys) { return Fetch(keys, true); }
  Outcome End(const std::vector<std::string_view>& keys, Command command, int protocol,
              std::string* reply);
  // Nothing had to be read.
  bool known() const { return missing_.empty(); }

  // Of what its keys hold.
  size_t ValueBytes() const;
  // Bytes that it has, those that it keeps for the next read included.
  size_t MemoryHeld() const;
  // Between reads.
  void Free();

 private:
  // What a read was checked with.
  struct Check {
    int64_t now_ms = 0;
    uint64_t validity = 0;
    uint64_t everything = 0;
    std::vector<uint64_t> hashes;
    std::vector<DirtyTable::Version> versions;
    std::vector<uint64_t> words;  // of what is missing
  };
  struct Entry {
    bool exists = false;
    Value value;
  };

  bool Fetch(const std::vector<std::string_view>& keys, bool now);
  bool Unchanged() const;
  void Keep(const std::vector<std::string_view>& keys) const;
  void Write(Command command, ReplyWriter* reply) const;
  int64_t Time(Command command, const Entry& entry) const;

  OffloadShared* const shared_;
  Check check_;
  std::vector<size_t> missing_;  // which are not known
  std::vector<std::string> values_;
  std::vector<ReadView::Found> found_;
  std::vector<Entry> entries_;
};

class OffloadFlow final : public director::Flow {
 public:
  OffloadFlow(std::shared_ptr<OffloadShared> shared, director::Connection* connection)
      : shared_(std::move(shared)),
        connection_(connection),
        requests_(shared_->options.limits),
        replies_(shared_->options.limits),
        permitted_(!shared_->options.needs_auth),
        reader_(shared_.get()) {}
  ~OffloadFlow() override;

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    requests_.set_authenticated(IsKnown() || !shared_->wants_password.load(kRelaxed) || IsAsking());
    return requests_.Next(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return replies_.Next(bytes);
  }
  std::string ErrorReply(const absl::Status& error) override { return ErrorLine(error); }

  void OnRequest(director::Ticket ticket, std::string_view bytes) override;
  void OnRequestsEnd() override {
    Submit();
    Trim();
  }
  void OnRoom() override;
  void OnHostReply(director::Ticket ticket, std::string_view bytes, bool last,
                   std::string* out) override;
  std::string OnHostLost(director::Ticket ticket, bool sent) override;
  Preface HostPreface() override;
  absl::Status OnPreface(std::string_view bytes) override;
  void OnHostClosed() override;

  // Bytes that are kept from one request for the next.
  size_t MemoryKept() const;

 private:
  using Ticket = director::Ticket;
  using Slot = DirtyTable::Slot;

  // What the host has to be told of the client on each connection.
  struct Said {
    std::string bytes;
    int what = 0;
  };
  static constexpr int kProtocol = 1, kUser = 2, kName = 4;
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // What a key holds as of `version`, if the host accepts the SET.
  struct Written {
    uint64_t hash = 0;
    std::string key;
    std::string stored;
    DirtyTable::Version version;
    size_t bytes() const { return sizeof(*this) + key.size() + stored.size(); }
  };
  struct Forwarded {
    Ticket ticket = 0;
    const CommandInfo* command = nullptr;
    std::vector<Slot> slots;           // marked
    std::unique_ptr<Written> written;  // for the cache; often none
    Said said;                         // what it says of the connection, if accepted
    int protocol = 0;                  // that HELLO asks for; 0: none
    bool append_info = false;
    bool began_multi = false;  // a MULTI outside of any other
  };
  // A read, or a write behind reads.
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
    Reader reader;
  };
  struct Batch {
    uint64_t id = 0;
    std::vector<BatchRead> reads;
  };

  // offload_reads.cc
  bool MayAnswer(const CommandInfo* command);
  bool MayHold(const CommandInfo* command) const;
  void Take(Ticket ticket, std::string_view bytes, const CommandInfo* command, bool read);
  void Hold(Ticket ticket, std::string_view bytes, const CommandInfo* command, bool read);
  Waiting PopFront();
  Outcome TryNow(const CommandInfo& command, const Request& request, std::string* reply);
  void CountReason(Outcome outcome);
  void Trim();
  void Pump();
  size_t FewBeforeCommand() const;
  bool ForwardHeld();
  void Submit();
  Outcome Gather(Batch* batch);
  void BatchDone(Batch* batch);
  bool ForwardAll(std::atomic<uint64_t>* reason);
  void ForwardFront();
  void ForwardRead(Ticket ticket, std::string_view bytes, const CommandInfo* command);

  static constexpr std::string_view kTooManyWrites =
      "-ERR too many writes of one key are under way; try again\r\n";
  // False when it is not forwarded: the connection has to be closed, with kTooManyWrites.
  bool ForwardCommand(Ticket ticket, std::string_view bytes, const CommandInfo* command);
  void ForwardRenamed(Ticket ticket);
  void NoteState(std::string_view bytes, Forwarded* forwarded);
  void Queue(const std::vector<Slot>& slots);
  void SortQueued();
  void DropQueued();
  void MultiFailed(const Forwarded& command);
  void Accepted(const Forwarded& command, std::string_view reply);
  void Remember(const Said& said);
  bool SlotsOf(const CommandInfo* command, std::vector<Slot>* slots);
  // The host has let it do something.
  bool IsKnown() const { return permitted_ || accepted_ || !said_.empty(); }
  // An AUTH is on its way to the host.
  bool IsAsking() const;
  std::unique_ptr<Written> WorthKeeping(const CommandInfo* command);
  bool MarkAll(const std::vector<Slot>& slots, DirtyTable::Version* alone);
  void KeepWritten(const Forwarded& command, std::string_view reply);
  void Settle(const std::vector<Slot>& slots);
  void Refuse(const std::vector<Slot>& slots);
  void Lose(Forwarded* command, bool sent);
  void Fence();

  const std::shared_ptr<OffloadShared> shared_;
  director::Connection* const connection_;
  RequestSplitter requests_;
  ReplySplitter replies_;
  Request request_;
  bool accepted_ = false;  // the host has carried out a command of the client as it is
  bool permitted_;
  int protocol_ = 2;
  bool multi_ = false;
  bool watching_ = false;
  Ticket last_multi_ = 0;
  // Of writes that EXEC will carry out; the first `queued_sorted_` are sorted, none of them twice.
  std::vector<Slot> queued_slots_;
  size_t queued_sorted_ = 0;
  bool queued_everything_ = false;  // too many: none is kept
  Reader reader_;
  std::vector<std::string_view> keys_;
  std::string reply_;

  std::deque<Forwarded> forwarded_;  // not answered, in order
  size_t written_bytes_ = 0;         // of values that these may have kept
  std::deque<Waiting> waiting_;      // in order
  size_t waiting_bytes_ = 0;
  bool missed_ = false;  // the first of these is not in memory
  uint64_t batch_ = 0;   // that the pool has; 0: none
  uint64_t last_batch_ = 0;

  // The host's connection.
  std::string host_id_;
  bool host_known_ = false;  // the host has it by that id; nothing was sent before
  std::vector<Slot> lost_;
  std::vector<Said> said_;  // and was accepted, in its order
};

}  // namespace pulse::redis
