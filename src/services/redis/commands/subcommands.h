// Which subcommands there are, and how many arguments they take: a client that names another one,
// or gives too few, is refused before anything else, also within MULTI, as Redis does. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {

struct SubcommandInfo {
  Command command;
  std::string_view name;       // in lower case
  int arity;                   // as a command's, which it counts
  std::string_view arguments;  // behind the name, as people read it
  std::string_view summary;

  std::string FullName() const;  // "client|id"
};
absl::Span<const SubcommandInfo> AllSubcommands();
absl::Span<const SubcommandInfo> SubcommandsOf(Command command);

// False after an error reply. `command` fits its own arity.
bool CheckSubcommand(const CommandInfo& command, const Arguments& args, ReplyWriter* reply);

// To one that has more arguments than it takes.
void RefuseArguments(const Arguments& args, ReplyWriter* reply);

// HELP, but CLUSTER's, which is answered in cluster mode alone.
bool IsHelp(const CommandInfo& command, const Arguments& args);
void ReplyHelp(const CommandInfo& command, ReplyWriter* reply);

}  // namespace pulse::redis
