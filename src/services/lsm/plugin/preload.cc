// The static initialiser that makes LD_PRELOAD, and plain linking of the shared object, enough.
// Harmless in a program that never asks for pulse://, and without PULSE_URI: no thread, no file, no
// output.
#include "pulse/rocksdb.h"
#include "services/lsm/plugin/preload_default_env.h"

namespace {

__attribute__((constructor)) void RegisterOnLoad() {
  // A wrong version is told to whoever opens pulse://, not to every program that loads the object.
  pulse::RegisterRocksDb().PermitUncheckedError();
  pulse::lsm::InstallDefaultEnv();
}

}  // namespace
