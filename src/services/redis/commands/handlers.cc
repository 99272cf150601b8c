#include "services/redis/commands/handlers.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "services/redis/commands/subcommands.h"

namespace pulse::redis {
namespace {

// By Command.
std::array<Handler, 256> MakeTable() {
  std::array<Handler, 256> table;
  table.fill([](Call& call) { call.reply.Error("ERR this command is not carried out here"); });
  for (const auto& commands : {BitCommands(), ClusterCommands(), StringCommands(),
                               SequenceCommands(), KeyCommands(), ScanCommands()}) {
    for (const Handling& h : commands) table[static_cast<size_t>(h.command)] = h.handler;
  }
  return table;
}

}  // namespace

bool ConcernsNoKey(const CommandInfo& command, const Arguments& args) {
  constexpr std::string_view kReports[] = {"doctor", "malloc-stats", "purge", "stats"};
  if (command.id != Command::kMemory && command.id != Command::kObject) return false;
  if (IsHelp(command, args)) return true;
  return command.id == Command::kMemory && args.size() == 2 &&
         std::any_of(std::begin(kReports), std::end(kReports),
                     [&](std::string_view name) { return EqualsIgnoringCase(args[1], name); });
}

void RunCommand(Call& call) {
  static const auto table = MakeTable();
  table[static_cast<size_t>(call.command.id)](call);
}

}  // namespace pulse::redis
