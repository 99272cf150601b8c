// CLIENT: who is connected, what they are called, and their end.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

std::string Line(const ClientFacts& facts, int64_t now_ms) {
  return ClientLine(facts, now_ms) + "\n";
}

constexpr size_t kMostPrefixes = 256;  // of one client; a change is compared with each
constexpr size_t kMostPrefixBytes = size_t{64} << 10;

// What CLIENT KILL asks for; all of it must hold.
struct Victims {
  std::optional<uint64_t> id;
  std::optional<std::string_view> peer;
  std::optional<std::string_view> local;
  std::optional<std::string_view> user;
  std::optional<int64_t> older_than_seconds;
  std::optional<bool> subscribed;
  bool nobody = false;  // of a type that none has
  bool spare_caller = true;

  bool Has(const ClientFacts& facts, int64_t now_ms) const {
    if (nobody) return false;
    if (id.has_value() && *id != facts.id) return false;
    if (peer.has_value() && *peer != facts.peer) return false;
    if (local.has_value() && *local != facts.local) return false;
    if (user.has_value() && *user != facts.user) return false;
    if (subscribed.has_value() && *subscribed != facts.subscribed) return false;
    return !older_than_seconds.has_value() ||
           (now_ms - facts.since_ms) / 1000 >= *older_than_seconds;
  }
};

// Of what a client can be, there are normal ones, and those that have subscribed. False: it is no
// type.
bool ReadType(std::string_view type, std::optional<bool>* subscribed, bool* nobody) {
  if (EqualsIgnoringCase(type, "normal") || EqualsIgnoringCase(type, "pubsub")) {
    *subscribed = EqualsIgnoringCase(type, "pubsub");
    return true;
  }
  *nobody = true;
  return EqualsIgnoringCase(type, "master") || EqualsIgnoringCase(type, "replica") ||
         EqualsIgnoringCase(type, "slave");
}

