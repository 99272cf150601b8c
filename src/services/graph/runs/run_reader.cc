#include "services/graph/runs/run_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/model/newer_format.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/bits.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr uint64_t kMaxGroup = ~uint64_t{0} / kGroupNodes;
// A table from group to entry takes at most so many words for each entry.
constexpr uint64_t kDirectWords = 4;

bool IsWidth(int width) { return width == 1 || width == 2 || width == 4 || width == 8; }

// The sum of the first `n` numbers of `width` bytes.
uint64_t SumFirst(const char* p, int width, unsigned n) {
  uint64_t sum = 0;
  switch (width) {
    case 1: {
      constexpr uint64_t kOdd = 0x00ff00ff00ff00ff;
      for (; n >= 8; n -= 8, p += 8) {
        const uint64_t word = LoadWord(p);
        sum += ((word & kOdd) + (word >> 8 & kOdd)) * 0x0001000100010001 >> 48;
      }
      const uint64_t word = n == 0 ? 0 : LoadWord(p) & LowBits(static_cast<int>(8 * n));
      return sum + (((word & kOdd) + (word >> 8 & kOdd)) * 0x0001000100010001 >> 48);
    }
    case 2:
      for (unsigned i = 0; i < n; ++i) {
        uint16_t number;
        std::memcpy(&number, p + 2 * i, 2);
        sum += number;
      }
      return sum;
    case 4:
      for (unsigned i = 0; i < n; ++i) {
        uint32_t number;
        std::memcpy(&number, p + 4 * i, 4);
        sum += number;
      }
      return sum;
    default:
      for (unsigned i = 0; i < n; ++i) sum += LoadWord(p + 8 * i);
      return sum;
  }
}

uint64_t NumberAt(const char* p, int width, unsigned i) {
  return LoadWord(p + width * static_cast<int>(i)) & LowBits(8 * width);
}

// Where things lie in a group.
struct Directory {
  int count_width, bytes_width;
  unsigned nodes;
  const char* counts;
  const char* lengths;
  const char* blocks;

  Directory(const char* at, uint64_t bitmap)
      : count_width(static_cast<uint8_t>(at[0])),
        bytes_width(static_cast<uint8_t>(at[1])),
        nodes(static_cast<unsigned>(__builtin_popcountll(bitmap))),
        counts(at + 2),
        lengths(counts + nodes * static_cast<unsigned>(count_width)),
        blocks(lengths + nodes * static_cast<unsigned>(bytes_width)) {}
};

class Mapping {
 public:
  Mapping(void* address, size_t bytes) : address_(address), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(address_, bytes_); }

 private:
  void* const address_;
  const size_t bytes_;
};

}  // namespace

absl::StatusOr<RunBytes> MapRun(const std::string& path, uint64_t offset, uint64_t size) {
  // A pipe in its place must not wait for somebody to write to it.
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoError(errno, "looking at", path);
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (offset > file_bytes) offset = file_bytes;
  size = std::min(size, file_bytes - offset);
  if (size == 0) return RunBytes{nullptr, 0, nullptr, path, nullptr};
  const uint64_t before = offset % static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  void* at = mmap(nullptr, size + before, PROT_READ, MAP_SHARED, fd.get(),
                  static_cast<off_t>(offset - before));
  if (at == MAP_FAILED) return ErrnoError(errno, "mapping", path);
  auto owner = std::make_shared<Mapping>(at, size + before);
  return RunBytes{static_cast<const char*>(at) + before, size, nullptr, path, std::move(owner)};
}

RunBytes ForLookups(RunBytes bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<uintptr_t>(bytes.data);
  const uint64_t before = at % page, size = bytes.size + before;
  if (bytes.size == 0) return bytes;
  // With an old size of 0, a shared mapping is mapped a second time; of other memory it is an
  // error.
  void* again = mremap(reinterpret_cast<void*>(at - before), 0, size, MREMAP_MAYMOVE);
  if (again == MAP_FAILED) return bytes;
  (void)madvise(again, size, MADV_RANDOM);  // an advice
  bytes.pages = static_cast<const char*>(again) + before;
  bytes.owner = std::make_shared<std::pair<std::shared_ptr<const void>, Mapping>>(
      std::piecewise_construct, std::forward_as_tuple(std::move(bytes.owner)),
      std::forward_as_tuple(again, size));
  return bytes;
}

