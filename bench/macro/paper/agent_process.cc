#include "bench/macro/paper/agent_process.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::bench {
namespace {

constexpr size_t kLongestSocket = 100;  // Unix takes a little more

std::string SocketOf(const Session& session) { return session.dir().Sub("agent.sock"); }

}  // namespace

absl::Status CheckAgentProcess(const Session& session) {
  const std::string socket = SocketOf(session);
  if (socket.size() <= kLongestSocket) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the agent's socket would be ", socket,
                                                 ", which is too long; choose a shorter --dir"));
}

AgentProcess::AgentProcess(Session* session, std::vector<std::string> options)
    : session_(session),
      agent_(SocketOf(*session), session->dir().Sub("agent.log"), session->args().agent_cpus,
             std::move(options)) {}

AgentProcess::~AgentProcess() {
  const bool well = agent_.CheckNotCrashed().ok();
  agent_.Kill();
  // What one said that ended by itself is needed to see why. Else only the marked directory grows.
  if (well) session_->dir().RemoveAll("agent").IgnoreError();
}

absl::Status AgentProcess::Start() {
  PULSE_RETURN_IF_ERROR(agent_.Start());
  return agent_.WaitReady();
}

}  // namespace pulse::bench
