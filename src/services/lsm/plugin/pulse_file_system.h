// The RocksDB FileSystem behind pulse://. Wraps a base FileSystem and takes over what belongs to
// compaction and flush: outputs (persist stage), inputs (fetch stage), and the barrier before
// durable metadata. Everything else, the write-ahead log first of all, goes to the base untouched.
//
// The class that overrides FileSystem is private to the .cc. Every virtual that names a path
// decides what an output still in flight means for it.
#pragma once

#include <memory>
#include <string>

#include "base/maker_process.h"
#include "services/lsm/plugin/host_files.h"

namespace pulse::lsm {

class PulseFileSystem : public FileSystemWrapper {
 public:
  static absl::StatusOr<std::unique_ptr<PulseFileSystem>> Open(const std::string& uri,
                                                               std::shared_ptr<FileSystem> base);
  static absl::StatusOr<std::unique_ptr<PulseFileSystem>> Open(const Options& options,
                                                               std::shared_ptr<FileSystem> base);

  // A forked child's copy keeps its session for ever.
  ~PulseFileSystem() override {
    if (!maker_.IsThis()) (void)new std::shared_ptr<FileContext>(context_);
  }

  static const char* kClassName() { return "PulseFileSystem"; }
  const char* Name() const override { return kClassName(); }

  FileContext& context() { return *context_; }
  const FileContext& context() const { return *context_; }

 protected:
  PulseFileSystem(std::shared_ptr<FileSystem> base, std::shared_ptr<FileContext> context)
      : FileSystemWrapper(std::move(base)), context_(std::move(context)) {}

  const std::shared_ptr<FileContext> context_;

 private:
  const MakerProcess maker_;
};

}  // namespace pulse::lsm
