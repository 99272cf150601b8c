// Commands on the connection itself.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kOtherRelease =
    "ERR the agent is of another release than this server and knows other commands; run both from "
    "the same release";
constexpr std::string_view kOtherDatabase =
    "ERR the agent reads another database (--serve-db) than this server has open (--db)";
constexpr std::string_view kVersion = "7.0.15";  // of Redis, whose commands these are

void Ping(const Session& session, const Arguments& args, ReplyWriter* reply) {
  if (args.size() > 2) {
    reply->Error("ERR wrong number of arguments for 'ping' command");
  } else if (session.hears_alone()) {
    reply->Array(2);
    reply->Bulk("pong");
    reply->Bulk(args.size() == 2 ? args[1] : std::string_view());
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

// WAIT and WAITAOF. No replica will ever connect, so there is nothing to wait for.
void Wait(const Arguments& args, ReplyWriter* reply) {
  int64_t numbers[3] = {};
  for (size_t i = 1; i < args.size(); ++i) {
    if (ParseInteger(args[i], &numbers[i - 1])) continue;
    const bool is_timeout = i + 1 == args.size();
    return reply->Error(is_timeout ? "ERR timeout is not an integer or out of range"
                                   : kNotAnInteger);
  }
  if (numbers[args.size() - 2] < 0) return reply->Error("ERR timeout is negative");
  if (args.size() == 3) return reply->Integer(0);
  if (numbers[0] > 0) {
    return reply->Error(
        "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.");
  }
  reply->Array(2);
  reply->Integer(0);
  reply->Integer(0);
}

// LATENCY HISTOGRAM: of the commands that are named, or of all; what was not called is left out.
void ShowLatencies(const CommandStats& stats, const Arguments& args, ReplyWriter* reply) {
  std::vector<const CommandInfo*> commands;
  for (size_t i = 2; i < args.size(); ++i) commands.push_back(FindCommand(args[i]));
  if (args.size() == 2) commands = AllCommands();
  std::vector<std::pair<const CommandInfo*, CommandStats::Latencies>> shown;
  for (const CommandInfo* command : commands) {
    CommandStats::Latencies latencies;
    if (command == nullptr || (command->flags & kPrivate) != 0) continue;
    if (stats.ReadLatencies(command->id, &latencies)) {
      shown.emplace_back(command, std::move(latencies));
    }
  }
  reply->Map(shown.size());
  for (const auto& [command, latencies] : shown) {
    reply->Bulk(command->name);
    reply->Map(2);
    reply->Bulk("calls");
    reply->Integer(static_cast<int64_t>(latencies.calls));
    reply->Bulk("histogram_usec");
    reply->Map(latencies.until.size());
    for (const auto& [micros, calls] : latencies.until) {
      reply->Integer(micros);
      reply->Integer(static_cast<int64_t>(calls));
    }
  }
}

// No event is sampled, as in Redis without latency-monitor-threshold.
void Latency(const CommandStats& stats, const Arguments& args, ReplyWriter* reply) {
  const auto is = [&](std::string_view name, size_t least, size_t most) {
    return EqualsIgnoringCase(args[1], name) && args.size() >= least && args.size() <= most;
  };
  if (is("histogram", 2, 2 + kCommands)) {
    ShowLatencies(stats, args, reply);
  } else if (is("latest", 2, 2) || is("history", 3, 3)) {
    reply->Array(0);
  } else if (is("reset", 2, SIZE_MAX)) {
    reply->Integer(0);
  } else if (is("doctor", 2, 2)) {
    reply->Verbatim(
        "Spikes of latency are not monitored here. SLOWLOG has commands that took long, "
        "and LATENCY HISTOGRAM what each command takes.\n");
  } else if (is("graph", 3, 3)) {
    reply->Error(
        absl::StrCat("ERR No samples available for event '", AbslOf(args[2].substr(0, 128)), "'"));
  } else {
    RefuseArguments(args, reply);
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
  if (IsHelp(command, args)) {
    ReplyHelp(command, reply);
    return Stop::kEnd;
  }
  switch (command.id) {
    case Command::kPing:
      Ping(*session, args, reply);
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
      return Client(session, args, reply);
    case Command::kConfig:
      Config(args, reply);
      break;
    case Command::kCommand:
      CommandCommand(args, reply);
      break;
    case Command::kInfo:
      reply->Verbatim(Info(args));
      break;
    case Command::kRole:
      reply->Array(3);
      reply->Bulk("master");
      reply->Integer(0);
      reply->Array(0);
      break;
    case Command::kSlowlog:
      Slowlog(args, reply);
      break;
    case Command::kLatency:
      Latency(facts_->command_stats, args, reply);
      break;
    case Command::kMemory:
      MemoryReport(args, reply);
      break;
    case Command::kWait:
    case Command::kWaitaof:
      Wait(args, reply);
      break;
    case Command::kAcl:
      return Acl(session, args, reply);
    case Command::kSubscribe:
    case Command::kUnsubscribe:
      Subscribe(session, command.id == Command::kSubscribe, args, reply);
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
      if (args.size() < 3 || args.size() > 5 || args[2] != CommandsDigest()) {
        reply->Error(kOtherRelease);
        break;
      }
      if (args.size() == 5 && !args[4].empty() && !facts_->directory.empty() &&
          args[4] != facts_->directory) {
        reply->Error(kOtherDatabase);
        break;
      }
      session->fence = facts_->fences.Enter(args[1], session->end);
      // The client's, where the agent is the peer.
      if (args.size() >= 4 && IsClientName(args[3])) {
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
  const uint64_t version = facts_->users.version();
  AclUsers::User user = facts_->users.Check(name, password);
  if (user == nullptr) {
    facts_->rejected.fetch_add(1, std::memory_order_relaxed);
    NoteDenied(*session, AclLog::Reason::kAuth, "AUTH", name);
    reply->Error("WRONGPASS invalid username-password pair or user is disabled.");
    return false;
  }
  session->SetUser(std::move(user), version);
  return true;
}

void Executor::NoteDenied(const Session& session, AclLog::Reason reason, std::string_view object,
                          std::string_view user) {
  facts_->acl_log.Add(reason, session.in_multi, object, user,
                      ClientLine(session.facts, store_->now_ms()), WallMillis());
}

void Executor::Auth(Session* session, const Arguments& args, ReplyWriter* reply) {
  if (args.size() > 3) return reply->Error("ERR syntax error");
  const bool named = args.size() == 3;
  const AclUsers::User user = facts_->users.Find("default");
  if (!named && user != nullptr && user->no_password()) {
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
  if (named && !IsClientName(name)) {
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
  ReplyWriter now(reply->out(), session->protocol, reply->errors());
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

// Of all channels there is one. A reply for each that is named, as in Redis.
void Executor::Subscribe(Session* session, bool begins, const Arguments& args, ReplyWriter* reply) {
  const auto is_served = [](std::string_view channel) { return channel == kTrackingChannel; };
  if (begins &&
      (session->notify == nullptr || !std::all_of(args.begin() + 1, args.end(), is_served))) {
    return reply->Error(
        session->notify == nullptr
            ? "ERR messages that are no replies are not served to clients of an agent"
            : absl::StrCat("ERR publish/subscribe is not served, but for the channel ",
                           AbslOf(kTrackingChannel), " of CLIENT TRACKING"));
  }
  const auto answer = [&](std::string_view channel, bool named) {
    if (reply->protocol() >= 3) {
      reply->Push(3);
    } else {
      reply->Array(3);
    }
    reply->Bulk(begins ? "subscribe" : "unsubscribe");
    if (named) {
      reply->Bulk(channel);
    } else {
      reply->Null();
    }
    reply->Integer(session->facts.subscribed ? 1 : 0);
  };
  if (args.size() == 1) {
    const bool was = std::exchange(session->facts.subscribed, false);
    answer(kTrackingChannel, was);
  }
  for (size_t i = 1; i < args.size(); ++i) {
    if (is_served(args[i])) session->facts.subscribed = begins;
    answer(args[i], true);
  }
  facts_->clients.Set(session->facts);
  // An ACL command meanwhile has not seen that.
  if (session->users_version != facts_->users.version() && EndForbiddenConnections(*session)) {
    session->end();
  }
}

void Executor::Reset(Session* session) {
  session->EndMulti();
  session->StopTracking();
  session->facts.subscribed = false;
  session->replies_off = false;
  session->skip_replies = 0;
  const uint64_t version = facts_->users.version();
  session->SetUser(facts_->users.Anonymous(), version);
  session->protocol = session->facts.protocol = 2;
  session->facts.name.clear();
  facts_->clients.Set(session->facts);
}

std::string Executor::Configure(std::string_view name, std::string_view value, bool check_only) {
  if (EqualsIgnoringCase(name, "latency-tracking")) {
    const bool keep = EqualsIgnoringCase(value, "yes");
    if (!keep && !EqualsIgnoringCase(value, "no")) {
      return absl::StrCat("ERR CONFIG SET failed (possibly related to argument '", AbslOf(name),
                          "') - argument must be 'yes' or 'no'");
    }
    if (!check_only) facts_->command_stats.KeepLatencies(keep);
    return "";
  }
  const bool limit = EqualsIgnoringCase(name, "slowlog-log-slower-than");
  if (!limit && !EqualsIgnoringCase(name, "slowlog-max-len")) {
    return check_only ? store_->CheckSetting(name, value) : store_->Configure(name, value);
  }
  int64_t number = 0;
  if (!ParseInteger(value, &number) || (limit ? number < -1 : number < 0)) {
    return absl::StrCat("ERR CONFIG SET failed (possibly related to argument '", AbslOf(name),
                        "') - argument must be a number, ", limit ? "-1" : "0", " or greater");
  }
  if (check_only) return "";
  if (limit) {
    facts_->slow_log.SetLimit(number);
  } else {
    facts_->slow_log.SetLength(number);
  }
  return "";
}

void Executor::SetConfig(const Arguments& args, ReplyWriter* reply) {
  if (args.size() % 2 != 0) return reply->Error(kSyntaxError);
  std::set<std::string> names;
  for (size_t i = 2; i < args.size(); i += 2) {
    if (names.insert(absl::AsciiStrToLower(AbslOf(args[i]))).second) continue;
    return reply->Error(absl::StrCat("ERR CONFIG SET failed (possibly related to argument '",
                                     AbslOf(args[i].substr(0, 64)), "') - duplicate parameter"));
  }
  // All of them or none: nothing is set before all are known to be right.
  for (const bool check_only : {true, false}) {
    // A design first: that it moves items may fail although it was right.
    for (const bool design : {true, false}) {
      for (size_t i = 2; i < args.size(); i += 2) {
        if (EqualsIgnoringCase(args[i], "design") != design) continue;
        const std::string error = Configure(args[i], args[i + 1], check_only);
        if (!error.empty()) return reply->Error(error);
      }
    }
  }
  reply->Ok();
}

void Executor::Config(const Arguments& args, ReplyWriter* reply) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(args[1], name); };
  if (is("set") && args.size() >= 4) return SetConfig(args, reply);
  if (is("resetstat") && args.size() == 2) {
    facts_->ResetCounters();
    store_->ResetCounters();
    return reply->Ok();
  }
  if (is("rewrite") && args.size() == 2) {
    return reply->Error("ERR The server is running without a config file");
  }
  if (!is("get") || args.size() < 3) {
    return RefuseArguments(args, reply);
  }
  std::vector<Keyspace::Setting> settings = store_->Settings();
  settings.insert(settings.end(),
                  {
                      {"cluster-enabled", node_ ? "yes" : "no"},
                      {"databases", "1"},
                      {"latency-tracking", facts_->command_stats.keeps_latencies() ? "yes" : "no"},
                      {"latency-tracking-info-percentiles", CommandStats::kPercentiles},
                      {"maxclients", std::to_string(facts_->max_clients)},
                      {"port", std::to_string(port())},
                      {"proto-max-bulk-len", std::to_string(facts_->max_bulk)},
                      {"save", ""},
                      {"slowlog-log-slower-than", std::to_string(facts_->slow_log.limit())},
                      {"slowlog-max-len", std::to_string(facts_->slow_log.length())},
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

}  // namespace pulse::redis
