#include "net/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/cpu_profile.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/poll_again.h"
#include "base/shortage.h"
#include "net/proxy_client.h"
#include "net/splice_client.h"

namespace pulse::net {
namespace {

constexpr int kPipeBytes = 256 << 10;
constexpr size_t kPipesKept = 32;
// Of the budget that loops share.
constexpr uint64_t kTakenAtOnce = uint64_t{32} << 10;
// No descriptor was left for a connection: look again after this long.
constexpr int64_t kAcceptPause = 100 * kMillisecond;

}  // namespace

std::string DirectorShared::HostName() const {
  return options.local_host != nullptr ? "the host in this process" : host->ToString();
}

absl::StatusOr<std::unique_ptr<Loop>> Loop::Start(int index, DirectorShared* shared,
                                                  std::vector<UniqueFd> listeners) {
  std::unique_ptr<Loop> loop(new Loop(index, shared));
  loop->listeners_ = std::move(listeners);
  std::promise<absl::Status> opened;
  const auto run = [l = loop.get(), &opened] {
    const DirectorOptions& options = l->shared_->options;
    pthread_setname_np(pthread_self(), absl::StrCat(options.thread_name, l->index_).c_str());
    if (const absl::Status pinned = SetThreadAffinity(options.cpus); !pinned.ok()) {
      opened.set_value(pinned);
      return;
    }
    // splice(2) knows no MSG_NOSIGNAL.
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, nullptr);
    pthread_getcpuclockid(pthread_self(), &l->cpu_clock_);
    const absl::Status status = l->Open();
    const bool ok = status.ok();
    opened.set_value(status);
    if (ok) l->Run();
    l->cpu_at_end_ = ThreadCpuNanos();
  };
  PULSE_RETURN_IF_ERROR(StartThread("connections", run, &loop->thread_));
  PULSE_RETURN_IF_ERROR(opened.get_future().get());
  return loop;
}

Loop::~Loop() {
  if (!thread_.joinable()) return;
  BeginStop();
  Join();
}

void Loop::BeginStop() {
  mailbox_->Push([this] { Drain(); });
}

void Loop::Join() {
  if (thread_.joinable()) thread_.join();
}

int64_t Loop::cpu_nanos() const {
  const int64_t ended = cpu_at_end_.load();
  return ended >= 0 ? ended : std::max<int64_t>(0, ClockNanos(cpu_clock_));
}

absl::Status Loop::Open() {
  if (!mailbox_->Open()) return ErrnoError(errno, "making", "an eventfd");
  const auto woke = [this] {
    CpuProfile::OfThread().EndWait(CpuComponent::kReceive);
    now_ = NowNanos();
    mailbox_->Woke();
  };
  PULSE_ASSIGN_OR_RETURN(poller_,
                         Poller::Open(&chunks_, mailbox_.get(), woke, shared_->options.spin_nanos));
  wake_ = poller_->Add(mailbox_->wake_fd(), POLLIN, [this](short) {
    eventfd_t count;
    eventfd_read(mailbox_->wake_fd(), &count);
  });
  if (wake_ == nullptr) return ErrnoError(errno, "watching", "an eventfd");

  const DirectorLimits& l = limits();
  int64_t shortest = 1'000;
  for (const int64_t ms :
       {l.idle_ms / 4, l.slow_ms / 4, l.patience_ms / 4, l.connect_ms / 4, l.drain_ms / 4}) {
    if (ms > 0) shortest = std::min(shortest, ms);
  }
  sweep_nanos_ = std::max<int64_t>(shortest, 5) * kMillisecond;
  peer_ = shared_->options.application->NewLoopPeer(this);
  poller_->set_peer(peer_.get());
  StartAccepting();
  if (accepting_.size() < listeners_.size()) return ErrnoError(errno, "accepting", "connections");
  return absl::OkStatus();
}

void Loop::StartAccepting() {
  for (size_t i = accepting_.size(); i < listeners_.size(); ++i) {
    WatchPtr watch = poller_->Accept(listeners_[i].get(), [this](int result) { Accepted(result); });
    if (watch == nullptr) return;  // the next sweep tries again
    accepting_.push_back(std::move(watch));
  }
}

