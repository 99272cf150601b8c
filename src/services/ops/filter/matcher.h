// Matcher: one thread's use of a RuleSet: it finds which records of a block match.
//
// Lines are not looked at one by one. A block of many is scanned at once, and each match is mapped
// to its line, which is possible since no rule of a scanner matches across a newline. RE2 is asked
// about single lines only where the scanner's answer needs it.
//
// Of the records that it sees, a Matcher takes samples, and has RE2 decide them again. A rule whose
// engine gave another answer is put into quarantine, and the part of the block in which this was
// seen is matched anew.
//
// Not thread-safe; the rule set outlives it. Never blocks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/filter/rule_set.h"

namespace pulse::filter {

// A record that matches: where its bytes lie in the block, without its newline or its length.
struct Hit {
  size_t begin;
  size_t end;
  uint32_t rule;  // one that matches; kNoRule if RE2 alone knows
};
inline constexpr uint32_t kNoRule = UINT32_MAX;

bool IsAscii(absl::string_view bytes);

// What Vectorscan takes at a time is less; so no record may be larger.
inline constexpr uint64_t kMostRecordBytes = uint64_t{1} << 30;

class Matcher {
 public:
  // `seed` chooses the samples.
  static absl::StatusOr<std::unique_ptr<Matcher>> Make(const RuleSet* rules, uint64_t seed = 1);

  // Replaces *hits by the records of `block` that match, in their order. A block holds whole
  // records, none larger than kMostRecordBytes; the last line may lack its newline. DataLoss for a
  // record whose length exceeds the block.
  absl::Status Match(absl::string_view block, std::vector<Hit>* hits);

  // All rules whose engine accepts this one record, for the trial of rules: without RE2's rules and
  // without samples. Ascending.
  absl::Status MatchAllRules(const Scanner& scanner, absl::string_view lines,
                             const std::function<void(size_t begin, uint32_t rule)>& on_match);

 private:
  class Line;

  explicit Matcher(const RuleSet* rules, uint64_t seed) : rules_(rules), random_(seed) {}
  absl::Status MatchLines(absl::string_view block, size_t begin, size_t end,
                          std::vector<Hit>* hits);
  absl::Status ScanLines(absl::string_view part, size_t offset, std::vector<Hit>* hits);
  void AddRe2Hits(absl::string_view block, size_t begin, size_t end, size_t first,
                  std::vector<Hit>* hits) const;
  absl::Status MatchPrefixed(absl::string_view block, std::vector<Hit>* hits);
  absl::StatusOr<uint32_t> MatchRecord(absl::string_view record, bool* matches);
  // True if all is well with a line of [begin, end), whose hits are those from `first` on.
  bool SampleAgrees(absl::string_view block, size_t begin, size_t end, const std::vector<Hit>& hits,
                    size_t first);
  bool RecordAgrees(absl::string_view record, bool hit, uint32_t rule);
  const Scanner& ScannerFor(absl::string_view bytes, hs_scratch_t** scratch) const;

  const RuleSet* const rules_;
  std::mt19937_64 random_;
  Scanner::Scratch ascii_scratch_;
  Scanner::Scratch any_scratch_;
  size_t next_rule_ = 0;       // of the next sample
  uint64_t until_sample_ = 0;  // bytes
};

}  // namespace pulse::filter
