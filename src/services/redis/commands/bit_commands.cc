// Commands on the bits of values: the first bit is the highest of the first byte.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kBadOffset = "ERR bit offset is not an integer or out of range";

// A bit's place, within the longest value; `field` bits are what "#2" counts in, 0 where it may not
// be given. False after an error reply.
bool ReadOffset(Call& call, std::string_view text, uint64_t field, uint64_t* offset) {
  uint64_t unit = 1;
  if (field > 0 && !text.empty() && text[0] == '#') {
    text.remove_prefix(1);
    unit = field;
  }
  int64_t number = 0;
  if (!ParseInteger(text, &number) || number < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(number), unit, offset) ||
      *offset / 8 >= call.view.limits().max_value) {
    return Refuse(call, kBadOffset);
  }
  return true;
}

std::string_view BytesOf(const Found& found) {
  return found.exists ? found.value.data : std::string_view();
}

int BitAt(std::string_view bytes, uint64_t offset) {
  const uint64_t byte = offset >> 3;
  if (byte >= bytes.size()) return 0;
  return static_cast<unsigned char>(bytes[byte]) >> (7 - (offset & 7)) & 1;
}

void SetBitAt(std::string* bytes, uint64_t offset, int bit) {
  const auto mask = static_cast<unsigned char>(0x80 >> (offset & 7));
  char& byte = (*bytes)[offset >> 3];
  byte = static_cast<char>(bit != 0 ? static_cast<unsigned char>(byte) | mask
                                    : static_cast<unsigned char>(byte) & ~mask);
}

void SetBit(Call& call) {
  uint64_t offset = 0;
  if (!ReadOffset(call, call.args[2], 0, &offset)) return;
  if (call.args[3] != "0" && call.args[3] != "1") {
    return call.reply.Error("ERR bit is not an integer or out of range");
  }
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  const std::string_view bytes = BytesOf(before);
  const int was = BitAt(bytes, offset), now = call.args[3] == "1" ? 1 : 0;
  // What changes nothing is no write: who watches the key is not told of any.
  if (was != now || bytes.size() <= offset >> 3) {
    std::string value;
    value.reserve(std::max<uint64_t>(bytes.size(), (offset >> 3) + 1));
    value.append(bytes);
    if (value.size() <= offset >> 3) value.resize((offset >> 3) + 1, '\0');
    SetBitAt(&value, offset, now);
    call.view.PutFrom(before, call.args[1], value);
  }
  call.reply.Integer(was);
}

void GetBit(Call& call) {
  uint64_t offset = 0;
  if (!ReadOffset(call, call.args[2], 0, &offset)) return;
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  call.reply.Integer(BitAt(BytesOf(found), offset));
}

// Bits first to last, both included.
struct BitRange {
  int64_t first = 0;
  int64_t last = -1;
  bool empty() const { return first > last; }
};

// What [start [end [BYTE | BIT]]] from the argument `at` on means. False after an error reply.
// `ordered`: a start that is behind the end, both counted from the end, ends it without a look at
// the rest, as Redis's BITCOUNT does, and its BITPOS does not.
bool ReadRange(Call& call, size_t at, int64_t bytes, bool ordered, BitRange* range) {
  const size_t given = call.args.size() - std::min(at, call.args.size());
  bool bits = false;
  int64_t start = 0;
  int64_t end = -1;
  if (given > 3) return Refuse(call, kSyntaxError);
  if (given > 0 && !ReadInteger(call, call.args[at], &start)) return false;
  if (given > 1 && !ReadInteger(call, call.args[at + 1], &end)) return false;
  if (ordered && start < 0 && end < 0 && start > end) return true;
  if (given > 2) {
    bits = EqualsIgnoringCase(call.args[at + 2], "bit");
    if (!bits && !EqualsIgnoringCase(call.args[at + 2], "byte")) return Refuse(call, kSyntaxError);
  }
  const int64_t size = bits ? bytes * 8 : bytes;
  if (start < 0) start = std::max<int64_t>(0, start + size);
  if (end < 0) end = std::max<int64_t>(0, end + size);
  end = std::min(end, size - 1);
  if (start > end) return true;
  range->first = bits ? start : start * 8;
  range->last = bits ? end : end * 8 + 7;
  return true;
}

