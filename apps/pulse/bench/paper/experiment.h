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

class Session;

// What the paper writes and loads; the scale 1.
inline constexpr double kPaperBytes = 40e9;
inline constexpr double kPaperOperations = 20e6;  // of each YCSB workload

// What the command line decides.
struct Size {
  double scale = 0.025;
  int threads = 10;             // that write, or operate
  uint64_t memtable_bytes = 0;  // 0: the paper's
  bool tiny = false;            // a few megabytes, whatever the scale
  bool own_load = true;         // each opponent loads its own YCSB database
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
  virtual int Steps(const Session& session, const Size& size) const = 0;
  // Whether it can run as the session is set up: asked before anything runs.
  virtual absl::Status Check(const Session&) const { return absl::OkStatus(); }
  // Its rows: label, opponents with medians and spreads, ratios, runs. Says the tables.
  virtual absl::StatusOr<nlohmann::json> Run(Session* session, const Size& size) const = 0;

 protected:
  Experiment(std::string name, std::string title, nlohmann::json paper)
      : name_(std::move(name)), title_(std::move(title)), paper_(std::move(paper)) {}

 private:
  const std::string name_;
  const std::string title_;
  const nlohmann::json paper_;
};

using Experiments = std::vector<std::unique_ptr<Experiment>>;

// All there are, in the order in which they run.
const Experiments& AllExperiments();

// Those of `all` that are named; all for none. InvalidArgument, with the names there are, for one
// that nobody has.
absl::StatusOr<std::vector<const Experiment*>> SelectExperiments(
    const Experiments& all, const std::vector<std::string>& names);

// The largest scale up to 1 at which all of `experiments`, else of this size, get along with what
// there is, rounded down to two digits; 0 when there is none.
double LargestScale(const std::vector<const Experiment*>& experiments, const Needs& there,
                    Size size);

// What the neediest of `experiments` needs: they run one after the other.
Needs MostOf(const std::vector<const Experiment*>& experiments, const Size& size);

// The unit of each metric that rows have.
nlohmann::json MetricUnits();

}  // namespace pulse::bench
