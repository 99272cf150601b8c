// Commands on the connection itself.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "services/redis/executor.h"
#include "services/redis/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kOtherRelease =
    "ERR the agent is of another release than this server and knows other commands; run both from "
    "the same release";
constexpr std::string_view kClientCommands[] = {"getname",  "id",       "info",    "list",
                                                "no-evict", "no-touch", "setinfo", "setname"};
constexpr std::string_view kVersion = "7.0.15";  // of Redis, whose commands these are

void ReplyUnknownSubcommand(std::string_view command, std::string_view sub, ReplyWriter* reply) {
  reply->Error(absl::StrCat("ERR unknown subcommand '", AbslOf(sub.substr(0, 128)),
                            "'. The server knows no such ", AbslOf(command), " command."));
}

// What a client calls itself: shown in lists of one line each.
bool IsName(std::string_view name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// Client libraries want all of the fields; -1 is what is not counted here.
std::string Line(const ClientFacts& facts, int64_t now_ms) {
  return absl::StrCat("id=", facts.id, " addr=", facts.peer, " fd=-1 name=", facts.name,
                      " age=", (now_ms - facts.since_ms) / 1000,
                      " idle=-1 flags=N db=0 sub=0 psub=0 multi=-1 qbuf=-1 qbuf-free=-1 "
                      "argv-mem=-1 obl=-1 oll=-1 omem=-1 tot-mem=-1 events=r user=",
                      facts.user, " lib-name=", facts.library, " lib-ver=", facts.library_version,
                      " resp=", facts.protocol, "\n");
}

void Ping(const Arguments& args, ReplyWriter* reply) {
  if (args.size() > 2) {
    reply->Error("ERR wrong number of arguments for 'ping' command");
  } else if (args.size() == 2) {
    reply->Bulk(args[1]);
  } else {
    reply->Simple("PONG");
  }
}

void Select(const Arguments& args, bool in_cluster, ReplyWriter* reply) {
  int64_t database = 0;
  if (!ParseInteger(args[1], &database)) {
    reply->Error("ERR value is not an integer or out of range");
  } else if (database != 0) {
    reply->Error(in_cluster ? "ERR SELECT is not allowed in cluster mode"
                            : "ERR DB index is out of range");
  } else {
    reply->Ok();
  }
}

void Time(ReplyWriter* reply) {
  const int64_t micros = ClockNanos(CLOCK_REALTIME) / 1000;
  reply->Array(2);
  reply->Bulk(std::to_string(micros / 1'000'000));
  reply->Bulk(std::to_string(micros % 1'000'000));
}

}  // namespace

Executor::Stop Executor::RunConnectionCommand(Session* session, const CommandInfo& command,
                                              const Arguments& args, ReplyWriter* reply) {
  switch (command.id) {
    case Command::kPing:
      Ping(args, reply);
      break;
    case Command::kEcho:
      reply->Bulk(args[1]);
      break;
    case Command::kSelect:
      Select(args, static_cast<bool>(node_), reply);
      break;
    case Command::kAsking:
    case Command::kReadonly:
    case Command::kReadwrite:
      // No slot has a replica, and none moves.
      if (node_) {
        reply->Ok();
      } else {
        reply->Error(kNoCluster);
      }
      break;
    case Command::kTime:
      Time(reply);
      break;
    case Command::kAuth:
      Auth(session, args, reply);
      break;
    case Command::kHello:
      Hello(session, args, reply);
      break;
    case Command::kClient:
      Client(session, args, reply);
      break;
    case Command::kConfig:
      Config(args, reply);
      break;
    case Command::kCommand:
      CommandCommand(args, reply);
      break;
    case Command::kInfo:
      reply->Verbatim(Info(args));
      break;
    case Command::kAcl:
      Acl(session, args, reply);
      break;
    case Command::kUnwatch:
      session->Unwatch();
      reply->Ok();
      break;
    case Command::kReset:
      Reset(session);
      reply->Simple("RESET");
      break;
    case Command::kQuit:
      reply->Ok();
      return Stop::kClose;
    case Command::kPulseHello:
      if (args.size() < 3 || args.size() > 4 || args[2] != CommandsDigest()) {
        reply->Error(kOtherRelease);
        break;
      }
      session->fence = facts_->fences.Enter(args[1], session->end);
      // The client's, where the agent is the peer.
      if (args.size() == 4 && IsName(args[3])) {
        session->facts.peer = args[3];
        facts_->clients.Set(session->facts);
      }
      reply->Bulk(facts_->run_id);
      break;
    case Command::kPulseFence:
      // Without an answer it reads nothing, either.
      if (args.size() == 3 && args[2] == CommandsDigest()) return Stop::kFence;
      reply->Error(kOtherRelease);
      break;
    default:
      reply->Error(absl::StrCat("ERR ", AbslOf(command.name), " is not allowed"));
  }
  return Stop::kEnd;
}