RunBytes OwnRun(std::string bytes, std::string name) {
  auto owner = std::make_shared<std::string>(std::move(bytes));
  return RunBytes{owner->data(), owner->size(), nullptr, std::move(name), owner};
}

absl::StatusOr<std::shared_ptr<const RunReader>> RunReader::Open(RunBytes bytes) {
  std::shared_ptr<RunReader> reader(new RunReader);
  reader->bytes_ = std::move(bytes);
  reader->pages_ = reader->bytes_.pages != nullptr ? reader->bytes_.pages : reader->bytes_.data;
  PULSE_RETURN_IF_ERROR(reader->Load(nullptr));
  return std::shared_ptr<const RunReader>(std::move(reader));
}

absl::StatusOr<std::shared_ptr<const RunReader>> RunReader::OpenDamaged(
    RunBytes bytes, std::vector<std::string>* damage) {
  std::shared_ptr<RunReader> reader(new RunReader);
  reader->bytes_ = std::move(bytes);
  reader->pages_ = reader->bytes_.pages != nullptr ? reader->bytes_.pages : reader->bytes_.data;
  PULSE_RETURN_IF_ERROR(reader->Load(damage));
  return std::shared_ptr<const RunReader>(std::move(reader));
}

absl::Status RunReader::Damaged(absl::string_view what, uint64_t offset) const {
  return absl::DataLossError(Concat("the run ", bytes_.name,
                                    " is damaged: ", std::string_view(what.data(), what.size()),
                                    ", at offset ", offset));
}

absl::Status RunReader::Load(std::vector<std::string>* damage) {
  const auto tolerate = [damage](absl::Status status) {
    if (status.ok() || damage == nullptr || !absl::IsDataLoss(status)) return status;
    damage->emplace_back(status.message());
    return absl::OkStatus();
  };
  const uint64_t size = bytes_.size;
  RunHeader header;
  RunFooter footer;
  if (size < sizeof(header) + sizeof(footer)) return Damaged("it is too short", 0);
  std::memcpy(&header, bytes_.data, sizeof(header));
  if (std::memcmp(header.magic, kRunMagic, sizeof(kRunMagic)) != 0 ||
      header.crc != Crc32c(&header, offsetof(RunHeader, crc))) {
    PULSE_RETURN_IF_ERROR(tolerate(Damaged("its header is none", 0)));
  } else if (header.version != kRunVersion) {
    return NewerFormat(Concat("the run ", bytes_.name), header.version, kRunVersion);
  }
  const uint64_t footer_at = size - sizeof(footer);
  std::memcpy(&footer, bytes_.data + footer_at, sizeof(footer));
  if (std::memcmp(footer.magic, kRunMagic, sizeof(kRunMagic)) != 0 ||
      footer.crc != Crc32c(&footer, offsetof(RunFooter, crc)) || footer.file_bytes != size) {
    return Damaged("its footer is none (the file is cut, or longer than it was)", footer_at);
  }
  if (footer.tables_offset < sizeof(header) || footer.tables_offset > footer.index_offset ||
      footer.index_offset > footer.meta_offset || footer.meta_offset > footer_at ||
      footer.groups != (footer.meta_offset - footer.index_offset) / sizeof(GroupEntry) ||
      (footer.meta_offset - footer.index_offset) % sizeof(GroupEntry) != 0) {
    return Damaged("its footer's offsets do not fit", footer_at);
  }
  PULSE_RETURN_IF_ERROR(LoadMeta(footer));
  // Every byte belongs to something that has a checksum, or is a zero before the tables.
  uint64_t covered = sizeof(header);
  PULSE_RETURN_IF_ERROR(LoadIndex(footer, &covered));
  if (absl::Status tables = LoadTables(footer, &covered); !tables.ok()) {
    info_.keys.clear();
    starts_.clear();
    segment_entries_.clear();
    return tolerate(std::move(tables));
  }
  return tolerate(CheckPadding(footer, covered));
}

