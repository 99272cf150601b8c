// What the server tells of itself: INFO and COMMAND.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/cpu_profile.h"
#include "base/resident_memory.h"
#include "services/redis/acl/acl_units.h"
#include "services/redis/commands/command_facts.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"
#include "services/redis/executor.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

namespace pulse::redis {
namespace {

// The most that was resident; 0 when the kernel does not say.
uint64_t PeakResidentBytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// "1.50M", as people read it.
std::string ForPeople(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return unit == 0 ? absl::StrCat(bytes, "B") : absl::StrFormat("%.2f%s", value, kUnits[unit]);
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void AddCpu(std::string* out) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  char text[128];
  snprintf(text, sizeof(text), "used_cpu_sys:%.6f\r\nused_cpu_user:%.6f\r\n",
           Seconds(usage.ru_stime), Seconds(usage.ru_utime));
  out->append(text);
  const CpuProfileNumbers profile = ReadCpuProfile();
  for (size_t side = 0; side < profile.nanos.size(); ++side) {
    for (size_t i = 0; i < profile.nanos[side].size(); ++i) {
      snprintf(text, sizeof(text), "profile_%s_%s:%.6f\r\n", kCpuSideNames[side],
               kCpuComponentNames[i], static_cast<double>(profile.nanos[side][i]) * 1e-9);
      out->append(text);
    }
  }
}

// What COMMAND tells of: a command, or one of its subcommands. Public ones alone.
struct Described {
  const CommandInfo* command = nullptr;  // null: the name is none
  const SubcommandInfo* sub = nullptr;

