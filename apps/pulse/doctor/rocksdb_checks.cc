#include "absl/strings/match.h"
#include "apps/pulse/doctor/check.h"
#include "fmt/format.h"
#include "rocksdb/version.h"

namespace pulse::doctor {

Checks CheckRocksDb() {
  const std::string built = fmt::format("{}.{}", ROCKSDB_MAJOR, ROCKSDB_MINOR);
  const std::string loaded = rocksdb::GetRocksVersionAsString();
  if (absl::StartsWith(loaded, built + ".")) {
    return {Ok("RocksDB", fmt::format("{} loaded, built for {}", loaded, built))};
  }
  return {Fail("RocksDB", fmt::format("{} loaded, built for {}", loaded, built),
               "build PulseDB against the RocksDB that will be loaded (cmake "
               "-DROCKSDB_ROOT=PREFIX): its classes change with each minor version")};
}

}  // namespace pulse::doctor