absl::Status RunReader::CheckPadding(const RunFooter& footer, uint64_t covered) const {
  const uint64_t padding = footer.tables_offset - covered;
  if (covered > footer.tables_offset || padding >= 8) {
    return Damaged("its parts do not add up to the file", bytes_.size - sizeof(footer));
  }
  for (uint64_t i = 0; i < padding; ++i) {
    if (bytes_.data[footer.tables_offset - 1 - i] != 0) {
      return Damaged("padding is not zero", footer.tables_offset - 1 - i);
    }
  }
  return absl::OkStatus();
}

absl::Status RunReader::LoadMeta(const RunFooter& footer) {
  const uint64_t at = footer.meta_offset;
  absl::string_view meta(bytes_.data + at, bytes_.size - sizeof(RunFooter) - at);
  if (Crc32c(meta.data(), meta.size()) != footer.meta_crc) {
    return Damaged("the checksum of its meta data", at);
  }
  const auto bad = [&] { return Damaged("its meta data are none", at); };
  uint64_t side = 0, n = 0;
  for (uint64_t* number :
       {&side, &info_.nodes, &info_.records, &info_.tombstones, &info_.updates, &info_.first_node,
        &info_.last_node, &info_.max_sequence, &info_.horizon, &n}) {
    if (!ReadVarint(&meta, number)) return bad();
  }
  if (side > 1 || n > meta.size() || info_.max_sequence > kMaxSequence ||
      info_.horizon > kMaxSequence) {
    return bad();
  }
  // What takes a record's time or memory for each is bounded by the file.
  if (info_.records / kMostRecordsOfByte > bytes_.size) return bad();
  info_.side = static_cast<Side>(side);
  info_.bytes = bytes_.size;
  for (; n > 0; --n) {
    uint64_t key = 0;
    if (!ReadVarint(&meta, &key) || key >= kNoToken ||
        (!info_.keys.empty() && info_.keys.back() >= key)) {
      return bad();
    }
    info_.keys.push_back(static_cast<Token>(key));
  }
  if (!ReadVarint(&meta, &n) || n > meta.size()) return bad();
  for (; n > 0; --n) {
    uint64_t type = 0, records = 0;
    if (!ReadVarint(&meta, &type) || !ReadVarint(&meta, &records) || type > kNoToken) return bad();
    info_.types.emplace_back(static_cast<Token>(type), records);
  }
  if (!ReadVarint(&meta, &n) || n > meta.size() || n != footer.segments) return bad();
  starts_.assign(1, 0);
  for (; n > 0; --n) {
    uint64_t rows = 0;
    if (!ReadVarint(&meta, &rows) || rows == 0 || rows > kMostSegmentRows ||
        rows > info_.records - starts_.back()) {
      return bad();
    }
    starts_.push_back(starts_.back() + rows);
  }
  if (!meta.empty() || (!info_.keys.empty() && starts_.back() != info_.records)) return bad();
  return absl::OkStatus();
}

