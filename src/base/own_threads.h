// The threads of this process, as /proc shows them. Any thread; reads /proc.
#pragma once

#include <dirent.h>
#include <sys/types.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace pulse {

// Their numbers. Empty when /proc shows none; errno says why.
inline std::vector<pid_t> OwnThreads() {
  std::vector<pid_t> threads;
  DIR* const dir = opendir("/proc/self/task");
  if (dir == nullptr) return threads;
  while (const dirent* entry = readdir(dir)) {
    const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
    if (thread > 0) threads.push_back(thread);
  }
  closedir(dir);
  return threads;
}

// Empty for one that has ended.
inline std::string NameOfThread(pid_t thread) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/comm");
  std::string name;
  std::getline(in, name);
  return name;
}

}  // namespace pulse
