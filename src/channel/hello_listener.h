// HelloListener: a Unix socket of mode 0600, and the thread that reads the first message of whoever
// connects, if that is a process of this user or of root. What the message means, its Host knows.
//
// Open returns when the socket accepts connections. Destruction ends the thread and removes the
// socket's file. A peer that says nothing keeps nobody else waiting: it is let go after a while, or
// when too many are silent. Threads: one of its own, on which it calls the Host, which outlives it.
#pragma once

#include <poll.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "channel/handshake.h"

namespace pulse {

class HelloListener {
 public:
  // None of its functions waits for a peer.
  class Host {
   public:
    virtual ~Host() = default;
    // Takes the socket once it answers by it itself; an error is told to the peer where the socket
    // was not taken.
    virtual absl::Status Welcome(UniqueFd* socket, Received hello) = 0;
    // For the log: a peer that was not welcome, or said nothing.
    virtual void Refused(const absl::Status& why) = 0;
    // Sockets to wait for as well, and what poll(2) found, for each of them in the same order.
    virtual void Watch(std::vector<pollfd>* /*fds*/) {}
    virtual void Look(std::span<const pollfd> /*watched*/) {}
  };
  struct Options {
    std::string path;
    std::string thread;       // its name
    std::string who;          // this process, as a peer is told: "the agent"
    int64_t hello_ms = 2000;  // how long a peer may take
  };

  // AlreadyExists where somebody listens.
  static absl::StatusOr<std::unique_ptr<HelloListener>> Open(Host* host, Options options);
  // In two steps, for a host that first has the path, and then what it needs: until Start, once,
  // who connects waits.
  static absl::StatusOr<std::unique_ptr<HelloListener>> Listen(Host* host, Options options);
  absl::Status Start();
  ~HelloListener();

 private:
  // A connection whose hello has not come yet.
  struct Greeting {
    UniqueFd socket;
    int64_t deadline;  // nanoseconds
  };
  HelloListener(Host* host, Options options) : host_(host), options_(std::move(options)) {}
  void Serve();
  bool Accept();  // false: better not at once again
  void ReadHello(Greeting greeting);
  void Refuse(const UniqueFd& socket, const absl::Status& why);

  Host* const host_;
  const Options options_;
  UniqueFd listener_;
  MadeFile socket_file_;
  WakeEvent stop_;
  std::vector<Greeting> greetings_;  // the thread's; oldest first
  std::thread thread_;
};

}  // namespace pulse
