#include "services/redis/permissions.h"

namespace pulse::redis {

bool May(const net::User& user, const CommandInfo& command) {
  if (command.writes()) {
    // A command that also tells what was there needs leave for both.
    return user.may_write && (user.may_read || !command.reads() || command.id == Command::kSet ||
                              command.id == Command::kDel || command.id == Command::kUnlink);
  }
  // Clients cannot do without it, whatever they do.
  if (command.id == Command::kCluster) return user.may_read || user.may_write;
  if (command.reads()) return user.may_read;
  return (command.flags & kAdmin) == 0 || user.may_admin || command.id == Command::kAcl;
}

bool May(const net::User& user, const CommandInfo& command,
         const std::vector<std::string_view>& arguments) {
  if (command.id == Command::kSet && !user.may_read) {
    for (size_t i = 3; i < arguments.size(); ++i) {
      if (EqualsIgnoringCase(arguments[i], "get")) return false;
    }
  }
  return May(user, command);
}

absl::Span<const std::string_view> CommandCategories() {
  static constexpr std::string_view kCategories[] = {"admin", "bitmap", "connection",  "keyspace",
                                                     "read",  "string", "transaction", "write"};
  return kCategories;
}

bool IsInCategory(const CommandInfo& command, std::string_view category) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(category, name); };
  if (is("admin")) return (command.flags & kAdmin) != 0;
  if (is("connection")) return command.group == "connection";
  if (is("keyspace")) return command.group == "generic" || (command.flags & kKeyspace) != 0;
  if (is("read")) return command.reads() && !command.writes();
  if (is("transaction")) return command.group == "transactions";
  if (is("write")) return command.writes();
  return (is("bitmap") && command.group == "bitmap") || (is("string") && command.group == "string");
}

}  // namespace pulse::redis