// With the bits of the first and last byte that lie outside of the range as 0.
uint8_t ByteWithin(std::string_view bytes, const BitRange& range, int64_t byte) {
  auto value = static_cast<uint8_t>(bytes[static_cast<size_t>(byte)]);
  if (byte == range.first >> 3) value &= static_cast<uint8_t>(0xff >> (range.first & 7));
  if (byte == range.last >> 3) value &= static_cast<uint8_t>(0xff << (7 - (range.last & 7)));
  return value;
}

void CountBits(Call& call) {
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  if (!found.exists) return call.reply.Integer(0);
  if (call.args.size() == 3) return call.reply.Error(kSyntaxError);
  const std::string_view bytes = BytesOf(found);
  BitRange range;
  if (!ReadRange(call, 2, static_cast<int64_t>(bytes.size()), true, &range)) return;
  int64_t count = 0;
  if (!range.empty()) {
    const int64_t first = range.first >> 3;
    const int64_t last = range.last >> 3;
    int64_t at = first;
    for (; at <= last && (at == first || last - at < 9); ++at) {
      count += std::popcount(ByteWithin(bytes, range, at));
    }
    for (; last - at >= 9; at += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + at, 8);
      count += std::popcount(word);
    }
    for (; at <= last; ++at) count += std::popcount(ByteWithin(bytes, range, at));
  }
  call.reply.Integer(count);
}

void FindBit(Call& call) {
  if (call.args[2] != "0" && call.args[2] != "1") {
    int64_t ignored = 0;
    if (!ReadInteger(call, call.args[2], &ignored)) return;
    return call.reply.Error("ERR The bit argument must be 1 or 0.");
  }
  const bool one = call.args[2] == "1";
  Found found;
  if (!call.view.Get(call.args[1], &found)) return;
  CountRead(call, found);
  if (!found.exists) return call.reply.Integer(one ? -1 : 0);
  const std::string_view bytes = BytesOf(found);
  BitRange range;
  if (!ReadRange(call, 3, static_cast<int64_t>(bytes.size()), false, &range)) return;
  // Whole bytes that have no such bit are passed.
  const uint8_t none = one ? 0 : 0xff;
  for (int64_t at = range.first; at <= range.last; ++at) {
    const auto byte = static_cast<uint8_t>(bytes[static_cast<size_t>(at >> 3)]);
    if (byte == none) {
      at |= 7;
      continue;
    }
    if (BitAt(bytes, static_cast<uint64_t>(at)) == (one ? 1 : 0)) return call.reply.Integer(at);
  }
  // Without an end, the value counts as followed by zeros.
  const bool goes_on = !one && call.args.size() < 5 && !range.empty();
  call.reply.Integer(goes_on ? static_cast<int64_t>(bytes.size()) * 8 : -1);
}

void CombineBits(Call& call) {
  const std::string_view op = call.args[1];
  const bool negate = EqualsIgnoringCase(op, "not");
  const bool both = EqualsIgnoringCase(op, "and");
  const bool either = EqualsIgnoringCase(op, "or");
  if (!negate && !both && !either && !EqualsIgnoringCase(op, "xor")) {
    return call.reply.Error(kSyntaxError);
  }
  if (negate && call.args.size() != 4) {
    return call.reply.Error("ERR BITOP NOT must be called with a single source key.");
  }
  std::string result;
  for (size_t i = 3; i < call.args.size(); ++i) {
    Found found;
    if (!call.view.Get(call.args[i], &found)) return;
    const std::string_view bytes = BytesOf(found);
    if (i == 3) {
      result = bytes;
      continue;
    }
    // What is missing counts as zeros.
    if (bytes.size() > result.size()) result.resize(bytes.size(), '\0');
    for (size_t at = 0; at < result.size(); ++at) {
      const char other = at < bytes.size() ? bytes[at] : '\0';
      result[at] = static_cast<char>(both     ? result[at] & other
                                     : either ? result[at] | other
                                              : result[at] ^ other);
    }
  }
  if (negate) {
    for (char& byte : result) byte = static_cast<char>(~byte);
  }
  size_t existing = 0;
  if (!result.empty()) {
    call.view.Put(call.args[2], result, kNever);
  } else if (!call.view.CountExisting(&call.args[2], 1, &existing)) {
    return;
  } else if (existing > 0) {  // else nobody who watches it is disturbed
    call.view.Delete(call.args[2]);
  }
  call.reply.Integer(static_cast<int64_t>(result.size()));
}

