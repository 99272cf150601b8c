// ACL: who may do what. What changes takes effect at the next command of each connection;
// who only listens, and may not any more, is cut off.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "services/redis/acl/acl_units.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

constexpr int64_t kMostBits = 4096;
constexpr int64_t kDefaultBits = 256;
constexpr int64_t kShownDenials = 10;
constexpr std::string_view kNoFile =
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users "
    "via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis "
    "configuration file set) in order to store users in the Redis configuration.";

template <typename Texts>
void ReplyList(const Texts& texts, ReplyWriter* reply) {
  reply->Array(texts.size());
  for (const auto& text : texts) reply->Bulk(text);
}

void Categories(const Arguments& args, ReplyWriter* reply) {
  if (args.size() == 2) return ReplyList(AclCategories(), reply);
  const bool known =
      std::any_of(AclCategories().begin(), AclCategories().end(),
                  [&](std::string_view name) { return EqualsIgnoringCase(args[2], name); });
  if (!known) {
    return reply->Error(
        absl::StrCat("ERR Unknown category '", AbslOf(args[2].substr(0, 128)), "'"));
  }
  const AclUnitSet set = AclUnitsOfCategory(args[2]);
  std::vector<std::string> names;
  for (size_t i = 0; i < AclUnits().size(); ++i) {
    if (set.test(i)) names.push_back(AclUnits()[i].name());
  }
  ReplyList(names, reply);
}

void MakePassword(const Arguments& args, ReplyWriter* reply) {
  int64_t bits = kDefaultBits;
  if (args.size() == 3 && !ParseInteger(args[2], &bits)) return reply->Error(kNotAnInteger);
  if (bits <= 0 || bits > kMostBits) {
    return reply->Error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive "
        "number up to 4096");
  }
  const auto digits = static_cast<size_t>((bits + 3) / 4);
  reply->Bulk(RandomHex((digits + 1) / 2).substr(0, digits));
}

void ShowSelector(const AclSelector& selector, ReplyWriter* reply) {
  reply->Bulk("commands");
  reply->Bulk(selector.commands());
  reply->Bulk("keys");
  reply->Bulk(selector.keys());
  reply->Bulk("channels");
  reply->Bulk(selector.channels());
}

void ShowUser(const AclUsers& users, std::string_view name, ReplyWriter* reply) {
  const AclUsers::User user = users.Find(name);
  if (user == nullptr) return reply->Null();
  reply->Map(6);
  reply->Bulk("flags");
  const auto flags = user->flags();
  reply->Set(flags.size());
  for (const std::string_view flag : flags) reply->Bulk(flag);
  reply->Bulk("passwords");
  ReplyList(user->hashes(), reply);
  ShowSelector(user->selectors()[0], reply);
  reply->Bulk("selectors");
  reply->Array(user->selectors().size() - 1);
  for (size_t i = 1; i < user->selectors().size(); ++i) {
    reply->Map(3);
    ShowSelector(user->selectors()[i], reply);
  }
}

// Whether a user might give a command, which is not carried out.
void DryRun(const AclUsers& users, const Arguments& args, ReplyWriter* reply) {
  const AclUsers::User user = users.Find(args[2]);
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
  std::string_view object;
  switch (user->Check(*command, command_args, &object)) {
    case AclUser::Verdict::kAllowed:
      return reply->Ok();
    case AclUser::Verdict::kCommand:
      return reply->Bulk(absl::StrCat("This user has no permissions to run the '",
                                      AclNameOf(*command, command_args), "' command"));
    case AclUser::Verdict::kKey:
      return reply->Bulk(
          absl::StrCat("This user has no permissions to access the '", AbslOf(object), "' key"));
    case AclUser::Verdict::kChannel:
      return reply->Bulk(absl::StrCat("This user has no permissions to access the '",
                                      AbslOf(object), "' channel"));
  }
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
    static constexpr std::string_view kReasons[] = {"auth", "command", "key", "channel"};
    reply->Map(7);
    reply->Bulk("count");
    reply->Integer(entry.count);
    field("reason", kReasons[static_cast<size_t>(entry.reason)]);
    field("context", entry.in_multi ? "multi" : "toplevel");
    field("object", entry.object);
    field("username", entry.user);
    reply->Bulk("age-seconds");
    reply->Double(absl::StrFormat("%.3f", static_cast<double>(now_ms - entry.last_ms) / 1e3));
    field("client-info", entry.client);
  }
}

}  // namespace

