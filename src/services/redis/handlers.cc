#include "services/redis/handlers.h"

#include <array>

#include "absl/strings/str_cat.h"

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

void ReplyUnknownSubcommand(std::string_view command, std::string_view sub, ReplyWriter* reply) {
  reply->Error(absl::StrCat("ERR unknown subcommand '", AbslOf(sub.substr(0, 128)),
                            "'. The server knows no such ", AbslOf(command), " command."));
}

void RunCommand(Call& call) {
  static const auto table = MakeTable();
  table[static_cast<size_t>(call.command.id)](call);
}

}  // namespace pulse::redis
