#include "services/redis/commands/subcommands.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// Those of a command stand together.
constexpr SubcommandInfo kAllSubcommands[] = {
#define PULSE_REDIS_SUBCOMMAND(command, name, arity, arguments, summary) \
  {Command::k##command, name, arity, arguments, summary},
#include "services/redis/commands/subcommands.inc"
#undef PULSE_REDIS_SUBCOMMAND
};

// By Command: whether it has some. CLUSTER has, but tells by itself what is not there.
constexpr std::array<bool, kCommands> kIsDecidedHere = [] {
  std::array<bool, kCommands> has{};
  for (const SubcommandInfo& sub : kAllSubcommands) {
    has[static_cast<size_t>(sub.command)] = sub.command != Command::kCluster;
  }
  return has;
}();

}  // namespace

std::string SubcommandInfo::FullName() const {
  return absl::StrCat(AbslOf(AllCommands()[static_cast<size_t>(command)]->name), "|", AbslOf(name));
}

absl::Span<const SubcommandInfo> AllSubcommands() { return kAllSubcommands; }

absl::Span<const SubcommandInfo> SubcommandsOf(Command command) {
  const auto is_of_it = [&](const SubcommandInfo& sub) { return sub.command == command; };
  const auto* begin =
      std::find_if(std::begin(kAllSubcommands), std::end(kAllSubcommands), is_of_it);
  const auto* end = std::find_if_not(begin, std::end(kAllSubcommands), is_of_it);
  return {begin, static_cast<size_t>(end - begin)};
}

bool CheckSubcommand(const CommandInfo& command, const Arguments& args, ReplyWriter* reply) {
  if (args.size() < 2 || !kIsDecidedHere[static_cast<size_t>(command.id)]) return true;
  for (const SubcommandInfo& sub : SubcommandsOf(command.id)) {
    if (!EqualsIgnoringCase(args[1], sub.name)) continue;
    if (ArityFits(sub.arity, args.size())) return true;
    reply->Error(absl::StrCat("ERR wrong number of arguments for '", sub.FullName(), "' command"));
    return false;
  }
  reply->Error(absl::StrCat("ERR unknown subcommand '", AbslOf(args[1].substr(0, 128)), "'. Try ",
                            absl::AsciiStrToUpper(AbslOf(command.name)), " HELP."));
  return false;
}

void RefuseArguments(const Arguments& args, ReplyWriter* reply) {
  reply->Error(absl::StrCat("ERR unknown subcommand or wrong number of arguments for '",
                            AbslOf(args[1].substr(0, 128)), "'. Try ",
                            absl::AsciiStrToUpper(AbslOf(args[0])), " HELP."));
}

bool IsHelp(const CommandInfo& command, const Arguments& args) {
  return args.size() == 2 && kIsDecidedHere[static_cast<size_t>(command.id)] &&
         EqualsIgnoringCase(args[1], "help");
}

void ReplyHelp(const CommandInfo& command, ReplyWriter* reply) {
  const absl::Span<const SubcommandInfo> subs = SubcommandsOf(command.id);
  reply->Array(1 + 2 * subs.size());
  reply->Simple(absl::StrCat(absl::AsciiStrToUpper(AbslOf(command.name)),
                             " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
  const auto add = [&](const SubcommandInfo& sub) {
    reply->Simple(absl::StrCat(absl::AsciiStrToUpper(AbslOf(sub.name)),
                               sub.arguments.empty() ? "" : " ", AbslOf(sub.arguments)));
    reply->Simple(absl::StrCat("    ", AbslOf(sub.summary)));
  };
  // Its own line is the last one.
  for (const bool help : {false, true}) {
    for (const SubcommandInfo& sub : subs) {
      if ((sub.name == "help") == help) add(sub);
    }
  }
}

}  // namespace pulse::redis
