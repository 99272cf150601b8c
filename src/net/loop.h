// Loop: one thread of a director, with its poller, its listeners and its connections. What is not
// marked otherwise is called on that thread.
//
// A turn: events, posted work, timers; then each connection that something happened to sends what
// it has (EndTurn), so that what arrived together leaves together; then what has ended is
// destroyed.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "net/address.h"
#include "net/director.h"
#include "net/local_stream.h"
#include "net/mailbox.h"
#include "net/poller.h"
#include "net/signature.h"

namespace pulse::net {

inline constexpr int64_t kMillisecond = 1'000'000;

// What all loops of a director share.
struct DirectorShared {
  DirectorOptions options;
  std::optional<Address> host;
  bool has_host() const { return host.has_value() || options.local_host != nullptr; }
  std::string HostName() const;
  Signature signature;
  std::shared_ptr<ByteBudget> budget;
  std::atomic<uint32_t> connections{0};
};

// Written by one loop, read by anyone.
struct LoopStats {
  enum Counter {
    kSpliced,
    kAccepted,
    kRefused,
    kCut,
    kRequests,
    kForwarded,
    kLost,
    kHostConnections,
    kHostFailures,
    kSplicedBytes,
    kHeld,
    kPauses,
    kConnections,
    kReceivedBytes,
    kSentBytes,
    kCounters
  };
  std::array<std::atomic<uint64_t>, kCounters> values{};
  void Add(Counter counter, uint64_t n = 1) {
    auto& v = values[counter];
    v.store(v.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void Set(Counter counter, uint64_t n) { values[counter].store(n, std::memory_order_relaxed); }
  uint64_t Get(Counter counter) const { return values[counter].load(std::memory_order_relaxed); }
};

// A pipe that bytes are spliced through.
struct Pipe {
  UniqueFd out;
  UniqueFd in;
  size_t size = 0;
  bool valid() const { return in.valid(); }
};

// A connection as its loop knows it.
class Client {
 public:
  virtual ~Client() = default;
  virtual void EndTurn() = 0;
  // Now and then; several times within each of the limits that have a time.
  virtual void Sweep(int64_t now) = 0;
  // The director stops: take nothing new, end when what was taken is answered.
  virtual void Drain() = 0;

 private:
  friend class Loop;
  size_t place_ = 0;
  bool touched_ = false;
  bool touched_next_ = false;
  bool retired_ = false;
  uint64_t held_ = 0;
};

class Loop final : public EventLoop {
 public:
  // Starts the thread, which makes the poller; returns when it listens.
  static absl::StatusOr<std::unique_ptr<Loop>> Start(int index, DirectorShared* shared,
                                                     std::vector<UniqueFd> listeners);
  ~Loop() override;
  // Begins to drain; thread-safe. Join waits for its end.
  void BeginStop();
  void Join();

  void Read(int fd, uint64_t offset, char* data, size_t size,
            std::function<void(int64_t)> done) override;
  void Post(std::function<void()> work) override { mailbox_->Push(std::move(work)); }
  std::shared_ptr<void> Watch(int fd, std::function<void()> ready) override;
  std::shared_ptr<Remote> remote() override;
  // A client of this process.
  void WelcomeLocal(LocalOffer* offer);
  BufferPool* buffers() override;
  int index() const override { return index_; }
  void LookUntil(int64_t nanos) override { poller_->LookUntil(nanos); }
  void SetSpin(int64_t nanos) override { poller_->set_spin_nanos(nanos); }

  Poller* poller() { return poller_.get(); }
  ChunkCache* chunks() { return &chunks_; }
  LocalEnds* local() { return &local_; }
  const DirectorShared& shared() const { return *shared_; }
  const DirectorLimits& limits() const { return shared_->options.limits; }
  LoopStats& stats() { return stats_; }
  const LoopStats& stats() const { return stats_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }
  int64_t cpu_nanos() const;
  // This turn's.
  int64_t now() const override { return now_; }
  bool draining() const { return draining_; }
  // For short-lived text; empty it before use.
  std::string* scratch() { return &scratch_; }

  // EndTurn is due.
  void Touch(Client* client);
  void TouchNext(Client* client);  // for the next turn, so that others have theirs
  // Destroyed at the end of the turn.
  void Retire(Client* client);
  // An empty pipe; not valid when the kernel has none.
  Pipe TakePipe();
  void GivePipe(Pipe pipe);
  // The memory that a connection holds now.
  void Account(Client* client, uint64_t held);
  ByteBudget* budget() const { return shared_->budget.get(); }

  // Whether the host may be tried now; and how it went.
  bool MayTryHost() const { return now_ >= host_retry_at_; }
  void HostFailed(const absl::Status& why);
  void HostReached();

 private:
  Loop(int index, DirectorShared* shared) : index_(index), shared_(shared) {}
  absl::Status Open();
  void Run();
  void StartAccepting();
  void Accepted(int result);
  void Welcome(UniqueFd fd);
  // Counts a connection. An error beyond the limit.
  absl::Status Admit();
  void Keep(std::unique_ptr<Client> client);
  void RunPosted();
  void SweepAll();
  void FinishTurn();
  void CountTraffic() {
    stats_.Set(LoopStats::kReceivedBytes, poller_->received_bytes());
    stats_.Set(LoopStats::kSentBytes, poller_->sent_bytes());
  }
  int64_t WaitNanos() const;
  void Drain();

  const int index_;
  DirectorShared* const shared_;
  const std::shared_ptr<Mailbox> mailbox_ = std::make_shared<Mailbox>();
  LoopStats stats_;
  std::atomic<int64_t> cpu_at_end_{-1};
  clockid_t cpu_clock_{};
  ChunkCache chunks_;  // before what uses it
  LocalEnds local_{&chunks_};
  std::unique_ptr<BufferPool> buffers_;
  std::vector<UniqueFd> listeners_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<LoopPeer> peer_;
  WatchPtr wake_;
  std::vector<WatchPtr> accepting_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Client*> touched_;
  std::vector<Client*> touched_next_;
  std::vector<Client*> retired_;
  std::string scratch_;
  std::vector<std::function<void()>> posted_;
  std::vector<LocalEvent> local_events_;
  std::vector<Pipe> pipes_;
  int64_t now_ = 0;
  int64_t sweep_nanos_ = 0;
  int64_t next_sweep_ = 0;
  int64_t accept_again_at_ = 0;
  int64_t drain_until_ = 0;
  bool draining_ = false;
  uint64_t held_ = 0;
  uint64_t taken_ = 0;  // of the budget: held_, or nearly
  int host_failures_ = 0;
  int64_t host_retry_at_ = 0;
  std::thread thread_;
};

}  // namespace pulse::net
