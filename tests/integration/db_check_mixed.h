// The commands mixed and mixed-verify of db_check. Both give the exit status.
#pragma once

#include <cstdint>
#include <string>

#include "db_check_session.h"

namespace db_check {

// Runs `ops` operations, which `seed` chooses, on the database at `path`, and writes to
// `model_path` what it must hold then.
int MixedCommand(const Flags& flags, const std::string& path, uint64_t seed, uint64_t ops,
                 const std::string& model_path);
// Compares every key with what MixedCommand wrote.
int MixedVerifyCommand(const Flags& flags, const std::string& path, const std::string& model_path);

}  // namespace db_check