// One operation of BITFIELD.
struct FieldOp {
  enum Kind { kGet, kSet, kAdd } kind = kGet;
  enum Overflow { kWrap, kSaturate, kFail } overflow = kWrap;
  bool is_signed = false;
  int bits = 0;
  uint64_t offset = 0;
  int64_t operand = 0;
};

bool ReadFieldType(Call& call, std::string_view text, FieldOp* op) {
  int64_t bits = 0;
  const bool known = text.size() > 1 && (text[0] == 'i' || text[0] == 'u');
  op->is_signed = known && text[0] == 'i';
  if (!known || !ParseInteger(text.substr(1), &bits) || bits < 1 ||
      bits > (op->is_signed ? 64 : 63)) {
    return Refuse(call,
                  "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not "
                  "supported but i64 is.");
  }
  op->bits = static_cast<int>(bits);
  return true;
}

// False after an error reply.
bool ReadFieldOps(Call& call, bool read_only, std::vector<FieldOp>* ops) {
  auto overflow = FieldOp::kWrap;
  for (size_t i = 2; i < call.args.size();) {
    const std::string_view word = call.args[i];
    const size_t left = call.args.size() - i - 1;
    if (EqualsIgnoringCase(word, "overflow") && left >= 1) {
      const std::string_view how = call.args[i + 1];
      if (EqualsIgnoringCase(how, "wrap")) {
        overflow = FieldOp::kWrap;
      } else if (EqualsIgnoringCase(how, "sat")) {
        overflow = FieldOp::kSaturate;
      } else if (EqualsIgnoringCase(how, "fail")) {
        overflow = FieldOp::kFail;
      } else {
        return Refuse(call, "ERR Invalid OVERFLOW type specified");
      }
      i += 2;
      continue;
    }
    FieldOp op;
    op.overflow = overflow;
    if (EqualsIgnoringCase(word, "get") && left >= 2) {
      op.kind = FieldOp::kGet;
    } else if (EqualsIgnoringCase(word, "set") && left >= 3) {
      op.kind = FieldOp::kSet;
    } else if (EqualsIgnoringCase(word, "incrby") && left >= 3) {
      op.kind = FieldOp::kAdd;
    } else {
      return Refuse(call, kSyntaxError);
    }
    if (!ReadFieldType(call, call.args[i + 1], &op)) return false;
    const auto bits = static_cast<uint64_t>(op.bits);
    if (!ReadOffset(call, call.args[i + 2], bits, &op.offset)) return false;
    if ((op.offset + bits - 1) / 8 >= call.view.limits().max_value) return Refuse(call, kBadOffset);
    if (op.kind != FieldOp::kGet && !ReadInteger(call, call.args[i + 3], &op.operand)) return false;
    ops->push_back(op);
    i += op.kind == FieldOp::kGet ? 3 : 4;
  }
  const bool writes = std::any_of(ops->begin(), ops->end(),
                                  [](const FieldOp& op) { return op.kind != FieldOp::kGet; });
  if (read_only && writes) {
    return Refuse(call, "ERR BITFIELD_RO only supports the GET subcommand");
  }
  return true;
}

