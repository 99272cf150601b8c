// A server that a benchmark, or a test, starts as a process of its own. It says in its log where it
// listens. Main thread only: it dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::bench {

// The number behind `marker` in a log, as soon as it is there. DeadlineExceeded after half a
// minute.
absl::StatusOr<uint16_t> PortInLog(const std::string& log_file, const std::string& marker);

class ProgramProcess {
 public:
  ProgramProcess() = default;
  ~ProgramProcess() { Stop(); }
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  // `cpus` empty: wherever this process may run. `log_file` is written anew.
  absl::Status Start(const std::vector<std::string>& words, const std::vector<int>& cpus,
                     const std::string& log_file, const std::string& program);
  // The number behind `marker` in the log. DeadlineExceeded, with the log's end, after half a
  // minute; at once when the process has ended.
  absl::StatusOr<uint16_t> WaitForPort(const std::string& marker);
  absl::Status WaitFor(const std::string& marker);  // the same, without a number
  void Stop();                                      // SIGTERM; SIGKILL after ten seconds
  void Kill();                                      // SIGKILL
  pid_t pid() const { return pid_; }

 private:
  bool Runs();

  std::string log_file_;
  pid_t pid_ = 0;
};

}  // namespace pulse::bench