absl::Status RunReader::LoadIndex(const RunFooter& footer, uint64_t* covered) {
  const char* at = bytes_.data + footer.index_offset;
  group_count_ = footer.groups;
  if (Crc32c(at, group_count_ * sizeof(GroupEntry)) != footer.index_crc) {
    return Damaged("the checksum of its index", footer.index_offset);
  }
  if (reinterpret_cast<uintptr_t>(at) % alignof(GroupEntry) == 0) {
    groups_ = reinterpret_cast<const GroupEntry*>(at);
  } else {
    unaligned_.resize(group_count_);
    if (group_count_ > 0) std::memcpy(unaligned_.data(), at, group_count_ * sizeof(GroupEntry));
    groups_ = unaligned_.data();
  }
  uint64_t nodes = 0, position = 0;
  for (size_t i = 0; i < group_count_; ++i) {
    const GroupEntry& entry = groups_[i];
    if (entry.bitmap == 0 || entry.group > kMaxGroup ||
        (i > 0 && groups_[i - 1].group >= entry.group) || entry.offset > footer.tables_offset ||
        entry.bytes > footer.tables_offset - entry.offset || entry.position < position ||
        entry.position > info_.records || (i == 0 && entry.position != 0)) {
      return Damaged("an entry of its index", footer.index_offset + i * sizeof(GroupEntry));
    }
    position = entry.position;
    *covered += entry.bytes;
    nodes += static_cast<uint64_t>(__builtin_popcountll(entry.bitmap));
  }
  if (nodes != info_.nodes || (group_count_ == 0 && info_.records != 0)) {
    return Damaged("its index has other nodes than its meta data", footer.index_offset);
  }
  group_checked_ = std::make_unique<std::atomic<uint8_t>[]>(group_count_);
  if (group_count_ == 0) return absl::OkStatus();
  first_group_ = groups_[0].group;
  last_group_ = groups_[group_count_ - 1].group;
  const uint64_t span = last_group_ - first_group_ + 1;
  dense_ = span == group_count_;
  if (!dense_ && span <= kDirectWords * group_count_ && group_count_ < kNoRecord) {
    direct_.assign(span, kNoRecord);
    for (size_t i = 0; i < group_count_; ++i) {
      direct_[groups_[i].group - first_group_] = static_cast<uint32_t>(i);
    }
  }
  return absl::OkStatus();
}

absl::Status RunReader::LoadTables(const RunFooter& footer, uint64_t* covered) {
  const uint64_t bytes = footer.index_offset - footer.tables_offset;
  const uint64_t entries = bytes / sizeof(SegmentEntry);
  const uint64_t keys = info_.keys.size();
  if (bytes % sizeof(SegmentEntry) != 0 ||
      (keys == 0 ? entries != 0 : entries % keys != 0 || entries / keys != footer.segments)) {
    return Damaged("its tables of segments have another size", footer.tables_offset);
  }
  const char* at = bytes_.data + footer.tables_offset;
  if (Crc32c(at, bytes) != footer.tables_crc) {
    return Damaged("the checksum of its tables of segments", footer.tables_offset);
  }
  segment_entries_.resize(entries);
  if (entries > 0) std::memcpy(segment_entries_.data(), at, bytes);
  for (uint64_t i = 0; i < entries; ++i) {
    const SegmentEntry& entry = segment_entries_[i];
    const uint64_t segment = i % footer.segments;
    if (entry.offset > footer.tables_offset || entry.bytes > footer.tables_offset - entry.offset ||
        entry.count != starts_[segment + 1] - starts_[segment] ||
        entry.kind > static_cast<uint32_t>(ColumnKind::kValues)) {
      return Damaged("an entry of its tables of segments",
                     footer.tables_offset + i * sizeof(SegmentEntry));
    }
    *covered += entry.bytes;
  }
  segment_checked_ = std::make_unique<std::atomic<uint8_t>[]>(entries);
  return absl::OkStatus();
}

const GroupEntry* RunReader::SearchGroup(uint64_t group) const {
  const GroupEntry* end = groups_ + group_count_;
  const GroupEntry* found = std::lower_bound(
      groups_, end, group, [](const GroupEntry& e, uint64_t g) { return e.group < g; });
  return found == end || found->group != group ? nullptr : found;
}

