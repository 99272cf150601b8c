// CLIENT: who is connected, what they are called, and their end.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/redis/executor.h"
#include "services/redis/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kClientCommands[] = {"getname", "getredir", "id",       "info",
                                                "kill",    "list",     "no-evict", "no-touch",
                                                "setinfo", "setname",  "unblock"};

// Client libraries want all of the fields; -1 is what is not counted here.
std::string Line(const ClientFacts& facts, int64_t now_ms) {
  return absl::StrCat("id=", facts.id, " addr=", facts.peer, " fd=-1 name=", facts.name,
                      " age=", (now_ms - facts.since_ms) / 1000,
                      " idle=-1 flags=N db=0 sub=0 psub=0 multi=-1 qbuf=-1 qbuf-free=-1 "
                      "argv-mem=-1 obl=-1 oll=-1 omem=-1 tot-mem=-1 events=r user=",
                      facts.user, " lib-name=", facts.library, " lib-ver=", facts.library_version,
                      " resp=", facts.protocol, "\n");
}

// What CLIENT KILL asks for; all of it must hold.
struct Victims {
  std::optional<uint64_t> id;
  std::optional<std::string_view> peer;
  std::optional<std::string_view> user;
  std::optional<int64_t> older_than_seconds;
  bool nobody = false;  // of a type that none has, or at an address that is not the server's
  bool spare_caller = true;

  bool Has(const ClientFacts& facts, int64_t now_ms) const {
    if (nobody) return false;
    if (id.has_value() && *id != facts.id) return false;
    if (peer.has_value() && *peer != facts.peer) return false;
    if (user.has_value() && *user != facts.user) return false;
    return !older_than_seconds.has_value() ||
           (now_ms - facts.since_ms) / 1000 >= *older_than_seconds;
  }
};

// Of what a client can be, there are only normal ones. False: it is no type.
bool ReadType(std::string_view type, bool* normal) {
  *normal = EqualsIgnoringCase(type, "normal");
  return *normal || EqualsIgnoringCase(type, "master") || EqualsIgnoringCase(type, "replica") ||
         EqualsIgnoringCase(type, "slave") || EqualsIgnoringCase(type, "pubsub");
}

// Empty, or an error.
std::string ReadVictims(const Arguments& args, const net::Users& users, Victims* victims) {
  if (args.size() % 2 != 0) return std::string(kSyntaxError);
  for (size_t i = 2; i < args.size(); i += 2) {
    const std::string_view what = args[i];
    const std::string_view value = args[i + 1];
    int64_t number = 0;
    bool normal = false;
    if (EqualsIgnoringCase(what, "id")) {
      if (!ParseInteger(value, &number) || number <= 0) {
        return "ERR client-id should be greater than 0";
      }
      victims->id = static_cast<uint64_t>(number);
    } else if (EqualsIgnoringCase(what, "type")) {
      if (!ReadType(value, &normal)) {
        return absl::StrCat("ERR Unknown client type '", AbslOf(value.substr(0, 128)), "'");
      }
      victims->nobody |= !normal;
    } else if (EqualsIgnoringCase(what, "addr")) {
      victims->peer = value;
    } else if (EqualsIgnoringCase(what, "user")) {
      if (users.Find(value) == nullptr) {
        return absl::StrCat("ERR No such user '", AbslOf(value.substr(0, 128)), "'");
      }
      victims->user = value;
    } else if (EqualsIgnoringCase(what, "maxage")) {
      if (!ParseInteger(value, &number) || number <= 0)
        return "ERR maxage should be greater than 0";
      victims->older_than_seconds = number;
    } else if (EqualsIgnoringCase(what, "skipme")) {
      victims->spare_caller = EqualsIgnoringCase(value, "yes");
      if (!victims->spare_caller && !EqualsIgnoringCase(value, "no")) {
        return std::string(kSyntaxError);
      }
    } else {
      return std::string(kSyntaxError);
    }
  }
  return "";
}

void ClientUnblock(const Arguments& args, ReplyWriter* reply) {
  int64_t id = 0;
  if (!ParseInteger(args[2], &id)) return reply->Error(kNotAnInteger);
  if (args.size() == 4 && !EqualsIgnoringCase(args[3], "timeout") &&
      !EqualsIgnoringCase(args[3], "error")) {
    return reply->Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  }
  reply->Integer(0);  // no command blocks
}

}  // namespace