int64_t ReadField(std::string_view bytes, const FieldOp& op) {
  uint64_t value = 0;
  for (int i = 0; i < op.bits; ++i) {
    value = value << 1 | static_cast<uint64_t>(BitAt(bytes, op.offset + static_cast<uint64_t>(i)));
  }
  if (op.is_signed && op.bits < 64 && (value >> (op.bits - 1) & 1) != 0) {
    value |= ~uint64_t{0} << op.bits;
  }
  return static_cast<int64_t>(value);
}

void WriteField(std::string* bytes, const FieldOp& op, int64_t value) {
  for (int i = 0; i < op.bits; ++i) {
    const auto bit = static_cast<int>(static_cast<uint64_t>(value) >> (op.bits - 1 - i) & 1);
    SetBitAt(bytes, op.offset + static_cast<uint64_t>(i), bit);
  }
}

// `before` plus the operand (or the operand alone, for SET) as the field can hold it. False: it
// cannot, and the operation is not carried out.
bool NewField(const FieldOp& op, int64_t before, int64_t* after) {
  using Wide = __int128;
  Wide wide = op.operand;
  if (op.kind == FieldOp::kAdd) {
    wide += before;
  } else if (!op.is_signed && op.operand < 0) {
    wide = static_cast<uint64_t>(op.operand);  // as the 64 bits that were given
  }
  const Wide low = op.is_signed ? -(Wide{1} << (op.bits - 1)) : Wide{0};
  const Wide high = op.is_signed ? (Wide{1} << (op.bits - 1)) - 1 : (Wide{1} << op.bits) - 1;
  if (wide >= low && wide <= high) {
    *after = static_cast<int64_t>(wide);
    return true;
  }
  if (op.overflow == FieldOp::kFail) return false;
  if (op.overflow == FieldOp::kSaturate) {
    *after = static_cast<int64_t>(wide > high ? high : low);
    return true;
  }
  auto bits = static_cast<uint64_t>(wide);
  if (op.bits < 64) {
    bits &= (uint64_t{1} << op.bits) - 1;
    if (op.is_signed && (bits >> (op.bits - 1) & 1) != 0) bits |= ~uint64_t{0} << op.bits;
  }
  *after = static_cast<int64_t>(bits);
  return true;
}

void Fields(Call& call, bool read_only) {
  std::vector<FieldOp> ops;
  if (!ReadFieldOps(call, read_only, &ops)) return;
  Found before;
  if (!call.view.Get(call.args[1], &before)) return;
  if (read_only) CountRead(call, before);
  // What is written to must be there, even if the operation then fails; so it is in Redis.
  uint64_t written = 0;
  for (const FieldOp& op : ops) {
    if (op.kind == FieldOp::kGet) continue;
    written = std::max(written, (op.offset + static_cast<uint64_t>(op.bits) + 7) / 8);
  }
  const bool writes = written > 0;
  std::string value;
  if (writes) {
    value.reserve(std::max<uint64_t>(BytesOf(before).size(), written));
    value.append(BytesOf(before));
    if (value.size() < written) value.resize(written, '\0');
  }
  call.reply.Array(ops.size());
  for (const FieldOp& op : ops) {
    const int64_t was = ReadField(writes ? value : BytesOf(before), op);
    int64_t now = 0;
    if (op.kind == FieldOp::kGet) {
      call.reply.Integer(was);
    } else if (!NewField(op, was, &now)) {
      call.reply.Null();
    } else {
      WriteField(&value, op, now);
      call.reply.Integer(op.kind == FieldOp::kSet ? was : now);
    }
  }
  if (writes && (!before.exists || value != BytesOf(before))) {
    call.view.PutFrom(before, call.args[1], value);
  }
}

constexpr Handling kHandlings[] = {
    {Command::kSetbit, SetBit},
    {Command::kGetbit, GetBit},
    {Command::kBitcount, CountBits},
    {Command::kBitpos, FindBit},
    {Command::kBitop, CombineBits},
    {Command::kBitfield, [](Call& call) { Fields(call, false); }},
    {Command::kBitfieldRo, [](Call& call) { Fields(call, true); }},
};

}  // namespace

absl::Span<const Handling> BitCommands() { return kHandlings; }

}  // namespace pulse::redis
