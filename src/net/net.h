// NetBackend: a loop's way to the kernel's sockets, by epoll or by io_uring. It moves bytes and
// reports; what they mean, and when to read, others decide.
//
// Owned, created and called by one thread. Nothing here blocks but Wait. Events are given from
// within Wait (and Flush, for epoll's), never from SetReading or Close. Closing a stream ends its
// events at once; its descriptor goes when the kernel is done with it.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "net/out_queue.h"

namespace pulse::director {

enum class NetKind { kAuto, kEpoll, kUring };
std::string_view NetKindName(NetKind kind);

class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // `bytes` are valid during the call. May come shortly after SetReading(false) too.
  virtual void OnBytes(std::string_view bytes) = 0;
  // The peer has shut down its sending side.
  virtual void OnEnd() = 0;
  // The connection is dead (errno): no event follows.
  virtual void OnError(int error) = 0;
  // Some of out() has left.
  virtual void OnSent() = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;
  // Off at first.
  virtual void SetReading(bool on) = 0;
  // Begins to send what out() holds, unless that is going on already.
  virtual void Flush() = 0;
  // Says that no more bytes follow those that have left; with nothing in out() only.
  virtual void EndSending();
  // Ends events; the object destroys itself in time. What has not left is lost.
  virtual void Close() = 0;
  OutQueue* out() { return &out_; }
  // Of all that was ever appended, what may have reached the peer.
  uint64_t handed_over() const { return handed_over_; }
  int fd() const { return fd_.get(); }

 protected:
  Stream(UniqueFd fd, ChunkCache* cache) : fd_(std::move(fd)), out_(cache) {}
  UniqueFd fd_;
  OutQueue out_;
  uint64_t handed_over_ = 0;
};
struct StreamCloser {
  void operator()(Stream* stream) const { stream->Close(); }
};
using StreamPtr = std::unique_ptr<Stream, StreamCloser>;

// Readiness of a descriptor that stays the caller's: reported once when it is added, and at every
// change (edges): work until EAGAIN.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual void Close() = 0;
};
struct WatchCloser {
  void operator()(Watch* watch) const { watch->Close(); }
};
using WatchPtr = std::unique_ptr<Watch, WatchCloser>;

class NetBackend {
 public:
  virtual ~NetBackend() = default;
  virtual NetKind kind() const = 0;

  // Null with errno when the kernel has no room.
  virtual StreamPtr Open(UniqueFd fd, StreamEvents* events) = 0;
  // `ready(events)` gets bits of poll(2). Null with errno as above.
  virtual WatchPtr Add(int fd, short events, std::function<void(short)> ready) = 0;
  // Calls `accepted` with each connection, or with -errno. While the result lives.
  virtual WatchPtr Accept(int listener, std::function<void(int)> accepted) = 0;
  // See EventLoop::Read.
  virtual void Read(int fd, uint64_t offset, char* data, size_t size,
                    std::function<void(int64_t)> done) = 0;
  virtual size_t reads_in_flight() const = 0;
  // Waits at most so long for events, and gives them.
  virtual void Wait(int64_t nanos) = 0;
};

struct NetOptions {
  NetKind kind = NetKind::kAuto;
  ChunkCache* cache = nullptr;
  std::function<void()> woke;  // called when Wait has waited, before events
  // Wait looks for events so long, at the most and while it helps (base/adaptive_spin.h), before it
  // sleeps: for loops with a CPU of their own, where a sleep costs what waking takes. 0: never.
  int64_t spin_nanos = 0;
  // For tests: features of io_uring to do without.
  bool without_multishot = false;
  // Sends of at least so many bytes avoid the copy while the kernel really can; 0 never.
  size_t zero_copy_bytes = size_t{32} << 10;
};
// kAuto takes io_uring where the kernel offers all that it needs, and else epoll, with one log
// line.
absl::StatusOr<std::unique_ptr<NetBackend>> CreateNetBackend(const NetOptions& options);
absl::StatusOr<std::unique_ptr<NetBackend>> CreateEpollBackend(const NetOptions& options);
absl::StatusOr<std::unique_ptr<NetBackend>> CreateUringNetBackend(const NetOptions& options);

}  // namespace pulse::director
