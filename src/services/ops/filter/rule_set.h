// RuleSet: "does this record match, yes or no" for many rules at once. A record matches when any
// rule matches any part of it. Rules are written in RE2's syntax, over UTF-8, and RE2's answer is
// the right one: every other engine serves to find it sooner.
//
// RE2 parses each rule first; what it refuses is refused, all such rules in one error. Then the
// rule gets the fastest engine that agrees with RE2:
//
//   texts        a sequence of texts with gaps ("at .+ exit"): one of the texts is looked for, the
//                rest is compared
//   pattern      one Vectorscan database for all such rules, where it is sound. They are written
//                anew: classes by the bytes that RE2 accepts, no class with a newline, anchors as
//                those of lines
//   prefiltered  what may match is found by a text that the rule needs, or by Vectorscan; RE2
//                confirms it
//   re2          RE2 alone; lines without a text that such a rule needs are passed over, where a
//   few
//                texts do for all of them
//
// Records that are not all ASCII are confirmed by RE2 where the bytes of a character matter.
// Invalid UTF-8 and NUL are bytes of a record like all others: no class accepts what is not UTF-8,
// \C does.
//
// Each rule is tried when it is loaded: on records made from it and then damaged (seeded), both
// engines have to say the same. A rule on which they differ goes to RE2 alone, and this is logged.
// What is matched later is sampled (matcher.h).
//
// Immutable but for the rules that are put into quarantine; thread-safe. Compile takes milliseconds
// to seconds and does no I/O. The co-processing paper's section 5.8 compares these engines with
// RXP.
#pragma once

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/filter/scanner.h"

namespace pulse::filter {

enum class Records {
  kLines,     // each ends with a newline, the last one with or without
  kPrefixed,  // each has its length in front: 32 bits, little-endian
};

struct Rule {
  std::string text;
  std::string where;  // for messages: "--rules FILE, line 3"
};

struct RuleSetOptions {
  Records records = Records::kLines;
  bool ignore_case = false;
  bool literal = false;  // rules are texts, not patterns
  uint64_t seed = 1;     // of the records on which rules are tried
  bool try_rules = true;
  int threads = 1;  // that read and try rules; of many rules, since threads take time to start
  // Without it, few texts are found as with it; all else is RE2's.
  VectorscanUse vectorscan = Scanner::SoundUse();
  // For tests: what the scanner is given in place of a rule's form.
  std::function<void(uint32_t rule, RuleForm*)> change_form;
};

// Of a compilation for somebody else. The engines of all rules together have at most so many
// instructions (of RE2's programs, before the other engines are made of them), else
// ResourceExhausted; Cancelled once `stopped` is true, which is asked between rules.
struct CompileLimits {
  uint64_t instructions = UINT64_MAX;
  std::function<bool()> stopped;  // by several threads, if there are
};

enum class RuleEngine {
  kAll,    // matches every record
  kNever,  // matches none
  kTexts,
  kPattern,
  kPrefiltered,
  kRe2,
};
absl::string_view NameOf(RuleEngine engine);

class RuleSet {
 public:
  struct Compiled {
    Rule rule;
    std::unique_ptr<RE2> re2;
    RuleEngine engine = RuleEngine::kRe2;
    std::string reason;  // why it is not a faster engine
    // Whether a candidate is right only if RE2 says so: always; in records that are not all ASCII;
    // in records of ASCII, too, where the scanner for all records has found it.
    bool confirm = false;
    bool confirm_others = false;
    bool confirm_mixed = false;
  };

  // InvalidArgument names every rule that cannot be used, with the reasons. No rule at all is a set
  // that matches nothing.
  static absl::StatusOr<std::unique_ptr<RuleSet>> Compile(std::vector<Rule> rules,
                                                          RuleSetOptions options,
                                                          const CompileLimits& limits = {});

  const std::vector<Compiled>& rules() const { return rules_; }
  Records records() const { return options_.records; }
  const RuleSetOptions& options() const { return options_; }
  // Some rule matches every record.
  bool accepts_all() const { return accepts_all_; }
  // Some rule matches the empty record.
  bool accepts_empty() const { return accepts_empty_; }

