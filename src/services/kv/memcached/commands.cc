#include "services/kv/memcached/commands.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/message_batch.h"

namespace pulse::kv::memcached {
namespace {

// A reply that noreply leaves out.
bool Answer(const Request& request, std::string_view line, std::string* out) {
  if (!request.noreply) AppendLine(line, out);
  return true;
}

bool HasWords(const Request& request, size_t least, size_t most) {
  return request.words.size() >= least && request.words.size() <= most;
}

// Whether it makes a value of an old one, and its own: append and prepend, and ms in these modes.
bool Extends(const Request& request) {
  if (request.command != Command::kMetaSet) {
    return request.command == Command::kAppend || request.command == Command::kPrepend;
  }
  const auto& words = request.words;
  return std::any_of(words.begin() + std::min<ptrdiff_t>(3, std::ssize(words)), words.end(),
                     [](std::string_view flag) { return flag == "MA" || flag == "MP"; });
}

void AppendStat(std::string_view name, const absl::AlphaNum& value, std::string* out) {
  absl::StrAppend(out, "STAT ", redis::AbslOf(name), " ", value, "\r\n");
}

}  // namespace

bool Executor::Run(const Request& request, bool may_block, std::string* out) const {
  if (!RunCommand(request, may_block, out)) return false;
  counters_->commands.Add(1);
  return true;
}

bool Executor::MayBeLarge(const Request& request) const {
  const size_t keys = std::max<size_t>(request.words.size(), 2) - 1;
  return store_->largest_value() > redis::kSmallReply / keys ||
         (request.data.size() > redis::kSmallReply && Extends(request));
}

bool Executor::SizeOfReply(const Request& request, bool may_block, uint64_t* bytes) const {
  if (Extends(request)) {
    if (request.words.size() < 2) return true;
    std::string decoded;
    const std::string_view key =
        request.command == Command::kMetaSet ? KeyOfMeta(request, &decoded) : request.words[1];
    if (!store_->SizeOfValue(key, may_block, bytes)) return false;
    *bytes += request.data.size();
    return true;
  }
  size_t first = 1;
  switch (request.command) {
    case Command::kGat:
    case Command::kGats:
      first = 2;  // behind the time to live
      break;
    case Command::kGet:
    case Command::kGets:
      break;
    case Command::kMetaGet: {
      const auto& words = request.words;
      if (std::none_of(words.begin() + std::min<ptrdiff_t>(2, std::ssize(words)), words.end(),
                       [](std::string_view flag) { return flag[0] == 'v'; })) {
        return true;
      }
      std::string decoded;
      return store_->SizeOfValue(KeyOfMeta(request, &decoded), may_block, bytes);
    }
    default:
      return true;
  }
  for (size_t i = first; i < request.words.size(); ++i) {
    uint64_t of_key = 0;
    if (!store_->SizeOfValue(request.words[i], may_block, &of_key)) return false;
    *bytes += of_key;
  }
  return true;
}

bool Executor::RunCommand(const Request& request, bool may_block, std::string* out) const {
  switch (request.command) {
    case Command::kGet:
      return Get(request, false, false, may_block, out);
    case Command::kGets:
      return Get(request, true, false, may_block, out);
    case Command::kGat:
      return Get(request, false, true, may_block, out);
    case Command::kGats:
      return Get(request, true, true, may_block, out);
    case Command::kSet:
      return Set(request, StoreMode::kSet, false, may_block, out);
    case Command::kAdd:
      return Set(request, StoreMode::kAdd, false, may_block, out);
    case Command::kReplace:
      return Set(request, StoreMode::kReplace, false, may_block, out);
    case Command::kAppend:
      return Set(request, StoreMode::kAppend, false, may_block, out);
    case Command::kPrepend:
      return Set(request, StoreMode::kPrepend, false, may_block, out);
    case Command::kCas:
      return Set(request, StoreMode::kSet, true, may_block, out);
    case Command::kIncr:
      return Increment(request, true, may_block, out);
    case Command::kDecr:
      return Increment(request, false, may_block, out);
    case Command::kTouch:
      return TouchKey(request, may_block, out);
    case Command::kDelete:
      return DeleteKey(request, may_block, out);
    case Command::kFlushAll:
      return FlushAll(request, may_block, out);
    case Command::kStats:
      return Stats(request, may_block, out);
    case Command::kConfig:
      return Config(request, out);
    case Command::kVersion:
      return Refuse(absl::StrCat("VERSION ", redis::AbslOf(kVersion)), out);
    case Command::kVerbosity: {
      uint64_t level = 0;
      if (!HasWords(request, 2, 3)) return Refuse("ERROR", out);
      return Answer(request, ParseUnsigned(request.words[1], &level) ? "OK" : kBadLine, out);
    }
    case Command::kShutdown:
      return Refuse("ERROR: shutdown not enabled", out);
    case Command::kMetaGet:
      return MetaGet(request, may_block, out);
    case Command::kMetaSet:
      return MetaSet(request, may_block, out);
    case Command::kMetaDelete:
      return MetaDelete(request, may_block, out);
    case Command::kMetaArithmetic:
      return MetaArithmetic(request, may_block, out);
    case Command::kMetaNoop:
      return Refuse("MN", out);
    case Command::kMetaDebug:
      return MetaDebug(request, may_block, out);
    case Command::kQuit:  // for the connection's flow
      return true;
    case Command::kUnknown:
      break;
  }
  return Refuse("ERROR", out);
}

bool Executor::Get(const Request& request, bool cas, bool touch, bool may_block,
                   std::string* out) const {
  if (request.words.size() < 2) return Refuse("ERROR", out);
  int64_t exptime = 0;
  if (touch && !ParseSigned(request.words[1], &exptime)) {
    return Refuse("CLIENT_ERROR invalid exptime argument", out);
  }
  const auto keys = absl::MakeConstSpan(request.words).subspan(touch ? 2 : 1);
  if (std::any_of(keys.begin(), keys.end(), [](auto key) { return key.size() > kMaxKey; })) {
    return Refuse(kBadLine, out);
  }
  // Run again, it would find what it has just made expire to be gone.
  if (touch && keys.size() > 1 && !may_block) return false;
  const int64_t expires_ms = ExpiryOf(exptime, store_->now_ms());
  const uint64_t most = store_->options().limits.max_reply;
  const size_t begin = out->size();
  uint64_t hits = 0;
  bool full = false;
  for (const std::string_view key : keys) {
    const auto use = [&](Partition& partition, uint64_t hash) {
      const Item* item = partition.Find(key, hash);
      if (item == nullptr) return;
      ++hits;
      ItemFacts facts = item->facts();
      const bool versions = cas && facts.cas == 0;
      if (versions) facts.cas = store_->NextCas();
      absl::StrAppend(out, "VALUE ", redis::AbslOf(key), " ", facts.client_flags, " ",
                      item->value_size());
      if (cas) absl::StrAppend(out, " ", facts.cas);
      out->append("\r\n").append(item->value()).append("\r\n");
      if (touch) facts.expires_ms = expires_ms;
      if (versions) {
        full |= GiveVersion(&partition, key, hash, facts, touch) != Outcome::kDone;
      } else if (touch) {
        full |= ChangeFacts(&partition, key, hash, facts) != Outcome::kDone;
      }
      if (touch && store_->watch_table()->active()) store_->watch_table()->Touch(key);
    };
    if (!store_->WithPartition(key, may_block, use)) {
      out->resize(begin);
      return false;
    }
    full |= out->size() - begin > most;
    if (full) break;
  }
  counters_->hits.Add(hits);
  if (touch) counters_->touches.Add(keys.size());
  if (full) {
    out->resize(begin);
    return Refuse("SERVER_ERROR out of memory writing get response", out);
  }
  counters_->misses.Add(keys.size() - hits);
  return Refuse("END", out);
}

bool Executor::Set(const Request& request, StoreMode mode, bool cas, bool may_block,
                   std::string* out) const {
  const auto& words = request.words;
  if (!HasWords(request, cas ? 6 : 5, cas ? 7 : 6)) return Refuse("ERROR", out);
  uint64_t flags = 0;
  uint64_t size = 0;
  uint64_t compare = 0;
  int64_t exptime = 0;
  if (words[1].size() > kMaxKey || !ParseUnsigned(words[2], &flags) || flags > UINT32_MAX ||
      !ParseSigned(words[3], &exptime) || !ParseUnsigned(words[4], &size) || size > kMaxBlock ||
      (cas && !ParseUnsigned(words[5], &compare))) {
    return Answer(request, kBadLine, out);
  }
  if (request.bad_chunk) return Answer(request, kBadChunk, out);
  StoreOperation op;
  op.mode = mode;
  op.key = words[1];
  op.data = request.data;
  op.too_large = request.too_large;
  op.max_value = options_.max_value;
  op.facts.client_flags = static_cast<uint32_t>(flags);
  op.facts.expires_ms = ExpiryOf(exptime, store_->now_ms());
  if (cas) op.compare = compare;
  uint64_t new_cas = 0;
  const Outcome outcome = Store(store_, op, may_block, &new_cas);
  if (outcome == Outcome::kWouldBlock) return false;
  counters_->CountStore(cas, outcome);
  switch (outcome) {
    case Outcome::kDone:
      return Answer(request, "STORED", out);
    case Outcome::kExists:
      return Answer(request, "EXISTS", out);
    case Outcome::kNotFound:
      return Answer(request, "NOT_FOUND", out);
    case Outcome::kTooLarge:
      return Answer(request, kObjectTooLarge, out);
    case Outcome::kNoMemory:
      return Answer(request, kOutOfMemory, out);
    default:
      return Answer(request, "NOT_STORED", out);
  }
}

bool Executor::Increment(const Request& request, bool increment, bool may_block,
                         std::string* out) const {
  if (!HasWords(request, 3, 4)) return Refuse("ERROR", out);
  DeltaOperation op;
  op.key = request.words[1];
  op.increment = increment;
  if (op.key.size() > kMaxKey) return Answer(request, kBadLine, out);
  if (!ParseUnsigned(request.words[2], &op.delta)) {
    return Answer(request, "CLIENT_ERROR invalid numeric delta argument", out);
  }
  DeltaResult result;
  switch (Delta(store_, op, may_block, &result)) {
    case Outcome::kWouldBlock:
      return false;
    case Outcome::kDone:
      return Answer(request, std::to_string(result.value), out);
    case Outcome::kNotFound:
      return Answer(request, "NOT_FOUND", out);
    case Outcome::kNotANumber:
      return Answer(request, kNotNumeric, out);
    default:
      return Answer(request, "SERVER_ERROR out of memory", out);
  }
}

bool Executor::TouchKey(const Request& request, bool may_block, std::string* out) const {
  if (!HasWords(request, 3, 4)) return Refuse("ERROR", out);
  const std::string_view key = request.words[1];
  int64_t exptime = 0;
  if (key.size() > kMaxKey) return Answer(request, kBadLine, out);
  if (!ParseSigned(request.words[2], &exptime)) {
    return Answer(request, "CLIENT_ERROR invalid exptime argument", out);
  }
  const Outcome outcome = Touch(store_, key, ExpiryOf(exptime, store_->now_ms()), may_block);
  if (outcome == Outcome::kWouldBlock) return false;
  counters_->touches.Add(1);
  switch (outcome) {
    case Outcome::kDone:
      return Answer(request, "TOUCHED", out);
    case Outcome::kNotFound:
      return Answer(request, "NOT_FOUND", out);
    default:
      return Answer(request, kOutOfMemory, out);
  }
}

bool Executor::DeleteKey(const Request& request, bool may_block, std::string* out) const {
  const auto& words = request.words;
  if (!HasWords(request, 2, 4)) return Refuse("ERROR", out);
  if (words.size() > 2) {
    // A time was allowed here once, and 0 still is.
    const bool zero = words[2] == "0";
    const bool valid = words.size() == 3 ? zero || request.noreply : zero && request.noreply;
    if (!valid) {
      return Answer(request, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
                    out);
    }
  }
  // With two words, the last one is the key.
  const bool silent = request.noreply && words.size() > 2;
  if (words[1].size() > kMaxKey) return silent || Refuse(kBadLine, out);
  const Outcome outcome = Delete(store_, words[1], std::nullopt, may_block);
  if (outcome == Outcome::kWouldBlock) return false;
  return silent || Refuse(outcome == Outcome::kDone ? "DELETED" : "NOT_FOUND", out);
}

bool Executor::FlushAll(const Request& request, bool may_block, std::string* out) const {
  if (!HasWords(request, 1, 3)) return Refuse("ERROR", out);
  int64_t delay = 0;
  if (request.words.size() > (request.noreply ? 2u : 1u) &&
      !ParseSigned(request.words[1], &delay)) {
    return Answer(request, "CLIENT_ERROR invalid exptime argument", out);
  }
  const int64_t now = store_->now_ms();
  if (!store_->ClearAt(delay > 0 ? ExpiryOf(delay, now) : now, may_block)) return false;
  counters_->flushes.Add(1);
  return Answer(request, "OK", out);
}

bool Executor::Config(const Request& request, std::string* out) const {
  const auto& words = request.words;
  if (words.size() != 3 || words[1] != "get" || words[2] != "cluster") return Refuse("ERROR", out);
  if (options_.endpoints == nullptr || options_.endpoints->host().empty()) {
    return Refuse("SERVER_ERROR the server does not know its host; start it with --announce-host",
                  out);
  }
  const auto members = options_.endpoints->members();
  std::string text = "1\n";  // version: it need not change, as clients ask again by time
  for (const redis::Cluster::Member& member : *members) {
    if (member.state != redis::Cluster::State::kServes) continue;
    const char* host = member.host.c_str();
    in6_addr address;
    const bool is_address =
        inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
    absl::StrAppend(&text, text.ends_with('\n') ? "" : " ", host, "|", is_address ? host : "", "|",
                    member.port);
  }
  text += "\n";
  absl::StrAppend(out, "CONFIG cluster 0 ", text.size(), "\r\n", text, "\r\n");
  return Refuse("END", out);
}

bool Executor::Stats(const Request& request, bool may_block, std::string* out) const {
  const std::string_view of = request.words.size() > 1 ? request.words[1] : "";
  if (of == "reset") {
    counters_->Reset();
    return Refuse("RESET", out);
  }
  if (of == "settings") {
    bool evicts = false;
    for (const auto& setting : store_->Settings()) {
      evicts |= setting.first == "maxmemory-policy" && setting.second != "noeviction";
    }
    AppendStat("maxbytes", store_->options().memory_bytes, out);
    AppendStat("item_size_max", options_.max_value, out);
    AppendStat("evictions", evicts ? "on" : "off", out);
    AppendStat("cas_enabled", "yes", out);
    AppendStat("flush_enabled", "yes", out);
    AppendStat("dump_enabled", "no", out);
  } else if (of.empty()) {
    // Waits for each partition.
    if (!may_block) return false;
    const PartitionNumbers numbers = store_->numbers();
    const int64_t now_ms = store_->now_ms();
    const uint64_t hits = counters_->hits.since_reset();
    const uint64_t misses = counters_->misses.since_reset();
    AppendStat("pid", getpid(), out);
    AppendStat("uptime", std::max<int64_t>(0, now_ms - options_.started_ms) / 1000, out);
    AppendStat("time", now_ms / 1000, out);
    AppendStat("version", redis::AbslOf(kVersion), out);
    AppendStat("pointer_size", 8 * sizeof(void*), out);
    if (const auto server = options_.server != nullptr ? options_.server() : std::nullopt) {
      AppendStat("curr_connections", server->connections, out);
      AppendStat("total_connections", server->connections_total, out);
      AppendStat("bytes_read", server->received_bytes, out);
      AppendStat("bytes_written", server->sent_bytes, out);
    }
    if (options_.threads > 0) AppendStat("threads", options_.threads, out);
    AppendStat("cmd_total", counters_->commands.since_reset(), out);
    AppendStat("cmd_get", hits + misses, out);
    AppendStat("cmd_set", counters_->stores.since_reset(), out);
    AppendStat("cmd_flush", counters_->flushes.since_reset(), out);
    AppendStat("cmd_touch", counters_->touches.since_reset(), out);
    AppendStat("get_hits", hits, out);
    AppendStat("get_misses", misses, out);
    AppendStat("cas_misses", counters_->cas_misses.since_reset(), out);
    AppendStat("cas_hits", counters_->cas_hits.since_reset(), out);
    AppendStat("cas_badval", counters_->cas_badval.since_reset(), out);
    AppendStat("limit_maxbytes", store_->options().memory_bytes, out);
    AppendStat("bytes", numbers.item_bytes, out);
    AppendStat("curr_items", numbers.items, out);
    AppendStat("evictions", numbers.evicted, out);
    AppendStat("reclaimed", numbers.expired, out);
    AppendStat("store_no_memory", numbers.refused, out);
  } else if (of != "items" && of != "slabs" && of != "sizes") {
    return Refuse("ERROR", out);
  }
  return Refuse("END", out);
}

}  // namespace pulse::kv::memcached
