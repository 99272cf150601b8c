#include "services/lsm/core/host_agent.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "channel/handshake.h"
#include "link/embedded_link.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/spec.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {
namespace {

// For an answer on the socket. An agent that hangs is found out sooner, by its heartbeat.
constexpr int64_t kMinAnswerMs = 10'000;
constexpr uint64_t kMaxTasks = 1024;  // that an agent is believed to run

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(const Options& options) {
  EmbeddedOptions o;
  o.service = &kSpec;
  o.factory = &CreateAgentService;
  o.mover = options.mover;
  o.status_path = options.status;
  o.worker.name = "pulse-agent-0";
  o.worker.cpus = options.agent_cpus;
  o.worker.backend.kind = options.engine;
  o.worker.backend.factory = options.backend_factory;
  o.worker.background = options.agent_background;
  o.worker.nice = static_cast<int>(options.agent_nice);
  o.worker.spin_nanos = options.spin_us * 1000;
  return pulse::StartEmbeddedAgent(std::move(o));
}

absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const Options& options, int cancel_fd,
                                                          bool* may_fall_back) {
  LinkOptions o;
  o.service = {kSpec.id, kSpec.version};
  o.socket_path = options.socket_path;
  o.answer_ms = std::max(kMinAnswerMs, options.agent_deadline_ms);
  o.mover = !options.mover_given ? 0 : options.mover == MoverKind::kShared ? 1 : 2;
  if (options.engine_given) o.engine_name = EngineName(options.engine).data();
  o.engine = static_cast<uint64_t>(options.engine);
  return pulse::ConnectToAgent(o, cancel_fd, may_fall_back);
}

absl::Status SendTask(AgentLink* link, int request, int reply) {
  // Numbers are of all of the process: an answer that comes late belongs to none of the others.
  static std::atomic<uint64_t> next_task{1};
  wire::Message question = MakeMessage(wire::MessageType::kService);
  question.args[0] = next_task.fetch_add(1, std::memory_order_relaxed);
  return link->Ask(question, {request, reply}, wire::MessageType::kServiceAck).status();
}

int MaxTasks(const AgentLink& link) {
  return static_cast<int>(
      std::min(link.fact(static_cast<size_t>(AgentFact::kMaxTasks)), kMaxTasks));
}

double CoreSpeed(const AgentLink& link) {
  if (link.embedded()) return 1.0;
  const uint64_t thousandths = link.fact(static_cast<size_t>(AgentFact::kCoreSpeed));
  return static_cast<double>(std::clamp<uint64_t>(thousandths, 1, 100'000)) / 1000;
}

}  // namespace pulse::lsm
