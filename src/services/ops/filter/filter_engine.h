// FilterEngine: what a chunk of records becomes: those that are selected, or parts of them, or
// their number. An engine of the queue; each lane has a Matcher of its own. The rule set outlives
// it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/engine.h"
#include "services/ops/filter/matcher.h"
#include "services/ops/filter/rule_set.h"

namespace pulse::filter {

enum class Select {
  kRecords,   // as they are; the last line gets a newline if it has none
  kCount,     // nothing; Result::count has their number
  kCaptures,  // of the first rule, in their order, that RE2 finds: its captures, with tabs between
              // them; the whole match where a rule has none
};

struct Selection {
  Select select = Select::kRecords;
  bool invert = false;  // the records that do not match; not with kCaptures
};

class FilterEngine : public ops::Engine {
 public:
  static absl::StatusOr<std::unique_ptr<FilterEngine>> Make(const RuleSet* rules,
                                                            Selection selection,
                                                            ops::EngineTraits traits);

  // Result::count: how many records are selected. DataLoss, with the offset in the input, for a
  // record that is cut off.
  absl::Status Process(int lane, const ops::Chunk& chunk, ops::Result& result) override;

 private:
  struct Lane {
    std::unique_ptr<Matcher> matcher;
    std::vector<Hit> hits;
    std::vector<re2::StringPiece> captures;
  };

  FilterEngine(const RuleSet* rules, Selection selection, ops::EngineTraits traits)
      : Engine(std::move(traits)), rules_(rules), selection_(selection) {}
  size_t BytesOf(absl::string_view block, const std::vector<Hit>& hits) const;
  void TakeRecords(absl::string_view block, const std::vector<Hit>& hits, ops::Buffer* out) const;
  void TakeOthers(absl::string_view block, const std::vector<Hit>& hits, ops::Buffer* out) const;
  void TakeCaptures(absl::string_view block, Lane* lane, ops::Buffer* out) const;
  // What stands before and behind a record's bytes.
  size_t Before() const { return rules_->records() == Records::kPrefixed ? 4 : 0; }
  size_t Behind() const { return rules_->records() == Records::kPrefixed ? 0 : 1; }
  uint64_t CountRecords(absl::string_view block) const;

  const RuleSet* const rules_;
  const Selection selection_;
  std::vector<Lane> lanes_;
};

}  // namespace pulse::filter
