#include "bench/macro/soak_agent.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "apps/pulse/util/agent_socket.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kSecond = 1'000 * kMilli;
constexpr int64_t kReadyLimit = 30 * kSecond;
// Ample for draining: longer than that is a hang.
constexpr int64_t kTerminateLimit = 60 * kSecond;

constexpr const char* kNames[kAgentFaults] = {"kill",      "terminate",     "short-stop",
                                              "long-stop", "stop-and-kill", "slow"};

std::string DescribeEnd(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return fmt::format("by signal {} ({})", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
  }
  return fmt::format("with code {}", WEXITSTATUS(wait_status));
}

}  // namespace

const char* AgentFaultName(AgentFault m) { return kNames[static_cast<size_t>(m)]; }

absl::StatusOr<AgentFault> ParseAgentFault(const std::string& name) {
  std::string all;
  for (size_t i = 0; i < kAgentFaults; ++i) {
    if (name == kNames[i]) return static_cast<AgentFault>(i);
    all += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  return absl::InvalidArgumentError(fmt::format("--events {}: choose among {}", name, all));
}

absl::Status SoakAgent::Start() {
  std::vector<std::string> words = {"agent", "--socket", socket_};
  if (!cpus_.empty()) words.insert(words.end(), {"--cpus", cpus_});
  words.insert(words.end(), options_.begin(), options_.end());
  const absl::Status started =
      ProgramProcess::Start(words, {}, log_file_, SiblingProgram("pulse"), /*append=*/true);
  if (started.ok()) killed_ = false;
  return started;
}

absl::Status SoakAgent::WaitReady() {
  const int64_t limit = NowNanos() + kReadyLimit;
  while (NowNanos() < limit && Runs()) {
    if (FindAgent(socket_).ok()) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return absl::DeadlineExceededError(
      fmt::format("the agent does not answer at {}; see {}", socket_, log_file_));
}

void SoakAgent::Kill() {
  killed_ = true;
  ProgramProcess::Kill();
}

absl::Status SoakAgent::CheckNotCrashed() {
  if (killed_ || Runs()) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("the agent ended by itself, {}; see {}", DescribeEnd(wait_status()), log_file_));
}

FaultInjector::FaultInjector(SoakAgent* agent, Plan plan)
    : agent_(agent), plan_(std::move(plan)), dice_(plan_.seed) {
  Rest(NowNanos());
}

int64_t FaultInjector::Between(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(dice_() % static_cast<uint64_t>(high - low + 1));
}

void FaultInjector::Rest(int64_t now) {
  state_ = State::kIdle;
  if (!events_.empty() && events_.back().end == 0) events_.back().end = now;
  next_ = now + Between(plan_.mean_gap_nanos / 10, plan_.mean_gap_nanos * 19 / 10);
}

// Now and then the next agent comes at once, and now and then the host has to do without for long.
void FaultInjector::Down(int64_t now) {
  state_ = State::kDown;
  next_ = now + (dice_() % 2 == 0 ? Between(0, 200 * kMilli)
                                  : Between(200 * kMilli, std::max(kSecond, plan_.mean_gap_nanos)));
}

void FaultInjector::Begin(int64_t now) {
  const AgentFault kind = plan_.allowed[dice_() % plan_.allowed.size()];
  ++counts_[static_cast<size_t>(kind)];
  events_.push_back({kind, now, 0});
  switch (kind) {
    case AgentFault::kKill:
      agent_->Signal(SIGKILL);
      agent_->WaitForEnd();
      Down(now);
      break;
    case AgentFault::kTerminate:
      agent_->Signal(SIGTERM);
      state_ = State::kEnding;
      next_ = now;
      until_ = now + kTerminateLimit;
      break;
    case AgentFault::kShortStop:
      agent_->Signal(SIGSTOP);
      state_ = State::kStopped;
      next_ = now + Between(plan_.deadline_nanos / 20, plan_.deadline_nanos * 7 / 10);
      break;
    case AgentFault::kLongStop:
    case AgentFault::kStopAndKill:
      agent_->Signal(SIGSTOP);
      state_ = State::kStopped;
      next_ = now + Between(plan_.deadline_nanos * 3 / 2, plan_.deadline_nanos * 4);
      break;
    case AgentFault::kSlow:
      state_ = State::kSlow;
      frozen_ = false;
      next_ = now;
      until_ = now + Between(plan_.deadline_nanos / 2, plan_.deadline_nanos * 4);
      break;
  }
}

absl::Status FaultInjector::Step(int64_t now) {
  switch (state_) {
    case State::kIdle:
      Begin(now);
      break;
    case State::kStopped:
      if (events_.back().kind == AgentFault::kStopAndKill) {
        agent_->Signal(SIGKILL);
        agent_->WaitForEnd();
        Down(now);
      } else {
        agent_->Signal(SIGCONT);
        Rest(now);
      }
      break;
    case State::kSlow:
      if (now >= until_) {
        agent_->Signal(SIGCONT);
        Rest(now);
        break;
      }
      frozen_ = !frozen_;
      agent_->Signal(frozen_ ? SIGSTOP : SIGCONT);
      next_ = now + (frozen_ ? Between(5 * kMilli, 40 * kMilli) : Between(kMilli, 8 * kMilli));
      break;
    case State::kEnding:
      if (!agent_->Runs()) {
        Down(now);
      } else if (now >= until_) {
        problems_.push_back("the agent did not end within a minute of SIGTERM");
        agent_->Signal(SIGKILL);
        agent_->WaitForEnd();
        Down(now);
      } else {
        next_ = now + 5 * kMilli;
      }
      break;
    case State::kDown:
      PULSE_RETURN_IF_ERROR(agent_->Start());
      Rest(now);
      break;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FaultInjector::Tick(int64_t now) {
  const bool should_run = state_ != State::kDown && state_ != State::kEnding;
  if (should_run && !agent_->Runs()) {
    problems_.push_back("an agent ended by itself, " + DescribeEnd(agent_->wait_status()));
    Down(now);
  }
  if (now >= next_) PULSE_RETURN_IF_ERROR(Step(now));
  return next_;
}

absl::Status FaultInjector::Finish() {
  while (state_ != State::kIdle) {
    const int64_t now = NowNanos();
    // A stop or a slow-down ends at once, a restart comes at once.
    if (state_ == State::kStopped || state_ == State::kSlow) {
      agent_->Signal(SIGCONT);
      Rest(now);
      break;
    }
    if (state_ == State::kDown) next_ = now;
    PULSE_RETURN_IF_ERROR(Tick(now).status());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return absl::OkStatus();
}

}  // namespace pulse::bench
