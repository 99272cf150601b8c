#include "services/graph/core/wal_records.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/newer_format.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {
namespace {

constexpr char kWalMagic[8] = {'P', 'U', 'L', 'S', 'E', 'W', 'A', 'L'};
constexpr uint32_t kWalVersion = 1;

struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the rest
  uint64_t number;
  uint64_t after;  // sequences of the segment are above
};
static_assert(sizeof(SegmentHeader) == kWalSegmentHeader);

// The top bit of `length`: the entry goes on with the next record.
constexpr uint32_t kContinues = uint32_t{1} << 31;

struct RecordHeader {
  uint32_t length;
  uint32_t crc;  // of what stands after it, payload included, and then of `length`
  uint64_t sequence;
  uint64_t durable;
};
static_assert(sizeof(RecordHeader) == kWalRecordHeader);

uint32_t CrcOf(const RecordHeader& header, const char* payload, size_t length) {
  uint32_t crc = Crc32c(&header.sequence, sizeof(header) - offsetof(RecordHeader, sequence));
  crc = ExtendCrc32c(crc, payload, length);
  return ExtendCrc32c(crc, &header.length, sizeof(header.length));
}

uint32_t CrcOf(const SegmentHeader& header) {
  const uint32_t crc = Crc32c(&header, offsetof(SegmentHeader, crc));
  return ExtendCrc32c(crc, &header.number, sizeof(header) - offsetof(SegmentHeader, number));
}

