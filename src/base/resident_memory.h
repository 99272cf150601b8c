// What memory this process has, by the kernel. Any thread; reads a file of /proc.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>

namespace pulse {

// Resident now, in bytes; 0 where the kernel does not say.
inline uint64_t ResidentBytes() {
  unsigned long total = 0;
  unsigned long resident = 0;
  FILE* file = fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  fclose(file);
  return uint64_t{resident} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace pulse
