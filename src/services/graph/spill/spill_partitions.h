// Rows in parts by the hash of a key: rows with equal keys are in one part, which is worked on when
// the others are on disk, and divided again where it is still too much.
//
// One thread; blocks on the disk. Errors go to the context.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "services/graph/functions/context.h"
#include "services/graph/spill/spill_merge.h"

namespace pulse::cypher {

class SpillPartitions {
 public:
  // How often a part may be divided: each time by other bits of the hash.
  static constexpr int kLevels = 10;
  struct Part {
    std::shared_ptr<SpillFile> file;
    SpillRun run;
    int level = 0;  // of the parts that it may be divided into
  };

  // Null: the context has failed.
  static std::unique_ptr<SpillPartitions> Make(int level, EvalContext& context);
  ~SpillPartitions();
  SpillPartitions(const SpillPartitions&) = delete;
  SpillPartitions& operator=(const SpillPartitions&) = delete;

  // `held`: by the values of the row.
  bool Add(uint64_t hash, std::string_view row, size_t held);
  // Adds those that have rows.
  bool Finish(std::vector<Part>* parts);

 private:
  static constexpr int kBits = 4;
  static constexpr size_t kParts = size_t{1} << kBits;

  SpillPartitions(int level, std::shared_ptr<SpillFile> file, EvalContext* context);

  const int level_;
  const std::shared_ptr<SpillFile> file_;
  EvalContext& context_;
  std::vector<RowWriter> writers_;
  int64_t charged_ = 0;
};

// Rows that come part by part, and go on in the order of the number that each has as its first
// value. In a part they have that order already.
class SpillResults {
 public:
  // Works on a part, and adds those that it is divided into.
  using ReadPart =
      std::function<bool(const SpillPartitions::Part& part, std::vector<SpillPartitions::Part>*)>;

  explicit SpillResults(EvalContext* context) : context_(*context) {}
  // Reads all parts, and those that these are divided into; then gives the rows. Afterwards there
  // is nothing. False: no more rows were wanted, or the context has failed.
  bool Collect(std::unique_ptr<SpillPartitions> spilled, const ReadPart& read, const TakeRow& take);
  // Of the part that is worked on.
  RowWriter* writer() { return &*writer_; }
  bool EndPart() { return writer_->Finish(&runs_); }

 private:
  EvalContext& context_;
  std::unique_ptr<SpillFile> file_;
  std::optional<RowWriter> writer_;
  std::vector<SpillRun> runs_;
};

}  // namespace pulse::cypher
