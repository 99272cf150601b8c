#include "bench/macro/child_runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/unique_fd.h"
#include "bench/macro/program_process.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

enum class End { kByItself, kTimeout, kEnough };

// Reads until the child closes its end, or was given time enough.
End ReadAll(int fd, const ChildOptions& options, std::string* text) {
  const int64_t deadline = NowNanos() + static_cast<int64_t>(options.timeout_seconds * 1e9);
  while (NowNanos() < deadline) {
    pollfd p = {fd, POLLIN, 0};
    const int ready = poll(&p, 1, options.tick_millis);
    if (ready <= 0) {
      if (options.tick) options.tick();
      if (options.enough && options.enough()) return End::kEnough;
      continue;
    }
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n == 0) return End::kByItself;
    if (n > 0) text->append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) return End::kByItself;
  }
  return End::kTimeout;
}

absl::StatusOr<nlohmann::json> Interpret(const std::string& job, int wait_status,
                                         const std::string& text) {
  if (WIFSIGNALED(wait_status)) {
    return absl::InternalError(
        absl::StrCat("the \"", job, "\" process was ended by signal ", WTERMSIG(wait_status), " (",
                     strsignal(WTERMSIG(wait_status)), "); memory may have run out: see dmesg"));
  }
  const int code = WEXITSTATUS(wait_status);
  if (code == kNoCpus) {
    return absl::InvalidArgumentError(absl::StrCat(
        "starting the \"", job, "\" process on its CPUs failed: choose CPUs it may use"));
  }
  if (code == kNoProgram) {
    return absl::InternalError(absl::StrCat("starting the \"", job,
                                            "\" process from /proc/self/exe failed: is /proc "
                                            "mounted, and this program still in its place?"));
  }
  nlohmann::json result = nlohmann::json::parse(text, nullptr, false);
  if (result.is_discarded() || !result.is_object()) {
    return absl::InternalError(
        absl::StrCat("the \"", job, "\" process ended with code ", code, " and no result"));
  }
  if (const auto it = result.find("error"); it != result.end()) {
    return absl::UnavailableError(it->is_string() ? it->get<std::string>() : it->dump());
  }
  return result;
}

}  // namespace

absl::Status CheckCpus(const std::vector<int>& cpus) {
  const std::vector<int> usable = MyCpus();
  for (const int c : cpus) {
    if (std::find(usable.begin(), usable.end(), c) == usable.end()) {
      return absl::InvalidArgumentError(absl::StrCat("CPU ", c, " is not to be had here, only ",
                                                     FormatCpuList(usable),
                                                     "; choose among these"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> RunChild(const nlohmann::json& spec, const ChildOptions& options) {
  const std::string job = spec.at("job").get<std::string>();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "making a pipe for", job);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  PULSE_ASSIGN_OR_RETURN(
      const pid_t pid, Spawn("/proc/self/exe", {"pulse-bench", "child", spec.dump()}, options.cpus,
                             {{out.get(), STDOUT_FILENO}}));
  out.reset();

  std::string result;
  const End end = ReadAll(in.get(), options, &result);
  if (end != End::kByItself) kill(pid, SIGKILL);
  int wait_status = 0;
  while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (end == End::kEnough) return absl::AbortedError("the process was killed, as was wanted");
  if (end == End::kTimeout) {
    return absl::DeadlineExceededError(
        absl::StrCat("the \"", job, "\" process did not end within ", options.timeout_seconds,
                     " s and was killed; raise --timeout, or choose a smaller --size"));
  }
  return Interpret(job, wait_status, result);
}

}  // namespace pulse::bench
