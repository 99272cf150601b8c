// Finding an offload program: built in, or in a shared object; and checking what it declares.
//
// Programs live until the process ends: a shared object is never unloaded, since one whose function
// was abandoned may not be. Thread-safe; LoadProgram blocks.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pulse/offload.h"

namespace pulse::offload {

// Makes `program` one that LoadProgram finds by its name. Once each, before it is asked for.
void RegisterProgram(const Program* program);

// `name`: a built-in program's, or a path to a shared object (anything with a '/' or ending in
// ".so"). NotFound names the built-in ones, or says why the object cannot be loaded;
// FailedPrecondition: it is of another version, or breaks a rule of pulse/offload.h: says which.
absl::StatusOr<const Program*> LoadProgram(const std::string& name);

// Version, sizes, limits, required functions.
absl::Status CheckProgram(const Program& program);

}  // namespace pulse::offload