Executor::Stop Executor::Client(Session* session, const Arguments& args, ReplyWriter* reply) {
  const std::string_view sub = args[1];
  const size_t more = args.size() - 2;
  if (EqualsIgnoringCase(sub, "id") && more == 0) {
    reply->Integer(static_cast<int64_t>(session->facts.id));
  } else if (EqualsIgnoringCase(sub, "getname") && more == 0) {
    if (session->facts.name.empty()) {
      reply->Null();
    } else {
      reply->Bulk(session->facts.name);
    }
  } else if (EqualsIgnoringCase(sub, "setname") && more == 1) {
    if (!IsClientName(args[2])) {
      reply->Error("ERR Client names cannot contain spaces, newlines or special characters.");
      return Stop::kEnd;
    }
    session->facts.name = args[2];
    facts_->clients.Set(session->facts);
    reply->Ok();
  } else if (EqualsIgnoringCase(sub, "setinfo") && more == 2) {
    const bool library = EqualsIgnoringCase(args[2], "lib-name");
    if (!library && !EqualsIgnoringCase(args[2], "lib-ver")) {
      reply->Error(absl::StrCat("ERR Unrecognized option '", AbslOf(args[2].substr(0, 128)), "'"));
      return Stop::kEnd;
    }
    if (!IsClientName(args[3])) {
      reply->Error(absl::StrCat("ERR ", AbslOf(args[2]),
                                " cannot contain spaces, newlines or special characters."));
      return Stop::kEnd;
    }
    (library ? session->facts.library : session->facts.library_version) = args[3];
    facts_->clients.Set(session->facts);
    reply->Ok();
  } else if (EqualsIgnoringCase(sub, "info") && more == 0) {
    reply->Verbatim(Line(session->facts, store_->now_ms()));
  } else if ((EqualsIgnoringCase(sub, "list") || EqualsIgnoringCase(sub, "kill")) &&
             !session->user->may_admin) {
    // They concern others.
    reply->Error(absl::StrCat("NOPERM User ", session->user->name,
                              " has no permissions to run the 'client|", AbslOf(sub), "' command"));
  } else if (EqualsIgnoringCase(sub, "list")) {
    ClientList(args, reply);
  } else if (EqualsIgnoringCase(sub, "kill") && more > 0) {
    return ClientKill(session, args, reply);
  } else if (EqualsIgnoringCase(sub, "unblock") && (more == 1 || more == 2)) {
    ClientUnblock(args, reply);
  } else if (EqualsIgnoringCase(sub, "getredir") && more == 0) {
    reply->Integer(-1);  // nothing is tracked
  } else if ((EqualsIgnoringCase(sub, "no-evict") || EqualsIgnoringCase(sub, "no-touch")) &&
             more == 1) {
    if (EqualsIgnoringCase(args[2], "on") || EqualsIgnoringCase(args[2], "off")) {
      reply->Ok();  // nothing is ever evicted
    } else {
      reply->Error(kSyntaxError);
    }
  } else if (const auto* known =
                 std::find_if(std::begin(kClientCommands), std::end(kClientCommands),
                              [&](std::string_view name) { return EqualsIgnoringCase(sub, name); });
             known != std::end(kClientCommands)) {
    reply->Error(
        absl::StrCat("ERR wrong number of arguments for 'client|", AbslOf(*known), "' command"));
  } else {
    ReplyUnknownSubcommand("CLIENT", sub, reply);
  }
  return Stop::kEnd;
}

void Executor::ClientList(const Arguments& args, ReplyWriter* reply) {
  std::vector<uint64_t> ids;
  bool others = false;  // of a type that none has
  const std::string_view filter = args.size() > 3 ? args[2] : std::string_view();
  if (EqualsIgnoringCase(filter, "id")) {
    for (size_t i = 3; i < args.size(); ++i) {
      int64_t id = 0;
      if (!ParseInteger(args[i], &id) || id <= 0) return reply->Error("ERR Invalid client ID");
      ids.push_back(static_cast<uint64_t>(id));
    }
    std::sort(ids.begin(), ids.end());
  } else if (EqualsIgnoringCase(filter, "type") && args.size() == 4) {
    const std::string_view type = args[3];
    bool normal = false;
    const bool known = ReadType(type, &normal);
    others = !normal;
    if (!known) {
      return reply->Error(
          absl::StrCat("ERR Unknown client type '", AbslOf(type.substr(0, 128)), "'"));
    }
  } else if (args.size() > 2) {
    return reply->Error(kSyntaxError);
  }
  std::string text;
  for (const ClientFacts& facts : facts_->clients.List()) {
    if (others || (!ids.empty() && !std::binary_search(ids.begin(), ids.end(), facts.id))) continue;
    text += Line(facts, store_->now_ms());
  }
  reply->Verbatim(text);
}

Executor::Stop Executor::ClientKill(Session* session, const Arguments& args, ReplyWriter* reply) {
  // The old form names one client by its address, and may be the caller's own.
  const bool old_form = args.size() == 3;
  Victims victims;
  if (old_form) {
    victims.peer = args[2];
    victims.spare_caller = false;
  } else if (const std::string error = ReadVictims(args, facts_->users, &victims); !error.empty()) {
    reply->Error(error);
    return Stop::kEnd;
  }
  int64_t ended = 0;
  bool caller = false;
  bool behind_agent = false;
  for (const ClientFacts& facts : facts_->clients.List()) {
    if (!victims.Has(facts, store_->now_ms())) continue;
    if (facts.id == session->facts.id) {
      // After its reply.
      if (!victims.spare_caller) {
        caller = true;
        ++ended;
      }
    } else if (facts_->clients.End(facts.id)) {
      ++ended;
    } else {
      behind_agent = true;
    }
  }
  if (ended == 0 && behind_agent) {
    reply->Error("ERR the agent has this client's connection, and the server cannot end it");
  } else if (!old_form) {
    reply->Integer(ended);
  } else if (ended == 0) {
    reply->Error("ERR No such client");
  } else {
    reply->Ok();
  }
  return caller ? Stop::kClose : Stop::kEnd;
}

}  // namespace pulse::redis
