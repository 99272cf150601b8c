// Of Executor: commands whose reply, or new value, may be large wait where all connections together
// hold too much. So do lists of keys and of clients, and values that end where the arguments say,
// by what they may have at the most.
#include <algorithm>

#include "net/byte_budget.h"
#include "services/redis/commands/dump.h"
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

// Whether a command may need much that no value has: all others are not looked at any further.
constexpr bool MayAskForMuch(Command command) {
  switch (command) {
    case Command::kAppend:
    case Command::kBitfield:
    case Command::kClient:
    case Command::kCluster:
    case Command::kKeys:
    case Command::kRestore:
    case Command::kScan:
    case Command::kSetbit:
    case Command::kSetrange:
    case Command::kSubscribe:
    case Command::kUnsubscribe:
      return true;
    default:
      return false;
  }
}

// What the server tells of itself: INFO has 2 to 6 KiB, COMMAND 10. Alone it waits for nobody, as
// one learns by it why others wait; a transaction may ask for it many thousand times.
constexpr uint64_t kOfServer = uint64_t{16} << 10;
constexpr bool TellsOfServer(Command command) {
  switch (command) {
    case Command::kAcl:
    case Command::kCommand:
    case Command::kConfig:
    case Command::kInfo:
    case Command::kLatency:
    case Command::kSlowlog:
      return true;
    default:
      return false;
  }
}

// What SCAN is given, if it is given one; nothing that is none is carried out.
int64_t CountOfScan(const Arguments& args) {
  int64_t count = 10;
  for (size_t i = 2; i + 1 < args.size(); i += 2) {
    if (EqualsIgnoringCase(args[i], "count") && !ParseInteger(args[i + 1], &count)) return 0;
  }
  return count;
}

// Where the bits end that BITFIELD writes, in bytes. 0 for what makes no sense: nothing of it is
// carried out.
uint64_t EndOfFields(const Arguments& args) {
  uint64_t end = 0;
  for (size_t i = 2; i + 1 < args.size();) {
    if (EqualsIgnoringCase(args[i], "overflow")) {
      i += 2;
      continue;
    }
    const bool is_get = EqualsIgnoringCase(args[i], "get");
    const std::string_view type = args[i + 1];
    int64_t bits = 0;
    if (i + 2 >= args.size() || type.size() < 2 || !ParseInteger(type.substr(1), &bits)) return 0;
    std::string_view text = args[i + 2];
    uint64_t unit = 1;
    if (bits < 1 || bits > 64) return 0;
    if (text.starts_with('#')) {
      text.remove_prefix(1);
      unit = static_cast<uint64_t>(bits);
    }
    int64_t number = 0;
    uint64_t last = 0;
    if (!ParseInteger(text, &number) || number < 0 ||
        __builtin_mul_overflow(static_cast<uint64_t>(number), unit, &last) ||
        __builtin_add_overflow(last, static_cast<uint64_t>(bits) + 7, &last)) {
      return 0;
    }
    if (!is_get) end = std::max(end, last / 8);
    i += is_get ? 3 : 4;
  }
  return end;
}

// Of a command that makes a value: how long it will be by the arguments alone.
uint64_t EndAskedFor(const CommandInfo& command, const Arguments& args) {
  int64_t offset = 0;
  switch (command.id) {
    case Command::kAppend:
      return args[2].size();
    case Command::kBitfield:
      return EndOfFields(args);
    case Command::kRestore:
      return BytesOfDump(args[3]);
    case Command::kSetbit:
      return ParseInteger(args[2], &offset) && offset >= 0 ? static_cast<uint64_t>(offset) / 8 + 1
                                                           : 0;
    case Command::kSetrange:
      return ParseInteger(args[2], &offset) && offset >= 0 && !args[3].empty()
                 ? static_cast<uint64_t>(offset) + args[3].size()
                 : 0;
    default:
      return 0;
  }
}

}  // namespace

uint64_t Executor::AskedFor(const CommandInfo& command, const Arguments& args) const {
  if (!MayAskForMuch(command.id)) return 0;
  const uint64_t most = store_->limits().max_reply;
  const bool has_sub = args.size() > 1;
  switch (command.id) {
    case Command::kKeys:
      return most;
    case Command::kScan:
      return MostOfScan(CountOfScan(args), most);
    case Command::kCluster: {
      int64_t count = 0;
      if (args.size() != 4 || !EqualsIgnoringCase(args[1], "getkeysinslot")) return 0;
      if (!ParseInteger(args[3], &count) || count <= 0) return 0;
      // It has all that were asked for: they may be as long as keys are.
      const uint64_t of_key = std::max(store_->largest_value(), kScanBytesPerKey);
      return static_cast<uint64_t>(count) > most / of_key ? most
                                                          : static_cast<uint64_t>(count) * of_key;
    }
    case Command::kClient:
      return has_sub && EqualsIgnoringCase(args[1], "list") ? facts_->clients.list_bytes() : 0;
    case Command::kSubscribe:
    case Command::kUnsubscribe: {
      // A message for each word.
      constexpr uint64_t kOfMessage = 48;
      uint64_t bytes = 0;
      for (const std::string_view word : args) bytes += kOfMessage + word.size();
      return bytes;
    }
    default: {
      const uint64_t end = EndAskedFor(command, args);
      return end <= store_->limits().max_value ? end : 0;  // a longer one is refused
    }
  }
}

uint64_t Executor::AskedForInExec(const CommandInfo& command, const Arguments& args) const {
  return TellsOfServer(command.id) ? kOfServer : AskedFor(command, args);
}

bool Executor::MayBeLarge(const Session& session, const CommandInfo& command,
                          const Arguments& args) const {
  // Each key is a word behind the command's name.
  size_t keys = args.size() - 1;
  uint64_t asked = AskedFor(command, args);
  if (command.id == Command::kExec) {
    keys = 0;
    for (const auto& queued : session.queue) {
      keys += queued->request.size() - 1;
      asked += AskedForInExec(*queued->command, queued->request.arguments());
    }
  }
  return asked > kSmallReply || (keys > 0 && store_->largest_value() > kSmallReply / keys);
}

Executor::Stop Executor::CheckRoom(const Session& session, const CommandInfo& command,
                                   const Arguments& args, bool may_block, RequestBatch* batch) {
  uint64_t bytes = 0;
  uint64_t asked = 0;
  bool done = true;
  const auto add = [&](const CommandInfo& of, const Arguments& its, uint64_t for_it) {
    const bool makes = MakesValue(of.id);
    if (!makes) asked += for_it;
    if (!makes && !AnswersValues(of, its)) return;
    uint64_t largest = for_it;
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
    for (const auto& queued : session.queue) {
      const Arguments& its = queued->request.arguments();
      add(*queued->command, its, AskedForInExec(*queued->command, its));
    }
  } else {
    add(command, args, AskedFor(command, args));
  }
  if (!done) return Stop::kWouldBlock;
  // What a transaction's lists have beyond one reply's bound is an error in its reply.
  bytes += std::min(asked, std::max(store_->limits().max_reply, AskedFor(command, args)));
  return batch->MustWait(session.buffers, bytes) ? Stop::kFull : Stop::kEnd;
}

}  // namespace pulse::redis
