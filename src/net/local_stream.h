// Connections between loops of one process, without the kernel: an agent's network front and a host
// in the same process exchange bytes by memory, and wake each other only when the other sleeps.
//
// LocalPort: where a director takes such connections; see Director::local_port(). It may outlive
// its director: then Connect fails, and connections that are there end as sockets would. Connect is
// called on the connecting loop's thread. Streams belong to the loop that has the end; each gives
// its events from within the loop's turn. At most kLocalRoom bytes are on the way in a direction:
// beyond that the sender waits, as for a socket.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/mailbox.h"
#include "net/poller.h"

namespace pulse::net {

class Loop;
class LocalStream;

inline constexpr size_t kLocalRoom = size_t{64} << 10;

// What both ends share.
struct LocalConnection : std::enable_shared_from_this<LocalConnection> {
  struct End {
    std::shared_ptr<Mailbox> mailbox;
    LocalStream* stream = nullptr;  // of its own loop alone
    // The rest under the mutex.
    std::string in;        // on the way to this end
    bool told = false;     // its loop has an event for it
    bool waited = false;   // the other end waits for room in `in`
    bool no_more = false;  // the other end has ended its side
    bool gone = false;
  };
  // Releases the mutex. Tells the loop of an end that something has happened to it, unless it has
  // been told already.
  void Tell(std::unique_lock<std::mutex> lock, int side);

  std::mutex mutex;
  End ends[2];
};

// What a loop has for the ends that are its own. The loop's thread alone.
class LocalEnds {
 public:
  explicit LocalEnds(ChunkCache* cache);
  ~LocalEnds();

  // Takes an end whose mailbox is this loop's.
  StreamPtr Take(std::shared_ptr<LocalConnection> connection, int side, StreamEvents* events);
  void Deliver(const LocalEvent& event);
  // Destroys what was closed; from within no event.
  void BuryDead();

 private:
  friend class LocalStream;
  ChunkCache* const cache_;
  std::string arrived_;
  std::vector<std::unique_ptr<LocalStream>> graves_;
};

// The accepting end until its loop has taken it. Destroyed before that, the connection ends.
class LocalOffer {
 public:
  explicit LocalOffer(std::shared_ptr<LocalConnection> connection)
      : connection_(std::move(connection)) {}
  LocalOffer(const LocalOffer&) = delete;
  LocalOffer& operator=(const LocalOffer&) = delete;
  ~LocalOffer();
  StreamPtr Take(LocalEnds* ends, StreamEvents* events);

 private:
  std::shared_ptr<LocalConnection> connection_;
};

class LocalPort {
 public:
  void Add(Loop* loop);
  // Takes no more connections. Thread-safe.
  void Close() { closed_ = true; }
  // A connection from `from` to the loop of its index, so that as many on both sides share the work
  // alike; null once closed, and when that loop has stopped.
  StreamPtr Connect(Loop* from, StreamEvents* events) const;

 private:
  struct Entry {
    Loop* loop;  // touched only by what its mailbox runs
    std::shared_ptr<Mailbox> mailbox;
  };
  std::vector<Entry> loops_;
  std::atomic<bool> closed_{false};
};

}  // namespace pulse::net
