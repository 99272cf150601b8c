#include "services/redis/commands/dump.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "services/redis/commands/codec.h"

namespace pulse::redis {
namespace {

// Of Redis 7.0: older servers refuse newer ones. Strings are the same in all.
constexpr uint16_t kDumpVersion = 10;
constexpr uint64_t kNewestVersion = 99;  // they have grown by less than one a year
constexpr char kStringType = 0;
constexpr size_t kDumpTail = 10;
constexpr size_t kMostDigits = 11;  // of an integer, which has fewer bytes
constexpr unsigned char kInteger8 = 0xC0;
constexpr unsigned char kInteger16 = 0xC1;
constexpr unsigned char kInteger32 = 0xC2;
constexpr unsigned char kPacked = 0xC3;
// A copy of three packed bytes makes so many: what claims more of each is not believed.
constexpr uint64_t kMostOfPacked = 264;

// CRC-64 "Jones", reflected: eight bytes at a time.
constexpr uint64_t kPolynomial = 0x95ac9329ac4bc9b5;
using Tables = std::array<std::array<uint64_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint64_t i = 0; i < 256; ++i) {
    uint64_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][i] = crc;
  }
  for (size_t t = 1; t < tables.size(); ++t) {
    for (size_t i = 0; i < 256; ++i) {
      const uint64_t before = tables[t - 1][i];
      tables[t][i] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}
constexpr Tables kTables = MakeTables();

void AppendLittle(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t LoadLittle(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

void AppendLength(uint64_t length, std::string* out) {
  size_t bytes = 1;
  if (length < 64) {
    out->push_back(static_cast<char>(length));
    return;
  }
  if (length < 16384) {
    out->push_back(static_cast<char>(0x40 | length >> 8));
  } else {
    const bool wide = length > UINT32_MAX;
    out->push_back(static_cast<char>(wide ? 0x81 : 0x80));
    bytes = wide ? 8 : 4;
  }
  for (size_t i = bytes; i > 0; --i) out->push_back(static_cast<char>(length >> (8 * (i - 1))));
}

// Takes bytes from the front; false once there are too few.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  bool Take(uint64_t count, std::string_view* taken) {
    if (count > bytes_.size()) return false;
    *taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return true;
  }
  // False, too, for what is no length.
  bool TakeLength(uint64_t* length) {
    std::string_view head;
    if (!Take(1, &head)) return false;
    const auto first = static_cast<unsigned char>(head[0]);
    size_t more = 0;
    *length = 0;
    if (first < 0x80) {
      *length = first & 0x3F;
      more = first < 0x40 ? 0 : 1;
    } else if (first == 0x80) {
      more = 4;
    } else if (first == 0x81) {
      more = 8;
    } else {
      return false;
    }
    std::string_view rest;
    if (!Take(more, &rest)) return false;
    for (const char c : rest) *length = *length << 8 | static_cast<unsigned char>(c);
    return true;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

// LZF: pieces of up to 32 bytes as they are, and copies of up to 264 from up to 8 KiB before.
bool Unpack(std::string_view packed, uint64_t length, std::string* data) {
  data->clear();
  data->reserve(length);
  Reader reader(packed);
  std::string_view taken;
  while (reader.Take(1, &taken)) {
    const auto control = static_cast<unsigned char>(taken[0]);
    if (control < 32) {
      if (!reader.Take(control + 1u, &taken) || taken.size() > length - data->size()) return false;
      data->append(taken);
      continue;
    }
    size_t count = control >> 5;
    if (count == 7) {
      if (!reader.Take(1, &taken)) return false;
      count += static_cast<unsigned char>(taken[0]);
    }
    count += 2;
    if (!reader.Take(1, &taken)) return false;
    const size_t back =
        (static_cast<size_t>(control & 31) << 8 | static_cast<unsigned char>(taken[0])) + 1;
    if (back > data->size() || count > length - data->size()) return false;
    // What is copied may be what this copy has written.
    for (size_t i = 0; i < count; ++i) data->push_back((*data)[data->size() - back]);
  }
  return data->size() == length;
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

uint64_t DumpChecksum(std::string_view bytes) {
  uint64_t crc = 0;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), 8);
    crc ^= eight;
    uint64_t next = 0;
    for (size_t i = 0; i < 8; ++i) next ^= kTables[7 - i][crc >> (8 * i) & 255];
    crc = next;
  }
  for (const char c : bytes)
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 255];
  return crc;
}

