// OpsService: the agent's half of the operators for one session: operators that the host prepares,
// and chunks that the agent's threads process. OpsAgent is what the sessions of one agent share.
// Sections 4.1 and 4.2 of the co-processing paper: the DPU's side of the executor.
//
// A chunk is copied out of the host's memory before anything of it is relied on, by the thread that
// processes it; results go into the response buffer when they are known. One session has at most
// kDepth chunks a thread under way in each message group, and takes no more than one while what it
// holds of them, inputs and results that were not delivered, may become more than `most_held`.
//
// The threads give way: they are in the background (SCHED_BATCH, nice 5), as whole compactions are;
// where the agent serves remote clients (kv, redis, a director) they run only in what these leave
// of the CPUs (SCHED_IDLE).
//
// OpsService: worker's thread, see agent/service.h. OpsAgent: any thread; outlives its sessions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/compute_pool.h"
#include "agent/message_service.h"
#include "services/ops/engine.h"
#include "services/ops/engine_order.h"
#include "services/ops/filter/filter_order.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/remote/counters.h"
#include "services/ops/remote/wire.h"

namespace pulse::ops::remote {

struct OpsAgentOptions {
  int threads = 1;
  std::vector<int> cpus;  // empty: any
  bool idle_only = false;
  // Bytes, of each session. 0: 256 MiB, or 64 MiB for each thread where that is more.
  uint64_t most_held = 0;
  // Of one filter: rules, bytes of all their texts, instructions of what they are compiled to. What
  // is more is the host's to do.
  uint64_t most_rules = 10'000;
  uint64_t most_rule_bytes = uint64_t{1} << 20;
  uint64_t most_instructions = uint64_t{4} << 20;
};

class OpsAgent {
 public:
  explicit OpsAgent(OpsAgentOptions options);
  OpsAgent(const OpsAgent&) = delete;
  OpsAgent& operator=(const OpsAgent&) = delete;

  ServiceFactory Factory();
  // Runs `work` on a thread of this agent's. `owner`: whose turn it takes.
  void Post(const void* owner, std::function<void()> work);
  const OpsAgentOptions& options() const { return options_; }
  int threads() const { return options_.threads; }
  OpsCounters& counters() { return counters_; }

 private:
  const OpsAgentOptions options_;
  OpsCounters counters_;
  ComputePool pool_;  // last: its threads use the rest
};

class OpsService : public MessageService {
 public:
  static constexpr size_t kMostGroups = 16;
  static constexpr size_t kMostOperators = 64;
  static constexpr size_t kDepth = 2;

  OpsService(OpsAgent* agent, Session* session);
  ~OpsService() override;

  bool HasDeferred() const override { return !answers_.empty() || MessageService::HasDeferred(); }
  bool Deliver() override;
  void BeginShutdown() override;

 private:
  struct Operator;
  struct Work;
  // Rule sets of this session, by the order's text: the last used in front.
  using RuleSets = std::deque<std::pair<std::string, std::shared_ptr<const filter::RuleSet>>>;

  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override;
  absl::StatusOr<uint64_t> OnAttach() override;
  void OnPolled() override { Flush(); }
  void OnDetach(MessageGroup* group) override { under_way_.erase(group); }

  void HandlePrepare(MessageGroup* group, const RingMessage& message, uint64_t ticket);
  bool HandleChunk(MessageGroup* group, const RingMessage& message, uint64_t ticket);
  void HandleReport(MessageGroup* group, const RingMessage& message);
  void Refuse(MessageGroup* group, uint64_t id, MessageKind kind, const absl::Status& why);
  std::unique_ptr<Work> NewWork();
  // From now on so many bytes are held for it.
  void Charge(Work* work, uint64_t bytes);
  // On a thread of the agent's.
  absl::Status Make(Operator* made);
  absl::StatusOr<std::shared_ptr<const filter::RuleSet>> Compile(filter::OrderedFilter filter);
  void Process(Work* work);
  // What a thread has finished, back on the worker's.
  void Prepared(MessageGroup* group, uint64_t id, std::shared_ptr<Operator> made,
                const absl::Status& status);
  void Processed(std::unique_ptr<Work> work);
  // Gives results to the host, as far as it has room.
  bool Flush();
  // False: it waits for room.
  bool Answer(Work* work);

  OpsAgent* const agent_;
  std::atomic<bool> stop_{false};                            // nobody waits for results any more
  std::map<uint32_t, std::shared_ptr<Operator>> operators_;  // null: being prepared
  std::mutex rules_mu_;
  RuleSets rule_sets_;
  std::map<MessageGroup*, size_t> under_way_;  // chunks
  std::deque<std::unique_ptr<Work>> answers_;
  std::vector<std::unique_ptr<Work>> free_works_;
  std::vector<Buffer> free_inputs_;
  uint64_t held_bytes_ = 0;
};

}  // namespace pulse::ops::remote
