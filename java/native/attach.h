// Finds the RocksDB inside RocksJava's JNI library, which the process has loaded, and attaches the
// plug-in that was built for its version and its std::string, in a copy that needs that library,
// whose names satisfy its references.
//
// Threads: any; the first call does it, the others wait and get the same answer. Nothing is ever
// unloaded.
#pragma once

#include <string>

#include "services/lsm/plugin/java_api.h"

namespace pulse::java {

struct Attached {
  const PulseJavaApi* api = nullptr;
  std::string error;  // why it is null
};

// The plug-ins are in `directory`. A failure for want of a loaded library is not kept: the next
// call looks again.
Attached Attach(const std::string& directory);

// What was attached, whatever has been loaded since: for what is open already. Null: nothing.
const PulseJavaApi* AttachedApi();

// The directory of this library.
std::string OwnDirectory();

}  // namespace pulse::java
