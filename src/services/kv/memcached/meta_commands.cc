// The meta commands of Executor.
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "services/kv/memcached/commands.h"
#include "services/redis/commands/handlers.h"

namespace pulse::kv::memcached {
namespace {

constexpr size_t kMostOpaque = 32;  // with its O
constexpr std::string_view kInvalidFlag = "CLIENT_ERROR invalid flag";
constexpr std::string_view kBadToken = "CLIENT_ERROR bad token in command line format";
constexpr std::string_view kOpaqueTooLong = "CLIENT_ERROR opaque token too long";
constexpr std::string_view kTooManyFlags = "CLIENT_ERROR options flags too long";
constexpr std::string_view kBadFlags = "CLIENT_ERROR invalid or duplicate flag";

using Words = absl::Span<const std::string_view>;

// The key and the flags of a request.
struct Meta {
  Words flags;
  std::string_view key;
  std::string decoded;  // of a key in base64
  bool base64 = false;
  bool quiet = false;
  bool value = false;
  bool uses = true;        // what it finds counts as used
  bool tells_use = false;  // h or l
  bool opaque_too_long = false;
  char mode = 0;
  std::optional<int64_t> ttl;
  int64_t created_ttl = 0;
  bool creates = false;
  int64_t recache_ttl = 0;   // of R
  bool invalidates = false;  // I
  std::optional<uint64_t> compare;
  uint64_t new_cas = 0;
  uint64_t client_flags = 0;
  uint64_t delta = 1;
  uint64_t initial = 0;
};

bool DecodeKey(std::string_view key, std::string* decoded) {
  return key.size() % 4 == 0 && absl::Base64Unescape(redis::AbslOf(key), decoded) &&
         !decoded->empty();
}

}  // namespace

std::string_view KeyOfMeta(const Request& request, std::string* decoded) {
  if (request.words.size() < 2) return {};
  for (size_t i = 2; i < request.words.size(); ++i) {
    if (request.words[i][0] == 'b' && DecodeKey(request.words[1], decoded)) return *decoded;
  }
  return request.words[1];
}

namespace {

// Reads one flag. Returns what is wrong with it.
std::string_view ParseFlag(std::string_view flag, Meta* meta) {
  const std::string_view token = flag.substr(1);
  int64_t number = 0;
  switch (flag[0]) {
    case 'b':
      if (!DecodeKey(meta->key, &meta->decoded)) return "CLIENT_ERROR error decoding key";
      meta->base64 = true;
      break;
    case 'N':
      meta->creates = true;
      if (!ParseSigned(token, &meta->created_ttl)) return kBadToken;
      break;
    case 'T':
      if (!ParseSigned(token, &number)) return kBadToken;
      meta->ttl = number;
      break;
    case 'R':
      if (!ParseSigned(token, &meta->recache_ttl)) return kBadToken;
      break;
    case 'I':
      meta->invalidates = true;
      break;
    case 'F':
      if (!ParseUnsigned(token, &meta->client_flags) || meta->client_flags > UINT32_MAX) {
        return kBadLine;
      }
      break;
    case 'C':
      meta->compare = 0;
      if (!ParseUnsigned(token, &*meta->compare)) return kBadToken;
      break;
    case 'E':
      if (!ParseUnsigned(token, &meta->new_cas) || meta->new_cas == 0) return kBadToken;
      break;
    case 'M':
      if (token.size() != 1) return "CLIENT_ERROR incorrect length for M token";
      meta->mode = token[0];
      break;
    case 'J':
      if (!ParseUnsigned(token, &meta->initial)) {
        return "CLIENT_ERROR invalid numeric initial value";
      }
      break;
    case 'D':
      if (!ParseUnsigned(token, &meta->delta)) return "CLIENT_ERROR invalid numeric delta value";
      break;
    case 'O':
      meta->opaque_too_long = flag.size() > kMostOpaque;
      break;
    case 'v':
      meta->value = true;
      break;
    case 'u':
      meta->uses = false;
      break;
    case 'q':
      meta->quiet = true;
      break;
    case 'P':
    case 'L':
    case 'k':
    case 's':
    case 't':
    case 'c':
    case 'f':
      break;
    case 'h':
    case 'l':
      meta->tells_use = true;
      break;
    default:
      return kInvalidFlag;
  }
  return {};
}

// `refused`: flags that this store cannot honour for the command. Returns what is wrong.
std::string_view ParseMeta(const Request& request, size_t first_flag, std::string_view refused,
                           Meta* meta) {
  meta->key = request.words[1];
  meta->flags = absl::MakeConstSpan(request.words).subspan(first_flag);
  std::string_view error;
  std::string_view seen[kMostMetaWords];
  size_t count = 0;
  for (const std::string_view flag : meta->flags) {
    for (size_t i = 0; i < count; ++i) {
      if (seen[i][0] == flag[0]) return "CLIENT_ERROR duplicate flag";
    }
    seen[count++] = flag;
    if (refused.find(flag[0]) != std::string_view::npos) return kInvalidFlag;
    const std::string_view wrong = ParseFlag(flag, meta);
    if (wrong == kInvalidFlag) return wrong;
    // The last one is told, as memcached does; F has no words of its own.
    if (!wrong.empty() && (wrong != kBadLine || error.empty())) error = wrong;
  }
  if (meta->base64) meta->key = meta->decoded;
  return error;
}

void AppendKey(const Meta& meta, std::string* out) {
  if (meta.base64) {
    absl::StrAppend(out, " k", absl::Base64Escape(redis::AbslOf(meta.key)), " b");
  } else {
    out->append(" k").append(meta.key);
  }
}

// What every reply repeats.
void AppendRepeated(const Meta& meta, std::string_view flag, std::string* out) {
  if (flag[0] == 'O') out->append(" ").append(flag);
  if (flag[0] == 'k') AppendKey(meta, out);
}

// Whether an expiry comes before one that a client would give now, in whole seconds.
bool EndsSooner(int64_t expires_ms, int64_t ttl, int64_t now_ms) {
  if (expires_ms == kNoExpiry) return false;
  return SecondsLeft(expires_ms, now_ms) < SecondsLeft(ExpiryOf(ttl, now_ms), now_ms);
}

// -1 of an item that does not know, as memcached says -1 of one that never ends.
int64_t SecondsUnused(ItemUse use, int64_t now_ms) {
  return use.kept() ? int64_t{use.SecondsSince(now_ms)} : -1;
}

// A code and what every reply repeats.
bool Code(const Meta& meta, std::string_view code, std::string* out) {
  out->append(code);
  for (const std::string_view flag : meta.flags) AppendRepeated(meta, flag, out);
  out->append("\r\n");
  return true;
}

}  // namespace

bool Executor::MetaGet(const Request& request, bool may_block, std::string* out) const {
  if (request.words.size() < 2) return Refuse("ERROR", out);
  if (request.words[1].size() > kMaxKey) return Refuse(kBadLine, out);
  if (request.words.size() > kMostMetaWords) {
    return Refuse("CLIENT_ERROR options flags are too long", out);
  }
  Meta meta;
  if (const auto error = ParseMeta(request, 2, "E", &meta); !error.empty()) {
    return Refuse(error, out);
  }
  if (meta.opaque_too_long) return Refuse(kOpaqueTooLong, out);
  const auto use = [&](Partition& partition, uint64_t hash) {
    ItemUse before;  // this one
    if (meta.tells_use && meta.uses) {
      const Item* const used = partition.Peek(meta.key, hash);
      if (used != nullptr) before = used->facts().use;
    }
    Item* item = meta.uses ? partition.Find(meta.key, hash) : partition.Peek(meta.key, hash);
    const bool created = item == nullptr;
    (created ? counters_->misses : counters_->hits).Add(1);
    if (meta.ttl.has_value()) counters_->touches.Add(1);
    if (created && !meta.creates) {
      if (!meta.quiet) Code(meta, "EN", out);
      return;
    }
    const size_t begin = out->size();
    const std::string_view value = created ? std::string_view() : item->value();
    ItemFacts facts;  // of a new item, N says when it ends
    if (created) {
      facts.cas = store_->NextCas();
      facts.use = ItemUse::Stored(partition.now_ms());
    } else {
      facts = item->facts();
    }
    if (created || !meta.uses) before = facts.use;
    bool changed = false;
    bool versions = false;
    bool won = created;
    if (meta.value) {
      absl::StrAppend(out, "VA ", value.size());
    } else {
      out->append("HD");
    }
    // In their order: t before T is the time that there was.
    for (const std::string_view flag : meta.flags) {
      switch (flag[0]) {
        case 'N':
          if (created) facts.expires_ms = ExpiryOf(meta.created_ttl, partition.now_ms());
          break;
        case 'R':
          won |= !facts.taken && EndsSooner(facts.expires_ms, meta.recache_ttl, partition.now_ms());
          break;
        case 'T':
          facts.expires_ms = ExpiryOf(*meta.ttl, partition.now_ms());
          changed = true;
          break;
        case 's':
          absl::StrAppend(out, " s", value.size());
          break;
        case 't':
          absl::StrAppend(out, " t", SecondsLeft(facts.expires_ms, partition.now_ms()));
          break;
        case 'c':
          versions = facts.cas == 0;
          if (versions) facts.cas = store_->NextCas();
          absl::StrAppend(out, " c", facts.cas);
          break;
        case 'f':
          absl::StrAppend(out, " f", facts.client_flags);
          break;
        case 'h':
          out->append(before.hit() ? " h1" : " h0");
          break;
        case 'l':
          absl::StrAppend(out, " l", SecondsUnused(before, partition.now_ms()));
          break;
        default:
          AppendRepeated(meta, flag, out);
      }
    }
    // One client is told to make it anew, and those after it that another one does.
    if (facts.taken) out->append(" Z");
    if (facts.stale) out->append(" X");
    won |= facts.stale && !facts.taken;
    if (won) {
      out->append(" W");
      facts.taken = changed = true;
    }
    out->append("\r\n");
    if (meta.value) out->append(value).append("\r\n");
    Outcome outcome = Outcome::kDone;
    if (created) {
      if (meta.uses) facts.use = ItemUse::Used(partition.now_ms());
      outcome = AddEmpty(&partition, meta.key, hash, facts);
    } else if (versions) {
      outcome = GiveVersion(&partition, meta.key, hash, facts, changed);
    } else if (changed) {
      outcome = ChangeFacts(&partition, meta.key, hash, facts);
    }
    if (outcome != Outcome::kDone) {
      out->resize(begin);
      AppendLine(kOutOfMemory, out);
      return;
    }
    if ((created || meta.ttl.has_value()) && store_->watch_table()->active()) {
      store_->watch_table()->Touch(meta.key);
    }
  };
  return store_->WithPartition(meta.key, may_block, use);
}

bool Executor::MetaSet(const Request& request, bool may_block, std::string* out) const {
  const auto& words = request.words;
  if (words.size() < 2) return Refuse("ERROR", out);
  uint64_t size = 0;
  if (words[1].size() > kMaxKey || words.size() == 2) return Refuse(kBadLine, out);
  if (words.size() > kMostMetaWords) return Refuse(kTooManyFlags, out);
  if (!ParseUnsigned(words[2], &size) || size > kMaxBlock) return Refuse(kBadLine, out);
  Meta meta;
  if (const auto error = ParseMeta(request, 3, "", &meta); !error.empty()) {
    return Refuse(error, out);
  }
  StoreOperation op;
  switch (meta.mode) {
    case 0:
    case 'S':
      op.mode = StoreMode::kSet;
      break;
    case 'E':
      op.mode = StoreMode::kAdd;
      break;
    case 'A':
      op.mode = StoreMode::kAppend;
      break;
    case 'P':
      op.mode = StoreMode::kPrepend;
      break;
    case 'R':
      op.mode = StoreMode::kReplace;
      break;
    default:
      return Refuse("CLIENT_ERROR invalid mode for ms M token", out);
  }
  if (meta.opaque_too_long) return Refuse(kOpaqueTooLong, out);
  if (request.bad_chunk) return Refuse(kBadChunk, out);
  op.key = meta.key;
  op.data = request.data;
  op.too_large = request.too_large;
  op.max_value = options_.max_value;
  op.facts.client_flags = static_cast<uint32_t>(meta.client_flags);
  op.facts.expires_ms = ExpiryOf(meta.ttl.value_or(0), store_->now_ms());
  op.compare = meta.compare;
  op.new_cas = meta.new_cas;
  op.may_be_stale = meta.invalidates;
  op.always_drops = true;
  uint64_t cas = 0;
  const Outcome outcome = Store(store_, op, may_block, &cas);
  if (outcome == Outcome::kWouldBlock) return false;
  counters_->CountStore(op.compare.has_value(), outcome);
  switch (outcome) {
    case Outcome::kTooLarge:
      return Refuse(kObjectTooLarge, out);
    case Outcome::kNoMemory:
      return Refuse(kOutOfMemory, out);
    case Outcome::kDone:
      if (meta.quiet) return true;
      out->append("HD");
      break;
    case Outcome::kExists:
      out->append("EX");
      break;
    case Outcome::kNotFound:
      out->append("NF");
      break;
    default:
      out->append("NS");
  }
  for (const std::string_view flag : meta.flags) {
    if (flag[0] == 'c') absl::StrAppend(out, " c", cas);
    AppendRepeated(meta, flag, out);
  }
  out->append("\r\n");
  return true;
}

bool Executor::MetaDelete(const Request& request, bool may_block, std::string* out) const {
  if (request.words.size() < 2) return Refuse("ERROR", out);
  if (request.words[1].size() > kMaxKey) return Refuse(kBadLine, out);
  if (request.words.size() > kMostMetaWords) return Refuse(kTooManyFlags, out);
  Meta meta;
  if (!ParseMeta(request, 2, "", &meta).empty()) return Refuse(kBadFlags, out);
  if (meta.opaque_too_long) return Refuse(kOpaqueTooLong, out);
  InvalidateOperation op;
  op.key = meta.key;
  op.compare = meta.compare;
  op.new_cas = meta.new_cas;
  if (meta.ttl.has_value()) op.expires_ms = ExpiryOf(*meta.ttl, store_->now_ms());
  switch (meta.invalidates ? Invalidate(store_, op, may_block)
                           : Delete(store_, meta.key, meta.compare, may_block)) {
    case Outcome::kWouldBlock:
      return false;
    case Outcome::kNoMemory:
      return Refuse(kOutOfMemory, out);
    case Outcome::kDone:
      return meta.quiet || Code(meta, "HD", out);
    case Outcome::kExists:
      return Code(meta, "EX", out);
    default:
      return Code(meta, "NF", out);
  }
}

bool Executor::MetaArithmetic(const Request& request, bool may_block, std::string* out) const {
  if (request.words.size() < 2) return Refuse("ERROR", out);
  if (request.words[1].size() > kMaxKey) return Refuse(kBadLine, out);
  if (request.words.size() > kMostMetaWords) return Refuse(kTooManyFlags, out);
  Meta meta;
  if (!ParseMeta(request, 2, "", &meta).empty()) return Refuse(kBadFlags, out);
  if (meta.opaque_too_long) return Refuse(kOpaqueTooLong, out);
  DeltaOperation op;
  switch (meta.mode) {
    case 0:
    case 'I':
    case '+':
      break;
    case 'D':
    case '-':
      op.increment = false;
      break;
    default:
      return Refuse("CLIENT_ERROR invalid mode for ma M token", out);
  }
  const int64_t now_ms = store_->now_ms();
  op.key = meta.key;
  op.delta = meta.delta;
  op.compare = meta.compare;
  op.new_cas = meta.new_cas;
  op.create = meta.creates;
  op.initial = meta.initial;
  const int64_t created_expires_ms = ExpiryOf(meta.created_ttl, now_ms);
  if (meta.ttl.has_value()) op.expires_ms = ExpiryOf(*meta.ttl, now_ms);
  // The later one counts.
  for (const std::string_view flag : meta.flags) {
    if (flag[0] == 'T') op.created_expires_ms = *op.expires_ms;
    if (flag[0] == 'N') op.created_expires_ms = created_expires_ms;
  }
  DeltaResult result;
  const Outcome outcome = Delta(store_, op, may_block, &result);
  switch (outcome) {
    case Outcome::kWouldBlock:
      return false;
    case Outcome::kNotFound:
      return Code(meta, "NF", out);
    case Outcome::kExists:
      return Code(meta, "EX", out);
    case Outcome::kNotANumber:
      return Refuse(kNotNumeric, out);
    case Outcome::kDone:
      break;
    default:
      return Refuse(result.created ? "SERVER_ERROR Out of memory allocating new item"
                                   : "SERVER_ERROR out of memory",
                    out);
  }
  if (meta.quiet && !result.created) return true;
  const std::string value = std::to_string(result.value);
  if (meta.value) {
    absl::StrAppend(out, "VA ", value.size());
  } else {
    out->append("HD");
  }
  int64_t expires_ms = result.old_expires_ms;
  for (const std::string_view flag : meta.flags) {
    switch (flag[0]) {
      case 'T':
        expires_ms = *op.expires_ms;
        break;
      case 'N':
        if (result.created) expires_ms = created_expires_ms;
        break;
      case 't':
        absl::StrAppend(out, " t", SecondsLeft(expires_ms, result.now_ms));
        break;
      case 'c':
        absl::StrAppend(out, " c", result.cas);
        break;
      default:
        AppendRepeated(meta, flag, out);
    }
  }
  out->append("\r\n");
  if (meta.value) out->append(value).append("\r\n");
  return true;
}

bool Executor::MetaDebug(const Request& request, bool may_block, std::string* out) const {
  const auto& words = request.words;
  if (words.size() < 2 || words[1].size() > kMaxKey) return Refuse(kBadLine, out);
  const bool base64 = words.size() > 2 && words[2] == "b";
  std::string decoded;
  if (base64 && !DecodeKey(words[1], &decoded)) return Refuse(kBadLine, out);
  const std::string_view key = base64 ? decoded : words[1];
  return store_->WithPartition(key, may_block, [&](Partition& partition, uint64_t hash) {
    const Item* item = partition.Peek(key, hash);
    if (item == nullptr) {
      out->append("EN\r\n");
      return;
    }
    const ItemFacts facts = item->facts();
    absl::StrAppend(out, "ME ", redis::AbslOf(words[1]),
                    " exp=", SecondsLeft(facts.expires_ms, partition.now_ms()),
                    " la=", SecondsUnused(facts.use, partition.now_ms()), " cas=", facts.cas,
                    " fetch=", facts.use.hit() ? "yes" : "no", " size=", item->size(), "\r\n");
  });
}

}  // namespace pulse::kv::memcached
