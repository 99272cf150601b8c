// The static initialiser that makes LD_PRELOAD, and plain linking of the shared object, enough.
// Harmless in a program that never asks for pulse://, and without PULSE_URI: no thread, no file, no
// output.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "pulse/rocksdb.h"
#include "services/lsm/plugin/preload_default_env.h"

namespace {

__attribute__((constructor)) void RegisterOnLoad() {
  // A wrong version is told to whoever opens pulse://, not to every program that loads the object.
  pulse::RegisterRocksDb().PermitUncheckedError();
  const char* uri = secure_getenv("PULSE_URI");
  if (uri != nullptr && *uri != '\0' && strcmp(program_invocation_short_name, "java") == 0) {
    // It ends there before anything of PulseDB's could refuse.
    pulse::Log(
        pulse::LogLevel::kWarn,
        "libpulse_rocksdb.so is preloaded into a JVM: a rocksdbjni that is loaded then calls "
        "this RocksDB instead of its own, and crashes; use -agentpath:libpulse_java.so "
        "(docs/services/rocksdb.md)");
  }
  pulse::lsm::InstallDefaultEnv();
}

}  // namespace
