#include "powercut/recording_backend.h"

#include <map>
#include <utility>

#include "powercut/sim_disk.h"

namespace pulse::powercut {
namespace {

class RecordingBackend : public IoBackend {
 public:
  explicit RecordingBackend(std::unique_ptr<IoBackend> base) : base_(std::move(base)) {}

  bool Enqueue(const IoRequest& r) override {
    if (!base_->Enqueue(r)) return false;
    SimDisk& disk = SimDisk::Get();
    Pending p{r, {}};
    switch (r.op) {
      case IoOp::kSync:
        p.ticket = disk.BeginSync(r.fd);
        break;
      case IoOp::kSyncClose:
        // Nothing is in flight on the file, so what the kernel will do in order may be told now.
        if (r.length != kNoTruncate) disk.RecordTruncate(r.fd, r.length);
        p.ticket = disk.BeginSync(r.fd);
        disk.Forget(r.fd);
        break;
      case IoOp::kFallocate:
        disk.RecordAllocate(r.fd, r.length);
        break;
      case IoOp::kClose:
        disk.Forget(r.fd);
        break;
      default:
        break;
    }
    pending_[r.tag] = p;
    return true;
  }

  void Submit() override { base_->Submit(); }

  size_t Harvest(IoResult* out, size_t max) override {
    const size_t n = base_->Harvest(out, max);
    SimDisk& disk = SimDisk::Get();
    for (size_t i = 0; i < n; ++i) {
      const auto it = pending_.find(out[i].tag);
      if (it == pending_.end()) continue;
      const IoRequest r = it->second.request;
      const SimDisk::SyncTicket ticket = it->second.ticket;
      pending_.erase(it);
      if (r.op == IoOp::kWrite && out[i].result > 0) {
        disk.RecordWrite(r.fd, r.buffer, static_cast<size_t>(out[i].result), r.offset);
      }
      if ((r.op == IoOp::kSync || r.op == IoOp::kSyncClose) && out[i].result == 0) {
        disk.EndSync(ticket);
      }
    }
    return n;
  }

  int wait_fd() const override { return base_->wait_fd(); }
  bool needs_polling() const override { return base_->needs_polling(); }
  size_t in_flight() const override { return base_->in_flight(); }
  EngineKind kind() const override { return base_->kind(); }
  int RegisterBuffer(char* base, size_t bytes) override {
    return base_->RegisterBuffer(base, bytes);
  }
  void UnregisterBuffer(int index) override { base_->UnregisterBuffer(index); }
  int RegisterFile(int fd) override { return base_->RegisterFile(fd); }
  void UnregisterFile(int index) override { base_->UnregisterFile(index); }

 private:
  struct Pending {
    IoRequest request;
    SimDisk::SyncTicket ticket;
  };
  const std::unique_ptr<IoBackend> base_;
  std::map<uint64_t, Pending> pending_;
};

}  // namespace

IoBackendFactory RecordingFactory(EngineKind kind) {
  return [kind](const IoBackendOptions& o) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
    IoBackendOptions plain = o;
    plain.kind = kind;
    plain.factory = nullptr;
    auto base = CreateIoBackend(plain);
    if (!base.ok()) return base.status();
    // Where the engine is not to be had, the next best makes calls that the disk sees by itself.
    if ((*base)->kind() == EngineKind::kThreads) return base;
    return std::unique_ptr<IoBackend>(std::make_unique<RecordingBackend>(*std::move(base)));
  };
}

}  // namespace pulse::powercut
