#include "services/ops/index/indexed_source.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/file_io.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

class IndexedDecoder : public Engine {
 public:
  explicit IndexedDecoder(EngineTraits traits) : Engine(std::move(traits)) {
    for (int i = 0; i < this->traits().lanes; ++i) {
      lanes_.push_back(std::make_unique<inflate_state>());
    }
  }

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    inflate_state* const state = lanes_[static_cast<size_t>(lane)].get();
    isal_inflate_init(state);
    state->crc_flag = ISAL_DEFLATE;
    // The library's input is not const, and not written to.
    auto* input = const_cast<uint8_t*>(chunk.input.data());
    if (chunk.prefix > 0 &&
        isal_inflate_set_dict(state, input, static_cast<uint32_t>(chunk.prefix)) != COMP_OK) {
      return absl::InternalError("ISA-L takes no dictionary");
    }
    const uint8_t* data = chunk.data();
    size_t size = chunk.size();
    if (chunk.kind > 0 && size > 0) {
      // The rest of the byte in which the segment begins.
      state->read_in = data[0] >> chunk.kind;
      state->read_in_length = static_cast<int32_t>(8 - chunk.kind);
      ++data;
      --size;
    }
    state->next_in = const_cast<uint8_t*>(data);
    state->avail_in = static_cast<uint32_t>(size);
    result.bytes.Resize(chunk.tag);
    state->next_out = result.bytes.data();
    state->avail_out = static_cast<uint32_t>(chunk.tag);
    const int got = chunk.tag == 0 ? ISAL_DECOMP_OK : isal_inflate(state);
    const bool right = got >= 0 && state->avail_out == 0 &&
                       crc32_gzip_refl(0, result.bytes.data(), chunk.tag) == chunk.checksum;
    if (right) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("damaged at offset ", chunk.offset, ": the ", chunk.tag,
                     " bytes of data from there on are not those of the index; if the file is "
                     "good, remove the index"));
  }

 private:
  std::vector<std::unique_ptr<inflate_state>> lanes_;
};

}  // namespace

IndexedSource::IndexedSource(const GzipIndex& index, const DataRange& range, int fd,
                             std::string name)
    : index_(index), fd_(fd), name_(std::move(name)) {
  const auto& segments = index.segments;
  const uint64_t end = range.size > index.data_bytes - std::min(range.begin, index.data_bytes)
                           ? index.data_bytes
                           : range.begin + range.size;
  while (first_ < segments.size() && data_begin_ + segments[first_].data_bytes <= range.begin &&
         range.begin > 0) {
    data_begin_ += segments[first_++].data_bytes;
  }
  uint64_t at = data_begin_;
  for (end_ = first_; end_ < segments.size() && (at < end || range.size == UINT64_MAX); ++end_) {
    at += segments[end_].data_bytes;
  }
  next_ = first_;
}

absl::StatusOr<bool> IndexedSource::Next(Chunk& chunk) {
  if (next_ == end_) return false;
  const IndexSegment& segment = index_.segments[next_++];
  chunk.offset = Begin(segment);
  chunk.prefix = segment.window_bytes;
  chunk.tag = segment.data_bytes;
  chunk.checksum = segment.crc;
  chunk.kind = static_cast<uint32_t>(segment.begin_bit % 8);
  chunk.input.Clear();
  chunk.input.Resize(chunk.prefix + segment.end - chunk.offset);
  return true;
}

absl::Status IndexedSource::Load(Chunk& chunk) {
  const IndexSegment& segment = index_.segments[first_ + chunk.number];
  if (!UnpackWindow(segment, chunk.input.data())) {
    return absl::DataLossError(absl::StrCat("the index of ", name_, " is damaged: its window for ",
                                            "offset ", chunk.offset, "; remove it"));
  }
  PULSE_ASSIGN_OR_RETURN(const size_t n, ReadAt(fd_, chunk.input.data() + chunk.prefix,
                                                chunk.size(), chunk.offset, "reading", name_));
  if (n == chunk.size()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(name_, " became shorter while it was read: it ends at ", chunk.offset + n));
}

uint64_t IndexedSource::TotalBytes() const {
  uint64_t bytes = 0;
  for (size_t i = first_; i < end_; ++i) {
    bytes += index_.segments[i].end - Begin(index_.segments[i]);
  }
  return bytes;
}

std::unique_ptr<Engine> MakeIndexedDecoder(EngineTraits traits) {
  return std::make_unique<IndexedDecoder>(std::move(traits));
}

