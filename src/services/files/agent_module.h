// The file service of one agent process: the store that its sessions share, from the agent's
// command line. Opening locks the store and blocks on its recovery.
#pragma once

#include "agent/service_module.h"

namespace pulse::files {

class FileStore;

extern const ServiceEntry kEntry;

// The store of a module that kEntry opened.
FileStore* StoreOf(ServiceModule* module);

}  // namespace pulse::files