void Loop::Accepted(int result) {
  if (result >= 0) {
    Welcome(UniqueFd(result));
    return;
  }
  if (!MustPauseAccepting(-result)) return;
  LogOnce("director accept", ErrnoError(-result, "accepting", "a client's connection").message());
  accepting_.clear();
  accept_again_at_ = NowNanos() + kAcceptPause;
}

absl::Status Loop::Admit() {
  stats_.Add(LoopStats::kAccepted);
  stats_.Add(LoopStats::kConnections);
  if (shared_->connections.fetch_add(1, std::memory_order_relaxed) < limits().connections) {
    return absl::OkStatus();
  }
  LogOnce("too many connections",
          absl::StrCat("too many connections: the limit is ", limits().connections));
  // In the words that Redis's clients know, and answer by trying again later.
  return absl::ResourceExhaustedError("max number of clients reached");
}

void Loop::WelcomeLocal(LocalOffer* offer) {
  if (draining_) return;
  const absl::Status room = Admit();
  auto* client = new ProxyClient(this);
  Keep(std::unique_ptr<Client>(client));
  client->Start(offer, room);
}

void Loop::Welcome(UniqueFd fd) {
  const absl::Status room = Admit();
  TuneSocket(fd.get(), limits().slow_ms);
  const bool looked_at = shared_->signature.Matches(PeerAddress(fd.get()), LocalAddress(fd.get()));
  if (looked_at) {
    auto* client = new ProxyClient(this);
    Keep(std::unique_ptr<Client>(client));
    client->Start(std::move(fd), room);
    return;
  }
  auto* client = new SpliceClient(this);
  Keep(std::unique_ptr<Client>(client));
  client->Start(room.ok() && shared_->host.has_value() ? std::move(fd) : UniqueFd());
}

void Loop::Keep(std::unique_ptr<Client> client) {
  client->place_ = clients_.size();
  clients_.push_back(std::move(client));
}

Pipe Loop::TakePipe() {
  if (!pipes_.empty()) {
    Pipe pipe = std::move(pipes_.back());
    pipes_.pop_back();
    return pipe;
  }
  Pipe pipe;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return pipe;
  pipe.out = UniqueFd(ends[0]);
  pipe.in = UniqueFd(ends[1]);
  // Refused beyond the user's quota of pipe memory; then it is the usual 64 KiB.
  fcntl(ends[1], F_SETPIPE_SZ, kPipeBytes);
  pipe.size = static_cast<size_t>(std::max(fcntl(ends[1], F_GETPIPE_SZ), 4096));
  return pipe;
}

void Loop::GivePipe(Pipe pipe) {
  if (pipes_.size() < kPipesKept) pipes_.push_back(std::move(pipe));
}

void Loop::Read(int fd, uint64_t offset, char* data, size_t size,
                std::function<void(int64_t)> done) {
  poller_->Read(fd, offset, data, size, std::move(done));
}

std::shared_ptr<void> Loop::Watch(int fd, std::function<void()> ready) {
  return poller_->Add(fd, POLLIN, [ready = std::move(ready)](short) { ready(); });
}