bool ParseName(std::string_view name, uint64_t* number) {
  constexpr std::string_view kSuffix = ".wal";
  if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) return false;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto result = std::from_chars(name.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

std::string WalName(uint64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return digits + ".wal";
}

std::string WalPath(const std::string& directory, uint64_t number) {
  return cypher::Concat(directory, "/", WalName(number));
}

absl::StatusOr<std::vector<uint64_t>> ListWalSegments(Files* files, const std::string& directory) {
  PULSE_ASSIGN_OR_RETURN(const auto names, files->List(directory));
  std::vector<uint64_t> numbers;
  uint64_t number;
  for (const std::string& name : names) {
    if (ParseName(name, &number)) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string WalSegmentHead(uint64_t number, uint64_t after) {
  SegmentHeader header{};
  std::memcpy(header.magic, kWalMagic, sizeof(kWalMagic));
  header.version = kWalVersion;
  header.number = number;
  header.after = after;
  header.crc = CrcOf(header);
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

void AppendWalRecords(uint64_t sequence, uint64_t durable, std::string_view payload,
                      std::string* out) {
  PULSE_CHECK(!payload.empty());
  while (!payload.empty()) {
    const std::string_view part = payload.substr(0, kMaxWalRecord);
    payload.remove_prefix(part.size());
    RecordHeader header{static_cast<uint32_t>(part.size()), 0, sequence, durable};
    if (!payload.empty()) header.length |= kContinues;
    header.crc = CrcOf(header, part.data(), part.size());
    out->append(reinterpret_cast<const char*>(&header), sizeof(header));
    *out += part;
  }
}

void WalSegmentReader::Refresh() {
  window_.clear();
  ended_ = false;
  sums_.Clear();
}

absl::StatusOr<std::string_view> WalSegmentReader::View(uint64_t at, size_t want) {
  if (at < begin_ || at > begin_ + window_.size()) {
    begin_ = at;
    window_.clear();
    ended_ = false;
  }
  if (at + want > begin_ + window_.size() && !ended_) {
    // No more is moved than is dropped.
    if (const size_t past = at - begin_;
        past > PrefixSums::kStep && past - PrefixSums::kStep >= window_.size() / 2) {
      window_.erase(0, past - PrefixSums::kStep);
      begin_ = at - PrefixSums::kStep;
    }
    const uint64_t end = begin_ + window_.size();
    const size_t more = std::max<size_t>(at + want - end, kWindow);
    PULSE_ASSIGN_OR_RETURN(const std::string bytes, files_->ReadPart(path_, end, more));
    bytes_read_ += bytes.size();
    ended_ = bytes.size() < more;
    window_ += bytes;
  }
  return std::string_view(window_).substr(at - begin_);
}

bool WalSegmentReader::HasSum(uint64_t at, uint32_t length, uint32_t crc) {
  const uint64_t begin = at + offsetof(RecordHeader, sequence);
  const uint64_t end = at + sizeof(RecordHeader) + (length & ~kContinues);
  // Damage has few records that are none, or lie in each other. Where the sums of records come to
  // more than the bytes up to here, somebody chose these.
  uint32_t sum;
  if (bytes_summed_ <= at + 2 * kMaxWalRecord) {
    bytes_summed_ += end - begin;
    sum = Crc32c(window_.data() + (begin - begin_), end - begin);
  } else {
    sum = sums_.Of(window_, begin_, begin, end);
  }
  return ExtendCrc32c(sum, &length, sizeof(length)) == crc;
}

absl::StatusOr<WalSegmentReader::Head> WalSegmentReader::ReadHead() {
  SegmentHeader header{};
  PULSE_ASSIGN_OR_RETURN(const std::string_view begin, View(0, sizeof(header) + 1));
  Head head;
  head.has_more = begin.size() > sizeof(header);
  std::memcpy(&header, begin.data(), std::min(begin.size(), sizeof(header)));
  if (begin.size() < sizeof(header) ||
      std::memcmp(header.magic, kWalMagic, sizeof(kWalMagic)) != 0 || header.crc != CrcOf(header) ||
      header.number != number_ || header.after > kMaxStoredSequence) {
    return head;
  }
  if (header.version != kWalVersion) return NewerFormat(path_, header.version, kWalVersion);
  head.valid = true;
  head.after = header.after;
  return head;
}

absl::StatusOr<bool> WalSegmentReader::ReadAt(uint64_t at, WalRecord* out, bool* at_end) {
  PULSE_ASSIGN_OR_RETURN(std::string_view bytes, View(at, sizeof(RecordHeader)));
  if (at_end != nullptr) *at_end = bytes.empty();
  if (bytes.size() < sizeof(RecordHeader)) return false;
  RecordHeader header;
  std::memcpy(&header, bytes.data(), sizeof(RecordHeader));
  const size_t length = header.length & ~kContinues;
  if (length == 0 || length > kMaxWalRecord || header.sequence > kMaxStoredSequence) return false;
  PULSE_ASSIGN_OR_RETURN(bytes, View(at, sizeof(RecordHeader) + length));
  if (bytes.size() < sizeof(RecordHeader) + length) return false;
  out->payload = bytes.substr(sizeof(RecordHeader), length);
  if (!HasSum(at, header.length, header.crc)) return false;
  out->begin = at;
  out->end = at + sizeof(RecordHeader) + length;
  out->sequence = header.sequence;
  out->durable = header.durable;
  out->continues = (header.length & kContinues) != 0;
  return true;
}

absl::StatusOr<bool> WalSegmentReader::Find(uint64_t at, uint64_t last, bool durable,
                                            WalRecord* out) {
  constexpr uint64_t kSequences = uint64_t{1} << 32;
  for (;;) {
    PULSE_ASSIGN_OR_RETURN(const std::string_view bytes, View(at, sizeof(RecordHeader) + 1));
    if (bytes.size() <= sizeof(RecordHeader)) return false;
    const size_t places = bytes.size() - sizeof(RecordHeader);
    size_t place = 0;
    for (; place < places; ++place) {
      RecordHeader h;
      std::memcpy(&h, bytes.data() + place, sizeof(RecordHeader));
      if (h.sequence <= last || h.sequence - last > kSequences || h.durable >= h.sequence) continue;
      if (durable && h.durable <= last) continue;
      // Cheap, and rarely so by chance: the checksum of 16 MiB takes a millisecond.
      if ((h.length & ~kContinues) - 1 < kMaxWalRecord) break;
    }
    at += place;
    if (place == places) continue;
    PULSE_ASSIGN_OR_RETURN(const bool whole, ReadAt(at, out));
    if (whole) return true;
    ++at;
  }
}

}  // namespace pulse::graph
