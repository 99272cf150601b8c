#include "services/redis/commands/commands.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "base/hash.h"

namespace pulse::redis {
namespace {

constexpr CommandInfo kInfos[] = {
#define PULSE_REDIS_COMMAND(id, name, arity, flags, first, last, step, group, summary) \
  {Command::k##id, name, arity, flags, first, last, step, group, summary},
#include "services/redis/commands/commands.inc"
#undef PULSE_REDIS_COMMAND
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// A table of names, open to the next free place.
constexpr size_t kSlots = 512;
constexpr size_t kLongestName = 16;
static_assert(std::size(kInfos) * 4 < kSlots);

size_t SlotOf(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(Lower(c))) * 16777619u;
  return (hash ^ hash >> 15) % kSlots;
}

std::array<const CommandInfo*, kSlots> MakeTable() {
  std::array<const CommandInfo*, kSlots> table{};
  for (const CommandInfo& command : kInfos) {
    size_t slot = SlotOf(command.name);
    while (table[slot] != nullptr) slot = (slot + 1) % kSlots;
    table[slot] = &command;
  }
  return table;
}

}  // namespace

bool EqualsIgnoringCase(std::string_view text, std::string_view lower_case) {
  if (text.size() != lower_case.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (Lower(text[i]) != lower_case[i]) return false;
  }
  return true;
}

const CommandInfo* FindCommand(std::string_view name) {
  static const auto table = MakeTable();
  if (name.size() > kLongestName) return nullptr;
  for (size_t slot = SlotOf(name); table[slot] != nullptr; slot = (slot + 1) % kSlots) {
    if (EqualsIgnoringCase(name, table[slot]->name)) return table[slot];
  }
  return nullptr;
}

const std::string& CommandsDigest() {
  static const std::string digest = [] {
    // The meaning of replies and of marks, too: raise it when one of these changes.
    std::string text = "1";
    for (const CommandInfo& c : kInfos) {
      absl::StrAppend(&text, "\n", absl::string_view(c.name.data(), c.name.size()), " ", c.arity,
                      " ", c.flags, " ", c.first_key, " ", c.last_key, " ", c.key_step);
    }
    return absl::StrCat(absl::Hex(XXH3_64bits(text.data(), text.size()), absl::kZeroPad16));
  }();
  return digest;
}

const std::vector<const CommandInfo*>& AllCommands() {
  static const auto all = [] {
    std::vector<const CommandInfo*> commands;
    for (const CommandInfo& command : kInfos) commands.push_back(&command);
    return commands;
  }();
  return all;
}

}  // namespace pulse::redis
