// A host for tests of the agent: control page, doorbells and queues, attached to an embedded worker
// or through a socket. And the small service that such an agent runs. For tests only.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "agent/session.h"
#include "agent/worker.h"
#include "channel/handshake.h"
#include "channel/queue_pair.h"

namespace pulse::agent_test {

// What the service does; set before sessions exist. One test at a time.
struct Hooks {
  // Default: echo.
  std::function<void(Session*, SessionQueue*, const wire::Descriptor&)> on_descriptor;
  std::function<void(Session*, uint32_t, const UniqueFd&)> on_file;
  std::atomic<bool> drained{true};
  std::atomic<int> alive{0};
  std::atomic<int> shutdowns{0};
  std::atomic<uint64_t> served{0};
};
inline Hooks* g_hooks = nullptr;

inline void Echo(SessionQueue* q, const wire::Descriptor& d) {
  q->Complete({d.tag, static_cast<int64_t>(d.length), d.opcode, d.file, d.aux});
}

class TestService : public Service {
 public:
  explicit TestService(Session* session) : session_(session), hooks_(g_hooks) { ++hooks_->alive; }
  ~TestService() override { --hooks_->alive; }
  void OnDescriptor(SessionQueue* q, const wire::Descriptor& d) override {
    ++hooks_->served;
    if (hooks_->on_descriptor) {
      hooks_->on_descriptor(session_, q, d);
    } else {
      Echo(q, d);
    }
  }
  void OnFile(uint32_t file, UniqueFd fd) override {
    if (hooks_->on_file) hooks_->on_file(session_, file, fd);
    files_[file] = std::move(fd);
  }
  void BeginShutdown() override { ++hooks_->shutdowns; }
  bool Drained() const override { return hooks_->drained; }

 private:
  Session* session_;
  Hooks* hooks_;
  std::map<uint32_t, UniqueFd> files_;
};

inline std::unique_ptr<Service> MakeTestService(Session* session, FileEngine*) {
  return std::make_unique<TestService>(session);
}

inline constexpr const char* kTestRequestKinds[] = {"open", "read", "write"};
inline constexpr NumberSpec kTestHostNumbers[] = {{"time"}, {"first"}, {"second"}};
inline constexpr ServiceSpec kTestSpec = {.name = "test",
                                          .id = 0,
                                          .version = 1,
                                          .start_hint = "pulse agent",
                                          .request_kinds = kTestRequestKinds,
                                          .counts_syncs = true,
                                          .host_numbers = kTestHostNumbers};
inline ServiceTable TestServices() { return {{&kTestSpec, &MakeTestService}}; }

class TestHost {
 public:
  static constexpr uint64_t kArena = wire::kMinArenaBytes;
  struct Queue {
    Region region;
    HostQueue ring;
  };

  explicit TestHost(bool shared)
      : shared_(shared),
        page_(shared ? Region::CreateShared(wire::kPage).value()
                     : Region::CreatePrivate(wire::kPage).value()),
        control_(new (page_.data()) wire::ControlPage()) {
    Doorbell::Ends ends = Doorbell::CreatePair().value();
    notify_ = Doorbell(std::move(ends.sleep), &control_->host_waiting.value);
    notify_ring_ = std::move(ends.ring);
    control_->magic = wire::kRegionMagic;
    control_->version = wire::kProtocolVersion;
  }

  // A queue, laid out and not yet offered.
  Queue& NewQueue(uint64_t arena = kArena) {
    auto q = std::make_unique<Queue>();
    const size_t bytes = QueueRegionBytes(arena);
    q->region =
        shared_ ? Region::CreateShared(bytes).value() : Region::CreatePrivate(bytes).value();
    q->ring = HostQueue::Init(q->region, static_cast<uint32_t>(queues_.size()), arena).value();
    queues_.push_back(std::move(q));
    return *queues_.back();
  }

  // --- Through a socket.

