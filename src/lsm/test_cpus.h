// Which CPUs threads may use, for tests of those that move.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace pulse::lsm::test {

// By a thread's directory in /proc; "" when it has ended.
inline std::string CpusOf(const std::string& task) {
  std::ifstream status("/proc/" + task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Cpus_allowed_list:\t", 0) == 0) return line.substr(19);
  }
  return "";
}

// Of this process's threads, by their names.
inline std::map<std::string, std::set<std::string>> CpusOfThreads() {
  std::map<std::string, std::set<std::string>> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    std::getline(comm, name);
    const std::string cpus = CpusOf("self/task/" + task.path().filename().string());
    if (!cpus.empty()) all[name].insert(cpus);
  }
  return all;
}

}  // namespace pulse::lsm::test