  std::string name() const { return sub == nullptr ? std::string(command->name) : sub->FullName(); }
  const AclUnit& unit() const {
    std::vector<std::string_view> words = {command->name};
    if (sub != nullptr) words.push_back(sub->name);
    return AclUnits()[static_cast<size_t>(AclUnitOf(*command, words))];
  }
  absl::Span<const SubcommandInfo> subs() const {
    return sub == nullptr ? SubcommandsOf(command->id) : absl::Span<const SubcommandInfo>();
  }
  bool has_keys() const { return sub == nullptr || std::abs(sub->arity) > command->first_key; }
};

void AppendFlags(const Described& what, ReplyWriter* reply) {
  const CommandInfo& command = *what.command;
  std::vector<std::string_view> flags;
  if (what.sub != nullptr) {
    if (IsInCategory(what.unit(), "read")) flags.push_back("readonly");
    if (IsInCategory(what.unit(), "admin")) flags.push_back("admin");
  } else {
    if (command.writes()) flags.push_back("write");
    if (command.reads() && !command.writes()) flags.push_back("readonly");
    if (command.writes() && MayNeedMemory(command.id)) flags.push_back("denyoom");
    if ((command.flags & kAdmin) != 0) flags.push_back("admin");
    if ((command.flags & kNoAuth) != 0) flags.push_back("no_auth");
    if (IsFast(command.id)) flags.push_back("fast");
  }
  reply->Set(flags.size());
  for (const auto flag : flags) reply->Simple(flag);
}

// As Redis 7 has it, ten elements.
void AppendInfo(const Described& what, ReplyWriter* reply) {
  const CommandInfo& command = *what.command;
  const bool has_keys = what.has_keys();
  reply->Array(10);
  reply->Bulk(what.name());
  reply->Integer(what.sub == nullptr ? command.arity : what.sub->arity);
  AppendFlags(what, reply);
  for (const int place : {command.first_key, command.last_key, command.key_step})
    reply->Integer(has_keys ? place : 0);
  std::vector<std::string> categories;
  for (const std::string_view category : AclCategories()) {
    if (IsInCategory(what.unit(), category)) {
      categories.push_back(absl::StrCat("@", AbslOf(category)));
    }
  }
  reply->Set(categories.size());
  for (const std::string& category : categories) reply->Simple(category);
  const auto tips = what.sub == nullptr ? TipsOf(command.id) : std::vector<std::string_view>();
  reply->Set(tips.size());
  for (const auto tip : tips) reply->Bulk(tip);
  reply->Set(0);
  reply->Array(what.subs().size());
  for (const SubcommandInfo& sub : what.subs()) AppendInfo({what.command, &sub}, reply);
}

void AppendDocs(const Described& what, ReplyWriter* reply) {
  reply->Bulk(what.name());
  reply->Map(what.subs().empty() ? 2 : 3);
  reply->Bulk("summary");
  reply->Bulk(what.sub == nullptr ? what.command->summary : what.sub->summary);
  reply->Bulk("group");
  reply->Bulk(what.command->group);
  if (what.subs().empty()) return;
  reply->Bulk("subcommands");
  reply->Map(what.subs().size());
  for (const SubcommandInfo& sub : what.subs()) AppendDocs({what.command, &sub}, reply);
}

// By "get" or "client|id".
Described FindDescribed(std::string_view name) {
  const size_t bar = name.find('|');
  const CommandInfo* command = FindCommand(name.substr(0, bar));
  if (command == nullptr || (command->flags & kPrivate) != 0) return {};
  if (bar == std::string_view::npos) return {command};
  for (const SubcommandInfo& sub : SubcommandsOf(command->id)) {
    if (EqualsIgnoringCase(name.substr(bar + 1), sub.name)) return {command, &sub};
  }
  return {};
}

// All commands, or those that are named, and subcommands where these are.
std::vector<Described> Chosen(const Arguments& args) {
  std::vector<Described> chosen;
  for (size_t i = 2; i < args.size(); ++i) chosen.push_back(FindDescribed(args[i]));
  if (args.size() > 2) return chosen;
  for (const CommandInfo* command : AllCommands()) {
    if ((command->flags & kPrivate) == 0) chosen.push_back({command});
  }
  return chosen;
}

template <typename IsWanted>
void ListNames(const IsWanted& is_wanted, ReplyWriter* reply) {
  std::vector<std::string> names;
  const auto add = [&](const Described& what) {
    if (is_wanted(what)) names.push_back(what.name());
  };
  for (const Described& what : Chosen({})) {
    add(what);
    for (const SubcommandInfo& sub : what.subs()) add({what.command, &sub});
  }
  reply->Array(names.size());
  for (const std::string& name : names) reply->Bulk(name);
}

void GetKeys(const Arguments& args, bool flags, ReplyWriter* reply) {
  const Arguments rest(args.begin() + 2, args.end());
  const CommandInfo* command = FindCommand(rest[0]);
  if (command == nullptr) return reply->Error("ERR Invalid command specified");
  if (!command->ArityFits(rest.size())) {
    return reply->Error("ERR Invalid number of arguments specified for command");
  }
  std::vector<std::string_view> keys;
  ForEachKey(*command, rest, [&](std::string_view key) { keys.push_back(key); });
  if (keys.empty()) return reply->Error("ERR The command has no key arguments");
  reply->Array(keys.size());
  bool is_first = true;
  for (const auto key : keys) {
    if (flags) reply->Array(2);
    reply->Bulk(key);
    if (!flags) continue;
    const auto of_key = KeyFlags(*command, rest, is_first);
    is_first = false;
    reply->Set(of_key.size());
    for (const auto flag : of_key) reply->Simple(flag);
  }
}

// COMMAND LIST FILTERBY MODULE NAME | ACLCAT CATEGORY | PATTERN PATTERN. False: something else.
bool ListFiltered(const Arguments& args, ReplyWriter* reply) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(args[3], name); };
  const bool category = is("aclcat");
  const bool pattern = is("pattern");
  if (!EqualsIgnoringCase(args[2], "filterby") || !(category || pattern || is("module")))
    return false;
  std::string lower(args[4]);
  for (char& c : lower) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  ListNames(
      [&](const Described& what) {
        return (category && IsInCategory(what.unit(), args[4])) ||
               (pattern && MatchesPattern(lower, what.name()));
      },
      reply);
  return true;
}

}  // namespace

