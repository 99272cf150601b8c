// Requests as the file service sees them: any message in a group's request ring, any pointer, any
// attach message in between, over an engine whose results the input decides. The agent does I/O
// inside its rings and on data segments only, answers within the response buffer, and always
// drains.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "agent/session.h"
#include "channel/handshake.h"
#include "channel/progress_ring.h"
#include "fuzz_input.h"
#include "services/files/agent_service.h"
#include "services/files/agent_store.h"
#include "services/files/wire.h"
#include "store/sim_device.h"

namespace pulse::files {
namespace {

using fuzz::Input;

constexpr GroupShape kShape{1 << 16, 1 << 16, 16};
constexpr uint64_t kDevice = uint64_t{1} << 20;
constexpr uint64_t kSegment = 16384;

// Keeps what the engine starts; completes it as the input says.
class FuzzBackend : public IoBackend {
 public:
  explicit FuzzBackend(uint64_t first_data) : first_data_(first_data) {}
  bool Enqueue(const IoRequest& r) override {
    if (in_flight() >= 8) return false;
    if (r.op == IoOp::kRead || r.op == IoOp::kWrite) {
      FUZZ_CHECK(r.length > 0 && r.length <= kShape.response_bytes * 16);
      FUZZ_CHECK(r.offset >= first_data_ && r.offset <= kDevice && r.length <= kDevice - r.offset);
      if (r.buffer_index >= 0) {
        const auto& memory = memory_.at(static_cast<size_t>(r.buffer_index));
        FUZZ_CHECK(r.buffer >= memory.first && r.length <= memory.second);
        FUZZ_CHECK(static_cast<size_t>(r.buffer - memory.first) <= memory.second - r.length);
      }  // else the agent's own: zeros, or blocks that a write covers in part
    }
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
    memory_.push_back({base, bytes});
    return static_cast<int>(memory_.size() - 1);
  }

  void FinishOne(uint64_t which, uint8_t how) {
    if (open_.empty()) return;
    const size_t at = which % open_.size();
    const IoRequest r = open_[at];
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(at));
    const bool moves = r.op == IoOp::kRead || r.op == IoOp::kWrite;
    int64_t result = moves ? static_cast<int64_t>(r.length) : 0;
    if (how % 8 == 1) result = -EIO;
    if (how % 8 == 2 && moves) result = how & 8 ? -EINTR : -EAGAIN;
    if (how % 8 == 3 && moves) result = result / 2;
    if (how % 8 == 4 && moves) result = 0;
    if (r.op == IoOp::kRead && result > 0) std::memset(r.buffer, 'r', static_cast<size_t>(result));
    if (!moves) FUZZ_CHECK(close(r.fd) == 0);
    done_.push_back({r.tag, result});
  }

 private:
  const uint64_t first_data_;
  std::vector<std::pair<char*, size_t>> memory_;
  std::vector<IoRequest> open_;
  std::deque<IoResult> done_;
};

// Functions for the worker's thread, from any.
class Posts {
 public:
  void Add(std::function<void()> fn) {
    std::lock_guard lock(mu_);
    waiting_.push_back(std::move(fn));
  }
  void Run() {
    std::vector<std::function<void()>> run;
    {
      std::lock_guard lock(mu_);
      run.swap(waiting_);
    }
    for (auto& fn : run) fn();
  }

 private:
  std::mutex mu_;
  std::vector<std::function<void()>> waiting_;
};

class Target {
 public:
  explicit Target(Input& in) : in_(in) {
    auto device = std::make_shared<store::SimDevice>(kDevice);
    store::CreateOptions create;
    create.size = kDevice;
    create.segment_bytes = kSegment;
    create.metadata_bytes = 256 << 10;
    FUZZ_CHECK(store::Format(*device, create).ok());
    store::OpenOptions open;
    open.device = device;
    auto store = store::Store::Open("sim", open).value();
    FUZZ_CHECK(store->CreateDirectory("d").ok() && store->CreateFile("d", "f").ok());
    auto backend = std::make_unique<FuzzBackend>(store->geometry().metadata_segments * kSegment);
    backend_ = backend.get();
    engine_ = std::make_unique<FileEngine>(std::move(backend));
    files_ = FileStore::On(std::move(store)).value();
    int fds[2];
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0);
    socket_.reset(fds[0]);
    Session::Config config;
    config.usage = usage_;
    config.name = "of the fuzzer";
    config.limits.max_requests = 64;
    config.limits.max_session_files = 5;
    config.limits.max_queues = 2;
    config.limits.max_total_bytes = uint64_t{1} << 20;
    config.post = [this](std::function<void()> fn) { posts_.Add(std::move(fn)); };
    Doorbell::Ends kick = Doorbell::CreatePair().value();
    Doorbell::Ends notify = Doorbell::CreatePair().value();
    session_ = std::make_unique<Session>(std::move(config), &page_, Region(), std::move(kick.sleep),
                                         std::move(notify.ring), UniqueFd(fds[1]), engine_.get(),
                                         files_->Factory());
    doorbell_ = Doorbell::CreatePair().value();
    region_ = Region::CreateShared(GroupBytes(kShape)).value();
    auto* header = new (region_.data()) GroupHeader();
    header->magic = wire::kRegionMagic;
    header->version = wire::kProtocolVersion;
    Attach(0, kShape.request_bytes, kShape.response_bytes, kShape.requests);
  }

