// Which commands a user may give. Any thread; nothing blocks.
#pragma once

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "net/users.h"
#include "services/redis/commands/commands.h"

namespace pulse::redis {

bool May(const net::User& user, const CommandInfo& command);
// With these arguments, the command's name first: SET with GET also reads.
bool May(const net::User& user, const CommandInfo& command,
         const std::vector<std::string_view>& arguments);

// Categories, as ACL CAT names them.
absl::Span<const std::string_view> CommandCategories();
// False, too, for what is no category.
bool IsInCategory(const CommandInfo& command, std::string_view category);

}  // namespace pulse::redis
