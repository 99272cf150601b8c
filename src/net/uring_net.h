// The io_uring back-end's inside: multishot accept, multishot receive into buffers that the kernel
// picks, one send at a time per stream, device reads on the same ring. See net.h.
//
// Every request points at an Op, which lives until its last completion has come. So a stream or a
// watch that was closed is destroyed only then, and its descriptor closed only then: a request that
// is queued, but not yet submitted, names the descriptor by number.
#pragma once

#include <liburing.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "base/adaptive_spin.h"
#include "net/net.h"

namespace pulse::director {

struct UringOp {
  void (*complete)(void* self, int result, unsigned flags) = nullptr;
  void* self = nullptr;
};

class UringNet;

class UringStream final : public Stream {
 public:
  UringStream(UniqueFd fd, StreamEvents* events, UringNet* net, ChunkCache* cache);
  ~UringStream() override;
  void SetReading(bool on) override;
  void Flush() override;
  void Close() override;
  void Receive();  // arms, if that is due
  // At the ring's end: no notification is waited for longer.
  void Abort();

 private:
  friend class UringNet;
  static constexpr size_t kIovecs = 16;
  // A zero-copy send whose memory the kernel still reads.
  struct Zero {
    UringOp op;
    UringStream* stream = nullptr;
    std::vector<Chunk*> held;
    bool sent = false;
  };

  void Received(int result, unsigned flags);
  void Sent(int result);
  void ZeroSent(Zero* zero, int result, unsigned flags);
  void SendZero(size_t entries);
  void Fail(int error);
  void Ended();  // one request has seen its last completion

  StreamEvents* const events_;
  UringNet* const net_;
  UringOp receive_;
  UringOp send_;
  msghdr message_{};
  std::array<iovec, kIovecs> iov_{};
  uint64_t sent_ = 0;
  int in_flight_ = 0;
  int zeros_ = 0;  // of these, zero-copy sends
  bool reading_ = false;
  bool armed_ = false;
  bool cancelling_ = false;
  bool sending_ = false;
  bool ended_ = false;
  bool closed_ = false;
  bool dead_ = false;  // an error was reported
  bool zero_copy_ = true;
  bool bulk_ = false;
};

// A multishot poll, or accept.
class UringWatch final : public Watch {
 public:
  UringWatch(int fd, short events, bool accepts, std::function<void(int)> report, UringNet* net);
  void Close() override;
  void Arm();

 private:
  void Completed(int result, unsigned flags);

  const int fd_;
  const short events_;
  const bool accepts_;
  const std::function<void(int)> report_;
  UringNet* const net_;
  UringOp op_;
  uint64_t armed_in_ = 0;  // the submission
  bool armed_ = false;
  bool reporting_ = false;
  bool closed_ = false;
};

class UringNet final : public NetBackend {
 public:
  explicit UringNet(const NetOptions& options) : options_(options), spin_(options.spin_nanos) {}
  ~UringNet() override;
  absl::Status Start();

  NetKind kind() const override { return NetKind::kUring; }
  StreamPtr Open(UniqueFd fd, StreamEvents* events) override;
  WatchPtr Add(int fd, short events, std::function<void(short)> ready) override;
  WatchPtr Accept(int listener, std::function<void(int)> accepted) override;
  void Read(int fd, uint64_t offset, char* data, size_t size,
            std::function<void(int64_t)> done) override;
  size_t reads_in_flight() const override { return reads_; }
  void Wait(int64_t nanos) override;

  // For streams and watches.
  io_uring_sqe* Next(UringOp* op);
  void Cancel(UringOp* op);
  void Submit();
  uint64_t submissions() const { return submissions_; }
  const char* received(unsigned flags) const;
  void Recycle(unsigned flags);
  void Rearm(UringStream* stream) { starved_.push_back(stream); }
  void Forget(UringStream* stream);
  void Bury(std::function<void()> destroy) { graves_.push_back(std::move(destroy)); }
  const NetOptions& options() const { return options_; }

  bool multishot = true;
  bool zero_copy = true;
  static constexpr unsigned kGroup = 0;
  static constexpr size_t kBufferBytes = size_t{16} << 10;

 private:
  static constexpr unsigned kBuffers = 256;
  struct ReadOp {
    UringOp op;
    UringNet* net = nullptr;
    std::function<void(int64_t)> done;
  };

  absl::Status OpenRing();
  absl::Status OpenBuffers();
  bool Look(int64_t nanos);
  void Dispatch();
  void BuryDead();
  void ReadDone(ReadOp* read, int result);

  const NetOptions options_;
  AdaptiveSpin spin_;
  io_uring ring_{};
  bool open_ = false;
  io_uring_buf_ring* buffer_ring_ = nullptr;
  char* buffers_ = nullptr;
  uint64_t submissions_ = 0;
  size_t reads_ = 0;
  size_t ops_ = 0;  // streams and watches that live
  std::vector<std::unique_ptr<ReadOp>> free_reads_;
  std::vector<UringStream*> starved_;  // no buffer was left for them
  std::vector<UringStream*> streams_;  // closed, with zero-copy sends under way
  std::vector<std::function<void()>> graves_;

  friend class UringStream;
  friend class UringWatch;
};

}  // namespace pulse::director
