// The LSM service of one agent process: whole compactions, which its sessions share, from the
// agent's command line. Loads the plug-ins that it names; they stay for good.
#pragma once

#include "agent/service_module.h"

namespace pulse::lsm {

extern const ServiceEntry kEntry;

}  // namespace pulse::lsm
