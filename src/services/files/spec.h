// The file service as agents, hosts and those who watch know it: its spec, and the store that the
// sessions of one agent process share, from the agent's command line. Opening locks the store and
// blocks on its recovery.
#pragma once

#include "agent/service_module.h"

namespace pulse::files {

class FileStore;

extern const ServiceSpec kSpec;
extern const ServiceEntry kEntry;

// The store of a module that kEntry opened.
FileStore* StoreOf(ServiceModule* module);

}  // namespace pulse::files
