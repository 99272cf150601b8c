#include "services/redis/acl/acl_units.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kCategories[] = {
    "keyspace", "read",   "write",       "set",       "sortedset",  "list",        "hash",
    "string",   "bitmap", "hyperloglog", "geo",       "stream",     "pubsub",      "admin",
    "fast",     "slow",   "blocking",    "dangerous", "connection", "transaction", "scripting"};

uint32_t BitOf(std::string_view category) {
  for (size_t i = 0; i < std::size(kCategories); ++i) {
    if (EqualsIgnoringCase(category, kCategories[i])) return uint32_t{1} << i;
  }
  return 0;
}

// Calls `use` for each word.
template <typename Use>
void ForEachWord(std::string_view words, Use use) {
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    use(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

AclUnit MakeUnit(Command command, std::string_view sub, std::string_view categories,
                 std::string_view keys) {
  AclUnit unit;
  unit.command = AllCommands()[static_cast<size_t>(command)];
  unit.sub = sub;
  ForEachWord(categories, [&](std::string_view category) {
    const uint32_t bit = BitOf(category);
    PULSE_CHECK(bit != 0);
    unit.categories |= bit;
  });
  bool first = true;
  ForEachWord(keys, [&](std::string_view letters) {
    const KeyNeed need{letters.find('R') != std::string_view::npos,
                       letters.find('W') != std::string_view::npos};
    if (std::exchange(first, false)) unit.first = need;
    unit.rest = need;
  });
  return unit;
}

// Where the units of a command begin; -1: it has none.
const std::array<int, kCommands>& FirstUnits() {
  static const auto firsts = [] {
    std::array<int, kCommands> table{};
    table.fill(-1);
    const auto& units = AclUnits();
    for (size_t i = units.size(); i-- > 0;) {
      table[static_cast<size_t>(units[i].command->id)] = static_cast<int>(i);
    }
    return table;
  }();
  return firsts;
}

}  // namespace

std::string AclUnit::name() const {
  return sub.empty() ? std::string(command->name)
                     : absl::StrCat(AbslOf(command->name), "|", AbslOf(sub));
}

const std::vector<AclUnit>& AclUnits() {
  static const std::vector<AclUnit> units = [] {
    std::vector<AclUnit> all = {
#define PULSE_ACL_UNIT(id, sub, categories, keys) MakeUnit(Command::k##id, sub, categories, keys),
#include "services/redis/acl/acl_units.inc"
#undef PULSE_ACL_UNIT
    };
    PULSE_CHECK(all.size() <= kMostAclUnits);
    return all;
  }();
  return units;
}

int AclUnitOf(const CommandInfo& command, const std::vector<std::string_view>& arguments) {
  const int first = FirstUnits()[static_cast<size_t>(command.id)];
  if (first < 0 || arguments.size() < 2) return first;
  const auto& units = AclUnits();
  for (auto i = static_cast<size_t>(first) + 1; i < units.size(); ++i) {
    if (units[i].command != &command) break;
    if (EqualsIgnoringCase(arguments[1], units[i].sub)) return static_cast<int>(i);
  }
  return first;
}

std::string AclNameOf(const CommandInfo& command, const std::vector<std::string_view>& arguments) {
  const int unit = AclUnitOf(command, arguments);
  if (unit < 0) return std::string(command.name);
  const auto& units = AclUnits();
  const auto next = static_cast<size_t>(unit) + 1;
  // Of a command that has subcommands the one that was asked for is none of them.
  const bool unknown = units[next - 1].sub.empty() && next < units.size() &&
                       units[next].command == &command && arguments.size() > 1;
  if (!unknown) return units[next - 1].name();
  std::string sub(arguments[1].substr(0, 128));
  for (char& c : sub) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return absl::StrCat(AbslOf(command.name), "|", sub);
}

AclUnitSet AclUnitsNamed(std::string_view name) {
  AclUnitSet set;
  const size_t bar = std::min(name.find('|'), name.size());
  const std::string_view sub = name.substr(std::min(bar + 1, name.size()));
  const auto& units = AclUnits();
  for (size_t i = 0; i < units.size(); ++i) {
    if (!EqualsIgnoringCase(name.substr(0, bar), units[i].command->name)) continue;
    if (bar == name.size() || (!sub.empty() && EqualsIgnoringCase(sub, units[i].sub))) set.set(i);
  }
  return set;
}

AclUnitSet AclUnitsOfCategory(std::string_view category) {
  AclUnitSet set;
  const bool all = EqualsIgnoringCase(category, "all");
  const uint32_t bit = BitOf(category);
  const auto& units = AclUnits();
  for (size_t i = 0; i < units.size(); ++i) {
    if (all || (units[i].categories & bit) != 0) set.set(i);
  }
  return set;
}

absl::Span<const std::string_view> AclCategories() { return kCategories; }

bool IsInCategory(const AclUnit& unit, std::string_view category) {
  return (unit.categories & BitOf(category)) != 0;
}

}  // namespace pulse::redis