absl::Status RunReader::CheckGroup(const char* bytes, size_t group) const {
  const GroupEntry& entry = groups_[group];
  const auto damaged = [&](std::string_view what, uint64_t offset) {
    const uint64_t first = entry.group * kGroupNodes;
    return Damaged(Concat(what, " of nodes ", first, " to ", first + kGroupNodes - 1), offset);
  };
  const char* at = bytes + entry.offset;
  if (Crc32c(at, entry.bytes) != entry.crc) return damaged("the checksum", entry.offset);
  const auto nodes = static_cast<uint64_t>(__builtin_popcountll(entry.bitmap));
  const auto bad = [&] { return damaged("the directory", entry.offset); };
  if (entry.bytes < 2) return bad();
  const Directory directory(at, entry.bitmap);
  if (!IsWidth(directory.count_width) || !IsWidth(directory.bytes_width)) return bad();
  const auto begin = static_cast<uint64_t>(directory.blocks - at);
  if (begin > entry.bytes) return bad();
  uint64_t left = entry.bytes - begin, records = 0;
  const char* block = directory.blocks;
  bool stamps = false;
  for (unsigned i = 0; i < nodes; ++i) {
    const uint64_t count = NumberAt(directory.counts, directory.count_width, i);
    const uint64_t length = NumberAt(directory.lengths, directory.bytes_width, i);
    if (length > left || count == 0 || count > info_.records - records) return bad();
    if (!CheckBlock(block, length, count, &stamps)) {
      return damaged("a block", static_cast<uint64_t>(block - bytes));
    }
    block += length;
    left -= length;
    records += count;
  }
  const uint64_t end = group + 1 < group_count_ ? groups_[group + 1].position : info_.records;
  if (left != 0 || records != end - entry.position) return bad();
  if (stamps && (entry.flags & GroupEntry::kVersions) == 0) return bad();
  group_checked_[group].store(1, std::memory_order_release);
  if (cypher::counted_reads != nullptr) cypher::counted_reads->checked_bytes += entry.bytes;
  return absl::OkStatus();
}

absl::StatusOr<NodeView> RunReader::Find(NodeId node) const {
  const GroupEntry* entry = FindGroup(node / kGroupNodes);
  const uint64_t bit = node % kGroupNodes;
  if (entry == nullptr || (entry->bitmap >> bit & 1) == 0) {
    return NodeView(node, info_.side, 0, 0, nullptr, 0);
  }
  PULSE_RETURN_IF_ERROR(Touch(pages_, static_cast<size_t>(entry - groups_)));
  const Directory directory(pages_ + entry->offset, entry->bitmap);
  const auto before =
      static_cast<unsigned>(__builtin_popcountll(entry->bitmap & ((uint64_t{1} << bit) - 1)));
  return NodeView(node, info_.side, NumberAt(directory.counts, directory.count_width, before),
                  entry->position + SumFirst(directory.counts, directory.count_width, before),
                  directory.blocks + SumFirst(directory.lengths, directory.bytes_width, before),
                  NumberAt(directory.lengths, directory.bytes_width, before));
}

absl::Status RunReader::Finder::Seek(NodeId node, NodeView* view) {
  const uint64_t group = node / kGroupNodes, bit = node % kGroupNodes;
  const GroupEntry* entry = group == group_ ? entry_ : run_->FindGroup(group);
  if (entry == nullptr || (entry->bitmap >> bit & 1) == 0) {
    *view = NodeView();
    return absl::OkStatus();
  }
  if (group != group_) {
    // Group after group is no look-up.
    const char* bytes = group == group_ + 1 ? run_->bytes_.data : run_->pages_;
    PULSE_RETURN_IF_ERROR(run_->Touch(bytes, static_cast<size_t>(entry - run_->groups_)));
    const Directory directory(bytes + entry->offset, entry->bitmap);
    entry_ = entry;
    group_ = group;
    side_ = run_->info_.side;
    count_width_ = static_cast<unsigned>(directory.count_width);
    bytes_width_ = static_cast<unsigned>(directory.bytes_width);
    count_mask_ = LowBits(8 * directory.count_width);
    bytes_mask_ = LowBits(8 * directory.bytes_width);
    counts_ = directory.counts;
    lengths_ = directory.lengths;
    blocks_ = directory.blocks;
  }
  const uint64_t before = entry->bitmap & ((uint64_t{1} << bit) - 1);
  at_ = static_cast<unsigned>(__builtin_popcountll(before));
  left_ = entry->bitmap & ~before;
  position_ = entry->position + SumFirst(counts_, static_cast<int>(count_width_), at_);
  block_ = blocks_ + SumFirst(lengths_, static_cast<int>(bytes_width_), at_);
  Take(node, view);
  return absl::OkStatus();
}

