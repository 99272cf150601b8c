// ACL: who may do what. Users are those that the server was started with, and stay so.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/executor.h"
#include "services/redis/permissions.h"

namespace pulse::redis {
namespace {

constexpr int64_t kMostBits = 4096;
constexpr int64_t kDefaultBits = 256;
constexpr int64_t kShownDenials = 10;

void ReplyList(const std::vector<std::string>& texts, ReplyWriter* reply) {
  reply->Array(texts.size());
  for (const std::string& text : texts) reply->Bulk(text);
}

std::string RulesOf(const net::User& user) {
  if (user.may_read && user.may_write && user.may_admin) return "+@all";
  std::string rules = "-@all";
  if (user.may_read) rules += " +@read";
  if (user.may_write) rules += " +@write";
  if (user.may_admin) rules += " +@admin";
  return rules;
}

std::vector<std::string> FlagsOf(const net::User& user) {
  std::vector<std::string> flags = {user.enabled ? "on" : "off"};
  if (user.no_password) flags.push_back("nopass");
  return flags;
}

// As a line of a users file.
std::string LineOf(const net::User& user) {
  std::string line = absl::StrCat("user ", user.name, " ", absl::StrJoin(FlagsOf(user), " "));
  for (const std::string& hash : user.hashes) absl::StrAppend(&line, " #", hash);
  return absl::StrCat(line, " ~* &* ", RulesOf(user));
}

void Categories(const Arguments& args, ReplyWriter* reply) {
  if (args.size() == 2) {
    reply->Array(CommandCategories().size());
    for (const auto category : CommandCategories()) reply->Bulk(category);
    return;
  }
  std::vector<std::string> names;
  bool known = false;
  for (const auto category : CommandCategories()) known |= EqualsIgnoringCase(args[2], category);
  if (!known) {
    return reply->Error(
        absl::StrCat("ERR Unknown category '", AbslOf(args[2].substr(0, 128)), "'"));
  }
  for (const CommandInfo* command : AllCommands()) {
    if ((command->flags & kPrivate) == 0 && IsInCategory(*command, args[2])) {
      names.emplace_back(command->name);
    }
  }
  ReplyList(names, reply);
}

void MakePassword(const Arguments& args, ReplyWriter* reply) {
  int64_t bits = kDefaultBits;
  if (args.size() == 3 && (!ParseInteger(args[2], &bits) || bits <= 0 || bits > kMostBits)) {
    return reply->Error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
        "number up to 4096");
  }
  const auto digits = static_cast<size_t>((bits + 3) / 4);
  reply->Bulk(RandomHex((digits + 1) / 2).substr(0, digits));
}

void ShowUser(const net::Users& users, std::string_view name, ReplyWriter* reply) {
  const net::User* user = users.Find(name);
  if (user == nullptr) return reply->Null();
  reply->Map(6);
  reply->Bulk("flags");
  ReplyList(FlagsOf(*user), reply);
  reply->Bulk("passwords");
  ReplyList(user->hashes, reply);
  reply->Bulk("commands");
  reply->Bulk(RulesOf(*user));
  reply->Bulk("keys");
  reply->Bulk("~*");
  reply->Bulk("channels");
  reply->Bulk("&*");
  reply->Bulk("selectors");
  reply->Array(0);
}

// Whether a user might give a command, which is not carried out.
void DryRun(const net::Users& users, const Arguments& args, ReplyWriter* reply) {
  const net::User* user = users.Find(args[2]);
  if (user == nullptr) {
    return reply->Error(absl::StrCat("ERR User '", AbslOf(args[2].substr(0, 128)), "' not found"));
  }
  const Arguments command_args(args.begin() + 3, args.end());
  const CommandInfo* command = FindCommand(command_args[0]);
  if (command == nullptr || (command->flags & kPrivate) != 0) {
    return reply->Error(
        absl::StrCat("ERR Command '", AbslOf(command_args[0].substr(0, 128)), "' not found"));
  }
  if (!command->ArityFits(command_args.size())) {
    return reply->Error(
        absl::StrCat("ERR wrong number of arguments for '", AbslOf(command->name), "' command"));
  }
  if (May(*user, *command, command_args)) return reply->Ok();
  reply->Bulk(absl::StrCat("User ", user->name, " has no permissions to run the '",
                           AbslOf(command->name), "' command"));
}

void ShowLog(AclLog* log, const Arguments& args, ReplyWriter* reply) {
  int64_t count = kShownDenials;
  if (args.size() == 3) {
    if (EqualsIgnoringCase(args[2], "reset")) {
      log->Clear();
      return reply->Ok();
    }
    if (!ParseInteger(args[2], &count)) return reply->Error(kNotAnInteger);
  }
  const int64_t now_ms = WallMillis();
  const auto entries = log->Newest(static_cast<size_t>(std::max<int64_t>(count, 0)));
  reply->Array(entries.size());
  for (const AclLog::Entry& entry : entries) {
    const auto field = [&](std::string_view name, std::string_view value) {
      reply->Bulk(name);
      reply->Bulk(value);
    };
    reply->Map(7);
    reply->Bulk("count");
    reply->Integer(entry.count);
    field("reason", entry.reason == AclLog::Reason::kAuth ? "auth" : "command");
    field("context", entry.in_multi ? "multi" : "toplevel");
    field("object", entry.object);
    field("username", entry.user);
    field("age-seconds", absl::StrFormat("%.3f", static_cast<double>(now_ms - entry.at_ms) / 1e3));
    field("client-info", entry.client);
  }
}

}  // namespace

void Executor::Acl(Session* session, const Arguments& args, ReplyWriter* reply) {
  const std::string_view sub = args[1];
  const size_t more = args.size() - 2;
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(sub, name); };
  if (is("whoami") && more == 0) {
    return reply->Bulk(session->user == nullptr ? "default" : session->user->name);
  }
  if (is("cat") && more <= 1) return Categories(args, reply);
  if (is("genpass") && more <= 1) return MakePassword(args, reply);
  // What follows tells of other users.
  if (session->user == nullptr || !session->user->may_admin) {
    return reply->Error(absl::StrCat(
        "NOPERM User ", session->user == nullptr ? "default" : session->user->name,
        " has no permissions to run the 'acl|", AbslOf(sub.substr(0, 128)), "' command"));
  }
  if ((is("list") || is("users")) && more == 0) {
    std::vector<std::string> texts;
    for (const auto& [name, user] : facts_->users.all()) {
      texts.push_back(is("list") ? LineOf(user) : name);
    }
    ReplyList(texts, reply);
  } else if (is("log") && more <= 1) {
    ShowLog(&facts_->acl_log, args, reply);
  } else if (is("getuser") && more == 1) {
    ShowUser(facts_->users, args[2], reply);
  } else if (is("dryrun") && more >= 2) {
    DryRun(facts_->users, args, reply);
  } else if (is("setuser") || is("deluser") || is("load") || is("save")) {
    reply->Error(
        absl::StrCat("ERR unknown subcommand '", AbslOf(sub),
                     "'. Users are those of the password or the users file that the server "
                     "was started with."));
  } else {
    ReplyUnknownSubcommand("ACL", sub, reply);
  }
}

}  // namespace pulse::redis
