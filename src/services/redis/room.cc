// Of Executor: commands whose reply, or new value, may be large wait where all connections together
// hold too much.
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
  if (!ParseInteger(args[2], &begin) || !ParseInteger(args[3], &end)) return;
  *bytes = CountRange(*bytes, &begin, end);
}

// Makes a value from one that it reads, beside the store's memory.
bool MakesValue(Command command) {
  switch (command) {
    case Command::kAppend:
    case Command::kSetrange:
    case Command::kSetbit:
    case Command::kBitfield:
    case Command::kBitop:
    case Command::kRename:
    case Command::kRenamenx:
    case Command::kCopy:
      return true;
    default:
      return false;
  }
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

bool Executor::MayBeLarge(const Session& session, const CommandInfo& command, size_t words) const {
  // Each key is a word behind the command's name.
  size_t keys = words - 1;
  if (command.id == Command::kExec) {
    keys = 0;
    for (const auto& queued : session.queue) keys += queued->request.size() - 1;
  }
  return keys > 0 && store_->largest_value() > kSmallReply / keys;
}

Executor::Stop Executor::CheckRoom(const Session& session, const CommandInfo& command,
                                   const Arguments& args, bool may_block, RequestBatch* batch) {
  uint64_t bytes = 0;
  bool done = true;
  const auto add = [&](const CommandInfo& of, const Arguments& its) {
    const bool makes = MakesValue(of.id);
    if (!makes && !AnswersValues(of, its)) return;
    uint64_t largest = 0;
    uint64_t sum = 0;
    ForEachKey(of, its, [&](std::string_view key) {
      uint64_t of_key = 0;
      done = done && store_->SizeOfValue(key, may_block, &of_key);
      LimitToRange(of, its, &of_key);
      largest = std::max(largest, of_key);
      sum += of_key;
    });
    // Of several, BITOP has one result, as long as the longest.
    bytes += makes ? largest : sum;
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
