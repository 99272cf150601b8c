// BlockFiles in a store, through the file library: submitted by whoever calls, taken by one thread,
// which also finds the agent again when it was lost.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "examples/common/block_files.h"
#include "pulse/files.h"

namespace pulse::examples {
namespace {

constexpr size_t kBatch = 64;
constexpr int64_t kFirstPauseMillis = 50;
constexpr int64_t kLongestPauseMillis = 1000;

// One connection to an agent. It ends with its last user.
struct Link {
  std::unique_ptr<files::Library> library;
  files::Poll poll{};
  std::vector<files::File> files;

  absl::StatusOr<files::Completion> Wait(const absl::Status& submitted) {
    if (!submitted.ok()) return submitted;
    files::Completion c;
    PULSE_RETURN_IF_ERROR(library->PollWait(poll, &c, 1, files::kForever).status());
    if (!c.status.ok()) return c.status;
    return c;
  }
};

class StoreFiles : public BlockFiles {
 public:
  StoreFiles(FilesOptions options, Sink* sink) : options_(std::move(options)), sink_(sink) {}
  ~StoreFiles() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
      if (link_ != nullptr) link_->library->PollWake(link_->poll);
      change_.notify_all();
    }
    thread_.join();
  }

  absl::Status Init() {
    PULSE_ASSIGN_OR_RETURN(link_, Connect());
    thread_ = std::thread([this] {
      prctl(PR_SET_NAME, "pulse-host-io");
      Run();
    });
    return absl::OkStatus();
  }

  absl::StatusOr<FileInfo> Find(std::string_view name) const override {
    for (uint64_t i = 0; i < ids_.size(); ++i) {
      if (std::to_string(i) == name) return FileInfo{ids_[i], options_.file_bytes};
    }
    return absl::NotFoundError(
        absl::StrCat("no file \"", absl::string_view(name.data(), name.size()), "\""));
  }

  uint64_t generation() const override { return generation_.load(std::memory_order_relaxed); }

  void Submit(Io** ios, size_t count) override {
    open_.fetch_add(count, std::memory_order_relaxed);
    std::shared_ptr<Link> link;
    {
      const std::lock_guard lock(mu_);
      if (waiting_.empty()) link = link_;
    }
    size_t done = 0;
    if (link != nullptr) {
      while (done < count && Issue(*link, ios[done])) ++done;
    }
    if (done == count) return;
    const std::lock_guard lock(mu_);
    waiting_.insert(waiting_.end(), ios + done, ios + count);
    if (link_ != nullptr) link_->library->PollWake(link_->poll);
    change_.notify_all();
  }

 private:
  absl::StatusOr<std::shared_ptr<Link>> Connect() {
    auto link = std::make_shared<Link>();
    PULSE_ASSIGN_OR_RETURN(link->library, files::Library::Open({.socket = options_.agent}));
    files::Library& lib = *link->library;
    PULSE_ASSIGN_OR_RETURN(link->poll, lib.CreatePoll());
    const auto made = link->Wait(lib.CreateDirectory(link->poll, options_.store_directory, 0));
    if (!made.ok() && !absl::IsAlreadyExists(made.status())) return made.status();
    std::vector<uint64_t> ids;
    for (uint32_t i = 0; i < options_.files; ++i) {
      PULSE_RETURN_IF_ERROR(OpenOne(link.get(), std::to_string(i), &ids));
    }
    if (ids_.empty()) {
      ids_ = std::move(ids);
    } else if (ids != ids_) {
      return absl::FailedPreconditionError(
          "the agent has come back with another store: start this server anew");
    }
    return link;
  }

