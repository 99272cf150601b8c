#include "services/redis/commands/subcommands.h"

#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

struct Subcommand {
  Command command;
  std::string_view name;
  int arity;  // as a command's, which it counts
};

// CLUSTER tells by itself what is not there.
constexpr Subcommand kSubcommands[] = {
    {Command::kAcl, "cat", -2},
    {Command::kAcl, "deluser", -3},
    {Command::kAcl, "dryrun", -4},
    {Command::kAcl, "genpass", -2},
    {Command::kAcl, "getuser", 3},
    {Command::kAcl, "list", 2},
    {Command::kAcl, "load", 2},
    {Command::kAcl, "log", -2},
    {Command::kAcl, "save", 2},
    {Command::kAcl, "setuser", -3},
    {Command::kAcl, "users", 2},
    {Command::kAcl, "whoami", 2},
    {Command::kClient, "caching", 3},
    {Command::kClient, "getname", 2},
    {Command::kClient, "getredir", 2},
    {Command::kClient, "id", 2},
    {Command::kClient, "info", 2},
    {Command::kClient, "kill", -3},
    {Command::kClient, "list", -2},
    {Command::kClient, "no-evict", 3},
    {Command::kClient, "no-touch", 3},
    {Command::kClient, "pause", -3},
    {Command::kClient, "reply", 3},
    {Command::kClient, "setinfo", 4},
    {Command::kClient, "setname", 3},
    {Command::kClient, "tracking", -3},
    {Command::kClient, "trackinginfo", 2},
    {Command::kClient, "unblock", -3},
    {Command::kClient, "unpause", 2},
    {Command::kConfig, "get", -3},
    {Command::kConfig, "resetstat", 2},
    {Command::kConfig, "rewrite", 2},
    {Command::kConfig, "set", -4},
    {Command::kCommand, "count", 2},
    {Command::kCommand, "docs", -2},
    {Command::kCommand, "getkeys", -4},
    {Command::kCommand, "getkeysandflags", -4},
    {Command::kCommand, "info", -2},
    {Command::kCommand, "list", -2},
    {Command::kLatency, "doctor", 2},
    {Command::kLatency, "graph", 3},
    {Command::kLatency, "histogram", -2},
    {Command::kLatency, "history", 3},
    {Command::kLatency, "latest", 2},
    {Command::kLatency, "reset", -2},
    {Command::kMemory, "doctor", 2},
    {Command::kMemory, "malloc-stats", 2},
    {Command::kMemory, "purge", 2},
    {Command::kMemory, "stats", 2},
    {Command::kMemory, "usage", -3},
    {Command::kObject, "encoding", 3},
    {Command::kObject, "freq", 3},
    {Command::kObject, "idletime", 3},
    {Command::kObject, "refcount", 3},
    {Command::kSlowlog, "get", -2},
    {Command::kSlowlog, "len", 2},
    {Command::kSlowlog, "reset", 2},
};

// By Command: whether it has any. Most requests' commands have none.
constexpr std::array<bool, kCommands> kHasSubcommands = [] {
  std::array<bool, kCommands> has{};
  for (const Subcommand& sub : kSubcommands) has[static_cast<size_t>(sub.command)] = true;
  return has;
}();

}  // namespace

bool CheckSubcommand(const CommandInfo& command, const Arguments& args, ReplyWriter* reply) {
  if (args.size() < 2 || !kHasSubcommands[static_cast<size_t>(command.id)]) return true;
  for (const Subcommand& sub : kSubcommands) {
    if (sub.command != command.id || !EqualsIgnoringCase(args[1], sub.name)) continue;
    if (ArityFits(sub.arity, args.size())) return true;
    reply->Error(absl::StrCat("ERR wrong number of arguments for '", AbslOf(command.name), "|",
                              AbslOf(sub.name), "' command"));
    return false;
  }
  RefuseSubcommand(absl::AsciiStrToUpper(AbslOf(command.name)), args[1], {}, reply);
  return false;
}

}  // namespace pulse::redis