// Empty, or an error.
std::string ReadVictims(const Arguments& args, const AclUsers& users, Victims* victims) {
  if (args.size() % 2 != 0) return std::string(kSyntaxError);
  for (size_t i = 2; i < args.size(); i += 2) {
    const std::string_view what = args[i];
    const std::string_view value = args[i + 1];
    int64_t number = 0;
    if (EqualsIgnoringCase(what, "id")) {
      if (!ParseInteger(value, &number) || number <= 0) {
        return "ERR client-id should be greater than 0";
      }
      victims->id = static_cast<uint64_t>(number);
    } else if (EqualsIgnoringCase(what, "type")) {
      if (!ReadType(value, &victims->subscribed, &victims->nobody)) {
        return absl::StrCat("ERR Unknown client type '", AbslOf(value.substr(0, 128)), "'");
      }
    } else if (EqualsIgnoringCase(what, "addr")) {
      victims->peer = value;
    } else if (EqualsIgnoringCase(what, "laddr")) {
      victims->local = value;
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
  if (args.size() == 4 && !EqualsIgnoringCase(args[3], "timeout") &&
      !EqualsIgnoringCase(args[3], "error")) {
    return reply->Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
  }
  int64_t id = 0;
  if (!ParseInteger(args[2], &id)) return reply->Error(kNotAnInteger);
  reply->Integer(0);  // no command blocks
}

// One that begins with the other, either way.
std::optional<std::string> OverlapOf(std::span<const std::string> prefixes,
                                     std::string_view other) {
  for (const std::string& prefix : prefixes) {
    if (prefix.starts_with(other) || other.starts_with(prefix)) return prefix;
  }
  return std::nullopt;
}

// Empty, or an error.
std::string CheckSizes(std::span<const std::string> prefixes) {
  if (prefixes.size() > kMostPrefixes) {
    return absl::StrCat("ERR more than ", kMostPrefixes, " prefixes");
  }
  size_t bytes = 0;
  for (const std::string& prefix : prefixes) bytes += prefix.size();
  if (bytes <= kMostPrefixBytes) return "";
  return absl::StrCat("ERR prefixes of more than ", kMostPrefixBytes, " bytes in all");
}

// Options of CLIENT TRACKING, behind ON or OFF. Empty, or an error. `exists` says whether there is
// a client of an id.
template <typename Exists>
std::string ReadTracking(const Arguments& args, const Exists& exists, TrackingOptions* options) {
  for (size_t i = 3; i < args.size(); ++i) {
    const std::string_view option = args[i];
    const bool more = i + 1 < args.size();
    if (EqualsIgnoringCase(option, "bcast")) {
      options->broadcast = true;
    } else if (EqualsIgnoringCase(option, "optin")) {
      options->opt_in = true;
    } else if (EqualsIgnoringCase(option, "optout")) {
      options->opt_out = true;
    } else if (EqualsIgnoringCase(option, "noloop")) {
      options->no_loop = true;
    } else if (EqualsIgnoringCase(option, "prefix") && more) {
      options->prefixes.emplace_back(args[++i]);
      // Before more of them are kept.
      if (options->prefixes.size() > kMostPrefixes) return CheckSizes(options->prefixes);
    } else if (EqualsIgnoringCase(option, "redirect") && more) {
      int64_t id = 0;
      if (options->redirect != 0) {
        return "ERR A client can only redirect to a single other client";
      }
      if (!ParseInteger(args[++i], &id)) return std::string(kNotAnInteger);
      if (!exists(static_cast<uint64_t>(id))) {
        return "ERR The client ID you want redirect to does not exist";
      }
      options->redirect = static_cast<uint64_t>(id);
    } else {
      return std::string(kSyntaxError);
    }
  }
  return CheckSizes(options->prefixes);  // before each is compared with each
}

// Whether they go together, and with what the client has now. Empty, or an error.
std::string CheckTracking(const Told* before, const TrackingOptions& options) {
  if (!options.broadcast && !options.prefixes.empty()) {
    return "ERR PREFIX option requires BCAST mode to be enabled";
  }
  if (before != nullptr && before->options().broadcast != options.broadcast) {
    return "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and "
           "then re-enabling it with a different mode.";
  }
  if (options.broadcast && (options.opt_in || options.opt_out)) {
    return "ERR OPTIN and OPTOUT are not compatible with BCAST";
  }
  if (options.opt_in && options.opt_out) {
    return "ERR You can't specify both OPTIN mode and OPTOUT mode";
  }
  if (before != nullptr && ((before->options().opt_in && options.opt_out) ||
                            (before->options().opt_out && options.opt_in))) {
    return "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and "
           "then re-enabling it with a different mode.";
  }
  constexpr absl::string_view kOverlap = "'. Prefixes for a single client must not overlap.";
  for (size_t i = 0; i < options.prefixes.size(); ++i) {
    const std::string& prefix = options.prefixes[i];
    if (before != nullptr) {
      if (const auto other = OverlapOf(before->options().prefixes, prefix)) {
        return absl::StrCat("ERR Prefix '", prefix, "' overlaps with an existing prefix '", *other,
                            kOverlap);
      }
    }
    if (const auto other = OverlapOf(std::span(options.prefixes).subspan(i + 1), prefix)) {
      return absl::StrCat("ERR Prefix '", prefix, "' overlaps with another provided prefix '",
                          *other, kOverlap);
    }
  }
  return "";
}

int64_t RedirectOf(const Session& session) {
  return session.told == nullptr ? -1 : static_cast<int64_t>(session.told->options().redirect);
}

void TrackingInfo(const Session& session, ReplyWriter* reply) {
  std::vector<std::string_view> flags;
  if (session.told == nullptr) {
    flags = {"off"};
  } else {
    const TrackingOptions& options = session.told->options();
    flags = {"on"};
    if (options.broadcast) flags.push_back("bcast");
    if (options.opt_in) flags.push_back("optin");
    if (options.opt_in && session.caching == Session::Caching::kYes) flags.push_back("caching-yes");
    if (options.opt_out) flags.push_back("optout");
    if (options.opt_out && session.caching == Session::Caching::kNo) flags.push_back("caching-no");
    if (options.no_loop) flags.push_back("noloop");
    if (session.told->broken()) flags.push_back("broken_redirect");
  }
  reply->Map(3);
  reply->Bulk("flags");
  reply->Set(flags.size());
  for (const std::string_view flag : flags) reply->Bulk(flag);
  reply->Bulk("redirect");
  reply->Integer(RedirectOf(session));
  reply->Bulk("prefixes");
  reply->Array(session.told == nullptr ? 0 : session.told->options().prefixes.size());
  if (session.told == nullptr) return;
  for (const std::string& prefix : session.told->options().prefixes) reply->Bulk(prefix);
}

void SetCaching(Session* session, std::string_view word, ReplyWriter* reply) {
  const TrackingOptions* options = session->told == nullptr ? nullptr : &session->told->options();
  if (options == nullptr) {
    return reply->Error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
        "OPTOUT mode enabled");
  }
  if (EqualsIgnoringCase(word, "yes")) {
    if (!options->opt_in) {
      return reply->Error(
          "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
    }
    session->caching = Session::Caching::kYes;
  } else if (EqualsIgnoringCase(word, "no")) {
    if (!options->opt_out) {
      return reply->Error(
          "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
    }
    session->caching = Session::Caching::kNo;
  } else {
    return reply->Error(kSyntaxError);
  }
  reply->Ok();
}

void SetReplies(Session* session, std::string_view word, ReplyWriter* reply) {
  if (session->private_listener) {
    return reply->Error("ERR the agent in front of this server waits for each reply");
  }
  if (EqualsIgnoringCase(word, "on")) {
    session->replies_off = false;
    session->skip_replies = 0;
    reply->Ok();
  } else if (EqualsIgnoringCase(word, "off")) {
    session->replies_off = true;
  } else if (EqualsIgnoringCase(word, "skip")) {
    if (!session->replies_off) session->skip_replies = 2;  // this one has none
  } else {
    reply->Error(kSyntaxError);
  }
}

}  // namespace

void Executor::ClientTracking(Session* session, const Arguments& args, ReplyWriter* reply) {
  TrackingOptions options;
  const auto exists = [&](uint64_t id) { return facts_->clients.Has(id); };
  if (const std::string error = ReadTracking(args, exists, &options); !error.empty()) {
    return reply->Error(error);
  }
  if (EqualsIgnoringCase(args[2], "off")) {
    session->StopTracking();
    facts_->clients.Set(session->facts);
    return reply->Ok();
  }
  if (!EqualsIgnoringCase(args[2], "on")) return reply->Error(kSyntaxError);
  if (const std::string error = CheckTracking(session->told.get(), options); !error.empty()) {
    return reply->Error(error);
  }
  if (session->notify == nullptr) {
    return reply->Error(
        "ERR tracking is not served to clients of an agent, which takes no message "
        "that is not a reply");
  }
  // All keys have the empty one, which none is compared with: it may come beside others.
  if (options.broadcast && options.prefixes.empty()) options.prefixes.emplace_back();
  if (session->told != nullptr) {
    const auto& had = session->told->options().prefixes;
    options.prefixes.insert(options.prefixes.end(), had.begin(), had.end());
  }
  std::sort(options.prefixes.begin(), options.prefixes.end());
  options.prefixes.erase(std::unique(options.prefixes.begin(), options.prefixes.end()),
                         options.prefixes.end());
  if (const std::string error = CheckSizes(options.prefixes); !error.empty()) {
    return reply->Error(error);
  }
  const uint64_t redirect = options.redirect;
  Told::Notify notify = session->notify;
  if (options.redirect != 0) {
    notify = [clients = &facts_->clients, own = std::move(notify)](std::shared_ptr<Told> told) {
      if (clients->Notify(told->options().redirect, told)) return;
      told->Break();
      own(std::move(told));
    };
  }
  auto told = std::make_shared<Told>(session->facts.id, std::move(options), std::move(notify),
                                     session->buffers);
  if (const absl::Status s = facts_->tracking.Start(told); !s.ok()) {
    return reply->Error(absl::StrCat("ERR ", s.message()));
  }
  session->told = std::move(told);
  session->tracking = &facts_->tracking;
  session->facts.tracking = true;
  session->facts.redirect = redirect;
  session->facts.redirect_broken = false;
  facts_->clients.Set(session->facts);
  reply->Ok();
}

void Executor::ClientPause(const Session& session, const Arguments& args, ReplyWriter* reply) {
  int64_t ms = 0;
  const bool writes = args.size() == 4 && EqualsIgnoringCase(args[3], "write");
  if (args.size() == 4 && !writes && !EqualsIgnoringCase(args[3], "all")) {
    return reply->Error("ERR CLIENT PAUSE mode must be WRITE or ALL");
  }
  if (!ParseInteger(args[2], &ms)) {
    return reply->Error("ERR timeout is not an integer or out of range");
  }
  if (ms < 0) return reply->Error("ERR timeout is negative");
  if (session.private_listener && !writes) {
    return reply->Error(
        "ERR the agent in front of this server answers reads by itself; only writes "
        "can be held, by CLIENT PAUSE WRITE");
  }
  if (const absl::Status s = facts_->pause.Begin(ms, writes); !s.ok()) {
    return reply->Error(absl::StrCat("ERR ", s.message()));
  }
  reply->Ok();
}

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
  } else if (EqualsIgnoringCase(sub, "list")) {
    ClientList(args, reply);
  } else if (EqualsIgnoringCase(sub, "kill") && more > 0) {
    return ClientKill(session, args, reply);
  } else if (EqualsIgnoringCase(sub, "unblock") && (more == 1 || more == 2)) {
    ClientUnblock(args, reply);
  } else if (EqualsIgnoringCase(sub, "getredir") && more == 0) {
    reply->Integer(RedirectOf(*session));
  } else if (EqualsIgnoringCase(sub, "tracking") && more > 0) {
    ClientTracking(session, args, reply);
  } else if (EqualsIgnoringCase(sub, "trackinginfo") && more == 0) {
    TrackingInfo(*session, reply);
  } else if (EqualsIgnoringCase(sub, "caching") && more == 1) {
    SetCaching(session, args[2], reply);
  } else if (EqualsIgnoringCase(sub, "pause") && (more == 1 || more == 2)) {
    ClientPause(*session, args, reply);
  } else if (EqualsIgnoringCase(sub, "unpause") && more == 0) {
    facts_->pause.End();
    reply->Ok();
  } else if (EqualsIgnoringCase(sub, "reply") && more == 1) {
    SetReplies(session, args[2], reply);
  } else if ((EqualsIgnoringCase(sub, "no-evict") || EqualsIgnoringCase(sub, "no-touch")) &&
             more == 1) {
    if (EqualsIgnoringCase(args[2], "on") || EqualsIgnoringCase(args[2], "off")) {
      reply->Ok();  // nothing is ever evicted
    } else {
      reply->Error(kSyntaxError);
    }
  } else {
    RefuseArguments(args, reply);
  }
  return Stop::kEnd;
}

void Executor::ClientList(const Arguments& args, ReplyWriter* reply) {
  std::vector<uint64_t> ids;
  std::optional<bool> subscribed;
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
    if (!ReadType(type, &subscribed, &others)) {
      return reply->Error(
          absl::StrCat("ERR Unknown client type '", AbslOf(type.substr(0, 128)), "'"));
    }
  } else if (args.size() > 2) {
    return reply->Error(kSyntaxError);
  }
  std::string text;
  for (const ClientFacts& facts : facts_->clients.List()) {
    if (others || subscribed.value_or(facts.subscribed) != facts.subscribed) continue;
    if ((!ids.empty() && !std::binary_search(ids.begin(), ids.end(), facts.id))) continue;
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