std::string EncodeDump(std::string_view data) {
  std::string out(1, kStringType);
  int64_t number = 0;
  if (data.size() <= kMostDigits && ParseInteger(data, &number) && number >= INT32_MIN &&
      number <= INT32_MAX) {
    const bool one = number >= INT8_MIN && number <= INT8_MAX;
    const bool two = number >= INT16_MIN && number <= INT16_MAX;
    out.push_back(static_cast<char>(one ? kInteger8 : two ? kInteger16 : kInteger32));
    AppendLittle(static_cast<uint64_t>(number), one ? 1 : two ? 2 : 4, &out);
  } else {
    AppendLength(data.size(), &out);
    out.append(data);
  }
  AppendLittle(kDumpVersion, 2, &out);
  AppendLittle(DumpChecksum(out), 8, &out);
  return out;
}

DumpError DecodeDump(std::string_view dump, uint64_t most_bytes, std::string* data) {
  if (dump.size() < kDumpTail) return DumpError::kChecksum;
  const uint64_t sum = LoadLittle(dump.substr(dump.size() - 8));
  const uint64_t version = LoadLittle(dump.substr(dump.size() - kDumpTail, 2));
  if (version > kNewestVersion || sum != DumpChecksum(dump.substr(0, dump.size() - 8)))
    return DumpError::kChecksum;
  Reader reader(dump.substr(0, dump.size() - kDumpTail));
  std::string_view taken;
  if (!reader.Take(1, &taken)) return DumpError::kFormat;
  if (taken[0] != kStringType) return DumpError::kType;
  const std::string_view rest = reader.rest();
  const unsigned char first = rest.empty() ? 0 : static_cast<unsigned char>(rest[0]);
  if (first >= kInteger8 && first <= kInteger32) {
    const size_t bytes = size_t{1} << (first - kInteger8);
    if (!reader.Take(1, &taken) || !reader.Take(bytes, &taken)) return DumpError::kFormat;
    const uint64_t value = LoadLittle(taken);
    std::string text = std::to_string(bytes == 1   ? int64_t{static_cast<int8_t>(value)}
                                      : bytes == 2 ? int64_t{static_cast<int16_t>(value)}
                                                   : int64_t{static_cast<int32_t>(value)});
    if (text.size() > most_bytes) return DumpError::kTooLong;
    *data = std::move(text);
  } else if (first == kPacked) {
    uint64_t packed = 0;
    uint64_t length = 0;
    if (!reader.Take(1, &taken) || !reader.TakeLength(&packed) || !reader.TakeLength(&length) ||
        !reader.Take(packed, &taken)) {
      return DumpError::kFormat;
    }
    if (length > most_bytes) return DumpError::kTooLong;
    if (length / kMostOfPacked > packed || !Unpack(taken, length, data)) return DumpError::kFormat;
  } else {
    uint64_t length = 0;
    if (!reader.TakeLength(&length) || !reader.Take(length, &taken)) return DumpError::kFormat;
    if (length > most_bytes) return DumpError::kTooLong;
    *data = taken;
  }
  return reader.rest().empty() ? DumpError::kNone : DumpError::kFormat;
}

uint64_t BytesOfDump(std::string_view dump) {
  if (dump.size() < kDumpTail) return 0;
  Reader reader(dump.substr(0, dump.size() - kDumpTail));
  std::string_view taken;
  if (!reader.Take(1, &taken) || taken[0] != kStringType || reader.rest().empty()) return 0;
  if (static_cast<unsigned char>(reader.rest()[0]) != kPacked) {
    return std::max(reader.rest().size(), kMostDigits);
  }
  uint64_t packed = 0;
  uint64_t length = 0;
  if (!reader.Take(1, &taken) || !reader.TakeLength(&packed) || !reader.TakeLength(&length)) {
    return 0;
  }
  return packed > reader.rest().size() || length / kMostOfPacked > packed ? 0 : length;
}

}  // namespace pulse::redis
