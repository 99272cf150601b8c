#include "services/graph/salvage/salvaged_log.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/core/checkpoint.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using Apply = std::function<void(uint64_t, std::string_view)>;

class LogReading {
 public:
  LogReading(Files* files, std::string directory, SalvageNotes* notes, const Apply& apply)
      : files_(files), directory_(std::move(directory)), notes_(*notes), apply_(apply) {}

  absl::Status ReadSegment(uint64_t number, bool last_one);
  // Of a whole segment nothing is left.
  void Lose(uint64_t number, const std::string& why) {
    log_.whole = false;
    broken_ = true;
    ++notes_.report().files_lost;
    notes_.Name(Concat("the log's segment ", WalPath(directory_, number), why,
                       "; the commits in it are lost"));
  }
  const SalvagedLog& log() const { return log_; }

 private:
  // `at`: the place that is read; 0: the beginning.
  absl::Status ReadRecords(WalSegmentReader* segment, bool last_one, uint64_t* at);
  void Take(const WalRecord& record);
  // Commits up to `next` are not there.
  void CountGap(uint64_t next) {
    if (std::exchange(broken_, false) && next > log_.last_sequence + 1) {
      notes_.report().commits_lost += next - log_.last_sequence - 1;
    }
  }
  void Damage(const WalSegmentReader& segment, uint64_t begin, const WalRecord* next,
              const std::string& why = "") {
    log_.whole = false;
    broken_ = true;
    const std::string end = next == nullptr ? " to its end" : Concat(" to ", next->begin - 1);
    notes_.Name(Concat("the log is damaged: ", segment.path(), ", bytes ", begin, end, why));
    // The parts of a commit that lack their first one. All but the last are of 16 MiB: behind a
    // shorter damage only one that is known can go on.
    const bool may_go_on = next != nullptr && next->begin - begin > kMaxWalRecord;
    skip_ = !parts_.empty() ? parts_of_ : may_go_on ? next->sequence : 0;
    parts_.clear();
  }

  Files* const files_;
  const std::string directory_;
  SalvageNotes& notes_;
  const Apply& apply_;
  SalvagedLog log_;
  std::string parts_;
  uint64_t parts_of_ = 0;  // the commit
  uint64_t skip_ = 0;      // the commit whose records are left out
  bool broken_ = false;    // what comes next may not follow what was last
  bool any_segment_ = false;
};

void LogReading::Take(const WalRecord& record) {
  if (record.sequence == skip_) return;
  skip_ = 0;
  parts_ += record.payload;
  parts_of_ = record.sequence;
  if (record.continues) return;
  CountGap(record.sequence);
  apply_(record.sequence, parts_);
  parts_.clear();
  log_.last_sequence = record.sequence;
}

// Finds records of a segment that say that something had been durable, for places that ascend. It
// reads ahead of who asks, by a window of its own, and no byte twice.
class DurableRecords {
 public:
  DurableRecords(Files* files, const std::string& directory, uint64_t number)
      : segment_(files, directory, number) {}

  // Whether one from `at` on says so of a sequence above `after`.
  absl::StatusOr<bool> Has(uint64_t at, uint64_t after) {
    while (!none_ && (found_.begin < at || found_.sequence <= after || found_.durable <= after)) {
      const uint64_t from = std::max(at, found_.begin + 1);
      PULSE_ASSIGN_OR_RETURN(const bool more, segment_.Find(from, after, true, &found_));
      none_ = !more;
    }
    return !none_;
  }

 private:
  WalSegmentReader segment_;
  WalRecord found_;  // the last one, whose payload has gone
  bool none_ = false;
};

absl::Status LogReading::ReadSegment(uint64_t number, bool last_one) {
  WalSegmentReader segment(files_, directory_, number);
  uint64_t at = 0;
  const absl::Status read = ReadRecords(&segment, last_one, &at);
  // What this process is short of is no damage, nor is a newer format.
  if (read.ok() || absl::IsResourceExhausted(read) || absl::IsFailedPrecondition(read)) return read;
  // As where bytes are damaged, what comes next in the log is taken.
  const std::string why = Concat(" cannot be read: ", std::string(read.message()));
  if (at == 0) {
    Lose(number, why);
  } else {
    Damage(segment, at, nullptr, why);
  }
  return absl::OkStatus();
}

