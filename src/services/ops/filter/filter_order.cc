#include "services/ops/filter/filter_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/ops/filter/filter.h"
#include "services/ops/format.h"

namespace pulse::filter {
namespace {

// Five bytes: records, ignore_case, literal, select, invert; three reserved ones. Then the number
// of rules, and each with its length in front; numbers are of 32 bits, little-endian.
constexpr size_t kHead = 8;

bool IsFlag(char c) { return c == 0 || c == 1; }

}  // namespace

ops::EngineOrder FilterOrder(const RuleSet& rules, const Selection& selection,
                             uint64_t chunk_bytes) {
  ops::EngineOrder order;
  order.kind = ops::EngineOrder::Kind::kFilter;
  order.chunk_bytes = chunk_bytes;
  const RuleSetOptions& options = rules.options();
  std::string& text = order.text;
  text.push_back(static_cast<char>(options.records));
  text.push_back(options.ignore_case ? 1 : 0);
  // Whether rules were literal; their texts are patterns in any case.
  text.push_back(options.literal ? 1 : 0);
  text.push_back(static_cast<char>(selection.select));
  text.push_back(selection.invert ? 1 : 0);
  text.append(kHead - 5, '\0');
  ops::AppendLe(text, rules.rules().size(), 4);
  for (const RuleSet::Compiled& rule : rules.rules()) {
    ops::AppendLe(text, rule.rule.text.size(), 4);
    text += rule.rule.text;
  }
  return order;
}

absl::StatusOr<OrderedFilter> ReadFilterOrder(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError("a filter that cannot be read");
  if (text.size() < kHead + 4) return wrong;
  const auto records = static_cast<Records>(text[0]);
  const auto select = static_cast<Select>(text[3]);
  if (records != Records::kLines && records != Records::kPrefixed) return wrong;
  if (select != Select::kRecords && select != Select::kCount && select != Select::kCaptures) {
    return wrong;
  }
  if (!IsFlag(text[1]) || !IsFlag(text[2]) || !IsFlag(text[4]) || text[5] != 0 || text[6] != 0 ||
      text[7] != 0 || (select == Select::kCaptures && text[4] == 1)) {
    return wrong;
  }
  OrderedFilter filter;
  filter.options.records = records;
  filter.options.ignore_case = text[1] == 1;
  filter.selection = {select, text[4] == 1};
  const size_t count = ops::LoadLe32(&text[kHead]);
  if (count > kMostRules) return wrong;
  absl::string_view rest = text.substr(kHead + 4);
  for (size_t i = 0; i < count; ++i) {
    if (rest.size() < 4) return wrong;
    const size_t size = ops::LoadLe32(rest.data());
    rest.remove_prefix(4);
    if (size > rest.size()) return wrong;
    filter.rules.push_back({std::string(rest.substr(0, size)), absl::StrCat("rule ", i)});
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return wrong;
  return filter;
}

}  // namespace pulse::filter
