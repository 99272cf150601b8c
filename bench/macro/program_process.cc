#include "bench/macro/program_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/unique_fd.h"

namespace pulse::bench {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

std::string TextOf(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The rest of the line that `marker` is in, once that is whole.
absl::StatusOr<std::string> LineBehind(const std::string& file, const std::string& marker,
                                       const std::function<bool()>& runs) {
  const int64_t limit = NowNanos() + 30 * kSecond;
  std::string text;
  while (NowNanos() < limit) {
    const bool last = !runs();
    text = TextOf(file);
    const size_t at = text.find(marker);
    const size_t end = at == std::string::npos ? at : text.find('\n', at);
    if (end != std::string::npos) return text.substr(at + marker.size(), end - at - marker.size());
    if (last) break;
    usleep(5'000);
  }
  return absl::DeadlineExceededError(
      absl::StrCat("a server did not start; ", file,
                   " says: ", text.substr(text.size() > 400 ? text.size() - 400 : 0)));
}

absl::StatusOr<uint16_t> PortOf(const std::string& line) {
  const int port = std::atoi(line.c_str());
  if (port <= 0 || port > 65535) return absl::InternalError("no port in: " + line);
  return static_cast<uint16_t>(port);
}

}  // namespace

absl::StatusOr<uint16_t> PortInLog(const std::string& log_file, const std::string& marker) {
  PULSE_ASSIGN_OR_RETURN(const auto line, LineBehind(log_file, marker, [] { return true; }));
  return PortOf(line);
}

absl::StatusOr<pid_t> Spawn(const std::string& program, std::vector<std::string> words,
                            const std::vector<int>& cpus,
                            const std::vector<std::pair<int, int>>& fds) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError(errno, "starting", program);
  if (pid > 0) return pid;
  // System calls only.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNoProgram);
  if (!cpus.empty() && sched_setaffinity(0, sizeof(set), &set) != 0) _exit(kNoCpus);
  for (const auto& [from, to] : fds) {
    if (dup2(from, to) < 0) _exit(kNoProgram);
  }
  execvp(program.c_str(), argv.data());
  _exit(kNoProgram);
}

absl::Status ProgramProcess::Start(const std::vector<std::string>& words,
                                   const std::vector<int>& cpus, const std::string& log_file,
                                   const std::string& program, bool append) {
  log_file_ = log_file;
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
  const UniqueFd log(open(log_file.c_str(), flags, 0644));
  if (!log.valid()) return ErrnoError(errno, "opening", log_file);
  std::vector<std::string> all = {program};
  all.insert(all.end(), words.begin(), words.end());
  PULSE_ASSIGN_OR_RETURN(pid_, Spawn(program, std::move(all), cpus,
                                     {{log.get(), STDOUT_FILENO}, {log.get(), STDERR_FILENO}}));
  return absl::OkStatus();
}

bool ProgramProcess::Runs() {
  if (pid_ > 0 && waitpid(pid_, &wait_status_, WNOHANG) == pid_) pid_ = 0;
  return pid_ > 0;
}

absl::StatusOr<uint16_t> ProgramProcess::WaitForPort(const std::string& marker) {
  PULSE_ASSIGN_OR_RETURN(const auto line, LineBehind(log_file_, marker, [this] { return Runs(); }));
  return PortOf(line);
}

absl::Status ProgramProcess::WaitFor(const std::string& marker) {
  return LineBehind(log_file_, marker, [this] { return Runs(); }).status();
}

void ProgramProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

void ProgramProcess::Stop() {
  Signal(SIGTERM);
  const int64_t limit = NowNanos() + 10 * kSecond;
  while (Runs() && NowNanos() < limit) usleep(5'000);
  Kill();
}

void ProgramProcess::Kill() {
  Signal(SIGKILL);
  WaitForEnd();
}

void ProgramProcess::WaitForEnd() {
  while (pid_ > 0 && waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

}  // namespace pulse::bench