  absl::Status Connect(const std::string& path) {
    auto socket = ConnectUnix(path);
    if (!socket.ok()) return socket.status();
    socket_ = *std::move(socket);
    return Hello(MakeMessage(wire::MessageType::kHello));
  }
  // Sends `hello` with this host's descriptors; the agent's refusal becomes the status.
  absl::Status Hello(const wire::Message& hello) {
    absl::Status st = SendMessage(socket_.get(), hello, {page_.fd(), notify_ring_.get()});
    if (!st.ok()) return st;
    st = Answer(wire::MessageType::kHelloAck);
    if (st.ok() && last_fds_.size() == 1) {
      kick_ = Doorbell(std::move(last_fds_[0]), &control_->agent_sleeping.value);
    }
    return st;
  }
  absl::Status SendAttach(const Queue& q, uint64_t arena) {
    wire::Message m = MakeMessage(wire::MessageType::kAttachQueue);
    m.args[0] = q.ring.id();
    m.args[1] = arena;
    m.args[2] = reinterpret_cast<uintptr_t>(q.region.data());
    return SendMessage(socket_.get(), m, {q.region.fd()});
  }
  absl::Status Attach(const Queue& q, uint64_t arena = kArena) {
    absl::Status st = SendAttach(q, arena);
    return st.ok() ? Answer(wire::MessageType::kAttachAck) : st;
  }
  absl::Status SendFile(uint32_t file, int fd) {
    wire::Message m = MakeMessage(wire::MessageType::kFile);
    m.args[0] = file;
    return SendMessage(socket_.get(), m, {fd});
  }
  absl::Status Answer(wire::MessageType type) {
    auto r = ReceiveMessage(socket_.get());
    if (!r.ok()) return r.status();
    last_answer_ = r->message;
    last_fds_ = std::move(r->fds);
    if (r->message.status != 0) return absl::FailedPreconditionError(TextOf(r->message));
    if (r->message.type != static_cast<uint32_t>(type)) return absl::InternalError("wrong answer");
    return absl::OkStatus();
  }
  bool AgentHungUp() {
    pollfd p{socket_.get(), POLLRDHUP, 0};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP)) != 0;
  }

  // --- In the same process. On the worker's thread.

  std::unique_ptr<Session> NewSession(FileEngine* engine, AgentLimits limits = {},
                                      UniqueFd socket = {},
                                      ServiceFactory factory = &MakeTestService,
                                      std::shared_ptr<AgentUsage> usage = nullptr,
                                      MoverKind mover = MoverKind::kShared) {
    Session::Config config;
    config.mover = mover;
    config.embedded = !shared_;
    config.peer = getpid();
    config.limits = limits;
    config.usage = std::move(usage);
    config.name = "of a test";
    config.wrap_mover = wrap_mover;
    Doorbell::Ends kick = Doorbell::CreatePair().value();
    kick_ = Doorbell(std::move(kick.ring), &control_->agent_sleeping.value);
    auto s = std::make_unique<Session>(std::move(config), control_, Region(), std::move(kick.sleep),
                                       notify_ring_.Dup(), std::move(socket), engine, factory);
    session_ = s.get();
    return s;
  }
  absl::Status AttachEmbedded(const Queue& q, uint64_t arena = kArena) {
    return session_->AttachQueue(q.ring.id(), arena, reinterpret_cast<uintptr_t>(q.region.data()),
                                 Region(), &q.region);
  }
  // Starts an embedded session with `queues` queues.
  void Embed(Worker* worker, int queues = 1) {
    for (int i = 0; i < queues; ++i) NewQueue();
    worker->Run([&] {
      worker->AddSession(NewSession(worker->engine()));
      for (auto& q : queues_) AttachEmbedded(*q).IgnoreError();
    });
  }

  MoverWrapper wrap_mover;  // of the session to be made

  // --- Data.

  bool Push(uint64_t tag, uint32_t opcode = 0, size_t queue = 0) {
    wire::Descriptor d{};
    d.opcode = opcode;
    d.tag = tag;
    d.length = tag * 3;
    return queues_[queue]->ring.TryPush(d);
  }
  void Ring() { kick_.Ring(); }

  // Takes completions until `n` in all have come; sleeps by the protocol, without a limit.
  std::vector<wire::Completion> Take(size_t n, size_t queue = 0) {
    std::vector<wire::Completion> out;
    HostQueue& ring = queues_[queue]->ring;
    wire::Completion c;
    while (out.size() < n) {
      if (ring.TryPop(&c)) {
        out.push_back(c);
        continue;
      }
      notify_.PrepareSleep();
      if (!ring.HasCompletions()) {
        pollfd p[2] = {{notify_.fd(), POLLIN, 0}, {socket_.get(), POLLRDHUP, 0}};
        poll(p, socket_.valid() ? 2 : 1, -1);
        if (socket_.valid() && AgentHungUp() && !ring.HasCompletions()) break;
      }
      notify_.FinishSleep();
    }
    return out;
  }

  wire::ControlPage* control() { return control_; }
  Session* session() { return session_; }
  Queue& queue(size_t i = 0) { return *queues_[i]; }
  wire::QueueHeader* header(size_t i = 0) {
    Queue& q = *queues_[i];
    return reinterpret_cast<wire::QueueHeader*>(q.region.data() + q.ring.arena_bytes());
  }
  UniqueFd& socket() { return socket_; }
  Doorbell& kick() { return kick_; }
  int notify_ring() const { return notify_ring_.get(); }
  const wire::Message& last_answer() const { return last_answer_; }
  const Region& page() const { return page_; }

 private:
  const bool shared_;
  Region page_;
  wire::ControlPage* control_;
  Doorbell kick_;
  Doorbell notify_;
  UniqueFd notify_ring_;  // for the agent
  UniqueFd socket_;
  Session* session_ = nullptr;
  wire::Message last_answer_{};
  std::vector<UniqueFd> last_fds_;
  std::vector<std::unique_ptr<Queue>> queues_;
};

// Pushes tags 0 to n - 1, waiting for room, and wakes the agent.
inline void PushAll(TestHost& host, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    while (!host.Push(i)) {
      host.Ring();
      std::this_thread::yield();
    }
  }
  host.Ring();
}

// Takes what Echo() answers to that.
inline void ExpectEchoes(TestHost& host, uint64_t n) {
  const auto out = host.Take(n);
  ASSERT_EQ(out.size(), n);
  for (uint64_t i = 0; i < n; ++i) {
    ASSERT_EQ(out[i].tag, i);
    ASSERT_EQ(out[i].result, static_cast<int64_t>(i * 3));
  }
}

}  // namespace pulse::agent_test