std::string Executor::Info(const Arguments& args) {
  const auto wanted = [&](std::string_view section, bool by_default = true) {
    for (size_t i = 1; i < args.size(); ++i) {
      if (EqualsIgnoringCase(args[i], section) || EqualsIgnoringCase(args[i], "all") ||
          EqualsIgnoringCase(args[i], "everything") ||
          (by_default && EqualsIgnoringCase(args[i], "default"))) {
        return true;
      }
    }
    return by_default && args.size() == 1;
  };
  std::string out;
  const auto begin = [&](const char* name) {
    absl::StrAppend(&out, out.empty() ? "" : "\r\n", "# ", name, "\r\n");
  };
  const auto add = [&](absl::string_view name, const auto& value) {
    absl::StrAppend(&out, name, ":", value, "\r\n");
  };
  if (wanted("server")) {
    const int64_t uptime = (store_->now_ms() - facts_->started_ms) / 1000;
    begin("Server");
    add("redis_version", "7.0.15");
    add("pulse_version", PULSE_VERSION);
    add("redis_mode", node_ ? "cluster" : "standalone");
    add("arch_bits", 64);
    add("process_id", getpid());
    add("run_id", facts_->run_id);
    add("tcp_port", port());
    add("uptime_in_seconds", uptime);
    add("uptime_in_days", uptime / 86400);
  }
  if (wanted("clients")) {
    begin("Clients");
    add("connected_clients", facts_->clients.size());
    add("maxclients", facts_->max_clients);
    add("blocked_clients", 0);
    add("tracking_clients", facts_->tracking.numbers().clients);
  }
  if (wanted("memory")) {
    begin("Memory");
    const uint64_t resident = ResidentBytes();
    const uint64_t peak = std::max(resident, PeakResidentBytes());
    add("used_memory", resident);
    add("used_memory_human", ForPeople(resident));
    add("used_memory_rss", resident);
    add("used_memory_rss_human", ForPeople(resident));
    add("used_memory_peak", peak);
    add("used_memory_peak_human", ForPeople(peak));
    // used_memory is what is resident, with all that is fragmented.
    add("mem_fragmentation_ratio", "1.00");
    store_->AddInfo("memory", &out);
  }
  if (wanted("persistence")) {
    begin("Persistence");
    add("loading", 0);
    store_->AddInfo("persistence", &out);
  }
  if (wanted("stats")) {
    begin("Stats");
    add("total_connections_received", facts_->connections.load());
    const int64_t now = NowNanos();
    const uint64_t own = facts_->commands.load();
    const CommandCounts others = facts_->Others();
    add("total_commands_processed", own + others.commands);
    add("instantaneous_ops_per_sec",
        static_cast<uint64_t>(facts_->command_rate.PerSecond(now, own) +
                              facts_->others_rate.PerSecond(now, others.commands) + 0.5));
    facts_->command_rate.Sample(now, own);
    facts_->others_rate.Sample(now, others.commands);
    const Traffic::Bytes traffic = facts_->traffic.Take();
    add("rejected_connections", traffic.refused);
    add("total_net_input_bytes", traffic.received);
    add("total_net_output_bytes", traffic.sent);
    add("total_error_replies", facts_->error_stats.total());
    add("keyspace_hits", facts_->hits.load() + others.hits);
    add("keyspace_misses", facts_->misses.load() + others.misses);
    store_->AddInfo("stats", &out);
    add("waited_commands", facts_->waited.load());
    const Tracking::Numbers tracking = facts_->tracking.numbers();
    add("tracking_total_keys", tracking.keys);
    add("tracking_total_items", tracking.items);
    add("tracking_total_prefixes", tracking.prefixes);
    add("watched_keys", store_->watch_table()->watches());
    add("acl_access_denied_auth", facts_->rejected.load());
  }
  if (wanted("replication")) {
    begin("Replication");
    add("role", "master");
    add("connected_slaves", 0);
  }
  if (wanted("cpu")) {
    begin("CPU");
    AddCpu(&out);
  }
  if (wanted("commandstats", false)) {
    begin("Commandstats");
    facts_->command_stats.Append(&out);
  }
  if (wanted("errorstats")) {
    begin("Errorstats");
    facts_->error_stats.Append(&out);
  }
  if (wanted("latencystats", false)) {
    begin("Latencystats");
    if (facts_->command_stats.keeps_latencies()) facts_->command_stats.AppendLatencies(&out);
  }
  if (wanted("cluster")) {
    begin("Cluster");
    add("cluster_enabled", node_ ? 1 : 0);
  }
  if (wanted("keyspace")) {
    begin("Keyspace");
    // The form is Redis's, which clients take apart.
    store_->AddInfo("keyspace", &out);
  }
  if (wanted(absl::AsciiStrToLower(AbslOf(store_->section_name())))) {
    begin(store_->section_name().data());
    store_->AddInfo(store_->section_name(), &out);
  }
  return out;
}

