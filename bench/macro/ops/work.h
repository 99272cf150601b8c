// Work of `pulse bench ops`: an operation on pieces that lie in memory, with the result of each,
// which was computed before; engines of the paper's libraries that do it, and virtual ones that
// replay it. What is timed is the queue (services/ops/queue.h) with these engines.
//
// Main thread only, but for what the queue calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/ops/corpus.h"
#include "services/ops/engine.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/queue.h"
#include "services/ops/virtual_engine.h"
#include "vdpu/profile.h"

namespace pulse::bench {

enum class OpsKind { kDeflate, kInflate, kLz4Decode, kRegex };
// "compress-deflate" ...: as profiles have it.
std::string OperationOf(OpsKind kind);

// Who does an operation: the host, the card, or both at once.
enum class PlacedOn { kHostAlone, kCardAlone, kBoth };
// The paper's name for it (section 4.2): "fCPU", "cDPU", "cCOMP" ...
std::string PlacementNameOf(OpsKind kind, PlacedOn on);

// A library for an operation: "zlib", "libdeflate", "isal", "lz4", "pulse" (of filters).
struct Library {
  std::string name;
  int level = 1;  // of compression
};

struct OpsPiece {
  std::string input;
  std::string output;
  uint64_t plain = 0;  // bytes before compression: what throughput counts
  uint64_t count = 0;  // of records that match
};

struct OpsWork {
  OpsKind kind = OpsKind::kDeflate;
  std::vector<OpsPiece> pieces;
  uint64_t plain = 0;
  uint64_t largest_input = 0;
  std::shared_ptr<const filter::RuleSet> rules;
};

// The files in slices of `slice` bytes; for regular expressions in whole lines. The results are
// those of a fast library: DEFLATE is DEFLATE.
absl::StatusOr<OpsWork> MakeWork(OpsKind kind, const std::vector<CorpusFile>& files, uint64_t slice,
                                 std::shared_ptr<const filter::RuleSet> rules = nullptr);

// Does the operation. Counts the CPU time of its lanes.
class LibraryEngine : public ops::Engine {
 public:
  using Process1 = std::function<absl::Status(int lane, const ops::Chunk&, ops::Result&)>;
  LibraryEngine(ops::EngineTraits traits, Process1 process)
      : Engine(std::move(traits)), process_(std::move(process)) {}
  absl::Status Process(int lane, const ops::Chunk& chunk, ops::Result& result) override;
  int64_t cpu_nanos() const { return cpu_nanos_.load(); }
  // Asking for CPU time takes longer than a short chunk.
  void DoNotCount() { counts_ = false; }

 private:
  const Process1 process_;
  bool counts_ = true;
  std::atomic<int64_t> cpu_nanos_{0};
};

// InvalidArgument: the library has not this operation.
absl::StatusOr<std::unique_ptr<LibraryEngine>> MakeLibraryEngine(const OpsWork& work,
                                                                 const Library& library,
                                                                 ops::EngineTraits traits);

// Replays `work`, which outlives it.
std::unique_ptr<ops::VirtualEngine> MakeVirtualEngine(const OpsWork& work,
                                                      const ops::VirtualEngine::Price& price,
                                                      ops::EngineTraits traits);
ops::VirtualEngine::Price PriceOf(const vdpu::AcceleratorProfile& engine,
                                  ops::VirtualEngine::Setting setting, bool with_setup);

struct OpsRun {
  double seconds = 0;      // until the last piece was delivered
  double run_seconds = 0;  // until the lane that was overtaken at the end had ended, too
  double plain_per_second = 0;
  double host_cpu_seconds = 0;
  ops::QueueStats stats;
};

// The pieces from `first` on, `count` of them, at most `window` on their way (0: as the queue has
// it). Errors: the queue's; DataLoss if a result has
// another size than the one computed before.
absl::StatusOr<OpsRun> RunWork(const OpsWork& work, size_t first, size_t count,
                               const std::vector<ops::Engine*>& engines, ops::Placement placement,
                               ops::RateTable* rates, size_t window = 0);

struct DirectRun {
  double plain_per_second = 0;
  double output_share = 0;  // of the input
};

// One lane, piece by piece, without a queue; the median of some rounds.
absl::StatusOr<DirectRun> RunDirect(const OpsWork& work, ops::Engine& engine, int rounds);

}  // namespace pulse::bench
