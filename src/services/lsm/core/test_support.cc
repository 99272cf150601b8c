#include "services/lsm/core/test_support.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <unordered_map>

#include "base/clock.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/plugin/pulse_file_system.h"
#include "services/lsm/pool/test_pool.h"

namespace pulse::lsm::test {

ScratchDir::ScratchDir() {
  std::string name = (std::filesystem::current_path() / "lsm_test_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    std::abort();
  }
  path_ = std::filesystem::canonical(name).string();
}

ScratchDir::~ScratchDir() {
  if (std::getenv("PULSE_TEST_KEEP") != nullptr) return;  // to look at what a failure left behind
  std::error_code ec;
  std::filesystem::remove_all(path_, ec);
}

void Trace::Add(Event::Kind kind, std::string path, std::vector<uint64_t> numbers) {
  std::lock_guard lock(mu_);
  events_.push_back({kind, std::move(path), std::this_thread::get_id(), std::move(numbers)});
}

std::vector<Event> Trace::Snapshot() const {
  std::lock_guard lock(mu_);
  return events_;
}

size_t Trace::Count(Event::Kind kind, const std::string& part) const {
  std::lock_guard lock(mu_);
  return std::count_if(events_.begin(), events_.end(), [&](const Event& e) {
    return e.kind == kind && e.path.find(part) != std::string::npos;
  });
}

size_t Trace::MetadataMoves() const {
  return Count(Event::kMetaAppend) + Count(Event::kMetaSync) + Count(Event::kDirSync);
}

std::string Trace::CheckBarrier(const std::set<std::string>& dirs) const {
  const auto in_dirs = [&](const std::string& path) { return dirs.count(DirectoryOf(path)) != 0; };
  // Outputs that the host writes itself are durable when closed, and show no sync_close.
  std::set<std::string> by_agent;
  for (const Event& e : Snapshot()) {
    if (e.kind == Event::kDurable || e.kind == Event::kSyncFailed) by_agent.insert(e.path);
  }
  std::set<std::string> done;     // durable or deleted, or failed
  std::set<std::string> waiting;  // closed, not durable
  std::set<std::string> bad;      // not durable, nor deleted
  std::map<std::thread::id, std::set<std::string>> entered;
  std::set<std::thread::id> writers;  // closed an output since their last metadata write
  size_t n = 0;
  for (const Event& e : Snapshot()) {
    ++n;
    switch (e.kind) {
      case Event::kClosed:
        writers.insert(e.thread);
        if (in_dirs(e.path) && by_agent.count(e.path) != 0 && done.count(e.path) == 0) {
          waiting.insert(e.path);
          bad.insert(e.path);
        }
        break;
      case Event::kSyncFailed:
        waiting.erase(e.path);
        done.insert(e.path);
        if (in_dirs(e.path)) bad.insert(e.path);
        break;
      case Event::kDurable:
      case Event::kDeleted:
        waiting.erase(e.path);
        bad.erase(e.path);
        done.insert(e.path);
        break;
      case Event::kMetaNames:
        if (!in_dirs(e.path)) break;
        for (const std::string& f : bad) {
          const uint64_t number = std::strtoull(f.c_str() + f.rfind('/') + 1, nullptr, 10);
          if (std::find(e.numbers.begin(), e.numbers.end(), number) != e.numbers.end()) {
            return "event " + std::to_string(n) + ": " + e.path + " names " + f +
                   ", which is not durable";
          }
        }
        break;
      case Event::kMetaEnter:
        writers.erase(e.thread);
        entered[e.thread] = waiting;
        break;
      case Event::kDirEnter:
        // A thread that wrote none has other reasons, such as a new log.
        entered[e.thread] = writers.count(e.thread) != 0 ? waiting : std::set<std::string>();
        break;
      case Event::kMetaAppend:
      case Event::kMetaSync:
      case Event::kDirSync: {
        // A MANIFEST may name outputs in all of them, a directory its own.
        const bool directory = e.kind == Event::kDirSync;
        if (dirs.count(directory ? e.path : DirectoryOf(e.path)) == 0) break;
        for (const std::string& f : entered[e.thread]) {
          if (done.count(f) == 0 && (!directory || DirectoryOf(f) == e.path)) {
            return "event " + std::to_string(n) + ": " + e.path + " was written while " + f +
                   ", closed before, was not durable";
          }
        }
        break;
      }
      case Event::kWalSync:
      case Event::kTableSync:
        break;
    }
  }
  return "";
}

void IoScript::SetRule(Rule rule) {
  std::lock_guard lock(mu_);
  rule_ = std::move(rule);
}

void IoScript::Hold(IoOp op, const std::string& path_part) {
  SetRule([op, path_part](const IoRequest& r, const std::string& path) {
    const bool hit = r.op == op && path.find(path_part) != std::string::npos;
    return Verdict{hit ? Verdict::kHold : Verdict::kPass};
  });
}

void IoScript::FailFrom(IoOp op, int nth, int err, const std::string& path_part) {
  auto seen = std::make_shared<int>(0);
  SetRule([op, nth, err, path_part, seen](const IoRequest& r, const std::string& path) {
    if (r.op != op || path.find(path_part) == std::string::npos) return Verdict{};
    return ++*seen >= nth ? Verdict{Verdict::kFail, err} : Verdict{};
  });
}

void IoScript::Release() {
  SetRule(nullptr);
  ReleaseHeld("");
}

void IoScript::ReleaseHeld(const std::string& path_part) {
  std::lock_guard lock(mu_);
  for (auto it = held_.begin(); it != held_.end();) {
    if (it->path.find(path_part) == std::string::npos) {
      ++it;
      continue;
    }
    released_.push_back(*it);
    it = held_.erase(it);
  }
  ++releases_;
  if (wake_fd_ >= 0) eventfd_write(wake_fd_, 1);
}

void IoScript::FailHeld(int err) {
  {
    std::lock_guard lock(mu_);
    for (Held& h : held_) h.err = err;
  }
  ReleaseHeld("");
}

size_t IoScript::held() const {
  std::lock_guard lock(mu_);
  return held_.size();
}

bool IoScript::WaitHeld(size_t n) const {
  std::unique_lock lock(mu_);
  return cv_.wait_for(lock, std::chrono::seconds(120), [&] { return held_.size() >= n; });
}

std::vector<std::string> IoScript::held_paths() const {
  std::lock_guard lock(mu_);
  std::vector<std::string> paths;
  for (const Held& h : held_) paths.push_back(h.path);
  return paths;
}

Verdict IoScript::Judge(const IoRequest& request, const std::string& path, uint64_t* releases) {
  std::lock_guard lock(mu_);
  *releases = releases_;
  return rule_ ? rule_(request, path) : Verdict{};
}

class ScriptedBackend : public IoBackend {
 public:
  ScriptedBackend(IoScript* script, std::unique_ptr<IoBackend> inner, uint32_t depth)
      : script_(script),
        inner_(std::move(inner)),
        depth_(depth),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
    for (int fd : {inner_->wait_fd(), wake_.get(), timer_.get()}) {
      epoll_event ev{};
      ev.events = EPOLLIN;
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &ev);
    }
    std::lock_guard lock(script_->mu_);
    script_->wake_fd_ = wake_.get();
  }

  ~ScriptedBackend() override {
    std::lock_guard lock(script_->mu_);
    script_->wake_fd_ = -1;
  }

  bool Enqueue(const IoRequest& r) override {
    if (in_flight_ >= depth_) return false;
    ++in_flight_;
    char link[64];
    char target[PATH_MAX];
    std::snprintf(link, sizeof(link), "/proc/self/fd/%d", r.fd);
    const ssize_t n = readlink(link, target, sizeof(target));
    std::string path(target, n > 0 ? n : 0);
    if (OnPool() && path == PoolPath()) path = PathInPool(r.fd);
    uint64_t releases = 0;
    const Verdict v = script_->Judge(r, path, &releases);
    switch (v.action) {
      case Verdict::kHold: {
        std::unique_lock lock(script_->mu_);
        // Others were let go since the rule was asked; this one would be held for good.
        if (script_->releases_ != releases) {
          lock.unlock();
          --in_flight_;
          return Enqueue(r);
        }
        script_->held_.push_back({r, path, 0});
        script_->cv_.notify_all();
        return true;
      }
      case Verdict::kDelay:
        delayed_.emplace(NowNanos() + v.value * 1000, IoScript::Held{r, path, 0});
        ArmTimer();
        return true;
      case Verdict::kFail:
        Fail(r, path, v.value);
        eventfd_write(wake_.get(), 1);
        return true;
      case Verdict::kShorten: {
        IoRequest less = r;
        if (less.length > 4096) less.length = less.length / 2 / 4096 * 4096;
        if (less.length == 0) less.length = 4096;
        Start({less, path, 0});
        return true;
      }
      case Verdict::kPass:
        Start({r, path, 0});
        return true;
    }
    return true;
  }

  void Submit() override { inner_->Submit(); }

  size_t Harvest(IoResult* out, size_t max) override {
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    std::deque<IoScript::Held> go;
    {
      std::lock_guard lock(script_->mu_);
      go.swap(script_->released_);
    }
    const int64_t now = NowNanos();
    while (!delayed_.empty() && delayed_.begin()->first <= now) {
      go.push_back(delayed_.begin()->second);
      delayed_.erase(delayed_.begin());
    }
    ArmTimer();
    for (const auto& h : go) {
      if (h.err != 0) {
        Fail(h.request, h.path, h.err);
      } else {
        Start(h);
      }
    }
    if (!go.empty()) inner_->Submit();
    size_t n = 0;
    while (n < max && !failed_.empty()) {
      out[n++] = failed_.front();
      failed_.pop_front();
    }
    if (!failed_.empty()) eventfd_write(wake_.get(), 1);
    const size_t from = n;
    n += inner_->Harvest(out + n, max - n);
    for (size_t i = from; i < n; ++i) {
      const auto it = closing_.find(out[i].tag);
      if (it == closing_.end()) continue;
      Record(it->second, out[i].result);
      closing_.erase(it);
    }
    in_flight_ -= n;
    return n;
  }

  int wait_fd() const override { return epoll_.get(); }
  bool needs_polling() const override { return inner_->needs_polling(); }
  size_t in_flight() const override { return in_flight_; }
  EngineKind kind() const override { return inner_->kind(); }
  int RegisterBuffer(char* base, size_t bytes) override {
    return inner_->RegisterBuffer(base, bytes);
  }
  void UnregisterBuffer(int index) override { inner_->UnregisterBuffer(index); }
  int RegisterFile(int fd) override { return inner_->RegisterFile(fd); }
  void UnregisterFile(int index) override { inner_->UnregisterFile(index); }

 private:
  void Start(const IoScript::Held& h) {
    if (h.request.op == IoOp::kSyncClose) closing_[h.request.tag] = h.path;
    // The inner engine is as deep as this one, so it has room.
    if (!inner_->Enqueue(h.request)) std::abort();
  }

  void Fail(const IoRequest& r, const std::string& path, int64_t err) {
    if (r.op == IoOp::kSyncClose || r.op == IoOp::kClose) close(r.fd);
    if (r.op == IoOp::kSyncClose) Record(path, -err);
    failed_.push_back({r.tag, -err});
  }

  void Record(const std::string& path, int64_t result) {
    if (script_->trace_ == nullptr) return;
    script_->trace_->Add(result < 0 ? Event::kSyncFailed : Event::kDurable, path);
  }

  void ArmTimer() {
    if (delayed_.empty() && !armed_) return;
    armed_ = !delayed_.empty();
    itimerspec spec{};
    if (!delayed_.empty()) {
      spec.it_value.tv_sec = delayed_.begin()->first / 1'000'000'000;
      spec.it_value.tv_nsec = delayed_.begin()->first % 1'000'000'000;
    }
    timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
  }

  IoScript* const script_;
  const std::unique_ptr<IoBackend> inner_;
  const size_t depth_;
  size_t in_flight_ = 0;
  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd timer_;
  std::multimap<int64_t, IoScript::Held> delayed_;
  bool armed_ = false;
  std::deque<IoResult> failed_;
  std::unordered_map<uint64_t, std::string> closing_;
};

