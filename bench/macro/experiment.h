// The experiments of the paper's evaluation (section IV), each at any share of the paper's size.
// Main thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

class RowLog;
class Session;

// What the paper writes and loads; the scale 1.
inline constexpr double kPaperBytes = 40e9;
inline constexpr double kPaperOperations = 20e6;  // of each YCSB workload

inline constexpr uint64_t kQuickMemtableBytes = uint64_t{4} << 20;

// What the command line decides.
struct Size {
  double scale = 0.025;
  int threads = 10;             // that write, or operate
  uint64_t memtable_bytes = 0;  // 0: the paper's
  bool tiny = false;            // a few megabytes, whatever the scale
  bool quick = false;           // two value sizes only, and fewer YCSB operations
  bool own_load = true;         // each variant loads its own YCSB database
  // In place of those of an experiment that has several; empty: its own.
  std::vector<uint64_t> value_sizes = {};
};

struct Needs {
  uint64_t disk = 0;
  uint64_t memory = 0;
};

class Experiment {
 public:
  virtual ~Experiment() = default;

  const std::string& name() const { return name_; }
  const std::string& title() const { return title_; }
  // What the paper says: "figures", and "values" of which each has "what" and its figures.
  const nlohmann::json& paper() const { return paper_; }

  // At most, at a time.
  virtual Needs NeedsAt(const Size& size) const = 0;
  // All that decides about the figures but for the session's settings.
  virtual nlohmann::json Settings(const Size& size) const = 0;
  // Of the rows that `rows` has not.
  virtual int Steps(const Session& session, const Size& size, const RowLog& rows) const = 0;
  // The seconds that these take, about, on a processor of a usual speed (RunSeconds).
  virtual double Seconds(const Session& session, const Size& size, const RowLog& rows) const = 0;
  // One that runs only when it is named.
  bool optional() const { return optional_; }
  // Whether it can run as the session is set up: asked before anything runs.
  virtual absl::Status Check(const Session&) const { return absl::OkStatus(); }
  // Adds the rows that `rows` has not: label, variants with medians and spreads, ratios, runs.
  // Says the tables.
  virtual absl::Status Run(Session* session, const Size& size, RowLog* rows) const = 0;

 protected:
  Experiment(std::string name, std::string title, nlohmann::json paper, bool optional = false)
      : name_(std::move(name)),
        title_(std::move(title)),
        paper_(std::move(paper)),
        optional_(optional) {}

 private:
  const std::string name_;
  const std::string title_;
  const nlohmann::json paper_;
  const bool optional_;
};

using Experiments = std::vector<std::unique_ptr<Experiment>>;

// All there are, in the order in which they run.
const Experiments& AllExperiments();

// Those of `all` that are named; for none, all that are not optional. InvalidArgument, with the
// names there are, for one that nobody has.
absl::StatusOr<std::vector<const Experiment*>> SelectExperiments(
    const Experiments& all, const std::vector<std::string>& names);

// The largest scale up to 1 at which all of `experiments`, else of this size, get along with what
// there is, rounded down to two digits; 0 when there is none.
double LargestScale(const std::vector<const Experiment*>& experiments, const Needs& there,
                    Size size);

// ResourceExhausted, with the experiment, what it lacks, and the largest scale that fits, unless
// all of `experiments` get along with what there is. `where` names the directory, `left_over` what
// could be removed there (empty: nothing).
absl::Status CheckNeeds(const std::vector<const Experiment*>& experiments, const Needs& there,
                        const Size& size, const std::string& where, const std::string& left_over);

// Memory that this process may still take: of the machine, and within the limits of its control
// groups. `root` is "/", or for tests what stands for it. UINT64_MAX where nothing can be read.
uint64_t AvailableMemory(const std::string& root = "/");

// What is mounted where `dir` is: "/dev/nvme0n1p1"; "unknown" where that cannot be read. `root` as
// above.
std::string MountSource(const std::string& dir, const std::string& root = "/");

// A run's seconds on a usual processor: `writes` of records of so many bytes with what compactions
// make of them, and `reads` past the page cache.
double RunSeconds(uint64_t writes, uint64_t record_bytes, uint64_t reads = 0);

// The unit of each metric that rows have.
nlohmann::json MetricUnits();

}  // namespace pulse::bench
