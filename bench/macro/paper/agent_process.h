// An agent in a process of its own, for the length of an experiment. Main thread only: the agent
// dies with the thread that started it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/session.h"
#include "bench/macro/soak_agent.h"

namespace pulse::bench {

// InvalidArgument for a session's directory whose name is too long for the agent's socket in it.
absl::Status CheckAgentProcess(const Session& session);

class AgentProcess {
 public:
  // Its socket and what it prints are in the session's directory. `options`: further ones of `pulse
  // agent`.
  AgentProcess(Session* session, std::vector<std::string> options);
  ~AgentProcess();  // ends it, and removes what it left
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  // Returns when it answers.
  absl::Status Start();
  // Internal, if it has ended by itself.
  absl::Status CheckRuns() { return agent_.CheckNotCrashed(); }

  const std::string& socket() const { return agent_.socket(); }

 private:
  Session* const session_;
  SoakAgent agent_;
};

}  // namespace pulse::bench
