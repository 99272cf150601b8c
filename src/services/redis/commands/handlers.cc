#include "services/redis/commands/handlers.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/ascii.h"
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

bool IsMemoryReport(const CommandInfo& command, const Arguments& args) {
  constexpr std::string_view kReports[] = {"doctor", "malloc-stats", "purge", "stats"};
  return command.id == Command::kMemory && args.size() == 2 &&
         std::any_of(std::begin(kReports), std::end(kReports),
                     [&](std::string_view name) { return EqualsIgnoringCase(args[1], name); });
}

void RefuseSubcommand(std::string_view command, std::string_view sub,
                      absl::Span<const std::string_view> known, ReplyWriter* reply) {
  for (const std::string_view name : known) {
    if (!EqualsIgnoringCase(sub, name)) continue;
    return reply->Error(absl::StrCat("ERR wrong number of arguments for '",
                                     absl::AsciiStrToLower(AbslOf(command)), "|", AbslOf(name),
                                     "' command"));
  }
  reply->Error(absl::StrCat("ERR unknown subcommand '", AbslOf(sub.substr(0, 128)),
                            "'. The server knows no such ", AbslOf(command), " command."));
}

void RunCommand(Call& call) {
  static const auto table = MakeTable();
  table[static_cast<size_t>(call.command.id)](call);
}

}  // namespace pulse::redis
