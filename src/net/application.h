// What a director does with the connections that it looks at: an Application makes one Flow for
// each of them. The director owns sockets, buffers, limits and order; a flow splits the bytes into
// requests and decides, for each, whether the host answers it or the agent does. DDS sections 5
// and 6.1.
//
// A director without a host is a server: its flows answer everything themselves.
//
// Threads. An Application is shared by all loops and must be thread-safe. A Flow and its Connection
// belong to one loop, and every call between them is made on its thread, but for Remote's. Nothing
// called here may block.
//
// Order. Replies leave in the order of the requests (Ordering::kRequest), or as they come
// (Ordering::kAny, for protocols whose replies name their request). Within one connection, what
// Forward was given reaches the host in that order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/buffer.h"

namespace pulse::net {

class ByteBudget;

// One request of a connection; ascending, never 0.
using Ticket = uint64_t;

enum class Ordering { kRequest, kAny };

// A connection as other threads may know it. Copyable; outlives the connection, and then does
// nothing.
class Remote {
 public:
  virtual ~Remote() = default;
  // Runs `work` on the connection's loop, unless the connection has ended by then. In the order of
  // the calls of one thread. Thread-safe; never blocks.
  virtual void Post(std::function<void()> work) = 0;
};

// Another process that a loop exchanges memory with, beside its sockets. Called on the loop's
// thread alone; nothing here may block.
class LoopPeer {
 public:
  virtual ~LoopPeer() = default;
  // In each turn, behind the sockets' events: takes what the peer has left.
  virtual void Poll() = 0;
  // Flows have been given what there is: the time to hand over what they have for the peer. May be
  // called several times a turn.
  virtual void EndTurn() = 0;
  // Whether there is something to take. Cheap: a loop that looks before it sleeps asks often.
  virtual bool HasWork() = 0;
  // The loop is about to sleep: what the peer leaves from now on has to wake it, by a descriptor
  // that is watched (EventLoop::Watch). HasWork is asked once more afterwards.
  virtual void BeginSleep() = 0;
  virtual void EndSleep() = 0;
};

// The loop that a connection belongs to.
class EventLoop {
 public:
  virtual ~EventLoop() = default;
  // Reads from a file or device without blocking and calls `done`, always, on this loop's thread,
  // with the bytes read or -errno. `data` must be valid until then, and `done` must not rely on the
  // connection, which may have ended: hold a weak pointer. On the loop's thread only.
  virtual void Read(int fd, uint64_t offset, char* data, size_t size,
                    std::function<void(int64_t)> done) = 0;
  // Runs `work` on the loop's thread, unless the director has stopped by then. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
  // Calls `ready` on the loop's thread whenever `fd` becomes readable (edges: read until there is
  // nothing), until the result goes, which has to be there, too. Null with errno when the kernel
  // has no room. The descriptor stays the caller's.
  virtual std::shared_ptr<void> Watch(int fd, std::function<void()> ready) = 0;
  // Post for who may outlive the loop: then it does nothing.
  virtual std::shared_ptr<Remote> remote() = 0;
  virtual BufferPool* buffers() = 0;
  virtual int index() const = 0;  // from 0
  // For how long it looks for events before it sleeps, at the most and while it helps, from its
  // next turn on. On the loop's thread only.
  virtual void SetSpin(int64_t nanos) = 0;
  // It does not sleep before its next turn, which begins by then (base/clock.h). On the loop's
  // thread only.
  virtual void LookUntil(int64_t nanos) = 0;
  // When its turn began.
  virtual int64_t now() const = 0;
};

// What a flow can do with its client and its host. Each ticket is to be given to exactly one of
// Forward and Reply, in OnRequest or later. Calls for a connection that is closing do nothing.
class Connection {
 public:
  virtual ~Connection() = default;

  // Sends `bytes` (copied) to the host; `replies` messages of the host answer it, each given to
  // OnHostReply. With 0, the ticket is done. Never before the host connection's preface is through.
  // Without a host, and while it cannot be reached, the ticket ends by OnHostLost.
  virtual void Forward(Ticket ticket, std::string_view bytes, uint32_t replies = 1) = 0;
  // Answers. The first copies; the second takes the buffer over and sends from it.
  virtual void Reply(Ticket ticket, std::string_view bytes) = 0;
  virtual void Reply(Ticket ticket, Buffer bytes) = 0;
  // A part of an answer (copied); the ticket stays to be answered, with what follows. False: this
  // kind of connection has no such answers.
  virtual bool ReplyPart(Ticket ticket, std::string_view bytes) { return false; }
  // Bytes (copied) that answer no request, behind the answers that were given so far; not while a
  // ticket is answered in parts. False, also for no bytes: this kind of connection has no such
  // messages.
  virtual bool Push(std::string_view bytes) { return false; }
  // The client gets what was answered before, then `last_words`, then the end of the stream.
  // Called within OnRequest, it comes in that request's place: those before it are still waited
  // for (no longer than for a slow client). Called elsewhere, what has no answer yet is dropped.
  virtual void Close(std::string_view last_words) = 0;
  // Within OnRequest: one more ticket, behind those there are, for a message of several requests.
  // 0: this kind of connection has none.
  virtual Ticket AnotherTicket() { return 0; }

