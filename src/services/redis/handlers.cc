#include "services/redis/handlers.h"

#include <array>

namespace pulse::redis {
namespace {

// By Command.
std::array<Handler, 256> MakeTable() {
  std::array<Handler, 256> table;
  table.fill([](Call& call) { call.reply.Error("ERR this command is not carried out here"); });
  for (const auto& commands :
       {BitCommands(), ClusterCommands(), StringCommands(), KeyCommands(), ScanCommands()}) {
    for (const Handling& h : commands) table[static_cast<size_t>(h.command)] = h.handler;
  }
  return table;
}

}  // namespace

void RunCommand(Call& call) {
  static const auto table = MakeTable();
  table[static_cast<size_t>(call.command.id)](call);
}

}  // namespace pulse::redis
