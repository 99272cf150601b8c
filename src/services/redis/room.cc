// Of Executor: commands whose reply may be large wait where all connections together hold too much.
#include <algorithm>

#include "net/byte_budget.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/executor.h"

namespace pulse::redis {
namespace {

// A part of a value alone.
void LimitToRange(const CommandInfo& command, const Arguments& args, uint64_t* bytes) {
  int64_t begin = 0;
  int64_t end = 0;
  if (command.id != Command::kGetrange && command.id != Command::kSubstr) return;
  if (!ParseInteger(args[2], &begin) || !ParseInteger(args[3], &end) || begin < 0) return;
  if (end >= 0)
    *bytes = std::min(*bytes, static_cast<uint64_t>(std::max<int64_t>(0, end - begin) + 1));
}

bool AnswersValues(const CommandInfo& command, const Arguments& args) {
  switch (command.id) {
    case Command::kGet:
    case Command::kMget:
    case Command::kGetset:
    case Command::kGetdel:
    case Command::kGetex:
    case Command::kGetrange:
    case Command::kSubstr:
    case Command::kLcs:
    case Command::kDump:
      return true;
    case Command::kSet:
      for (size_t i = 3; i < args.size(); ++i) {
        if (EqualsIgnoringCase(args[i], "get")) return true;
      }
      return false;
    default:
      return false;
  }
}

}  // namespace

Executor::Stop Executor::CheckRoom(const Session& session, const CommandInfo& command,
                                   const Arguments& args, bool may_block, RequestBatch* batch) {
  uint64_t bytes = 0;
  bool done = true;
  const auto add = [&](const CommandInfo& of, const Arguments& its) {
    if (!AnswersValues(of, its)) return;
    ForEachKey(of, its, [&](std::string_view key) {
      uint64_t of_key = 0;
      done = done && store_->SizeOfValue(key, may_block, &of_key);
      LimitToRange(of, its, &of_key);
      bytes += of_key;
    });
  };
  if (command.id == Command::kExec) {
    for (const auto& queued : session.queue) add(*queued->command, queued->request.arguments());
  } else {
    add(command, args);
  }
  if (!done) return Stop::kWouldBlock;
  return batch->MustWait(session.buffers, bytes) ? Stop::kFull : Stop::kEnd;
}

}  // namespace pulse::redis
