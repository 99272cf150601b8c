// Service: the one interface through which the agent knows what its sessions ask for. A service
// turns descriptors into work on the FileEngine and pushes completions when it is done.
//
// One object per session, owned by it, called only on the session's worker thread; must never
// block. The host is untrusted: every length, offset and file number in a descriptor is checked
// before use.
#pragma once

#include <cstdint>
#include <memory>

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
  // The session ends: stop starting work, close every file once its in-flight I/O is done.
  virtual void BeginShutdown() = 0;
  // Nothing of this session is in flight any more; it may be destroyed.
  virtual bool Drained() const = 0;
};

// Makes the service for a new session. `engine` outlives it.
using ServiceFactory = std::unique_ptr<Service> (*)(Session* session, FileEngine* engine);

}  // namespace pulse
