// What flushes and compactions of a store share: the files that they write, and what they report of
// the engine that copied. Threads: one for each object, which holds the store's maintenance_mu_.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/runs/engines.h"

namespace pulse::graph {

// Files that are removed again, unless all of them are kept: where a store has no space, its next
// attempts find at least what there was.
class StoreImpl::NewFiles {
 public:
  explicit NewFiles(StoreImpl* store) : store_(*store) {}
  ~NewFiles() { store_.RemoveFiles(names_); }
  NewFiles(const NewFiles&) = delete;
  NewFiles& operator=(const NewFiles&) = delete;
  std::string Name(std::string_view suffix) {
    names_.push_back(store_.NewFile(suffix));
    return names_.back();
  }
  void Add(std::string name) { names_.push_back(std::move(name)); }
  void Keep() { names_.clear(); }

 private:
  StoreImpl& store_;
  std::vector<std::string> names_;
};

// A run that is written to a file.
class RunFile : public RunSink {
 public:
  explicit RunFile(File* file) : file_(file) {}
  absl::Status Append(absl::string_view bytes) override {
    PULSE_RETURN_IF_ERROR(file_->WriteAt({bytes.data(), bytes.size()}, size_));
    size_ += bytes.size();
    return absl::OkStatus();
  }

 private:
  File* const file_;
  uint64_t size_ = 0;
};

// What a stretch of maintenance took.
class Meter {
 public:
  EngineOutcome Of(const EngineChoice& choice, const ExecutorStats& copies) const {
    EngineOutcome out;
    out.name = choice.name;
    // An engine that has done nothing of what it was asked for is none to choose again soon.
    if (copies.fallback_bytes > 0 && copies.engine_bytes == 0) out.fell_back = copies.last_failure;
    out.nanos = NowNanos() - wall_;
    out.cpu_nanos = ThreadCpuNanos() - cpu_;
    return out;
  }

 private:
  const int64_t wall_ = NowNanos(), cpu_ = ThreadCpuNanos();
};

}  // namespace pulse::graph
