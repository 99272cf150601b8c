// What operations share: which processors they use, and what they report.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "services/ops/engine.h"
#include "services/ops/engine_order.h"
#include "services/ops/placement_numbers.h"
#include "services/ops/queue.h"
#include "services/ops/rates.h"
#include "services/ops/scheduler.h"

namespace pulse::ops {

// Engines, by what they do, for inputs that are done one after the other. For one thread.
class EngineCache {
 public:
  using Make = std::function<absl::StatusOr<std::unique_ptr<Engine>>()>;

  absl::StatusOr<Engine*> Get(const std::string& what, const Make& make);

 private:
  std::map<std::string, std::unique_ptr<Engine>> engines_;
};

struct Processors {
  // One lane for each CPU. Both empty: every CPU that this process may use is the host's.
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
  // Makes the agent's engines in another process, or on a device; not together with agent_cpus. May
  // be null.
  std::shared_ptr<EngineSupplier> agent;
  Placement placement;
  RateTable* rates = nullptr;
  // Everything is done by the thread that calls: for inputs that are small, of which several
  // threads do one each. Placement and CPUs do not count then, and there is no progress.
  bool in_calling_thread = false;
  // With it: makes the one engine, in place of this process. Not owned; may be null.
  EngineSupplier* lane_agent = nullptr;
  // Engines that were made before and are kept for the next input; not of filters; may be null.
  EngineCache* engines = nullptr;
  // What placement decided, by task; may be null. Not owned.
  PlacementNumbers* numbers = nullptr;
  // Now and then, by the calling thread: bytes read and written so far. False: cancel.
  std::function<bool(uint64_t in, uint64_t out)> progress;
};

// The traits of the engines to be made in this process: host's first, and agent's if it has CPUs.
// With an agent of another process, placement kAgent and no host's CPUs there are none.
// InvalidArgument: the placement names a side that has none. `name` is that of the codec.
absl::StatusOr<std::vector<EngineTraits>> EnginesFor(const Processors& processors,
                                                     absl::string_view name);

// CPUs of an operation's threads that are no lanes of a queue. None: wherever they are started.
struct SerialCpus {
  std::vector<int> decoder;  // what is decoded in one piece
  std::vector<int> files;    // reading, checksums and writing around it
};

// The host's, or the agent's where that has the placement, or there is no other. With CPUs of both,
// what cannot be shared in chunks is shared so: the host's decode, the agent's do the rest.
SerialCpus SerialCpusFor(const Processors& processors);

// Options of a queue that does what `order` describes on these processors.
QueueOptions OptionsFor(const Processors& processors, const EngineOrder& order);

// The engines of all processors: those of EnginesFor by `make`, kept in the cache under the name
// `what`, or in `owned` if there is none, and that of an agent in another process, to which `order`
// describes it. One that is lost when its engine is to be made, or has no room for it, is gone
// without where others are left; the first time of each is logged.
absl::StatusOr<std::vector<Engine*>> MakeEngines(const Processors& processors,
                                                 absl::string_view name, const std::string& what,
                                                 const EngineSupplier::MakeLocal& make,
                                                 const EngineOrder& order,
                                                 std::vector<std::unique_ptr<Engine>>& owned);

}  // namespace pulse::ops
