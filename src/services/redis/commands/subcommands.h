// Which subcommands there are, and how many arguments they take: a client that names another one,
// or gives too few, is refused before anything else, also within MULTI, as Redis does. Thread-safe.
#pragma once

#include "services/redis/commands/handlers.h"

namespace pulse::redis {

// False after an error reply. `command` fits its own arity.
bool CheckSubcommand(const CommandInfo& command, const Arguments& args, ReplyWriter* reply);

}  // namespace pulse::redis
