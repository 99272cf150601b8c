// Requests of pulse/ops.h: whether they make sense, and how they are done: by the operators, on all
// processors or in the calling thread.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "pulse/ops.h"
#include "services/ops/byte_stream.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/operation.h"
#include "services/ops/tasks.h"

// The C type: a rule set that lives as long as somebody uses it.
struct pulse_ops_rules {
  std::shared_ptr<const pulse::filter::RuleSet> set;
};

namespace pulse::ops {

// What one thread keeps for its next request.
struct LaneCache {
  EngineCache engines;
  struct Filter {
    std::shared_ptr<const filter::RuleSet> rules;
    uint32_t flags = 0;
    std::unique_ptr<Engine> engine;
  };
  // The last used in front; few, since they are large.
  std::list<Filter> filters;
  // Makes this thread's engines; null: this process does.
  EngineSupplier* agent = nullptr;
};

// A struct of the caller's, of any size that it says. InvalidArgument if it is smaller than the
// first release's, or has members that this one does not know and that are not zero.
template <typename T>
absl::Status CopyStruct(const T* from, T* to);

// A request that makes sense, with the rules that it needs.
struct Request {
  pulse_ops_request raw;
  std::shared_ptr<const filter::RuleSet> rules;
};

enum class Way { kRun, kSubmit, kStream };
absl::StatusOr<Request> CheckRequest(const pulse_ops_request* request, Way way);

// What does it, for metrics.
size_t TaskOf(const pulse_ops_request& raw);

// Does it. `stream`: the input, of a request that names none. `lane`: in the calling thread; else
// on `processors`. SIGPIPE is blocked meanwhile.
pulse_ops_result Execute(const Request& request, const Processors& processors, ByteSource* stream,
                         LaneCache* lane);

// A result that says only this.
pulse_ops_result ResultOf(const absl::Status& status, uint64_t tag);

// To the caller's struct of whatever size.
int StoreResult(pulse_ops_result* from, pulse_ops_result* to);
bool IsResult(const pulse_ops_result* result);

}  // namespace pulse::ops
