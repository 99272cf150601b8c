// Requests as the agent's service sees them: any descriptor, any cursor, any control message in
// between, over an engine whose results the input decides. The agent does I/O inside the arena and
// on descriptors that it was given, answers what it took once, stays within its limits and always
// drains.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "agent/session.h"
#include "channel/handshake.h"
#include "channel/queue_pair.h"
#include "fuzz_input.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/wire.h"

namespace pulse {
namespace {

using fuzz::Input;

constexpr uint64_t kArena = wire::kMinArenaBytes;
constexpr size_t kQueues = 2;
constexpr uint32_t kMaxRequests = 64;
constexpr uint32_t kMaxFiles = 5;

// Keeps what the engine starts; completes it as the input says.
class FuzzBackend : public IoBackend {
 public:
  bool Enqueue(const IoRequest& r) override {
    if (in_flight() >= 8) return false;
    Check(r);
    open_.push_back(r);
    return true;
  }
  void Submit() override {}
  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    for (; n < max && !done_.empty(); ++n) {
      out[n] = done_.front();
      done_.pop_front();
    }
    return n;
  }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return open_.size() + done_.size(); }
  EngineKind kind() const override { return EngineKind::kThreads; }
  int RegisterBuffer(char* base, size_t bytes) override {
    arenas_.push_back({base, bytes});
    return static_cast<int>(arenas_.size() - 1);
  }
  void UnregisterBuffer(int) override { arenas_.clear(); }

  void FinishOne(uint64_t which, uint8_t how) {
    if (open_.empty()) return;
    const size_t at = which % open_.size();
    const IoRequest r = open_[at];
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(at));
    const bool moves = r.op == IoOp::kRead || r.op == IoOp::kWrite;
    const bool closes = r.op == IoOp::kClose || r.op == IoOp::kSyncClose;
    int64_t result = moves ? static_cast<int64_t>(r.length) : 0;
    if (how % 8 == 1) result = -EIO;
    if (how % 8 == 2 && !closes) result = how & 8 ? -EINTR : -EAGAIN;
    if (how % 8 == 3 && moves) result = result / 2;
    if (how % 8 == 4 && moves) result = 0;
    if (how % 8 == 5) result = -ECANCELED;
    if (r.op == IoOp::kRead && result > 0) std::memset(r.buffer, 'r', static_cast<size_t>(result));
    if (closes) FUZZ_CHECK(close(r.fd) == 0);
    done_.push_back({r.tag, result});
  }
  bool busy() const { return !open_.empty() || !done_.empty(); }

 private:
  void Check(const IoRequest& r) {
    struct stat st;
    FUZZ_CHECK(fstat(r.fd, &st) == 0 && S_ISREG(st.st_mode));
    if (r.op == IoOp::kRead || r.op == IoOp::kWrite) {
      FUZZ_CHECK(r.length > 0 && r.length < uint64_t{1} << 31);
      FUZZ_CHECK(r.offset <= INT64_MAX && r.length <= INT64_MAX - r.offset);
      FUZZ_CHECK(r.buffer_index >= 0);
      const auto& arena = arenas_.at(static_cast<size_t>(r.buffer_index));
      FUZZ_CHECK(r.buffer >= arena.first && r.length <= arena.second);
      FUZZ_CHECK(static_cast<size_t>(r.buffer - arena.first) <= arena.second - r.length);
    }
    if (r.op == IoOp::kRangeSync) {
      FUZZ_CHECK(r.length <= INT32_MAX && r.offset <= INT64_MAX);
    }
  }
  std::vector<std::pair<char*, size_t>> arenas_;
  std::vector<IoRequest> open_;
  std::deque<IoResult> done_;
};

class Target {
 public:
  explicit Target(Input& in) : in_(in) {
    auto backend = std::make_unique<FuzzBackend>();
    backend_ = backend.get();
    engine_ = std::make_unique<FileEngine>(std::move(backend));
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    socket_.reset(fds[0]);
    Session::Config config;
    config.usage = usage_;
    config.name = "of the fuzzer";
    config.limits.max_requests = kMaxRequests;
    config.limits.max_session_files = kMaxFiles;
    config.limits.max_total_files = kMaxFiles;
    config.limits.max_total_bytes = uint64_t{1} << 30;
    Doorbell::Ends kick = Doorbell::CreatePair().value();
    Doorbell::Ends notify = Doorbell::CreatePair().value();
    session_ = std::make_unique<Session>(std::move(config), &page_, Region(), std::move(kick.sleep),
                                         std::move(notify.ring), UniqueFd(fds[1]), engine_.get(),
                                         &lsm::CreateAgentService);
    static const auto* const regions = new std::vector<Region>(MakeRegions());
    for (size_t q = 0; q < kQueues; ++q) {
      const Region& region = (*regions)[q];
      hosts_.push_back(HostQueue::Init(region, static_cast<uint32_t>(q), kArena).value());
      headers_.push_back(reinterpret_cast<wire::QueueHeader*>(region.data() + kArena));
      FUZZ_CHECK(
          session_->AttachQueue(static_cast<uint32_t>(q), kArena, 0, Region(), &region).ok());
    }
  }

