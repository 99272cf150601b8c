// ByteSource and ByteSink: where the bytes of a stream come from and go to: a descriptor, memory,
// or functions of a program. What is here owns neither descriptors nor memory.
//
// One thread at a time uses each. Both may block.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "services/ops/buffer.h"

namespace pulse::ops {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // At least one byte, at most `size`; 0 at the end.
  virtual absl::StatusOr<size_t> Read(void* to, size_t size) = 0;
  // How many bytes follow, where that is known.
  virtual std::optional<uint64_t> Left() const { return std::nullopt; }
  // Nothing is wanted any more: a Read that waits ends soon, where that can be had, and none after
  // it waits. Any thread.
  virtual void Stop() {}
};

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // All of it.
  virtual absl::Status Write(absl::string_view bytes) = 0;
};

// Whether it is a regular file that has the size that it says. Files of /proc say that they are
// empty, those of /sys that they have a page, and are on no blocks: they are read to their end, as
// streams.
bool HasTrueSize(const struct stat& info);

// Reads until `size` bytes are there or the input ends; returns how many there are.
absl::StatusOr<size_t> ReadFully(ByteSource& source, void* to, size_t size);

// A larger pipe takes fewer calls. Does nothing to what is no pipe, or if it is not allowed.
void EnlargePipe(int fd);

// read(2) from where the descriptor is. `name` is for messages. Cancelled after Stop.
class FdSource : public ByteSource {
 public:
  FdSource(int fd, std::string name);
  absl::StatusOr<size_t> Read(void* to, size_t size) override;
  // Of a regular file, as long as it is now.
  std::optional<uint64_t> Left() const override;
  void Stop() override;

 private:
  const int fd_;
  const std::string name_;
  UniqueFd stop_;  // an eventfd, for what may be waited for
};

// write(2); a negative descriptor takes everything and writes nothing.
class FdSink : public ByteSink {
 public:
  FdSink(int fd, std::string name);
  absl::Status Write(absl::string_view bytes) override;

 private:
  const int fd_;
  const std::string name_;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(absl::string_view bytes) : left_(bytes) {}
  absl::StatusOr<size_t> Read(void* to, size_t size) override;
  std::optional<uint64_t> Left() const override { return left_.size(); }

 private:
  absl::string_view left_;
};

// Appends to a buffer.
class BufferSink : public ByteSink {
 public:
  explicit BufferSink(Buffer* buffer) : buffer_(buffer) {}
  absl::Status Write(absl::string_view bytes) override {
    buffer_->Append(bytes);
    return absl::OkStatus();
  }

 private:
  Buffer* const buffer_;
};

}  // namespace pulse::ops
