// Poller: a loop's way to the kernel's sockets, by epoll. It moves bytes and reports; what they
// mean, and when to read, others decide.
//
// Owned, created and called by one thread. Nothing here blocks but Wait, and events are given from
// within it alone. Closing a stream or a watch ends its events at once.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/adaptive_spin.h"
#include "base/unique_fd.h"
#include "net/application.h"
#include "net/mailbox.h"
#include "net/out_queue.h"
#include "uring/io_backend.h"

namespace pulse::net {

class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // How many bytes OnBytes may have next, at most; not 0.
  virtual size_t MostBytes() { return SIZE_MAX; }
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
  virtual void EndSending() = 0;
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

// Events of a descriptor that stays the caller's, until it is closed.
class Watch;
struct WatchCloser {
  void operator()(Watch* watch) const;
};
using WatchPtr = std::unique_ptr<Watch, WatchCloser>;

class SocketStream;

class Poller {
 public:
  // `woke` is called when Wait has waited, before events. Wait looks for events for `spin_nanos`,
  // at the most and while it helps (base/adaptive_spin.h), before it sleeps: for loops with a CPU
  // of their own, where a sleep costs what waking takes. 0: never.
  // `mailbox`: of the loop, which outlives the poller: Wait does not begin, or goes on, once there
  // is something in it.
  static absl::StatusOr<std::unique_ptr<Poller>> Open(ChunkCache* cache, Mailbox* mailbox,
                                                      std::function<void()> woke,
                                                      int64_t spin_nanos);
  // Waits for reads from devices, which write into memory of others.
  ~Poller();

  // The next Wait does not sleep, and ends by then.
  void LookUntil(int64_t nanos) { look_until_ = nanos; }
  // As Open's, from the next Wait on.
  void set_spin_nanos(int64_t nanos) { spin_ = AdaptiveSpin(nanos); }
  // Who is asked for work before Wait sleeps; null: nobody.
  void set_peer(LoopPeer* peer) { peer_ = peer; }
  // Null with errno when the kernel has no room.
  StreamPtr Open(UniqueFd fd, StreamEvents* events);
  // `ready(events)` gets bits of poll(2): once at first, and at every change (edges), so work until
  // EAGAIN. Null with errno as above.
  WatchPtr Add(int fd, short events, std::function<void(short)> ready);
  // Calls `accepted` with each connection, or with -errno.
  WatchPtr Accept(int listener, std::function<void(int)> accepted);
  // See EventLoop::Read.
  void Read(int fd, uint64_t offset, char* data, size_t size, std::function<void(int64_t)> done);
  size_t reads_in_flight() const {
    return reads_waiting_.size() + reads_.size() - free_reads_.size();
  }
  // Waits at most so long for events, and gives them.
  void Wait(int64_t nanos);
  // Of all its streams, ever.
  uint64_t received_bytes() const { return received_bytes_; }
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  friend class SocketStream;
  friend class Watch;
  class Source;
  struct PendingRead {
    IoRequest request;
    std::function<void(int64_t)> done;
  };

  Poller(ChunkCache* cache, Mailbox* mailbox, std::function<void()> woke, int64_t spin_nanos);
  bool Control(int operation, int fd, uint32_t bits, Source* source);
  WatchPtr AddWatch(int fd, uint32_t bits, std::function<void(short)> ready);
  int WaitForEvents(epoll_event* events, int64_t nanos);
  int Sleep(epoll_event* events, int64_t nanos);
  void BuryDead();
  bool OpenDisk();
  void StartReads();
  void HarvestReads();

  ChunkCache* const cache_;
  Mailbox* const mailbox_;
  const std::function<void()> woke_;
  AdaptiveSpin spin_;
  int64_t look_until_ = 0;  // 0: it may sleep
  bool has_pwait2_ = true;
  LoopPeer* peer_ = nullptr;
  UniqueFd epoll_;
  std::vector<char> received_;
  uint64_t received_bytes_ = 0;
  uint64_t sent_bytes_ = 0;
  std::vector<Source*> graves_;        // closed, but an event of this turn may point at them
  std::vector<SocketStream*> failed_;  // to be told
  std::unique_ptr<IoBackend> disk_;    // from the first Read on
  WatchPtr disk_watch_;
  std::vector<PendingRead> reads_;  // by the request's tag
  std::vector<uint32_t> free_reads_;
  std::vector<PendingRead> reads_waiting_;
};

}  // namespace pulse::net
