// What the server tells of itself: INFO and COMMAND.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/cpu_profile.h"
#include "services/redis/executor.h"
#include "services/redis/handlers.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

namespace pulse::redis {
namespace {

// Resident memory of this process; 0 when the kernel does not say.
uint64_t ResidentBytes() {
  unsigned long total = 0;
  unsigned long resident = 0;
  FILE* file = fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  if (fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  fclose(file);
  return uint64_t{resident} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
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

void AppendFlags(const CommandInfo& command, ReplyWriter* reply) {
  std::vector<std::string_view> flags;
  if (command.writes()) flags.push_back("write");
  if (command.reads() && !command.writes()) flags.push_back("readonly");
  if ((command.flags & kAdmin) != 0) flags.push_back("admin");
  if ((command.flags & kNoAuth) != 0) flags.push_back("no_auth");
  reply->Set(flags.size());
  for (const auto flag : flags) reply->Simple(flag);
}

// As Redis 7 has it, ten elements.
void AppendInfo(const CommandInfo& command, ReplyWriter* reply) {
  reply->Array(10);
  reply->Bulk(command.name);
  reply->Integer(command.arity);
  AppendFlags(command, reply);
  reply->Integer(command.first_key);
  reply->Integer(command.last_key);
  reply->Integer(command.key_step);
  reply->Set(1);
  reply->Simple(command.writes() ? "@write" : command.reads() ? "@read" : "@connection");
  reply->Array(0);
  reply->Array(0);
  reply->Array(0);
}

void AppendDocs(const CommandInfo& command, ReplyWriter* reply) {
  reply->Bulk(command.name);
  reply->Map(2);
  reply->Bulk("summary");
  reply->Bulk(command.summary);
  reply->Bulk("group");
  reply->Bulk(command.group);
}

// All that are public, or those that are named; null for names that are none.
std::vector<const CommandInfo*> Chosen(const Arguments& args) {
  std::vector<const CommandInfo*> commands;
  for (size_t i = 2; i < args.size(); ++i) {
    const CommandInfo* command = FindCommand(args[i]);
    const bool shown = command != nullptr && (command->flags & kPrivate) == 0;
    commands.push_back(shown ? command : nullptr);
  }
  if (args.size() > 2) return commands;
  for (const CommandInfo* command : AllCommands()) {
    if ((command->flags & kPrivate) == 0) commands.push_back(command);
  }
  return commands;
}

void GetKeys(const Arguments& args, ReplyWriter* reply) {
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
  for (const auto key : keys) reply->Bulk(key);
}

}  // namespace

std::string Executor::Info(const Arguments& args) {
  const auto wanted = [&](std::string_view section) {
    for (size_t i = 1; i < args.size(); ++i) {
      if (EqualsIgnoringCase(args[i], section) || EqualsIgnoringCase(args[i], "all") ||
          EqualsIgnoringCase(args[i], "default") || EqualsIgnoringCase(args[i], "everything")) {
        return true;
      }
    }
    return args.size() == 1;
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
  }
  if (wanted("memory")) {
    begin("Memory");
    add("used_memory", ResidentBytes());
    add("used_memory_rss", ResidentBytes());
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
    add("total_commands_processed", facts_->commands.load());
    add("total_error_replies", facts_->errors.load());
    add("keyspace_hits", facts_->hits.load());
    add("keyspace_misses", facts_->misses.load());
    store_->AddInfo("stats", &out);
    add("waited_commands", facts_->waited.load());
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

void Executor::CommandCommand(const Arguments& args, ReplyWriter* reply) {
  if (args.size() == 1 || EqualsIgnoringCase(args[1], "info")) {
    const auto commands = Chosen(args);
    reply->Array(commands.size());
    for (const CommandInfo* command : commands) {
      if (command == nullptr) {
        reply->NullArray();
      } else {
        AppendInfo(*command, reply);
      }
    }
  } else if (EqualsIgnoringCase(args[1], "count") && args.size() == 2) {
    reply->Integer(static_cast<int64_t>(Chosen(args).size()));
  } else if (EqualsIgnoringCase(args[1], "list") && args.size() == 2) {
    const auto commands = Chosen(args);
    reply->Array(commands.size());
    for (const CommandInfo* command : commands) reply->Bulk(command->name);
  } else if (EqualsIgnoringCase(args[1], "docs")) {
    auto commands = Chosen(args);
    commands.erase(std::remove(commands.begin(), commands.end(), nullptr), commands.end());
    reply->Map(commands.size());
    for (const CommandInfo* command : commands) AppendDocs(*command, reply);
  } else if (EqualsIgnoringCase(args[1], "getkeys") && args.size() > 2) {
    GetKeys(args, reply);
  } else {
    reply->Error("ERR unknown subcommand; COUNT, DOCS, GETKEYS, INFO and LIST are known");
  }
}

}  // namespace pulse::redis