  virtual std::shared_ptr<Remote> remote() = 0;
  // Where replies that disk bytes are read into come from; of this loop.
  virtual BufferPool* buffers() = 0;
  virtual EventLoop* loop() { return nullptr; }
  // Tickets that have no answer yet.
  virtual size_t outstanding() const = 0;
  // Bytes of replies that the client has not taken yet.
  virtual size_t unsent() const { return 0; }
  // What all connections of its kind may hold, replies on their way included; null: it has no part
  // in that.
  virtual std::shared_ptr<ByteBudget> budget() { return nullptr; }
  // For a flow that has stopped as there is no room for a large reply in what all connections may
  // hold: whether it may go on, with this one. While it may not, it is asked to by OnRoom, and
  // says so by lacks_room().
  virtual bool MayExceed() { return true; }
  // "127.0.0.1:4711", for messages.
  virtual const std::string& peer() const = 0;
  // The server's own end; empty: it is not known here.
  virtual std::string local() const { return ""; }
};

class Flow {
 public:
  virtual ~Flow() = default;

  // The size of the first whole message in `bytes`; 0 when there is none yet. Must be cheap to ask
  // again with more bytes, as it is called at each arrival. An error ends the connection, after
  // ErrorReply of it. Called with at most the director's max_message bytes (a reply:
  // max_host_message): a message that is not whole by then is an error of the director's.
  virtual absl::StatusOr<size_t> SplitRequest(std::string_view bytes) = 0;
  virtual absl::StatusOr<size_t> SplitReply(std::string_view bytes) = 0;

  // One whole request; `bytes` are valid during the call.
  virtual void OnRequest(Ticket ticket, std::string_view bytes) = 0;
  // All requests that had arrived together were given: the time to start what was collected.
  virtual void OnRequestsEnd() {}
  // Bytes of requests that it keeps until it can begin them, or is done with them. The client is
  // not read while there are more than the director's connection_bytes. They must go without more
  // from the client, and with a Reply, Forward or Close. Cheap: asked for each request.
  virtual size_t held() const { return 0; }

  // False: the next request waits, as how it is to be split depends on the answer to one that has
  // been given. That must come without more from the client, which is not read meanwhile. Cheap:
  // asked for each request.
  virtual bool takes_requests() const { return true; }

  // At the end of a turn of the loop in which something happened to the connection, and unsent() is
  // at most half of the director's connection_bytes: a flow that holds replies back for want of
  // room goes on. Where no ticket is open, only of a flow that waits for it.
  virtual void OnRoom() {}
  virtual bool waits_for_room() const { return false; }
  // It waits until MayExceed.
  virtual bool lacks_room() const { return false; }
  // Of the message whose beginning SplitRequest was given last: how long it will be at least; 0:
  // not known.
  virtual size_t expected() const { return 0; }
  // Its client waits for what it is told, and need not ask anything: it is never idle. Asked while
  // nothing is outstanding.
  virtual bool listens() const { return false; }

  // The client has ended its side, and all that it sent was given. It is answered still, unless the
  // flow closes the connection now.
  virtual void OnClientEnd() {}

  // A message of the host's for `ticket`: the oldest that the host has not answered, whatever the
  // ordering; under kAny it is the message that names its request. What it appends to `out` goes to
  // the client in the ticket's place. `last`: the ticket is done with it.
  virtual void OnHostReply(Ticket ticket, std::string_view bytes, bool last, std::string* out) {
    out->append(bytes);
  }
  // The host was lost, or could not be reached, before it had answered the ticket: what the client
  // gets instead. Whether the host has carried it out is not known if `sent`.
  virtual std::string OnHostLost(Ticket ticket, bool sent) = 0;
  // What the client is told before its connection ends, in its protocol; may be empty.
  virtual std::string ErrorReply(const absl::Status& error) = 0;

  // Sent on each new connection to the host, before anything else; `replies` messages answer it,
  // given to OnPreface. An error from that ends the host connection.
  struct Preface {
    std::string bytes;
    uint32_t replies = 0;
  };
  virtual Preface HostPreface() { return {}; }
  virtual absl::Status OnPreface(std::string_view bytes) { return absl::OkStatus(); }
  // The host closed or lost the connection. All its tickets have been told; no HostPreface was
  // asked for since. Where the flow closes its client now, what it forwarded meanwhile is not sent.
  virtual void OnHostClosed() {}
};

class Application {
 public:
  virtual ~Application() = default;
  // `connection` outlives the flow. Null refuses the connection.
  virtual std::unique_ptr<Flow> NewFlow(Connection* connection) = 0;
  virtual Ordering ordering() const { return Ordering::kRequest; }
  // On each loop's thread, when it has given its flows what has arrived, and before replies leave:
  // the time to carry out what flows of one loop have collected together.
  virtual void OnTurnEnd() {}
  // Of a loop that begins, on its thread; ends with the loop's last connection. Null: it has none.
  virtual std::unique_ptr<LoopPeer> NewLoopPeer(EventLoop* loop) { return nullptr; }
};

}  // namespace pulse::net