  absl::Status OpenOne(Link* link, const std::string& name, std::vector<uint64_t>* ids) {
    files::Library& lib = *link->library;
    auto c = link->Wait(lib.OpenFile(link->poll, options_.store_directory, name, 0));
    if (absl::IsNotFound(c.status())) {
      c = link->Wait(lib.CreateFile(link->poll, options_.store_directory, name, 0));
    }
    if (!c.ok()) return c.status();
    const files::File file = c->file;
    ids->push_back(c->attributes.id);
    link->files.push_back(file);
    if (c->attributes.size == options_.file_bytes) return absl::OkStatus();
    if (c->attributes.size != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("file ", name, " of directory ", options_.store_directory, " has ",
                       c->attributes.size, " bytes, not the ", options_.file_bytes,
                       " asked for: give the size that it has, or remove it"));
    }
    if (auto r = link->Wait(lib.Reserve(file, options_.file_bytes, 0)); !r.ok()) return r.status();
    return link->Wait(lib.SetSize(file, options_.file_bytes, 0)).status();
  }

  // False: there is no room now, or it is refused, which its status says then: the thread tells of
  // it, by way of waiting_.
  bool Issue(const Link& link, Io* io) {
    io->status = absl::OkStatus();
    const auto refuse = [io](absl::Status why) {
      io->status = std::move(why);
      return false;
    };
    const auto at = std::find(ids_.begin(), ids_.end(), io->file);
    if (at == ids_.end()) return refuse(absl::NotFoundError("no such file"));
    const uint64_t end = options_.file_bytes;
    if (io->op != Op::kSync && (io->offset > end || io->size > end - io->offset)) {
      return refuse(absl::OutOfRangeError("beyond the end of the file"));
    }
    const files::File file = link.files[static_cast<size_t>(at - ids_.begin())];
    const auto cookie = reinterpret_cast<uint64_t>(io);
    absl::Status st;
    if (io->op == Op::kRead) {
      st = link.library->ReadFile(file, io->offset, io->data, io->size, cookie);
    } else if (io->op == Op::kWrite) {
      st = link.library->WriteFile(file, io->offset, io->data, io->size, cookie);
    } else {
      st = link.library->SyncFile(file, cookie);
    }
    if (st.ok()) return true;
    if (files::IsRetry(st)) return false;
    return refuse(absl::UnavailableError(st.message()));
  }

  void Tell(Io* io) {
    sink_->OnDone(io);
    open_.fetch_sub(1, std::memory_order_release);
  }

  void Run() {
    std::array<files::Completion, kBatch> done;
    int64_t pause = kFirstPauseMillis;
    while (true) {
      std::shared_ptr<Link> link;
      bool starved = false;
      {
        const std::lock_guard lock(mu_);
        link = link_;
        starved = !waiting_.empty();
        if (stop_ && open_.load(std::memory_order_acquire) == 0) return;
      }
      if (link == nullptr) {
        Reconnect(&pause);
        continue;
      }
      pause = kFirstPauseMillis;
      // What found no room is tried again soon; otherwise this sleeps until there is something.
      const auto n = link->library->PollWait(link->poll, done.data(), done.size(),
                                             starved ? 1000 : files::kForever);
      if (!n.ok()) {
        Log(LogLevel::kWarn, "files: the agent was lost; looking for it");
        const std::lock_guard lock(mu_);
        link_ = nullptr;
        continue;
      }
      for (size_t i = 0; i < *n; ++i) Complete(&done[i]);
      IssueWaiting(*link);
    }
  }

  void Complete(files::Completion* c) {
    Io* const io = reinterpret_cast<Io*>(c->cookie);
    io->status = std::move(c->status);
    if (io->status.ok() && io->op == Op::kRead && c->bytes != io->size) {
      io->status = absl::OutOfRangeError("beyond the end of the file");
    }
    if (files::IsAgentLost(io->status)) {
      io->status = absl::UnavailableError("the agent was lost; a write may have been carried out");
    }
    Tell(io);
  }

  void IssueWaiting(const Link& link) {
    while (true) {
      Io* io = nullptr;
      {
        const std::lock_guard lock(mu_);
        if (waiting_.empty()) return;
        io = waiting_.front();
      }
      // Nobody else takes from the front, and who comes meanwhile queues up behind.
      const bool refused = !Issue(link, io);
      if (refused && io->status.ok()) return;
      {
        const std::lock_guard lock(mu_);
        waiting_.pop_front();
      }
      if (refused) Tell(io);
    }
  }

  // Everything that comes while there is no agent fails.
  void FailWaiting() {
    std::deque<Io*> waiting;
    {
      const std::lock_guard lock(mu_);
      waiting.swap(waiting_);
    }
    for (Io* io : waiting) {
      io->status = absl::UnavailableError("the agent that has the files cannot be reached");
      Tell(io);
    }
  }

  void Reconnect(int64_t* pause) {
    FailWaiting();
    {
      std::unique_lock lock(mu_);
      const auto over = [&] { return stop_ || !waiting_.empty(); };
      if (change_.wait_until(lock, next_try_, over)) return;
    }
    auto link = Connect();
    next_try_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(*pause);
    *pause = std::min(2 * *pause, kLongestPauseMillis);
    if (!link.ok()) {
      LogOnce("files-reconnect", absl::StrCat("files: ", link.status().message()));
      return;
    }
    Log(LogLevel::kWarn, "files: the agent is back");
    generation_.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mu_);
    link_ = *std::move(link);
  }

  const FilesOptions options_;
  Sink* const sink_;
  std::vector<uint64_t> ids_;  // of the files, by their numbers; does not change after Init
  std::thread thread_;
  std::chrono::steady_clock::time_point next_try_;  // the thread's
  std::atomic<uint64_t> generation_{1};
  std::atomic<uint64_t> open_{0};  // submitted and not yet told

  std::mutex mu_;  // guards these
  std::condition_variable change_;
  std::shared_ptr<Link> link_;  // null while there is no agent
  std::deque<Io*> waiting_;     // found no room, or are refused
  bool stop_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockFiles>> OpenStoreFiles(const FilesOptions& options,
                                                           BlockFiles::Sink* sink) {
  auto files = std::make_unique<StoreFiles>(options, sink);
  if (absl::Status st = files->Init(); !st.ok()) return st;
  return files;
}

}  // namespace pulse::examples