void Executor::MemoryReport(const Arguments& args, ReplyWriter* reply) {
  if (EqualsIgnoringCase(args[1], "purge")) {
    malloc_trim(0);
    return reply->Ok();
  }
  std::string numbers;
  store_->AddInfo("memory", &numbers);
  if (EqualsIgnoringCase(args[1], "malloc-stats")) {
    return reply->Verbatim(
        "Keys and values do not come from malloc. INFO memory has their bytes.\n");
  }
  const uint64_t resident = ResidentBytes();
  if (EqualsIgnoringCase(args[1], "doctor")) {
    return reply->Verbatim(absl::StrCat("The process has ", ForPeople(resident),
                                        " of memory. What the store has:\n", numbers));
  }
  // What is known, under Redis's names; then the lines of INFO.
  std::vector<std::pair<std::string, int64_t>> fields = {
      {"peak.allocated", static_cast<int64_t>(std::max(resident, PeakResidentBytes()))},
      {"total.allocated", static_cast<int64_t>(resident)},
      {"clients.normal", static_cast<int64_t>(facts_->transactions.held())}};
  for (const absl::string_view line : absl::StrSplit(numbers, "\r\n", absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, ':');
    int64_t value = 0;
    if (!absl::SimpleAtoi(field.second, &value)) continue;
    fields.emplace_back(field.first == "item_bytes" ? "dataset.bytes" : std::string(field.first),
                        value);
  }
  reply->Map(fields.size());
  for (const auto& [name, value] : fields) {
    reply->Bulk(name);
    reply->Integer(value);
  }
}

void Executor::CommandCommand(const Arguments& args, ReplyWriter* reply) {
  // Else a name that is repeated would make a reply of any size.
  const size_t most = kCommands + AllSubcommands().size();
  if (args.size() > 2 + most &&
      (EqualsIgnoringCase(args[1], "info") || EqualsIgnoringCase(args[1], "docs"))) {
    return reply->Error(absl::StrCat("ERR more than ", most, " names"));
  }
  if (args.size() == 1 || EqualsIgnoringCase(args[1], "info")) {
    const auto chosen = Chosen(args);
    reply->Array(chosen.size());
    for (const Described& what : chosen) {
      if (what.command == nullptr) {
        reply->Null();
      } else {
        AppendInfo(what, reply);
      }
    }
  } else if (EqualsIgnoringCase(args[1], "count") && args.size() == 2) {
    reply->Integer(static_cast<int64_t>(Chosen(args).size()));
  } else if (EqualsIgnoringCase(args[1], "list") && args.size() == 2) {
    ListNames([](const Described&) { return true; }, reply);
  } else if (EqualsIgnoringCase(args[1], "docs")) {
    auto chosen = Chosen(args);
    std::erase_if(chosen, [](const Described& what) { return what.command == nullptr; });
    reply->Map(chosen.size());
    for (const Described& what : chosen) AppendDocs(what, reply);
  } else if (EqualsIgnoringCase(args[1], "getkeys") && args.size() > 2) {
    GetKeys(args, false, reply);
  } else if (EqualsIgnoringCase(args[1], "getkeysandflags") && args.size() > 2) {
    GetKeys(args, true, reply);
  } else if (args.size() != 5 || !ListFiltered(args, reply)) {
    reply->Error(kSyntaxError);  // of LIST: the others are known (CheckSubcommand)
  }
}

void Executor::Slowlog(const Arguments& args, ReplyWriter* reply) {
  const auto is = [&](std::string_view name) { return EqualsIgnoringCase(args[1], name); };
  if (is("reset") && args.size() == 2) {
    facts_->slow_log.Clear();
    reply->Ok();
  } else if (is("len") && args.size() == 2) {
    reply->Integer(static_cast<int64_t>(facts_->slow_log.size()));
  } else if (is("get") && args.size() <= 3) {
    int64_t count = 10;
    if (args.size() == 3 && (!ParseInteger(args[2], &count) || count < -1)) {
      return reply->Error("ERR count should be greater than or equal to -1");
    }
    const auto entries = facts_->slow_log.Newest(count < 0 ? SIZE_MAX : static_cast<size_t>(count));
    reply->Array(entries.size());
    for (const SlowLog::Entry& entry : entries) {
      reply->Array(6);
      reply->Integer(entry.id);
      reply->Integer(entry.seconds);
      reply->Integer(entry.micros);
      reply->Array(entry.arguments.size());
      for (const std::string& argument : entry.arguments) reply->Bulk(argument);
      reply->Bulk(entry.peer);
      reply->Bulk(entry.name);
    }
  } else {
    RefuseArguments(args, reply);
  }
}

}  // namespace pulse::redis
