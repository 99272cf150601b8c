// Sequential reading and writing of compressed and plain data, ahead of and behind the thread that
// works on it.
//
// InputReader reads a source from where it is; optionally a thread reads ahead. OutputWriter writes
// to a sink: at once (Write), or by a thread that also computes the checksum (Submit). Neither owns
// its source or sink (byte_stream.h). One thread uses each, apart from those that they start
// themselves. Both block. Errors name the file.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/buffer.h"
#include "services/ops/byte_stream.h"
#include "services/ops/recycle_pool.h"

namespace pulse::ops {

class InputReader {
 public:
  static constexpr size_t kPiece = 256 << 10;
  // So many bytes that were consumed can always be given back, if there were so many.
  static constexpr size_t kUnread = 16;

  // `name` is for messages.
  InputReader(ByteSource& source, std::string name);
  // Stops reading ahead; waits for a read that goes on, where the source cannot be stopped.
  ~InputReader();
  InputReader(const InputReader&) = delete;
  InputReader& operator=(const InputReader&) = delete;

  const std::string& name() const { return name_; }
  // Of the next byte, from where the descriptor was.
  uint64_t offset() const { return offset_; }
  // How many bytes follow, as far as the source knew when this began.
  std::optional<uint64_t> Left() const {
    if (!size_.has_value()) return std::nullopt;
    return *size_ > offset_ ? *size_ - offset_ : 0;
  }

  // At least `n` bytes (at most kPiece), or all that are left; they stay there.
  absl::StatusOr<absl::string_view> Peek(size_t n);
  // What is there without copying, at least a byte; empty at the end of the input.
  absl::StatusOr<absl::string_view> Piece() { return Peek(1); }
  void Consume(size_t n);
  void Unread(size_t n);
  // Appends `n` bytes to `to`, or all that are left; returns how many.
  absl::StatusOr<size_t> ReadInto(Buffer& to, size_t n);

  // From now on a thread on these CPUs reads ahead, some pieces. None: where the caller runs. If it
  // cannot be started, the caller reads as before.
  void StartAhead(std::vector<int> cpus = {});

  // A piece of the input that is not consumed yet.
  struct Ahead {
    uint64_t offset = 0;
    std::shared_ptr<const Buffer> piece;
    absl::string_view bytes() const { return piece->view().substr(kUnread); }
  };
  // The next piece that was read ahead, each once and in their order, without waiting; it stays in
  // front of Peek, and as it is as long as anybody holds it. None: no more has been read so far.
  std::optional<Ahead> LookAhead();
  // LookAhead gave the last one.
  bool SeesEnd();

  // Nothing is wanted any more: who waits in here for the source gets an error soon, where the
  // source can be stopped. Any thread.
  void Stop() { source_.Stop(); }

  // Called by the using thread with each piece that it gets; an error is that of reading. Null:
  // nothing.
  void SetHook(std::function<absl::Status()> hook) { hook_ = std::move(hook); }

 private:
  absl::Status Fill(size_t n);
  absl::StatusOr<size_t> Get(uint8_t* to, size_t n);
  // Of those that the thread read; null at their end.
  std::shared_ptr<Buffer> NextPiece();
  void ReadAhead(const std::vector<int>& cpus);

  ByteSource& source_;
  const std::string name_;
  const std::optional<uint64_t> size_;
  uint64_t offset_ = 0;
  std::function<absl::Status()> hook_;
  RecyclePool<Buffer> pool_;
  // The bytes [at_, end_) of it; those before at_ were consumed.
  std::shared_ptr<Buffer> buffer_;
  size_t at_ = kUnread;
  size_t end_ = kUnread;
  bool ended_ = false;

  // What LookAhead gave and Peek did not reach yet.
  std::deque<std::shared_ptr<Buffer>> looked_at_;
  uint64_t looked_at_bytes_ = 0;

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Buffer>> full_;
  bool ahead_ended_ = false;
  bool stop_ = false;
  absl::Status ahead_status_;
};

class OutputWriter {
 public:
  enum class Check : uint8_t { kNone, kCrc32, kAdler32 };
  static constexpr size_t kPiece = 1 << 20;

  // More than `limit` bytes are refused with ResourceExhausted; 0: no limit. Without `threaded`,
  // the thread that submits writes; with it, one on these CPUs (none: where the submitter runs), if
  // it can be started.
  OutputWriter(ByteSink& sink, std::string name, uint64_t limit = 0, bool threaded = true,
               std::vector<int> cpus = {});
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  const std::string& name() const { return name_; }

  // At once. Not between Submit and Flush.
  absl::Status Write(absl::string_view bytes);

  // For the writing thread: a buffer of kPiece capacity, empty; blocks while all are on their way.
  Buffer GetBuffer();
  // Returns an earlier error, if there was one.
  absl::Status Submit(Buffer buffer);
  // Data that are to be ready by the time they are written: it returns them, and continues the
  // checksum by them. The writing thread calls it once, and then destroys it.
  using Late = std::function<absl::string_view(Check check, uint32_t& checksum)>;
  absl::Status SubmitLate(Late late);
  // Whether so much is on its way that GetBuffer is about to block.
  bool IsBehind();
  // All that was submitted is written.
  absl::Status Flush();

  // The checksum of what is submitted from now on; after Flush only. `initial` continues one.
  void StartCheck(Check check, uint32_t initial);
  // After Flush.
  uint32_t checksum() const { return checksum_; }
  // What is checked; for who submits.
  Check check() const { return check_; }

  // All that was written. Any thread.
  uint64_t written() const { return written_.load(std::memory_order_relaxed); }

 private:
  struct Submitted {
    Buffer buffer;
    Late late;  // in place of the buffer
  };
  absl::Status Submit(Submitted submitted);
  // False: it cannot be started.
  bool StartThread();
  void Run();
  // Checks and writes what was submitted, unless something failed before. Unlocks meanwhile.
  void WriteSubmitted(std::unique_lock<std::mutex>& lock, Submitted submitted);
  absl::Status WriteLate(Submitted& submitted, Check check, uint32_t& sum);

  ByteSink& sink_;
  const std::string name_;
  const uint64_t limit_;
  bool threaded_;
  const std::vector<int> cpus_;
  std::atomic<uint64_t> written_{0};
  Check check_ = Check::kNone;
  uint32_t checksum_ = 0;

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Submitted> full_;
  std::deque<Buffer> empty_;
  size_t buffers_ = 0;
  bool writing_ = false;
  bool stop_ = false;
  absl::Status status_;
};

}  // namespace pulse::ops
