// RemoteAgent: an agent process as a supplier of engines (engine_order.h): the host's half of the
// service ops. `pulse compress --agent SOCKET` and its like use it. Sections 4.1 and 4.2 of the
// co-processing paper.
//
// An engine has as many lanes as the agent has threads, and one more, so that the next chunk is
// there when a thread is free. An agent that is lost, whether it died, hangs, or answers what makes
// no sense, is an engine that is lost: the queue has its chunks done elsewhere. What an agent says
// of a chunk is checked before it is used (check.h); that a chunk is damaged, the host finds out
// for itself before it says so.
//
// Thread-safe. Outlives the engines that it makes. Connect and Make block for the agent's answer;
// the destructor for up to 3 seconds, for an agent that does not answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "link/message_channel.h"
#include "services/ops/engine_order.h"
#include "services/ops/remote/host_line.h"

namespace pulse::ops::remote {

class RemoteAgent : public EngineSupplier {
 public:
  // NotFound, Unavailable: nobody listens at `socket`, with how to start an agent that does.
  // FailedPrecondition: it refuses, such as one that does not offer operators, which says what it
  // offers.
  static absl::StatusOr<std::shared_ptr<RemoteAgent>> Connect(const std::string& socket);
  ~RemoteAgent() override;

  absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder& order, EngineTraits traits,
                                               MakeLocal local) override;

  int threads() const override { return threads_; }
  const std::string& socket() const { return socket_; }
  // `status` with what can be done about a lost agent.
  absl::Status LostError(absl::string_view why) const;
  // What an engine has used, for the next. Where the agent has no room, these make it.
  void GiveBack(std::unique_ptr<Line> line);
  // Whether a report's answer is waited for: not any more after one that did not come in time.
  bool AnswersReports() const { return answers_reports_.load(std::memory_order_relaxed); }
  void ReportWasNotAnswered() { answers_reports_.store(false, std::memory_order_relaxed); }

 private:
  RemoteAgent(std::string socket, std::unique_ptr<MessageChannel> channel);
  absl::StatusOr<std::unique_ptr<Line>> TakeLine(const EngineOrder& order, int lanes);

  const std::string socket_;
  const std::unique_ptr<MessageChannel> channel_;
  int threads_ = 1;
  std::atomic<bool> answers_reports_{true};
  std::mutex mu_;
  uint32_t next_operator_ = 0;
  std::vector<std::unique_ptr<Line>> free_lines_;
};

}  // namespace pulse::ops::remote
