// A server that a benchmark, or a test, starts as a process of its own. It says in its log where it
// listens. Main thread only: it dies with the thread that started it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::bench {

// The number behind `marker` in a log, as soon as it is there. DeadlineExceeded after half a
// minute.
absl::StatusOr<uint16_t> PortInLog(const std::string& log_file, const std::string& marker);

// A process of `program`, looked for in PATH, that dies with the calling thread. `words` begin with
// its name; `cpus` empty: wherever this process may run; each of `fds` becomes the second of its
// pair. It exits with kNoCpus or kNoProgram when it cannot get as far as its main().
inline constexpr int kNoCpus = 125;
inline constexpr int kNoProgram = 126;
absl::StatusOr<pid_t> Spawn(const std::string& program, std::vector<std::string> words,
                            const std::vector<int>& cpus,
                            const std::vector<std::pair<int, int>>& fds);

class ProgramProcess {
 public:
  ProgramProcess() = default;
  ~ProgramProcess() { Stop(); }
  ProgramProcess(const ProgramProcess&) = delete;
  ProgramProcess& operator=(const ProgramProcess&) = delete;

  // `cpus` empty: wherever this process may run. `log_file` is written anew, unless `append`.
  absl::Status Start(const std::vector<std::string>& words, const std::vector<int>& cpus,
                     const std::string& log_file, const std::string& program, bool append = false);
  // The number behind `marker` in the log. DeadlineExceeded, with the log's end, after half a
  // minute; at once when the process has ended.
  absl::StatusOr<uint16_t> WaitForPort(const std::string& marker);
  absl::Status WaitFor(const std::string& marker);  // the same, without a number
  void Stop();                                      // SIGTERM; SIGKILL after ten seconds
  void Kill();                                      // SIGKILL; returns when it is gone
  void Signal(int signal) const;
  // Whether it runs. Takes notice of its end; `wait_status` is then how it ended.
  bool Runs();
  void WaitForEnd();
  int wait_status() const { return wait_status_; }
  pid_t pid() const { return pid_; }  // 0: none

 private:
  std::string log_file_;
  pid_t pid_ = 0;
  int wait_status_ = 0;
};

}  // namespace pulse::bench
