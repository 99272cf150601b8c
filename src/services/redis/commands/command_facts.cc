#include "services/redis/commands/command_facts.h"

#include <algorithm>

namespace pulse::redis {
namespace {

// Whether BITFIELD only reads, as its arguments are.
bool OnlyGets(const Arguments& args) {
  for (size_t i = 2; i < args.size(); ++i) {
    if (EqualsIgnoringCase(args[i], "set") || EqualsIgnoringCase(args[i], "incrby")) return false;
    i += EqualsIgnoringCase(args[i], "get") ? 2 : 1;
  }
  return true;
}

bool HasOption(const Arguments& args, size_t first, std::string_view option) {
  return std::any_of(args.begin() + static_cast<ptrdiff_t>(std::min(first, args.size())),
                     args.end(),
                     [&](std::string_view arg) { return EqualsIgnoringCase(arg, option); });
}

}  // namespace

bool IsFast(Command command) {
  switch (command) {
    case Command::kAppend:
    case Command::kAsking:
    case Command::kAuth:
    case Command::kBitfieldRo:
    case Command::kDbsize:
    case Command::kDecr:
    case Command::kDecrby:
    case Command::kDiscard:
    case Command::kEcho:
    case Command::kExists:
    case Command::kExpire:
    case Command::kExpireat:
    case Command::kExpiretime:
    case Command::kGet:
    case Command::kGetbit:
    case Command::kGetdel:
    case Command::kGetex:
    case Command::kGetset:
    case Command::kHello:
    case Command::kIncr:
    case Command::kIncrby:
    case Command::kIncrbyfloat:
    case Command::kMget:
    case Command::kMulti:
    case Command::kPersist:
    case Command::kPexpire:
    case Command::kPexpireat:
    case Command::kPexpiretime:
    case Command::kPing:
    case Command::kPttl:
    case Command::kQuit:
    case Command::kReadonly:
    case Command::kReadwrite:
    case Command::kRenamenx:
    case Command::kReset:
    case Command::kRole:
    case Command::kSelect:
    case Command::kSetnx:
    case Command::kStrlen:
    case Command::kTime:
    case Command::kTouch:
    case Command::kTtl:
    case Command::kType:
    case Command::kUnlink:
    case Command::kUnwatch:
    case Command::kWatch:
      return true;
    default:
      return false;
  }
}

std::vector<std::string_view> TipsOf(Command command) {
  switch (command) {
    case Command::kDel:
    case Command::kExists:
    case Command::kTouch:
    case Command::kUnlink:
      return {"request_policy:multi_shard", "response_policy:agg_sum"};
    case Command::kMget:
      return {"request_policy:multi_shard"};
    case Command::kMset:
      return {"request_policy:multi_shard", "response_policy:all_succeeded"};
    case Command::kDbsize:
      return {"request_policy:all_shards", "response_policy:agg_sum"};
    case Command::kFlushall:
    case Command::kFlushdb:
    case Command::kPing:
      return {"request_policy:all_shards", "response_policy:all_succeeded"};
    case Command::kKeys:
      return {"request_policy:all_shards", "nondeterministic_output_order"};
    case Command::kRandomkey:
      return {"request_policy:all_shards", "response_policy:special", "nondeterministic_output"};
    case Command::kScan:
      return {"nondeterministic_output", "request_policy:special", "response_policy:special"};
    case Command::kWait:
      return {"request_policy:all_shards", "response_policy:agg_min"};
    default:
      return {};
  }
}

bool MayNeedMemory(Command command) {
  switch (command) {
    case Command::kDel:
    case Command::kExpire:
    case Command::kExpireat:
    case Command::kFlushall:
    case Command::kFlushdb:
    case Command::kGetdel:
    case Command::kGetex:
    case Command::kPersist:
    case Command::kPexpire:
    case Command::kPexpireat:
    case Command::kRename:
    case Command::kRenamenx:
    case Command::kUnlink:
      return false;
    default:
      return true;
  }
}

std::vector<std::string_view> KeyFlags(const CommandInfo& command, const Arguments& args,
                                       bool is_first) {
  const std::vector<std::string_view> reads = {"RO", "access"};
  const std::vector<std::string_view> sets = {"OW", "update"};
  const std::vector<std::string_view> changes = {"RW", "access", "update"};
  switch (command.id) {
    case Command::kExists:
    case Command::kMemory:
    case Command::kObject:
    case Command::kStrlen:
    case Command::kTouch:
    case Command::kType:
    case Command::kWatch:
      return {"RO"};  // not its value
    case Command::kDel:
    case Command::kUnlink:
      return {"RM", "delete"};
    case Command::kGetdel:
      return {"RW", "access", "delete"};
    case Command::kAppend:
      return {"RW", "insert"};
    case Command::kExpire:
    case Command::kExpireat:
    case Command::kPersist:
    case Command::kPexpire:
    case Command::kPexpireat:
    case Command::kSetrange:
      return {"RW", "update"};
    case Command::kMsetnx:
    case Command::kSetnx:
      return {"OW", "insert"};
    case Command::kMset:
    case Command::kPsetex:
    case Command::kRestore:
    case Command::kSetex:
      return sets;
    case Command::kSet:
      return HasOption(args, 3, "get") ? changes : sets;
    case Command::kBitfield:
      return OnlyGets(args) ? reads : changes;
    case Command::kBitop:
      return is_first ? sets : reads;
    case Command::kCopy:
      return is_first ? reads : sets;
    case Command::kRename:
      if (is_first) return {"RW", "access", "delete"};
      return sets;
    case Command::kRenamenx:
      if (is_first) return {"RW", "access", "delete"};
      return {"OW", "insert"};
    default:
      return command.writes() ? changes : reads;
  }
}

}  // namespace pulse::redis
