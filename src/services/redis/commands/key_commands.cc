// Commands on keys as such: existence, names, expiry.
#include <optional>

#include "absl/strings/str_cat.h"
#include "services/redis/commands/dump.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"

namespace pulse::redis {
namespace {

void Delete(Call& call) {
  int64_t deleted = 0;
  for (size_t i = 1; i < call.args.size(); ++i) {
    size_t existing = 0;
    if (!call.view.CountExisting(&call.args[i], 1, &existing)) return;
    if (existing == 0) continue;
    call.view.Delete(call.args[i]);
    ++deleted;
  }
  call.reply.Integer(deleted);
}

void CountExisting(Call& call) {
  const size_t asked = call.args.size() - 1;
  size_t existing = 0;
  if (!call.view.CountExisting(&call.args[1], asked, &existing)) return;
  call.counts.hits += existing;
  call.counts.misses += asked - existing;
  call.reply.Integer(static_cast<int64_t>(existing));
}

void Type(Call& call) {
  Found found;
  if (call.view.Get(call.args[1], &found)) call.reply.Simple(found.exists ? "string" : "none");
}

void Object(Call& call) {
  const std::string_view what = call.args[1];
  if (call.args.size() != 3) return RefuseArguments(call.args, &call.reply);
  Found found;
  if (!call.view.Get(call.args[2], &found)) return;
  int64_t number = 0;
  if (!found.exists) {
    call.reply.Null();
  } else if (EqualsIgnoringCase(what, "encoding")) {
    call.reply.Bulk(ParseInteger(found.value.data, &number) ? "int"
                    : found.value.data.size() <= 44         ? "embstr"
                                                            : "raw");
  } else if (EqualsIgnoringCase(what, "refcount")) {
    call.reply.Integer(1);
  } else if (EqualsIgnoringCase(what, "freq")) {
    const std::optional<int> use = call.view.UseOf(call.args[2]);
    if (use.has_value()) return call.reply.Integer(*use);
    call.reply.Error(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note "
        "that when switching between policies at runtime LRU and LFU data will take some time to "
        "adjust.");
  } else if (EqualsIgnoringCase(what, "idletime")) {
    call.reply.Error(call.view.UseOf(call.args[2]).has_value()
                         ? "ERR An LFU maxmemory policy is selected, idle time not tracked. Please "
                           "note that when switching between policies at runtime LRU and LFU data "
                           "will take some time to adjust."
                         : "ERR idle time is not tracked");
  } else {
    RefuseArguments(call.args, &call.reply);
  }
}

void Memory(Call& call) {
  if (call.args.size() < 3 || !EqualsIgnoringCase(call.args[1], "usage")) {
    return RefuseArguments(call.args, &call.reply);
  }
  const bool samples = call.args.size() == 5 && EqualsIgnoringCase(call.args[3], "samples");
  int64_t count = 0;
  if (samples && !ReadInteger(call, call.args[4], &count)) return;
  if ((call.args.size() != 3 && !samples) || count < 0) return call.reply.Error(kSyntaxError);
  Found found;
  if (!call.view.Get(call.args[2], &found)) return;
  if (!found.exists) return call.reply.Null();
  const uint64_t least = call.args[2].size() + found.value.data.size();
  call.reply.Integer(static_cast<int64_t>(call.view.MemoryOf(call.args[2]).value_or(least)));
}

void Rename(Call& call, bool if_absent) {
  Found from;
  if (!call.view.Get(call.args[1], &from)) return;
  if (!from.exists) return call.reply.Error("ERR no such key");
  const bool same = call.args[1] == call.args[2];
  Found to;
  if (if_absent && !call.view.Get(call.args[2], &to)) return;
  if (!same && !(if_absent && to.exists)) {
    call.view.PutFrom(from, call.args[2], from.value.data);
    call.view.Delete(call.args[1]);
  }
  if (if_absent) {
    call.reply.Integer(to.exists ? 0 : 1);
  } else {
    call.reply.Ok();
  }
}

void Copy(Call& call) {
  bool replace = false;
  for (size_t i = 3; i < call.args.size(); ++i) {
    int64_t database = 0;
    if (EqualsIgnoringCase(call.args[i], "replace")) {
      replace = true;
    } else if (EqualsIgnoringCase(call.args[i], "db") && i + 1 < call.args.size()) {
      if (!ReadInteger(call, call.args[++i], &database)) return;
      if (database != 0) return call.reply.Error("ERR DB index is out of range");
    } else {
      return call.reply.Error(kSyntaxError);
    }
  }
  if (call.args[1] == call.args[2]) {
    return call.reply.Error("ERR source and destination objects are the same");
  }
  Found from;
  Found to;
  if (!call.view.Get(call.args[1], &from) || !call.view.Get(call.args[2], &to)) return;
  const bool copied = from.exists && (replace || !to.exists);
  if (copied) call.view.PutFrom(from, call.args[2], from.value.data);
  call.reply.Integer(copied ? 1 : 0);
}

void Dump(Call& call) {
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  if (!found.exists) return call.reply.Null();
  call.reply.Bulk(EncodeDump(found.value.data));
}

void Restore(Call& call) {
  bool replace = false;
  bool absolute = false;
  bool idle = false;
  bool frequency = false;
  int64_t ttl = 0;
  for (size_t i = 4; i < call.args.size(); ++i) {
    const bool more = i + 1 < call.args.size();
    int64_t number = 0;
    if (EqualsIgnoringCase(call.args[i], "replace")) {
      replace = true;
    } else if (EqualsIgnoringCase(call.args[i], "absttl")) {
      absolute = true;
    } else if (EqualsIgnoringCase(call.args[i], "idletime") && more && !frequency) {
      idle = true;
      if (!ReadInteger(call, call.args[++i], &number)) return;
      if (number < 0) return call.reply.Error("ERR Invalid IDLETIME value, must be >= 0");
    } else if (EqualsIgnoringCase(call.args[i], "freq") && more && !idle) {
      frequency = true;
      if (!ReadInteger(call, call.args[++i], &number)) return;
      if (number < 0 || number > 255) {
        return call.reply.Error("ERR Invalid FREQ value, must be >= 0 and <= 255");
      }
    } else {
      return call.reply.Error(kSyntaxError);
    }
  }
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  if (before.exists && !replace) return call.reply.Error("BUSYKEY Target key name already exists.");
  if (!ReadInteger(call, call.args[2], &ttl)) return;
  if (ttl < 0 ||
      (!absolute && __builtin_add_overflow(ttl, ttl == 0 ? 0 : call.view.now_ms(), &ttl))) {
    return call.reply.Error("ERR Invalid TTL value, must be >= 0");
  }
  std::string data;
  switch (DecodeDump(call.args[3], call.view.limits().max_value, &data)) {
    case DumpError::kNone:
      break;
    case DumpError::kChecksum:
      return call.reply.Error("ERR DUMP payload version or checksum are wrong");
    case DumpError::kType:
      return call.reply.Error("ERR the payload is of a type that is not served; strings are");
    case DumpError::kFormat:
      return call.reply.Error("ERR Bad data format");
    case DumpError::kTooLong:
      return call.reply.Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
  }
  if (ttl != kNever && ttl <= call.view.now_ms()) {
    if (before.exists) call.view.Delete(call.args[1]);
  } else {
    call.view.Put(call.args[1], data, ttl);
  }
  call.reply.Ok();
}

// The conditions of EXPIRE and its like.
struct ExpireWhen {
  bool none = false;     // NX: the key has no expiry
  bool some = false;     // XX
  bool later = false;    // GT
  bool earlier = false;  // LT

