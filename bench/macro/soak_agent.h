// The agent of a soak: a process that runs `pulse agent` of this very program, and the faults that
// are injected into it. Main thread only: the agent dies with the thread that started it.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/program_process.h"

namespace pulse::bench {

class SoakAgent : public ProgramProcess {
 public:
  // What the agent prints is appended to `log_file`. `cpus` empty: wherever this process may run.
  // `options`: further ones of `pulse agent`.
  SoakAgent(std::string socket, std::string log_file, std::string cpus = "",
            std::vector<std::string> options = {})
      : socket_(std::move(socket)),
        log_file_(std::move(log_file)),
        cpus_(std::move(cpus)),
        options_(std::move(options)) {}
  ~SoakAgent() { Kill(); }

  absl::Status Start();      // does not wait for it to listen
  absl::Status WaitReady();  // until it answers; DeadlineExceeded after half a minute
  void Kill();
  // Internal, unless it runs, or its end was Kill()'s doing.
  absl::Status CheckNotCrashed();
  const std::string& socket() const { return socket_; }

 private:
  const std::string socket_;
  const std::string log_file_;
  const std::string cpus_;
  const std::vector<std::string> options_;
  bool killed_ = true;  // by Kill(), or not started yet
};

enum class AgentFault { kKill, kTerminate, kShortStop, kLongStop, kStopAndKill, kSlow };
inline constexpr size_t kAgentFaults = 6;
const char* AgentFaultName(AgentFault m);
absl::StatusOr<AgentFault> ParseAgentFault(const std::string& name);

struct AgentFaultEvent {
  AgentFault kind;
  int64_t begin;  // NowNanos()
  int64_t end;    // when the agent was let alone or started again; 0: not yet
};

// Draws faults and their times from a seed, and injects them step by step.
class FaultInjector {
 public:
  struct Plan {
    uint64_t seed = 1;
    int64_t deadline_nanos = 0;       // the file system's agent_deadline
    int64_t mean_gap_nanos = 0;       // between two events
    std::vector<AgentFault> allowed;  // of which each is as likely
  };
  FaultInjector(SoakAgent* agent, Plan plan);

  // Does what is due; returns when to call again. An error when an agent cannot be started.
  absl::StatusOr<int64_t> Tick(int64_t now);
  // Ends what is going on and leaves a running agent behind.
  absl::Status Finish();

  bool at_work() const { return state_ != State::kIdle; }
  const std::vector<AgentFaultEvent>& events() const { return events_; }
  uint64_t Count(AgentFault m) const { return counts_[static_cast<size_t>(m)]; }
  // What the agent did that it must not: end unbidden, or not end when told to.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  enum class State { kIdle, kStopped, kSlow, kEnding, kDown };
  int64_t Between(int64_t low, int64_t high);
  void Begin(int64_t now);
  void Down(int64_t now);
  absl::Status Step(int64_t now);
  void Rest(int64_t now);

  SoakAgent* const agent_;
  const Plan plan_;
  std::mt19937_64 dice_;
  State state_ = State::kIdle;
  int64_t next_ = 0;     // when to look again
  int64_t until_ = 0;    // end of kSlow, limit of kEnding
  bool frozen_ = false;  // within kSlow
  std::vector<AgentFaultEvent> events_;
  std::array<uint64_t, kAgentFaults> counts_{};
  std::vector<std::string> problems_;
};

}  // namespace pulse::bench