bool Executor::Authenticate(Session* session, std::string_view name, std::string_view password,
                            ReplyWriter* reply) {
  const net::User* user = facts_->users.Check(name, password);
  if (user == nullptr) {
    facts_->rejected.fetch_add(1, std::memory_order_relaxed);
    reply->Error("WRONGPASS invalid username-password pair or user is disabled.");
    return false;
  }
  session->SetUser(user);
  return true;
}

void Executor::Auth(Session* session, const Arguments& args, ReplyWriter* reply) {
  if (args.size() > 3) return reply->Error("ERR syntax error");
  const bool named = args.size() == 3;
  const net::User* user = facts_->users.Find("default");
  if (!named && user != nullptr && user->no_password) {
    return reply->Error(
        "ERR AUTH <password> called without any password configured for the default user. Are "
        "you sure your configuration is correct?");
  }
  if (!Authenticate(session, named ? args[1] : "default", args.back(), reply)) return;
  facts_->clients.Set(session->facts);
  reply->Ok();
}

void Executor::Hello(Session* session, const Arguments& args, ReplyWriter* reply) {
  int64_t version = session->protocol;
  if (args.size() > 1) {
    if (!ParseInteger(args[1], &version)) {
      return reply->Error("ERR Protocol version is not an integer or out of range");
    }
    if (version < 2 || version > 3) return reply->Error("NOPROTO unsupported protocol version");
  }
  // All of it is read before any of it is done.
  std::string_view name;
  bool named = false;
  size_t auth = 0;  // where its user is
  for (size_t i = 2; i < args.size(); ++i) {
    if (EqualsIgnoringCase(args[i], "auth") && i + 2 < args.size()) {
      auth = i + 1;
      i += 2;
    } else if (EqualsIgnoringCase(args[i], "setname") && i + 1 < args.size()) {
      name = args[++i];
      named = true;
    } else {
      return reply->Error(
          absl::StrCat("ERR Syntax error in HELLO option '", AbslOf(args[i].substr(0, 128)), "'"));
    }
  }
  if (named && !IsName(name)) {
    return reply->Error("ERR Client names cannot contain spaces, newlines or special characters.");
  }
  if (auth > 0 && !Authenticate(session, args[auth], args[auth + 1], reply)) return;
  if (session->user == nullptr) {
    return reply->Error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  if (named) session->facts.name = name;
  session->protocol = session->facts.protocol = static_cast<int>(version);
  facts_->clients.Set(session->facts);
  ReplyWriter now(reply->out(), session->protocol);
  now.Map(7);
  now.Bulk("server");
  now.Bulk("redis");
  now.Bulk("version");
  now.Bulk(kVersion);
  now.Bulk("proto");
  now.Integer(version);
  now.Bulk("id");
  now.Integer(static_cast<int64_t>(session->facts.id));
  now.Bulk("mode");
  now.Bulk(node_ ? "cluster" : "standalone");
  now.Bulk("role");
  now.Bulk("master");
  now.Bulk("modules");
  now.Array(0);
}

void Executor::Reset(Session* session) {
  session->EndMulti();
  session->SetUser(facts_->users.Anonymous());
  session->protocol = session->facts.protocol = 2;
  session->facts.name.clear();
  facts_->clients.Set(session->facts);
}

void Executor::Client(Session* session, const Arguments& args, ReplyWriter* reply) {
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
    if (!IsName(args[2])) {
      return reply->Error(
          "ERR Client names cannot contain spaces, newlines or special characters.");
    }
    session->facts.name = args[2];
    facts_->clients.Set(session->facts);
    reply->Ok();
  } else if (EqualsIgnoringCase(sub, "setinfo") && more == 2) {
    const bool library = EqualsIgnoringCase(args[2], "lib-name");
    if (!library && !EqualsIgnoringCase(args[2], "lib-ver")) {
      return reply->Error(
          absl::StrCat("ERR Unrecognized option '", AbslOf(args[2].substr(0, 128)), "'"));
    }
    if (!IsName(args[3])) {
      return reply->Error(absl::StrCat("ERR ", AbslOf(args[2]),
                                       " cannot contain spaces, newlines or special characters."));
    }
    (library ? session->facts.library : session->facts.library_version) = args[3];
    facts_->clients.Set(session->facts);
    reply->Ok();
  } else if (EqualsIgnoringCase(sub, "info") && more == 0) {
    reply->Verbatim(Line(session->facts, store_->now_ms()));
  } else if (EqualsIgnoringCase(sub, "list")) {
    ClientList(args, reply);
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
    others = EqualsIgnoringCase(type, "master") || EqualsIgnoringCase(type, "replica") ||
             EqualsIgnoringCase(type, "slave") || EqualsIgnoringCase(type, "pubsub");
    if (!others && !EqualsIgnoringCase(type, "normal")) {
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

void Executor::Config(const Arguments& args, ReplyWriter* reply) {
  if (EqualsIgnoringCase(args[1], "set") && args.size() >= 4 && args.size() % 2 == 0) {
    for (size_t i = 2; i < args.size(); i += 2) {
      if (const std::string error = store_->Configure(args[i], args[i + 1]); !error.empty()) {
        return reply->Error(error);
      }
    }
    return reply->Ok();
  }
  if (!EqualsIgnoringCase(args[1], "get")) return ReplyUnknownSubcommand("CONFIG", args[1], reply);
  if (args.size() < 3) {
    return reply->Error("ERR wrong number of arguments for 'config|get' command");
  }
  std::vector<Keyspace::Setting> settings = store_->Settings();
  settings.insert(settings.end(), {
                                      {"cluster-enabled", node_ ? "yes" : "no"},
                                      {"databases", "1"},
                                      {"maxclients", std::to_string(facts_->max_clients)},
                                      {"port", std::to_string(port())},
                                      {"proto-max-bulk-len", std::to_string(facts_->max_bulk)},
                                      {"save", ""},
                                      {"timeout", std::to_string(facts_->idle_seconds)},
                                  });
  std::sort(settings.begin(), settings.end());
  std::vector<const Keyspace::Setting*> found;
  for (const auto& setting : settings) {
    for (size_t i = 2; i < args.size(); ++i) {
      std::string pattern(args[i]);
      for (char& c : pattern) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
      if (!MatchesPattern(pattern, setting.first)) continue;
      found.push_back(&setting);
      break;
    }
  }
  reply->Map(found.size());
  for (const auto* setting : found) {
    reply->Bulk(setting->first);
    reply->Bulk(setting->second);
  }
}

void Executor::Acl(Session* session, const Arguments& args, ReplyWriter* reply) {
  if (EqualsIgnoringCase(args[1], "whoami") && args.size() == 2) {
    reply->Bulk(session->user == nullptr ? "default" : session->user->name);
  } else {
    ReplyUnknownSubcommand("ACL", args[1], reply);
  }
}

}  // namespace pulse::redis