  // For records of ASCII only, and for all. The same object where the forms of all rules are.
  const Scanner& ascii_scanner() const { return *ascii_; }
  const Scanner& scanner() const { return any_ != nullptr ? *any_ : *ascii_; }
  bool one_scanner() const { return any_ == nullptr; }

  bool Re2Accepts(size_t rule, absl::string_view record) const {
    return RE2::PartialMatch({record.data(), record.size()}, *rules_[rule].re2);
  }
  // Of the rules that RE2 alone serves, those in quarantine included.
  bool AnyRe2Rule() const {
    return !re2_rules_.empty() || quarantined_.load(std::memory_order_acquire) > 0;
  }
  bool Re2RulesAccept(absl::string_view record) const;
  // Finds a text in every line that Re2RulesAccept accepts, of which Re2MayAccept is true for one
  // such text; null: there is none that does, as long as any rule is in quarantine, too.
  const TextFinder* re2_finder() const {
    return re2_finder_.has_value() && quarantined() == 0 ? &*re2_finder_ : nullptr;
  }
  // Whether a line with this text of re2_finder() also has what else the rules with it need.
  bool Re2MayAccept(size_t text, absl::string_view line) const {
    return std::all_of(re2_also_[text].begin(), re2_also_[text].end(), [&](const auto& also) {
      return memmem(line.data(), line.size(), also.data(), also.size()) != nullptr;
    });
  }

  // From now on RE2 alone serves this rule: its engine gave another answer than RE2 on `record`.
  // Logs once for each rule. Any thread.
  void Quarantine(uint32_t rule, absl::string_view record, bool engine_said) const;
  bool IsQuarantined(uint32_t rule) const {
    return quarantined_.load(std::memory_order_relaxed) > 0 &&
           in_quarantine_[rule].load(std::memory_order_relaxed);
  }
  uint32_t quarantined() const { return quarantined_.load(std::memory_order_relaxed); }

  // Lines that say which engine each rule has, for --verbose and logs.
  std::string Explain() const;

 private:
  struct Forms {
    RuleForm ascii;
    RuleForm any;
    bool never_ascii = false;
    bool never_any = false;
  };

  explicit RuleSet(RuleSetOptions options) : options_(std::move(options)) {}
  absl::Status Parse(std::vector<Rule> rules, const CompileLimits& limits);
  absl::Status ChooseEngines(const CompileLimits& limits);
  void ChooseEngine(uint32_t number);
  // Of those that need a pattern, where Vectorscan is not used for these.
  void ChooseByNeededTexts();
  // Again until every rule that is left agrees with RE2.
  absl::Status BuildAndTry(const CompileLimits& limits);
  absl::Status BuildScanners();
  void BuildRe2Finder();
  absl::StatusOr<std::vector<uint32_t>> RulesThatDiffer(const CompileLimits& limits) const;
  absl::Status TryRules(uint32_t begin, uint32_t end, const CompileLimits& limits,
                        std::vector<uint32_t>* differ) const;
  bool NeedsATextOf(uint32_t rule, const std::vector<std::string>& texts) const;
  // Calls f(begin, end) for parts of 0 to n - 1: the same ones, whoever works on them, and none
  // with many samples at a time.
  absl::Status InParts(size_t n, const std::function<absl::Status(uint32_t, uint32_t)>& f) const;
  void UseRe2(uint32_t rule, std::string reason);
  bool lines() const { return options_.records == Records::kLines; }

  const RuleSetOptions options_;
  std::vector<Compiled> rules_;
  std::vector<Node> nodes_;  // simplified
  std::vector<Forms> forms_;
  bool accepts_all_ = false;
  bool accepts_empty_ = false;
  std::unique_ptr<Scanner> ascii_;
  std::unique_ptr<Scanner> any_;  // null: as ascii_
  std::vector<uint32_t> re2_rules_;
  std::unique_ptr<RE2::Set> re2_set_;  // of re2_rules_; null for one
  std::optional<TextFinder> re2_finder_;
  std::vector<std::vector<std::string>> re2_also_;  // by the finder's texts
  mutable std::vector<std::atomic<bool>> in_quarantine_;
  mutable std::atomic<uint32_t> quarantined_{0};
};

}  // namespace pulse::filter