absl::Status LogReading::ReadRecords(WalSegmentReader* reader, bool last_one, uint64_t* place) {
  WalSegmentReader& segment = *reader;
  DurableRecords durable(files_, directory_, segment.number());
  PULSE_ASSIGN_OR_RETURN(const WalSegmentReader::Head head, segment.ReadHead());
  if (!head.valid) {
    if (last_one && !head.has_more) return absl::OkStatus();
    log_.whole = false;
    broken_ = true;
    notes_.Name(Concat("the log is damaged: ", segment.path(), ", its first ", kWalSegmentHeader,
                       " bytes"));
  } else if (head.after < log_.last_sequence && !head.has_more) {
    return absl::OkStatus();  // its making failed
  } else if (head.after > log_.last_sequence && any_segment_) {
    log_.whole = false;
    broken_ = true;
    notes_.Name(Concat("the log lacks what was written before ", segment.path()));
  }
  // What was before the first one is in the checkpoint.
  if (!std::exchange(any_segment_, true) && head.valid && !broken_) {
    log_.last_sequence = std::max(log_.last_sequence, head.after);
  }
  WalRecord record;
  uint64_t& at = *place;
  for (at = kWalSegmentHeader;;) {
    bool at_end;
    PULSE_ASSIGN_OR_RETURN(const bool whole, segment.ReadAt(at, &record, &at_end));
    const uint64_t after = std::max(log_.last_sequence, head.after);
    if (at_end) {
      if (!parts_.empty() && !last_one) Damage(segment, at, nullptr);
      parts_.clear();
      return absl::OkStatus();
    }
    if (!whole || record.sequence <= after) {
      if (last_one) {
        PULSE_ASSIGN_OR_RETURN(const bool was, durable.Has(at + 1, after));
        if (!was) {
          parts_.clear();
          return absl::OkStatus();
        }
      }
      PULSE_ASSIGN_OR_RETURN(const bool more, segment.Find(at + 1, after, false, &record));
      Damage(segment, at, more ? &record : nullptr);
      if (!more) return absl::OkStatus();
      at = record.begin;
      continue;
    }
    Take(record);
    at = record.end;
  }
}

// The frame at a place; false: there is none that is whole. length 0: the end.
bool FrameAt(std::string_view bytes, size_t at, CheckpointFrame* frame, std::string_view* payload) {
  if (at > bytes.size() || bytes.size() - at < sizeof(*frame)) return false;
  std::memcpy(frame, bytes.data() + at, sizeof(*frame));
  const size_t length = frame->length == 0 ? sizeof(uint64_t) : frame->length;
  const std::string_view rest = bytes.substr(at + sizeof(*frame));
  if (rest.size() < length) return false;
  // Of an operation; what is searched for frames byte by byte has few such places.
  constexpr char kLastKind = static_cast<char>(Operation::Kind::kCounters);
  if (frame->length != 0 && (rest[0] < 1 || rest[0] > kLastKind)) return false;
  if (Crc32c(rest.data(), length) != frame->crc) return false;
  *payload = rest.substr(0, length);
  return true;
}

// Where the first whole frame behind a damaged one at `at` begins, or the end of the bytes.
size_t NextFrame(std::string_view bytes, size_t at) {
  CheckpointFrame frame;
  std::string_view payload;
  if (bytes.size() - at >= sizeof(frame)) {
    // Its length is mostly good.
    std::memcpy(&frame, bytes.data() + at, sizeof(frame));
    const size_t next = at + sizeof(frame) + frame.length;
    if (frame.length != 0 && FrameAt(bytes, next, &frame, &payload)) return next;
  }
  for (++at; at < bytes.size(); ++at) {
    if (FrameAt(bytes, at, &frame, &payload)) return at;
  }
  return bytes.size();
}

}  // namespace

absl::StatusOr<SalvagedLog> ReadSalvagedLog(Files* files, const std::string& directory,
                                            uint64_t first_segment, SalvageNotes* notes,
                                            const Apply& apply) {
  PULSE_ASSIGN_OR_RETURN(std::vector<uint64_t> numbers, ListWalSegments(files, directory));
  std::erase_if(numbers, [first_segment](uint64_t number) { return number < first_segment; });
  LogReading reading(files, directory, notes, apply);
  // Each database has the segment that its manifest names.
  uint64_t expected = first_segment;
  if (numbers.empty() && first_segment != 0) reading.Lose(first_segment, " is missing");
  if (first_segment == 0 && !numbers.empty()) expected = numbers.front();
  for (const uint64_t number : numbers) {
    // As many as are gone, named up to some; a number that is far off is no segment of this log.
    for (uint64_t gone = 0; expected < number && gone < 100; ++expected, ++gone) {
      reading.Lose(expected, " is missing");
    }
    PULSE_RETURN_IF_ERROR(reading.ReadSegment(number, number == numbers.back()));
    expected = number + 1;
  }
  return reading.log();
}

bool ReadDamagedCheckpoint(std::string_view bytes,
                           const std::function<void(std::string_view)>& apply,
                           const std::function<void(size_t, size_t)>& damaged) {
  bool whole = bytes.size() >= kCheckpointHeader && bytes.starts_with(kCheckpointMagic);
  if (!whole) damaged(0, std::min(bytes.size(), kCheckpointHeader));
  CheckpointFrame frame;
  std::string_view payload;
  for (size_t at = kCheckpointHeader;;) {
    if (at >= bytes.size()) {
      // The end is missing, too.
      damaged(bytes.size(), bytes.size());
      return false;
    }
    if (FrameAt(bytes, at, &frame, &payload)) {
      at += sizeof(frame) + payload.size();
      if (frame.length != 0) {
        apply(payload);
        continue;
      }
      if (at != bytes.size()) damaged(at, bytes.size());
      return whole && at == bytes.size();
    }
    const size_t next = NextFrame(bytes, at);
    damaged(at, next);
    if (next == bytes.size()) return false;
    whole = false;
    at = next;
  }
}

}  // namespace pulse::graph
