// Service: the one interface through which the agent knows what its sessions ask for. A service
// turns descriptors into work on the FileEngine and pushes completions when it is done; or it
// brings requests of another form, which it takes from memory of its own (OnMessage, Poll,
// Deliver).
//
// One object per session, owned by it, called only on the session's worker thread; must never
// block. The host is untrusted: every length, offset and file number in a descriptor is checked
// before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"
#include "channel/wire.h"
#include "uring/file_engine.h"

namespace pulse {

class Session;
class SessionQueue;

class Service {
 public:
  virtual ~Service() = default;
  // Answered by exactly one SessionQueue::Complete, now or later, unless the session ends first.
  virtual void OnDescriptor(SessionQueue* queue, const wire::Descriptor& d) = 0;
  // A descriptor that the host passed for `file`; arrives before any request that names it. Not
  // valid when this process could not receive it, because it may open no more files (EMFILE).
  virtual void OnFile(uint32_t file, UniqueFd fd) = 0;

  // A control message that the session itself does not know. An error refuses it, with a text for
  // the host; `ack` is the answer.
  virtual absl::Status OnMessage(const wire::Message& message, std::vector<UniqueFd> fds,
                                 wire::Message* ack) {
    return absl::UnimplementedError("the session's service has no such message");
  }
  // For a service that has requests of its own form: takes at most `batch` from each of their
  // sources, and returns how many. An error is a breach of the protocol, and ends the session.
  virtual absl::Status Poll(size_t batch, size_t* taken) { return absl::OkStatus(); }
  // Whether Poll would find something. The host's end is checked as the sleep protocol demands.
  virtual bool HasWork() { return false; }
  // Something waits for the host to make room, of which it does not tell.
  virtual bool HasDeferred() const { return false; }
  // The host was given something of which it will likely make further requests, and has not yet.
  virtual bool ExpectsRequests() const { return false; }
  // Gives the host what is finished, and wakes it. True when something was done.
  virtual bool Deliver() { return false; }

  // The session ends: stop starting work, close every file once its in-flight I/O is done.
  virtual void BeginShutdown() = 0;
  // Nothing of this session is in flight any more; it may be destroyed.
  virtual bool Drained() const = 0;
};

// Makes the service for a new session. `engine` outlives it.
using ServiceFactory =
    std::function<std::unique_ptr<Service>(Session* session, FileEngine* engine)>;

}  // namespace pulse
