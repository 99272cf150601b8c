#include "options/child_case.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/unique_fd.h"

namespace pulse::options_test {
namespace {

// The last byte of a complete verdict: a child that dies while it writes one has not passed.
constexpr char kEnd = '\0';

[[noreturn]] void BeChild(int out, const std::function<std::string()>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string verdict = body();
  verdict.push_back(kEnd);
  for (size_t done = 0; done < verdict.size();) {
    const ssize_t n = write(out, verdict.data() + done, verdict.size() - done);
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  // Without the destructors of static objects, which belong to the parent.
  fflush(nullptr);
  _exit(0);
}

// Reads until the other end is closed. False when that takes until the deadline.
bool ReadAll(int in, std::chrono::steady_clock::time_point due, std::string* text) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        due - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd p{in, POLLIN, 0};
    if (poll(&p, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[4096];
    const ssize_t n = read(in, buffer, sizeof(buffer));
    if (n <= 0) return true;
    text->append(buffer, static_cast<size_t>(n));
  }
}

}  // namespace

CaseOutcome RunInChild(const std::function<std::string()>& body, std::chrono::seconds deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {CaseOutcome::kFailed, std::strerror(errno)};
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  fflush(nullptr);  // or the child would print it once more
  const pid_t child = fork();
  if (child < 0) return {CaseOutcome::kFailed, std::strerror(errno)};
  if (child == 0) {
    in.reset();
    BeChild(out.get(), body);
  }
  out.reset();
  std::string text;
  const bool ended = ReadAll(in.get(), std::chrono::steady_clock::now() + deadline, &text);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) {
    return {CaseOutcome::kHung, "hangs: killed after " + std::to_string(deadline.count()) + " s"};
  }
  if (text.empty() || text.back() != kEnd) {
    return {CaseOutcome::kFailed, WIFSIGNALED(status)
                                      ? "died of signal " + std::to_string(WTERMSIG(status))
                                      : "ended with status " + std::to_string(status)};
  }
  text.pop_back();
  if (text.empty()) return {CaseOutcome::kPassed, ""};
  if (text.rfind(kSkip, 0) == 0) return {CaseOutcome::kSkipped, text.substr(sizeof(kSkip) - 1)};
  return {CaseOutcome::kFailed, text};
}

}  // namespace pulse::options_test
