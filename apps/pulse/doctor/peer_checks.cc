#include "absl/strings/match.h"
#include "doctor/check.h"
#include "fmt/format.h"
#include "rocksdb/version.h"
#include "util/agent_socket.h"

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

Checks CheckAgentSocket(const std::string& path) {
  const std::string name = "agent socket";
  const auto agent = FindAgent(path);
  if (agent.ok()) {
    return {
        Ok(name, fmt::format("{}: process {} of user {} answers", path, agent->pid, agent->uid))};
  }
  // The remedy follows the first semicolon.
  const std::string text(agent.status().message());
  const size_t cut = text.find("; ");
  if (cut == std::string::npos) return {Fail(name, text, "see pulse agent --help")};
  return {Fail(name, text.substr(0, cut), text.substr(cut + 2))};
}

}  // namespace pulse::doctor
