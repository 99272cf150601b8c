#include "bench/macro/graph/graph_bench.h"

#include <ctime>
#include <filesystem>
#include <system_error>

#include "base/errors.h"

namespace pulse::bench {

int64_t Stretch::CpuNanos() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code ec;
  std::filesystem::create_directories(path, ec);
  return ec ? ErrnoError(ec.value(), "creating", path) : absl::OkStatus();
}

}  // namespace pulse::bench
