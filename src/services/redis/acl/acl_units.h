// What users may be allowed or denied: commands, subcommands of those that have some, and their
// categories, as Redis 7.0 has them (acl_units.inc).
//
// Constant data; any thread; nothing blocks.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "services/redis/commands/commands.h"

namespace pulse::redis {

// What a key of a command needs.
struct KeyNeed {
  bool read = false;
  bool write = false;
};

struct AclUnit {
  const CommandInfo* command = nullptr;
  std::string_view sub;  // in lower case; empty: the command
  uint32_t categories = 0;
  KeyNeed first;  // of its first key
  KeyNeed rest;   // ... of others

  std::string name() const;  // "client|id"
};

inline constexpr size_t kMostAclUnits = 256;
using AclUnitSet = std::bitset<kMostAclUnits>;

const std::vector<AclUnit>& AclUnits();
// The unit of a request whose arity fits; of an unknown subcommand that of its command, -1 where
// there is none: of private commands.
int AclUnitOf(const CommandInfo& command, const std::vector<std::string_view>& arguments);
// "client|id", of a request whose arity fits; a subcommand that is unknown is named, too.
std::string AclNameOf(const CommandInfo& command, const std::vector<std::string_view>& arguments);
// By a rule's words: "get", "client" (with all of its subcommands), "client|id". Empty: there is
// none.
AclUnitSet AclUnitsNamed(std::string_view name);
// Zero for an unknown one; "all" has all.
AclUnitSet AclUnitsOfCategory(std::string_view category);

// Categories, in the order of ACL CAT; "all" is none of them.
absl::Span<const std::string_view> AclCategories();
bool IsInCategory(const AclUnit& unit, std::string_view category);

}  // namespace pulse::redis