IndexedSink::IndexedSink(const GzipIndex& index, const DataRange& range,
                         const IndexedSource& source, int fd, std::string name, OutputWriter& out)
    : index_(index),
      range_(range),
      fd_(fd),
      name_(std::move(name)),
      out_(out),
      next_(source.first()),
      at_(source.data_begin()),
      whole_(next_ == 0 || index.segments[next_ - 1].ends_member),
      garbage_(index.garbage) {}

absl::Status IndexedSink::Wrong(uint64_t offset, absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(name_, " is damaged at offset ", offset, ": ", what,
                                          "; if the file is good, remove the index"));
}

absl::Status IndexedSink::CheckHeader(size_t segment) const {
  const uint64_t begin = index_.segments[segment].begin_bit / 8;
  const uint64_t from = segment == 0 ? 0 : index_.segments[segment - 1].end + kGzipTrailer;
  constexpr absl::string_view kWhat = "a member does not begin where the index has it";
  if (begin <= from || begin - from > InputReader::kPiece) return Wrong(from, kWhat);
  std::string header(begin - from, '\0');
  PULSE_ASSIGN_OR_RETURN(const size_t n,
                         ReadAt(fd_, header.data(), header.size(), from, "reading", name_));
  const auto size = GzipHeaderSize(absl::string_view(header).substr(0, n));
  return size.ok() && *size == header.size() ? absl::OkStatus() : Wrong(from, kWhat);
}

absl::Status IndexedSink::CheckWindow(const Chunk& chunk) {
  const absl::string_view window = chunk.input.view().substr(0, chunk.prefix);
  if (first_) {
    tail_.Append(window);
    return absl::OkStatus();
  }
  return window == tail_.view()
             ? absl::OkStatus()
             : Wrong(chunk.offset, "the data before it are not those of the index");
}

absl::Status IndexedSink::CheckRest() {
  std::string piece(InputReader::kPiece, '\0');
  garbage_ = false;
  for (uint64_t at = index_.end;; at += piece.size()) {
    PULSE_ASSIGN_OR_RETURN(const size_t n,
                           ReadAt(fd_, piece.data(), piece.size(), at, "reading", name_));
    const absl::string_view bytes = absl::string_view(piece).substr(0, n);
    if (at == index_.end) {
      const auto format = Recognise(bytes.substr(0, kRecogniseBytes));
      if (format.ok() && *format != Format::kZlib) {
        return Wrong(at, "a member follows that is not in the index");
      }
    }
    garbage_ = bytes.find_first_not_of('\0') != absl::string_view::npos;
    if (garbage_ || n < piece.size()) return absl::OkStatus();
  }
}

absl::Status IndexedSink::Take(const Chunk& chunk, Result& result) {
  const IndexSegment& segment = index_.segments[next_++];
  const absl::string_view data = result.payload();
  const bool begins_member = next_ == 1 || index_.segments[next_ - 2].ends_member;
  if (begins_member) {
    tail_.Clear();
    PULSE_RETURN_IF_ERROR(CheckHeader(next_ - 1));
  } else {
    PULSE_RETURN_IF_ERROR(CheckWindow(chunk));
  }
  first_ = false;
  KeepLast(tail_, data, kDeflateWindow);
  crc_ =
      static_cast<uint32_t>(crc32_combine64(crc_, segment.crc, static_cast<off64_t>(data.size())));
  member_bytes_ += data.size();
  const uint64_t skip =
      range_.begin > at_ ? std::min<uint64_t>(range_.begin - at_, data.size()) : 0;
  const uint64_t from = at_ + skip - range_.begin;  // of the range
  at_ += data.size();
  if (from < range_.size) {
    PULSE_RETURN_IF_ERROR(
        out_.Write(data.substr(skip, std::min<uint64_t>(data.size() - skip, range_.size - from))));
  }
  if (!segment.ends_member) return absl::OkStatus();
  char trailer[kGzipTrailer];
  PULSE_ASSIGN_OR_RETURN(const size_t n,
                         ReadAt(fd_, trailer, sizeof(trailer), segment.end, "reading", name_));
  const bool right = n == sizeof(trailer) && LoadLe32(trailer) == crc_ &&
                     LoadLe32(&trailer[4]) == static_cast<uint32_t>(member_bytes_);
  if (whole_ && !right) {
    return Wrong(segment.end, "a member's checksum or size is not that of the index");
  }
  whole_ = true;
  crc_ = 0;
  member_bytes_ = 0;
  return next_ == index_.segments.size() ? CheckRest() : absl::OkStatus();
}

}  // namespace pulse::ops
