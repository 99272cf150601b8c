// Loads an offload program from its shared object, and checks what it declares.
//
// Programs live until the process ends: a shared object is never unloaded, since one whose function
// was abandoned may not be. Thread-safe; LoadProgram blocks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pulse/offload.h"

namespace pulse::offload {

// `path`: of the shared object, with a '/' or ending in ".so". NotFound: it cannot be loaded;
// FailedPrecondition: it is of another version, or breaks a rule of pulse/offload.h. Both say why.
absl::StatusOr<const Program*> LoadProgram(const std::string& path);

// Version, sizes, limits, required functions.
absl::Status CheckProgram(const Program& program);

}  // namespace pulse::offload
