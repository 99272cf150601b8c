// What the benchmark commands have in common: their options, the working directory, the processors,
// the rounds of runs, and the report. Main thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/pulse/util/progress.h"
#include "bench/macro/bench_db.h"
#include "bench/macro/bench_dir.h"
#include "bench/macro/pair_stats.h"
#include "bench/macro/variant.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

// As given on the command line; an empty text or a 0 stands for the default.
struct CommonArgs {
  std::string dir = "./pulse-bench";
  std::string size;
  std::string memtable;
  int pairs = 0;
  int warm_ups = -1;  // one, but none with --tiny
  // Empty: the first CPUs that may be used, so many for the host, and the next one for the agent.
  std::string host_cpus;
  std::string agent_cpus;
  size_t usual_host_cpus = 1;
  bool agent_on_host_cpus = false;  // ... and nowhere else
  std::string agent_socket;
  std::string uri_options;
  std::vector<std::string> variants;  // of --variants: names of variants
  std::string json_file;
  uint64_t seed = 1;
  double timeout_seconds = 900;
  bool tiny = false;
  bool keep = false;
  bool pool = false;  // PulseDB takes part with its tables in a pool, too
  bool allow_tmpfs = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommonArgs, dir, size, memtable, pairs, warm_ups, host_cpus,
                                   agent_cpus, usual_host_cpus, agent_on_host_cpus, agent_socket,
                                   uri_options, variants, json_file, seed, timeout_seconds, tiny,
                                   keep, pool, allow_tmpfs)

// What a command line says: of all benchmarks, and the options of `benchmark` alone by their names.
struct BenchArgs {
  std::string benchmark;
  CommonArgs common;
  nlohmann::json own;
  template <typename T>
  T Get(const char* name) const {
    return own.at(name).get<T>();
  }
};

// The runs of a benchmark, and each as JSON.
struct Runs : RunSet {
  nlohmann::json raw = nlohmann::json::array();
};

// Contents of a database, as a verify job saw them.
struct Contents {
  uint64_t entries = 0;
  std::string keys;
  std::string sum;
};

class Session {
 public:
  // `need_bytes` must be free in the directory. The options are among the report's settings.
  static absl::StatusOr<std::unique_ptr<Session>> Open(const BenchArgs& args, uint64_t need_bytes);

  const CommonArgs& args() const { return args_; }
  const BenchDir& dir() const { return dir_; }
  const std::vector<int>& host_cpus() const { return host_cpus_; }
  const std::vector<int>& agent_cpus() const { return agent_cpus_; }
  const std::vector<int>& both_cpus() const { return both_cpus_; }
  int pairs() const { return pairs_; }
  int rounds() const { return pairs_ + warm_ups_; }
  PulseTarget pulse_target() const;

  // The report's top level, to which commands add theirs.
  nlohmann::json& report() { return report_; }

  // Sets how many steps the progress will have, and how long all of them will take, about (0:
  // unknown, they are alike).
  void ExpectSteps(int steps, double seconds = 0) {
    progress_ = std::make_unique<Progress>(steps, seconds);
  }
  // Each of the next ones will take so long, about.
  void ExpectEach(double seconds) { progress_->Expect(seconds); }

  // Prints to standard output at once, clear of the progress.
  void Say(const std::string& text);

  // Also called about twice a second while a step's child runs; null for nothing.
  void OnTick(std::function<void()> tick) { tick_ = std::move(tick); }

  // One step of progress: a child running `spec` on `cpus`. `describe` words its result.
  absl::StatusOr<nlohmann::json> Step(
      const std::string& what, const nlohmann::json& spec, const std::vector<int>& cpus,
      const std::function<std::string(const nlohmann::json&)>& describe);

  // The database in sub-directory `name` that the child running `spec` makes, unless an earlier run
  // of the same has left it there (--keep). Returns what the child said of it. A step of progress
  // when it is made. `cpus` empty: wherever this process may run.
  absl::StatusOr<nlohmann::json> Prepared(
      const std::string& name, const std::string& what, const nlohmann::json& spec,
      const std::function<std::string(const nlohmann::json&)>& describe,
      const std::vector<int>& cpus = {});

  // Reads the whole database in sub-directory `name` back, outside any measurement, and compares it
  // with the first one, which it keeps in `first`: all of it, or its keys only, where chance
  // decides which of two threads wrote last. The progress shows `label`. `variant` has written it;
  // who can do without the plug-in reads it so.
  absl::Status Verify(const std::string& label, const std::string& name, const DbShape& shape,
                      uint64_t value_bytes, const Variant& variant, bool keys_only,
                      std::optional<Contents>* first);

  // The pool of those who want one: in the directory, for `bytes` of tables. With every block
  // written before, and empty. Made once.
  std::string pool_path() const;
  absl::Status ReadyPool(uint64_t bytes);
  // Removes it, unless --keep was given.
  absl::Status DropPool();

  // Readies sub-directory "run" before a run: on disk, and out of the page cache.
  void CoolDown();

  // Every variant once per round, in each round another one first, so that what drifts within a
  // round favours nobody. `run` measures one variant; `first` is its first time here. The warm-up
  // is not recorded; each recorded result is also in `raw`, with its "pair" and its "turn" in that
  // round, round by round in the order of `variants`.
  using RunOne = std::function<absl::StatusOr<nlohmann::json>(
      const Variant&, const std::string& label, bool first)>;
  absl::StatusOr<Runs> RunRounds(const std::vector<Variant>& variants, const std::string& label,
                                 const RunOne& run);

  // Writes the report to --json or into the directory; says on standard output where it is.
  absl::Status WriteReport();
  // Where that is.
  std::string json_file() const;

 private:
  explicit Session(BenchDir dir) : dir_(std::move(dir)) {}
  absl::Status SetUpCpus();
  void DescribeMachine();

  BenchDir dir_;
  std::string name_;
  CommonArgs args_;
  std::vector<int> host_cpus_;
  std::vector<int> agent_cpus_;
  std::vector<int> both_cpus_;
  int pairs_ = 0;
  int warm_ups_ = 0;
  bool pool_made_ = false;
  std::unique_ptr<Progress> progress_;
  std::function<void()> tick_;
  nlohmann::json report_;
};

// --size, or `full`, or what --tiny makes of it.
absl::StatusOr<uint64_t> SizeOf(const CommonArgs& args, uint64_t full);

// --memtable, or 0 when it is not given.
absl::StatusOr<uint64_t> MemtableOf(const CommonArgs& args);

// InvalidArgument, naming the option, for --value outside of what a benchmark takes, and for fewer
// --keys than threads.
inline constexpr uint64_t kStampBytes = 8;  // of which ValueMaker makes a value at least
absl::Status CheckValueBytes(uint64_t value_bytes, uint64_t least);
absl::Status CheckKeys(uint64_t keys, int threads);

// For benchmarks that kill agents: this process and its children log errors only, unless PULSE_LOG
// says otherwise, since every lost agent would be a warning.
void QuietLostAgents();

// Stock RocksDB on the host's CPU, on both CPUs, PulseDB: those that the paper's figures ask for.
// The tuned forms of stock take part when `names` says so.
absl::StatusOr<std::vector<Variant>> PaperVariants(const Session& session,
                                                   const std::vector<std::string>& names);

// A block of text that says who runs where, and one line for each variant.
std::string Legend(const Session& session, const std::vector<Variant>& variants);

// "variants", with the spreads of all their figures, and "runs".
nlohmann::json Section(const Runs& runs, const std::vector<Variant>& variants);

}  // namespace pulse::bench
