#include "services/redis/commands/keyspace.h"

#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// Of a transaction that is too long: one this short is not replaced by an error.
constexpr size_t kShortReply = 128;

}  // namespace

Keyspace::RunResult Keyspace::EndCommand(const View& view, size_t begin,
                                         const CommandCounts& before, ReplyWriter* reply,
                                         CommandCounts* counts) {
  if (view.blocked()) {
    reply->out()->resize(begin);
    *counts = before;
    return RunResult::kWouldBlock;
  }
  if (!view.error().empty()) {
    reply->out()->resize(begin);
    reply->Error(view.error());
  }
  ++counts->commands;
  return RunResult::kDone;
}

std::string Keyspace::CheckSetting(std::string_view name, std::string_view value) const {
  return absl::StrCat("ERR Unknown option or number of arguments for CONFIG SET - '",
                      AbslOf(name.substr(0, 64)),
                      "'; latency-tracking, slowlog-log-slower-than and slowlog-max-len can be "
                      "set, others are options of the server when it is started");
}

bool Keyspace::RunQueued(const std::vector<Queued>& commands, uint64_t most_bytes,
                         const std::function<bool(const Queued&)>& run, const Answer& answer,
                         ReplyWriter* reply, CommandCounts* counts) {
  const size_t begin = reply->out()->size();
  bool full = false;
  reply->Array(commands.size());
  for (const Queued& queued : commands) {
    const size_t element = reply->out()->size();
    const bool writes = queued.command->writes();
    const bool on_keys = writes || queued.command->reads();
    counts->commands += on_keys;
    if (answer(queued, reply)) {
      // It has replied.
    } else if (full && !writes) {
      reply->Error(kTooManyValues);
    } else if (!run(queued)) {
      return false;
    }
    if (reply->out()->size() - begin > most_bytes && reply->out()->size() - element > kShortReply) {
      full = true;
      reply->out()->resize(element);
      reply->Error(writes ? kTooManyValuesWritten : kTooManyValues);
    }
  }
  return true;
}

}  // namespace pulse::redis