std::shared_ptr<Remote> Loop::remote() {
  class LoopRemote final : public Remote {
   public:
    explicit LoopRemote(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
    void Post(std::function<void()> work) override { mailbox_->Push(std::move(work)); }

   private:
    const std::shared_ptr<Mailbox> mailbox_;
  };
  return std::make_shared<LoopRemote>(mailbox_);
}

BufferPool* Loop::buffers() {
  if (buffers_ == nullptr) buffers_ = std::make_unique<BufferPool>(shared_->options.buffers);
  return buffers_.get();
}

void Loop::Touch(Client* client) {
  if (client->touched_) return;
  client->touched_ = true;
  touched_.push_back(client);
}

void Loop::TouchNext(Client* client) {
  if (client->touched_next_) return;
  client->touched_next_ = true;
  touched_next_.push_back(client);
}

void Loop::Retire(Client* client) {
  if (client->retired_) return;
  client->retired_ = true;
  retired_.push_back(client);
}

void Loop::Account(Client* client, uint64_t held) {
  if (held == client->held_) return;
  held_ += held - client->held_;
  client->held_ = held;
  stats_.Set(LoopStats::kHeld, held_);
  // Small changes together: all loops write there.
  if (held_ >= taken_ + kTakenAtOnce) {
    budget()->Take(held_ - taken_);
  } else if (held_ + kTakenAtOnce <= taken_ || (held_ == 0 && taken_ > 0)) {
    budget()->Give(taken_ - held_);
  } else {
    return;
  }
  taken_ = held_;
}

void Loop::HostFailed(const absl::Status& why) {
  stats_.Add(LoopStats::kHostFailures);
  // Attempts that were made together fail together.
  if (!MayTryHost()) return;
  const DirectorLimits& l = limits();
  if (host_failures_ == 0) Log(LogLevel::kWarn, absl::StrCat("the host is lost: ", why.message()));
  const int64_t wait =
      std::min(l.back_off_max_ms, l.back_off_ms << std::min(host_failures_, 16)) * kMillisecond;
  ++host_failures_;
  host_retry_at_ = now_ + wait;
}

void Loop::HostReached() {
  if (host_failures_ > 0) Log(LogLevel::kWarn, "the host is back");
  host_failures_ = 0;
}

void Loop::RunPosted() {
  mailbox_->Take(&posted_, &local_events_);
  for (const LocalEvent& event : local_events_) local_.Deliver(event);
  local_events_.clear();
  for (const auto& work : posted_) work();
  posted_.clear();
}

void Loop::SweepAll() {
  next_sweep_ = now_ + sweep_nanos_;
  for (const auto& client : clients_) {
    if (!client->retired_) client->Sweep(now_);
  }
  if (!draining_ && now_ >= accept_again_at_) StartAccepting();
}

void Loop::FinishTurn() {
  net::Application* const application = shared_->options.application;
  while (true) {
    application->OnTurnEnd();
    if (peer_ != nullptr) peer_->EndTurn();
    if (touched_.empty()) break;
    for (Client* client : std::exchange(touched_, {})) {
      client->touched_ = false;
      if (!client->retired_) client->EndTurn();
    }
  }
  for (Client* client : std::exchange(retired_, {})) {
    Account(client, 0);
    if (client->touched_next_) std::erase(touched_next_, client);
    std::unique_ptr<Client> gone = std::move(clients_[client->place_]);
    if (gone != clients_.back() && clients_.back() != nullptr) {
      clients_.back()->place_ = client->place_;
      clients_[client->place_] = std::move(clients_.back());
    }
    clients_.pop_back();
    gone.reset();
    stats_.Add(LoopStats::kConnections, ~uint64_t{0});
    shared_->connections.fetch_sub(1, std::memory_order_relaxed);
  }
  local_.BuryDead();
}

int64_t Loop::WaitNanos() const {
  if (!touched_.empty() || !touched_next_.empty() || !retired_.empty()) return 0;
  if (clients_.empty() && !accepting_.empty() && accepting_.size() == listeners_.size()) return -1;
  return std::max<int64_t>(0, next_sweep_ - NowNanos());
}

void Loop::Drain() {
  if (draining_) return;
  draining_ = true;
  drain_until_ = now_ + limits().drain_ms * kMillisecond;
  next_sweep_ = now_;
  accepting_.clear();
  listeners_.clear();
  for (const auto& client : clients_) {
    if (!client->retired_) client->Drain();
  }
}

void Loop::Run() {
  now_ = NowNanos();
  next_sweep_ = now_ + sweep_nanos_;
  CpuProfile& profile = CpuProfile::OfThread();
  profile.set_side(shared_->options.side);
  while (!draining_ || (!clients_.empty() && now_ < drain_until_)) {
    profile.BeginWait();
    CountTraffic();
    poller_->Wait(WaitNanos());
    RunPosted();
    for (Client* client : std::exchange(touched_next_, {})) {
      client->touched_next_ = false;
      Touch(client);
    }
    if (peer_ != nullptr) peer_->Poll();
    if (now_ >= next_sweep_) SweepAll();
    FinishTurn();
    profile.EndTurn();
  }
  CountTraffic();
  for (const auto& client : clients_) Retire(client.get());
  FinishTurn();
  budget()->Give(std::exchange(taken_, 0));
  mailbox_->Close();
  // They write into memory that `done` keeps.
  while (poller_->reads_in_flight() > 0) poller_->Wait(kMillisecond);
  poller_->set_peer(nullptr);
  peer_.reset();
  wake_.reset();
  poller_.reset();
}

}  // namespace pulse::net
