// What a client may have carried out, of what it asks for: commands that there are, users' rights,
// and the keys of a cluster's node.
#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

bool IsForSubscribers(Command command) {
  return command == Command::kSubscribe || command == Command::kUnsubscribe ||
         command == Command::kPing || command == Command::kQuit || command == Command::kReset;
}

void ReplyUnknown(const Request& request, ReplyWriter* reply) {
  std::string text = absl::StrCat("ERR unknown command '", AbslOf(request[0].substr(0, 128)),
                                  "', with args beginning with: ");
  size_t left = 128;
  for (size_t i = 1; i < request.size() && left > 0; ++i) {
    const std::string_view shown = request[i].substr(0, left);
    absl::StrAppend(&text, "'", AbslOf(shown), "' ");
    left -= shown.size();
  }
  reply->Error(text);
}

}  // namespace

// False after an error reply.
bool Executor::Admit(Session* session, const Request& request, const CommandInfo* command,
                     ReplyWriter* reply) {
  const size_t begin = reply->out()->size();
  if (command == nullptr) {
    ReplyUnknown(request, reply);
  } else if (!command->ArityFits(request.size())) {
    reply->Error(
        absl::StrCat("ERR wrong number of arguments for '", AbslOf(command->name), "' command"));
  } else if (!CheckSubcommand(*command, request.arguments(), reply)) {
    // It has said why.
  } else if (command->id == Command::kDebug) {
    // Here, so that a transaction with it is none; and in Redis's words for where it is disabled.
    reply->Error(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", "
        "you can run it from a local connection, otherwise you need to set this option in the "
        "configuration file, and then restart the server.");
  } else if (session->user == nullptr && (command->flags & kNoAuth) == 0) {
    reply->Error("NOAUTH Authentication required.");
  } else if ((session->user == nullptr || MayRun(*session, *command, request.arguments(), reply)) &&
             node_) {
    SlotOfKeys keys;
    keys.Add(*command, request.arguments());
    HasSlots(keys, reply);
  }
  if (session->hears_alone() && reply->out()->size() == begin && !IsForSubscribers(command->id)) {
    reply->Error(absl::StrCat("ERR Can't execute '", AbslOf(command->name),
                              "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
                              "allowed in this context"));
  }
  if (reply->out()->size() == begin) return true;
  if (command != nullptr && command->id == Command::kExec) {
    // Of the transaction nothing is left.
    std::string_view why = std::string_view(*reply->out()).substr(begin + 1);
    why.remove_suffix(2);
    if (why.starts_with("ERR ")) why.remove_prefix(4);
    const std::string error =
        absl::StrCat("EXECABORT Transaction discarded because of: ", AbslOf(why));
    reply->out()->resize(begin);
    reply->Error(error);
    session->EndMulti();
  }
  if (session->in_multi) session->BreakMulti();
  return false;
}

AclUser::Verdict Executor::CheckUser(const Session& session, const CommandInfo& command,
                                     const Arguments& args) {
  std::string_view object;
  const AclUser::Verdict verdict = session.user->Check(command, args, &object);
  const std::string& user = session.user->name();
  switch (verdict) {
    case AclUser::Verdict::kAllowed:
      break;
    case AclUser::Verdict::kCommand:
      NoteDenied(session, AclLog::Reason::kCommand, AclNameOf(command, args), user);
      break;
    case AclUser::Verdict::kKey:
      NoteDenied(session, AclLog::Reason::kKey, object, user);
      break;
    case AclUser::Verdict::kChannel:
      NoteDenied(session, AclLog::Reason::kChannel, object, user);
      break;
  }
  return verdict;
}

bool Executor::MayRun(const Session& session, const CommandInfo& command, const Arguments& args,
                      ReplyWriter* reply) {
  switch (CheckUser(session, command, args)) {
    case AclUser::Verdict::kAllowed:
      return true;
    case AclUser::Verdict::kCommand:
      reply->Error(absl::StrCat("NOPERM this user has no permissions to run the '",
                                AclNameOf(command, args), "' command"));
      break;
    case AclUser::Verdict::kKey:
      reply->Error(
          "NOPERM this user has no permissions to access one of the keys used as arguments");
      break;
    case AclUser::Verdict::kChannel:
      reply->Error(
          "NOPERM this user has no permissions to access one of the channels used as arguments");
      break;
  }
  return false;
}

bool Executor::MayStillRun(Session* session, const CommandInfo& command, const Arguments& args,
                           ReplyWriter* reply) {
  // Also by an earlier command of the transaction.
  const bool is_known = KnowsUser(session);
  absl::string_view reason = "no permission";  // for anything: the user has been deleted
  if (is_known) {
    switch (CheckUser(*session, command, args)) {
      case AclUser::Verdict::kAllowed:
        return true;
      case AclUser::Verdict::kCommand:
        reason = "no permission to execute the command or subcommand";
        break;
      case AclUser::Verdict::kKey:
        reason = "no permission to touch the specified keys";
        break;
      case AclUser::Verdict::kChannel:
        reason = "no permission to access one of the channels used as arguments to the command";
        break;
    }
  }
  reply->Error(absl::StrCat(
      "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
      "call. This command is no longer allowed for the following reason: ",
      reason));
  return false;
}

}  // namespace pulse::redis
