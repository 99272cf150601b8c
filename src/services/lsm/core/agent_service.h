// The agent's half of the LSM service: executes fetch and write-persist for RocksDB (PulseDB
// III-B). Runs on a worker thread; see agent/service.h for the contract.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "agent/service.h"

namespace pulse::lsm {

// As requests are counted for those who watch.
enum class RequestKind : uint8_t {
  kOpen,
  kRead,
  kWrite,
  kRangeSync,
  kSync,
  kSyncClose,
  kDiscard,
  kCount
};

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* engine);

// Begins a compaction that the agent does all of, whose request and answer pass through these
// descriptors (placement/task_wire.h). On a worker's thread: must not block.
using StartTask = std::function<absl::Status(UniqueFd request, UniqueFd reply)>;

// Makes services that hand whole compactions to `start`, and refuse them without.
ServiceFactory AgentServiceFactory(StartTask start);

}  // namespace pulse::lsm