  void Run() {
    for (int step = 0; step < 300 && !in_.empty(); ++step) Step();
    session_->BeginShutdown();
    for (int i = 0; !session_->Drained(); ++i) {
      FUZZ_CHECK(i < 10'000'000);
      posts_.Run();
      engine_->Poll();
      backend_->FinishOne(0, 0);
      std::this_thread::yield();
    }
    posts_.Run();
    session_.reset();
    FUZZ_CHECK(usage_->arena_bytes == 0);
    files_.reset();
  }

 private:
  void Attach(uint64_t group, uint64_t request_bytes, uint64_t response_bytes, uint64_t requests) {
    wire::Message m = MakeMessage(wire::MessageType::kAttachGroup);
    m.args[0] = group;
    m.args[1] = request_bytes;
    m.args[2] = response_bytes;
    m.args[3] = requests;
    SendMessage(socket_.get(), m, {region_.fd(), doorbell_.ring.get()}, /*wait=*/false)
        .IgnoreError();  // the session may be over
    if (!session_->shutting_down() && !session_->HandleSocket()) session_->BeginShutdown();
    (void)ReceiveMessage(socket_.get(), /*wait=*/false);
  }

  void Step() {
    switch (in_.Byte() % 10) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Push();
      case 4:
      case 5:
        return Poll();
      case 6:
        for (uint64_t n = in_.Below(8); n > 0; --n) backend_->FinishOne(in_.Byte(), in_.Byte());
        engine_->Poll();
        posts_.Run();
        session_->Deliver();
        return;
      case 7:
        return Answers();
      case 8: {
        auto* p =
            PointersOf(region_.data() + (in_.Below(2) ? RequestOffset() : ResponseOffset(kShape)));
        const uint64_t near = p->tail.load();
        p->tail = in_.Evil(near);
        p->progress = in_.Below(2) ? p->tail.load() : in_.Evil(near);
        if (in_.Below(2) != 0) p->head = in_.Evil(p->head.load());
        return;
      }
      default:
        return Attach(in_.Below(3), in_.Evil(kShape.request_bytes), in_.Evil(1 << 16),
                      in_.Evil(kShape.requests));
    }
  }

  void Push() {
    const auto kind = static_cast<uint16_t>(1 + in_.Byte() % 18);
    Request r{};
    r.id = in_.Byte();
    // Handles are (generation << 32) | number.
    r.file =
        in_.Below(4) == 0 ? in_.Evil(1) : uint64_t{1 + in_.Below(3)} << 32 | (1 + in_.Below(3));
    r.offset = in_.Evil(in_.Below(64) * 4096);
    r.length = in_.Evil(4096);
    std::string body(in_.Below(4) == 0 ? 4096 : in_.Byte(), 'b');
    in_.Bytes(body.data(), std::min<size_t>(body.size(), 8));
    if (in_.Below(2) == 0) r.length = body.size();
    for (uint16_t& n : r.names) {
      n = in_.Below(8) == 0 ? in_.Number<uint16_t>() : static_cast<uint16_t>(in_.Below(4));
    }
    if (in_.Below(2) == 0) {
      body = "df" + body;
      r.names[0] = r.names[1] = 1;
    }
    ProgressProducer<> producer = MakeProgressProducer(
        region_.data() + RequestOffset(), {kShape.request_bytes, kShape.request_bytes});
    const size_t head = in_.Below(32) == 0 ? in_.Below(48) : sizeof(r);
    (void)producer.TryPush(kind, {&r, head}, {body.data(), body.size()},
                           head == sizeof(r) && in_.Below(2) ? 64 : 8);
  }

  void Answers() {
    if (reader_ == nullptr) {
      reader_ = MakeResponseReader(region_.data() + ResponseOffset(kShape), ResponsesOf(kShape));
    }
    TakenResponse r;
    for (uint64_t n = in_.Byte(); n > 0 && reader_->Take(&r); --n) reader_->Done(r.ticket);
  }

  void Poll() {
    posts_.Run();
    if (session_->shutting_down()) return;
    session_->PollQueues(16);
    engine_->Poll();
    session_->Deliver();
    (void)session_->HasDeferred();
    if (!session_->shutting_down()) (void)session_->HasWork();
  }

  Input& in_;
  Posts posts_;
  FuzzBackend* backend_;
  std::unique_ptr<FileEngine> engine_;
  std::unique_ptr<FileStore> files_;
  std::shared_ptr<AgentUsage> usage_ = std::make_shared<AgentUsage>();
  wire::ControlPage page_{};
  UniqueFd socket_;
  std::unique_ptr<Session> session_;
  Doorbell::Ends doorbell_;
  Region region_;
  std::unique_ptr<ResponseReader<>> reader_;
};

}  // namespace
}  // namespace pulse::files

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  auto target = std::make_unique<pulse::files::Target>(in);
  target->Run();
  return 0;
}