absl::Status RunReader::AddCounts(std::span<const NodeId> nodes, std::span<uint64_t> counts) const {
  // Entries of the index come into the cache ahead, then groups.
  uint64_t last = ~uint64_t{1};
  constexpr size_t kGroupAhead = 8, kEntryAhead = 16;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (dense_ && i + kEntryAhead < nodes.size()) {
      __builtin_prefetch(FindGroup(nodes[i + kEntryAhead] / kGroupNodes));
    }
    if (i + kGroupAhead < nodes.size()) PrefetchNode(nodes[i + kGroupAhead]);
    const GroupEntry* entry = FindGroup(nodes[i] / kGroupNodes);
    const uint64_t bit = nodes[i] % kGroupNodes;
    if (entry == nullptr || (entry->bitmap >> bit & 1) == 0) continue;
    const char* bytes = entry->group - last <= 1 ? bytes_.data : pages_;
    last = entry->group;
    PULSE_RETURN_IF_ERROR(Touch(bytes, static_cast<size_t>(entry - groups_)));
    const Directory directory(bytes + entry->offset, entry->bitmap);
    const auto before =
        static_cast<unsigned>(__builtin_popcountll(entry->bitmap & ((uint64_t{1} << bit) - 1)));
    counts[i] += NumberAt(directory.counts, directory.count_width, before);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> RunReader::ReadGroup(size_t group, NodeView* views) const {
  PULSE_RETURN_IF_ERROR(Touch(bytes_.data, group));
  const GroupEntry& entry = groups_[group];
  const Directory directory(bytes_.data + entry.offset, entry.bitmap);
  const char* block = directory.blocks;
  uint64_t position = entry.position;
  uint64_t bits = entry.bitmap;
  for (unsigned i = 0; i < directory.nodes; ++i, bits &= bits - 1) {
    const uint64_t count = NumberAt(directory.counts, directory.count_width, i);
    const uint64_t bytes = NumberAt(directory.lengths, directory.bytes_width, i);
    const NodeId node = entry.group * kGroupNodes + static_cast<unsigned>(__builtin_ctzll(bits));
    views[i] = NodeView(node, info_.side, count, position, block, bytes);
    block += bytes;
    position += count;
  }
  return directory.nodes;
}

absl::StatusOr<const char*> RunReader::GroupBytes(size_t group, bool check) const {
  if (check) PULSE_RETURN_IF_ERROR(Touch(bytes_.data, group));
  return bytes_.data + groups_[group].offset;
}

RunReader::Cursor::Cursor(const RunReader* run, NodeId first, NodeId last)
    : run_(run), first_(first), last_(last) {
  const GroupEntry* begin = run->groups_;
  group_ = static_cast<size_t>(
      std::lower_bound(begin, begin + run->group_count_, first / kGroupNodes,
                       [](const GroupEntry& e, uint64_t g) { return e.group < g; }) -
      begin);
}

absl::StatusOr<size_t> RunReader::Cursor::NextGroup(NodeView* views) {
  while (group_ < run_->group_count_ && run_->groups_[group_].group <= last_ / kGroupNodes) {
    PULSE_ASSIGN_OR_RETURN(size_t n, run_->ReadGroup(group_, views));
    ++group_;
    // At the ends of the range only some are of it.
    if (views[0].node() < first_ || views[n - 1].node() > last_) {
      const auto outside = [this](const NodeView& v) {
        return v.node() < first_ || v.node() > last_;
      };
      n = static_cast<size_t>(std::remove_if(views, views + n, outside) - views);
    }
    if (n > 0) return n;
  }
  return size_t{0};
}

absl::StatusOr<bool> RunReader::Cursor::Next(NodeView* view) {
  if (at_ == count_) {
    PULSE_ASSIGN_OR_RETURN(count_, NextGroup(views_));
    at_ = 0;
    if (count_ == 0) return false;
  }
  *view = views_[at_++];
  return true;
}

}  // namespace pulse::graph
