// What COMMAND tells of commands beside the table of commands.h: facts for clients, and for those
// of a cluster.
//
// Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "services/redis/commands/keyspace.h"

namespace pulse::redis {

// In a time that does not grow with the keys there are, nor with the value.
bool IsFast(Command command);

// How a client of a cluster may divide a command between the nodes, and join their replies.
std::vector<std::string_view> TipsOf(Command command);

// Of those that write: what may be refused when memory is full.
bool MayNeedMemory(Command command);

// What a command does with the value of a key, its first one or a later one: its flags, as COMMAND
// GETKEYSANDFLAGS names them.
std::vector<std::string_view> KeyFlags(const CommandInfo& command, const Arguments& args,
                                       bool is_first);

}  // namespace pulse::redis
