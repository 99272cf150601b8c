// FileWatch: what the file service tells of hosts' reads and writes, as offloaded reads need it:
// the guard's changes, cache-on-write and invalidate-on-read. DDS section 6.1.
#pragma once

#include "services/files/hooks.h"
#include "services/offload/range_guard.h"
#include "services/offload/runtime.h"

namespace pulse::offload {

class FileWatch final : public files::FileHooks {
 public:
  FileWatch(RangeGuard* guard, Runtime* runtime) : guard_(guard), runtime_(runtime) {}

  void WriteBegins(store::FileId file, uint64_t begin, uint64_t end) override {
    guard_->Begin(file, begin, end);
  }
  void WriteEnds(store::FileId file, uint64_t begin, uint64_t end) override {
    guard_->End(file, begin, end);
  }
  void FileChangeBegins(store::FileId file) override { guard_->BeginFile(file); }
  void FileChangeEnds(store::FileId file) override { guard_->EndFile(file); }
  void Wrote(store::FileId file, uint64_t offset, uint64_t size, const char* data) override {
    if (data != nullptr) {
      runtime_->Cache({file, offset, size, data});
    } else {
      runtime_->Invalidate({file, offset, size});
    }
  }
  void ReadTaken(store::FileId file, uint64_t offset, uint64_t size) override {
    runtime_->Invalidate({file, offset, size});
  }

 private:
  RangeGuard* const guard_;
  Runtime* const runtime_;
};

}  // namespace pulse::offload