bool Executor::RefreshUser(Session* session) {
  const uint64_t version = facts_->users.version();
  AclUsers::User user = session->user == nullptr ? facts_->users.Anonymous()
                                                 : facts_->users.Find(session->user->name());
  if (session->user == nullptr && user == nullptr) {
    session->users_version = version;  // who is still to say who they are
    return true;
  }
  if (user == nullptr) return false;
  // Another one of the same name, made since.
  if (session->user != nullptr && session->user->id() != user->id()) return false;
  const bool other = session->facts.user_id != user->id();
  session->SetUser(std::move(user), version);
  if (other) facts_->clients.Set(session->facts);
  return true;
}

bool Executor::EndForbiddenConnections(const Session& session) {
  bool own = false;
  for (const ClientFacts& client : facts_->clients.List()) {
    if (client.user_id == 0) continue;  // has said nobody's password
    const AclUsers::User user = facts_->users.Find(client.user);
    const bool is_there = user != nullptr && user->id() == client.user_id;
    if (is_there && (!client.subscribed || user->MayHear(kTrackingChannel))) continue;
    if (client.id == session.facts.id) {
      own = true;
    } else {
      facts_->clients.End(client.id);
    }
  }
  return own;
}

Executor::Stop Executor::DeleteUsers(const Session& session, const Arguments& args,
                                     ReplyWriter* reply) {
  if (std::find(args.begin() + 2, args.end(), "default") != args.end()) {
    reply->Error("ERR The 'default' user cannot be removed");
    return Stop::kEnd;
  }
  int64_t deleted = 0;
  for (size_t i = 2; i < args.size(); ++i) deleted += facts_->users.Delete(args[i]) ? 1 : 0;
  reply->Integer(deleted);
  return deleted > 0 && EndForbiddenConnections(session) ? Stop::kClose : Stop::kEnd;
}

Executor::Stop Executor::Acl(Session* session, const Arguments& args, ReplyWriter* reply) {
  const std::string_view sub = args[1];
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(sub, name); };
  const size_t size = args.size();  // enough: CheckSubcommand
  if (is("whoami")) {
    reply->Bulk(session->user == nullptr ? "default" : session->user->name());
  } else if (is("cat") && size <= 3) {
    Categories(args, reply);
  } else if (is("genpass") && size <= 3) {
    MakePassword(args, reply);
  } else if (is("list") || is("users")) {
    std::vector<std::string> texts;
    for (const AclUsers::User& user : facts_->users.List()) {
      texts.push_back(is("list") ? user->Describe() : user->name());
    }
    ReplyList(texts, reply);
  } else if (is("log") && size <= 3) {
    ShowLog(&facts_->acl_log, args, reply);
  } else if (is("getuser")) {
    ShowUser(facts_->users, args[2], reply);
  } else if (is("dryrun")) {
    DryRun(facts_->users, args, reply);
  } else if (is("cat") || is("genpass") || is("log")) {
    RefuseArguments(args, reply);
  } else if (!facts_->users.frozen().empty()) {
    reply->Error(
        absl::StrCat("ERR unknown subcommand '", AbslOf(sub), "' here: ", facts_->users.frozen()));
  } else if (is("setuser")) {
    const std::string error = facts_->users.Set(args[2], {args.begin() + 3, args.end()});
    if (error.empty()) {
      reply->Ok();
      if (EndForbiddenConnections(*session)) return Stop::kClose;
    } else {
      reply->Error(absl::StrCat("ERR ", error));
    }
  } else if (is("deluser")) {
    return DeleteUsers(*session, args, reply);
  } else if (!facts_->users.has_file()) {
    reply->Error(kNoFile);
  } else {
    const absl::Status done = is("load") ? facts_->users.Load() : facts_->users.Save();
    if (done.ok()) {
      reply->Ok();
    } else {
      reply->Error(absl::StrCat("ERR ", done.message()));
    }
    if (is("load") && EndForbiddenConnections(*session)) return Stop::kClose;
  }
  return Stop::kEnd;
}

}  // namespace pulse::redis
