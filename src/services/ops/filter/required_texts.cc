#include "services/ops/filter/required_texts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "services/ops/filter/text_finder.h"

namespace pulse::filter {
namespace {

// Shorter ones are everywhere.
constexpr size_t kShortestText = 4;
constexpr size_t kLongestText = 16;
constexpr size_t kMostNodes = 4096;
// Of so many parts of texts at most one is chosen in a moment.
constexpr size_t kMostParts = size_t{1} << 18;
constexpr size_t kMostAlso = 2;

class Gatherer {
 public:
  void Add(const Node& node) {
    // Repetitions within repetitions are gone through twice each.
    if (++visited_ > kMostNodes) return End();
    switch (node.kind) {
      case Node::Kind::kEmpty:
        return;
      case Node::Kind::kSet:
        if (node.set.only_ascii() && node.set.ascii.count() == 1) {
          run_.push_back(static_cast<char>(node.set.ascii._Find_first()));
          return;
        }
        break;
      case Node::Kind::kConcat:
        for (const Node& child : node.children) Add(child);
        return;
      case Node::Kind::kRepeat:
        // What it begins with follows what was before, and what it ends with stands before what
        // comes; in between, anything.
        if (node.least > 0) {
          Add(node.children.front());
          if (node.least == 1 && node.most == 1) return;
          End();
          // Its last turn; the text of one that is turned once is there twice.
          Add(node.children.front());
          return;
        }
        break;
      default:
        break;
    }
    End();
  }
  std::vector<std::string> Take() {
    End();
    return std::move(texts_);
  }

 private:
  void End() {
    if (run_.size() >= kShortestText) texts_.push_back(run_);
    run_.clear();
  }

  size_t visited_ = 0;
  std::string run_;
  std::vector<std::string> texts_;
};

int RarityOf(std::string_view text) {
  int rarity = 0;
  for (const char c : text) rarity += Rarity(static_cast<unsigned char>(c));
  return rarity;
}

bool HasPart(const std::vector<std::string>& texts, std::string_view part) {
  return std::any_of(texts.begin(), texts.end(), [part](const std::string& text) {
    return text.find(part) != std::string::npos;
  });
}

// Of the parts of texts that at least `least` of `rules` need, that which most need, and of these
// the rarest. None that says nothing beyond `group`. Empty: there is none.
std::string_view MostShared(const std::vector<std::vector<std::string>>& required,
                            const std::vector<size_t>& rules, size_t least,
                            const SharedText& group) {
  struct Count {
    size_t rules = 0;
    size_t last = SIZE_MAX;  // the rule that was counted last
  };
  std::unordered_map<std::string_view, Count> counts;
  for (const size_t rule : rules) {
    for (const std::string& text : required[rule]) {
      const std::string_view all(text);
      for (size_t at = 0; at + kShortestText <= all.size(); ++at) {
        for (size_t size = kShortestText; size <= std::min(kLongestText, all.size() - at); ++size) {
          const std::string_view part = all.substr(at, size);
          if (part.find('\n') != std::string_view::npos) break;
          Count& count = counts[part];
          if (count.last == rule) continue;
          count.last = rule;
          ++count.rules;
        }
      }
    }
  }
  std::string_view best;
  size_t most = 0;
  int rarity = 0;
  for (const auto& [part, count] : counts) {
    if (count.rules < least) continue;
    const int of = RarityOf(part);
    if (std::pair(count.rules, of) < std::pair(most, rarity)) continue;
    // The same choice each time, whatever the order of the table.
    if (std::pair(count.rules, of) == std::pair(most, rarity) && part > best) continue;
    const std::string_view one = part;
    const auto same = [one](const std::string& text) {
      return text.find(one) != std::string::npos || one.find(text) != std::string_view::npos;
    };
    if (!group.text.empty() &&
        (same(group.text) || std::any_of(group.also.begin(), group.also.end(), same))) {
      continue;
    }
    best = part;
    most = count.rules;
    rarity = of;
  }
  return best;
}

}  // namespace

std::vector<std::string> RequiredTexts(const Node& rule) {
  Gatherer gatherer;
  gatherer.Add(rule);
  return gatherer.Take();
}

const std::string& RarestText(const std::vector<std::string>& texts) {
  return *std::max_element(
      texts.begin(), texts.end(),
      [](const std::string& a, const std::string& b) { return RarityOf(a) < RarityOf(b); });
}

std::vector<SharedText> SharedTexts(const std::vector<std::vector<std::string>>& required,
                                    size_t most) {
  size_t parts = 0;
  for (const auto& texts : required) {
    for (const std::string& text : texts) parts += text.size() * (kLongestText - kShortestText + 1);
  }
  if (parts > kMostParts) return {};
  std::vector<SharedText> chosen;
  std::vector<size_t> left(required.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  while (!left.empty()) {
    if (chosen.size() == most) return {};
    const std::string_view best = MostShared(required, left, 0, {});
    if (best.empty()) return {};
    SharedText group{std::string(best), {}};
    const auto behind = std::stable_partition(left.begin(), left.end(), [&](size_t rule) {
      return !HasPart(required[rule], group.text);
    });
    const std::vector<size_t> rules(behind, left.end());
    left.erase(behind, left.end());
    while (group.also.size() < kMostAlso) {
      const std::string_view also = MostShared(required, rules, rules.size(), group);
      if (also.empty()) break;
      group.also.emplace_back(also);
    }
    chosen.push_back(std::move(group));
  }
  return chosen;
}

}  // namespace pulse::filter
