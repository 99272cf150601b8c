// The agent's half of the LSM service: executes fetch and write-persist for RocksDB (PulseDB
// III-B). Runs on a worker thread; see agent/service.h for the contract.
#pragma once

#include <memory>

#include "agent/service.h"

namespace pulse::lsm {

class TaskRunner;

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* engine);

// Makes services that hand whole compactions to `tasks`, which must outlive them. Without, they are
// refused.
ServiceFactory AgentServiceFactory(TaskRunner* tasks);

}  // namespace pulse::lsm