IoBackendFactory IoScript::factory() {
  return [this](const IoBackendOptions& options) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
    IoBackendOptions plain = options;
    plain.factory = nullptr;
    auto inner = CreateIoBackend(plain);
    if (!inner.ok()) return inner.status();
    return std::unique_ptr<IoBackend>(
        std::make_unique<ScriptedBackend>(this, *std::move(inner), options.depth));
  };
}

Options MakeOptions(const std::string& uri) {
  auto options = ParseOptions(uri);
  if (!options.ok()) {
    ADD_FAILURE() << options.status();
    std::abort();
  }
  // Hundreds of sessions a run, which hardly fill a megabyte: the kernel would spend half of all
  // the time on clearing memory that nobody uses.
  constexpr uint64_t kEnough = uint64_t{4} << 20;
  if (uri.find("queue=") == std::string::npos) {
    options->queue_bytes = std::max(kEnough, 2 * options->write_threshold);
  }
  if (uri.find("fetch_memory=") == std::string::npos) {
    options->fetch_bytes = std::max(kEnough, 4 * options->fetch_chunk);
  }
  return *options;
}

Rig::Rig() : Rig(MakeOptions("pulse://")) {}

Rig::Rig(Options options) {
  // Scripted tests want the engine that works everywhere and shows its requests one by one.
  if (!options.engine_given) options.engine = EngineKind::kThreads;
  options.backend_factory = script.factory();
  auto fs = PulseFileSystem::Open(options, NewBaseRecorder(trace));
  if (!fs.ok()) {
    ADD_FAILURE() << fs.status();
    std::abort();
  }
  pulse = *std::move(fs);
  top = NewTopRecorder(trace, pulse);
  env = rocksdb::NewCompositeEnv(top);
  // A held flush occupies a thread of the process's pool; others need theirs.
  env->SetBackgroundThreads(4, rocksdb::Env::HIGH);
  env->SetBackgroundThreads(6, rocksdb::Env::LOW);
}

Rig::~Rig() { script.Release(); }

Stats Rig::stats() const {
  Stats s{};
  EXPECT_TRUE(GetStats(pulse.get(), &s));
  return s;
}

rocksdb::FileOptions OutputOptions() {
  rocksdb::FileOptions o;
  o.io_options.property_bag["pulse.output"] = "1";
  o.writable_file_max_buffer_size = kWriterBufferBytes;
  return o;
}

std::string RandomBytes(std::mt19937_64* rng, size_t n) {
  std::string s(n, '\0');
  for (size_t i = 0; i < n; i += 8) {
    const uint64_t v = (*rng)();
    std::memcpy(s.data() + i, &v, std::min<size_t>(8, n - i));
  }
  return s;
}

std::string ReadRaw(const std::string& path) {
  if (auto bytes = ReadFromPool(path)) return *std::move(bytes);
  std::ifstream in(path, std::ios::binary);
  std::stringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

}  // namespace pulse::lsm::test