  void Run() {
    for (int step = 0; step < 400 && !in_.empty(); ++step) {
      Step();
      FUZZ_CHECK(usage_->files <= kMaxFiles);
    }
    // Whatever was done to it, it ends.
    session_->BeginShutdown();
    for (int i = 0; !session_->Drained() || backend_->busy(); ++i) {
      FUZZ_CHECK(i < 100'000);
      engine_->Poll();
      backend_->FinishOne(0, 0);
    }
    FUZZ_CHECK(engine_->idle());
    session_.reset();
    FUZZ_CHECK(usage_->files == 0 && usage_->arena_bytes == 0);
  }

 private:
  static std::vector<Region> MakeRegions() {
    std::vector<Region> regions;
    for (size_t q = 0; q < kQueues; ++q) {
      regions.push_back(Region::CreatePrivate(QueueRegionBytes(kArena)).value());
    }
    return regions;
  }

  void Step() {
    const uint8_t op = in_.Byte();
    const size_t q = in_.Byte() % kQueues;
    switch (op % 12) {
      case 0: {
        wire::Descriptor d;
        in_.Bytes(&d, sizeof(d));
        Push(q, d);
        break;
      }
      case 1:
      case 2:
      case 3:
        Push(q, Plausible(q));
        break;
      case 4:
        PassFile();
        break;
      case 5:
      case 6:
        Poll();
        break;
      case 7:
        for (uint64_t n = in_.Below(8); n > 0; --n) backend_->FinishOne(in_.Byte(), in_.Byte());
        engine_->Poll();
        session_->Deliver();
        break;
      case 8:
        for (uint64_t n = 1 + in_.Byte(); n > 0; --n) {
          wire::Completion c;
          if (!hosts_[q].TryPop(&c)) break;
          ++answers_;
        }
        FUZZ_CHECK(answers_ <= pushed_ || hostile_cursor_);
        session_->Deliver();
        break;
      case 9:
        hostile_cursor_ = true;
        headers_[q]->submission_tail.value = in_.Evil(pushed_);
        break;
      case 10:
        hostile_cursor_ = true;
        headers_[q]->completion_head.value = in_.Evil(answers_);
        headers_[q]->arena_bytes = in_.Evil(kArena);
        break;
      default:
        if (in_.Below(16) == 0) {
          char garbage[300];
          const size_t n = in_.Below(250) + 1;
          in_.Bytes(garbage, n);
          (void)!send(socket_.get(), garbage, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        } else {
          page_.urgent.value = in_.Byte();
          page_.agent_sleeping.value = in_.Byte();
          page_.host_waiting.value = in_.Byte();
          (void)session_->LatchUrgent();
        }
    }
  }

  // A request that gets past the first checks.
  wire::Descriptor Plausible(size_t q) {
    wire::Descriptor d{};
    d.opcode = in_.Byte() % 9;
    d.flags = in_.Byte() % 4;
    d.file = in_.Byte() % 8;
    d.tag = in_.Byte();
    d.length = in_.Evil(4096);
    d.file_offset = in_.Evil(INT64_MAX - 4096);
    d.arena_offset = in_.Evil(kArena - 4096);
    const uint64_t moved = positions_[q] + (d.length & 0xffff);
    d.position = in_.Byte() % 4 == 0 ? in_.Evil(moved) : moved;
    if (d.position == moved) positions_[q] = moved;
    d.aux = in_.Evil(4096);
    return d;
  }
  void Push(size_t q, const wire::Descriptor& d) { pushed_ += hosts_[q].TryPush(d); }

  void PassFile() {
    wire::Message m = MakeMessage(wire::MessageType::kFile);
    m.args[0] = in_.Byte() % 8;
    static const int file = memfd_create("file", MFD_CLOEXEC);
    static const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    SendMessage(socket_.get(), m, {in_.Below(8) == 0 ? other : file}, /*wait=*/false)
        .IgnoreError();  // the session may be over
  }

  void Poll() {
    if (session_->shutting_down()) return;
    if (in_.Below(2) == 0 && !session_->HandleSocket()) {
      session_->BeginShutdown();
      return;
    }
    session_->PollQueues(16);
    engine_->Poll();
    session_->Deliver();
  }

  Input& in_;
  FuzzBackend* backend_;
  std::unique_ptr<FileEngine> engine_;
  std::shared_ptr<AgentUsage> usage_ = std::make_shared<AgentUsage>();
  wire::ControlPage page_{};
  UniqueFd socket_;
  std::unique_ptr<Session> session_;
  std::vector<HostQueue> hosts_;
  std::vector<wire::QueueHeader*> headers_;
  uint64_t positions_[kQueues] = {};
  uint64_t pushed_ = 0, answers_ = 0;
  bool hostile_cursor_ = false;
};

}  // namespace
}  // namespace pulse

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  auto target = std::make_unique<pulse::Target>(in);  // large
  target->Run();
  return 0;
}