  bool Holds(int64_t before, int64_t after) const {
    if (none && before != kNever) return false;
    if (some && before == kNever) return false;
    // No expiry is the latest of all.
    if (later && (before == kNever || after <= before)) return false;
    return !earlier || before == kNever || after < before;
  }
};

bool ReadExpireWhen(Call& call, ExpireWhen* when) {
  for (size_t i = 3; i < call.args.size(); ++i) {
    const std::string_view word = call.args[i];
    if (EqualsIgnoringCase(word, "nx")) {
      when->none = true;
    } else if (EqualsIgnoringCase(word, "xx")) {
      when->some = true;
    } else if (EqualsIgnoringCase(word, "gt")) {
      when->later = true;
    } else if (EqualsIgnoringCase(word, "lt")) {
      when->earlier = true;
    } else {
      return Refuse(call, absl::StrCat("ERR Unsupported option ", AbslOf(word.substr(0, 128))));
    }
  }
  if (when->none && (when->some || when->later || when->earlier)) {
    return Refuse(call, "ERR NX and XX, GT or LT options at the same time are not compatible");
  }
  if (when->later && when->earlier) {
    return Refuse(call, "ERR GT and LT options at the same time are not compatible");
  }
  return true;
}

void Expire(Call& call, bool seconds, bool relative) {
  ExpireWhen when;
  if (!ReadExpireWhen(call, &when)) return;
  int64_t expires_ms = 0;
  if (!ReadExpiry(call, call.args[2], seconds, relative, false, &expires_ms)) return;
  Found found;
  if (!call.view.GetExpiry(call.args[1], &found)) return;
  if (!found.exists || !when.Holds(found.value.expires_ms, expires_ms)) {
    return call.reply.Integer(0);
  }
  if (expires_ms <= call.view.now_ms()) {
    call.view.Delete(call.args[1]);
  } else {
    call.view.SetExpiry(call.args[1], found, expires_ms);
  }
  call.reply.Integer(1);
}

void Persist(Call& call) {
  Found found;
  if (!call.view.GetExpiry(call.args[1], &found)) return;
  const bool expires = found.exists && found.value.expires_ms != kNever;
  if (expires) call.view.SetExpiry(call.args[1], found, kNever);
  call.reply.Integer(expires ? 1 : 0);
}

void TimeLeft(Call& call, bool seconds, bool relative) {
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  if (!found.exists || found.value.expires_ms == kNever) {
    return call.reply.Integer(found.exists ? -1 : -2);
  }
  const int64_t ms = found.value.expires_ms - (relative ? call.view.now_ms() : 0);
  call.reply.Integer(seconds ? RoundedSeconds(ms) : ms);
}

}  // namespace

bool ReadInteger(Call& call, std::string_view text, int64_t* value) {
  if (ParseInteger(text, value)) return true;
  return Refuse(call, kNotAnInteger);
}

bool ReadExpiry(Call& call, std::string_view text, bool seconds, bool relative, bool positive,
                int64_t* expires_ms) {
  int64_t time = 0;
  if (!ReadInteger(call, text, &time)) return false;
  bool bad = positive && time <= 0;
  bad = bad || (seconds && __builtin_mul_overflow(time, int64_t{1000}, &time));
  bad = bad || (relative && __builtin_add_overflow(time, call.view.now_ms(), &time));
  if (bad) {
    return Refuse(
        call, absl::StrCat("ERR invalid expire time in '", AbslOf(call.command.name), "' command"));
  }
  // Stores have a number for never, the largest one.
  *expires_ms = std::min(time, INT64_MAX - 1);
  return true;
}

absl::Span<const Handling> KeyCommands() {
  static constexpr Handling kHandlings[] = {
      {Command::kExpire, [](Call& call) { Expire(call, true, true); }},
      {Command::kPexpire, [](Call& call) { Expire(call, false, true); }},
      {Command::kExpireat, [](Call& call) { Expire(call, true, false); }},
      {Command::kPexpireat, [](Call& call) { Expire(call, false, false); }},
      {Command::kPersist, Persist},
      {Command::kTtl, [](Call& call) { TimeLeft(call, true, true); }},
      {Command::kPttl, [](Call& call) { TimeLeft(call, false, true); }},
      {Command::kExpiretime, [](Call& call) { TimeLeft(call, true, false); }},
      {Command::kPexpiretime, [](Call& call) { TimeLeft(call, false, false); }},
      {Command::kDel, Delete},
      {Command::kUnlink, Delete},
      {Command::kExists, CountExisting},
      {Command::kTouch, CountExisting},
      {Command::kType, Type},
      {Command::kObject, Object},
      {Command::kMemory, Memory},
      {Command::kRename, [](Call& call) { Rename(call, false); }},
      {Command::kRenamenx, [](Call& call) { Rename(call, true); }},
      {Command::kCopy, Copy},
      {Command::kDump, Dump},
      {Command::kRestore, Restore},
  };
  return kHandlings;
}

}  // namespace pulse::redis
