#include "services/ops/index/index_builder.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"

namespace pulse::ops {
namespace {

// What is given at a time where a block's end is looked for. No header with codes of its own is
// shorter than what is left of a byte or two.
constexpr size_t kSearchStep = 2048;
// Where no end is found within so many bytes, nothing is looked for until the next piece.
constexpr size_t kMostSearched = 128 << 10;

// The same codes, and no block's end seen. Blocks with fixed codes look alike, and are not told
// apart: no segment begins there.
bool SameBlock(const inflate_state& a, const inflate_state& b) {
  return a.block_state == b.block_state && a.bfinal == b.bfinal &&
         std::memcmp(&a.lit_huff_code, &b.lit_huff_code, sizeof(a.lit_huff_code)) == 0 &&
         std::memcmp(&a.dist_huff_code, &b.dist_huff_code, sizeof(a.dist_huff_code)) == 0;
}

// All data are in the output, and the next thing is a block's header.
bool AtHeader(const inflate_state& state) {
  return state.block_state == ISAL_BLOCK_HDR && state.bfinal == 0 && state.avail_out > 0 &&
         state.tmp_out_processed == state.tmp_out_valid;
}

class IndexingInflater {
 public:
  IndexingInflater(InputReader& in, OutputWriter& out, IndexBuilder& index)
      : in_(in), out_(out), index_(index), buffer_(out.GetBuffer()) {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_DEFLATE;
    Ready();
  }

  absl::Status Run() {
    index_.BeginMember(in_.offset());
    while (true) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in_.Piece());
      if (piece.empty()) {
        Submit().IgnoreError();  // the input's end is the error that counts
        return absl::DataLossError("the input ends in the middle of the data");
      }
      piece_ = piece;
      state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(piece.data()));
      state_->avail_in = 0;
      const absl::Status status = DecodePiece();
      in_.Consume(Taken());
      if (!status.ok()) {
        Submit().IgnoreError();
        return status;
      }
      if (state_->block_state != ISAL_BLOCK_FINISH) continue;
      in_.Unread(static_cast<size_t>(state_->read_in_length / 8));
      PULSE_RETURN_IF_ERROR(Submit());
      index_.EndMember(in_.offset());
      return absl::OkStatus();
    }
  }

 private:
  void Ready() {
    state_->next_out = buffer_.data();
    state_->avail_out = static_cast<uint32_t>(OutputWriter::kPiece);
    told_ = 0;
  }
  size_t Used() const { return OutputWriter::kPiece - state_->avail_out; }
  // Where a code is damaged, ISA-L may have given back more than it was given now.
  size_t Taken() const {
    const auto* begin = reinterpret_cast<const uint8_t*>(piece_.data());
    return state_->next_in < begin
               ? 0
               : std::min(piece_.size(), static_cast<size_t>(state_->next_in - begin));
  }
  size_t Left() const { return piece_.size() - Taken(); }

  // What was decoded and is not yet known to the index.
  void Tell() {
    const size_t used = Used();
    index_.Add({reinterpret_cast<const char*>(buffer_.data()) + told_, used - told_});
    told_ = used;
  }
  absl::Status Submit() {
    Tell();
    buffer_.Resize(Used());
    return out_.Submit(std::move(buffer_));
  }
  absl::Status MakeRoom() {
    if (state_->avail_out > 0) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(Submit());
    buffer_ = out_.GetBuffer();
    Ready();
    return absl::OkStatus();
  }

  absl::Status Inflate(size_t bytes) {
    state_->avail_in = static_cast<uint32_t>(bytes);
    const int got = isal_inflate(state_.get());
    if (got >= 0) return absl::OkStatus();
    return absl::DataLossError(got == ISAL_INVALID_LOOKBACK
                                   ? "a DEFLATE distance beyond the beginning"
                                   : "invalid DEFLATE data");
  }

  absl::Status DecodePiece() {
    size_t searched = 0;
    // Also without input: what the output had no room for.
    do {
      PULSE_RETURN_IF_ERROR(MakeRoom());
      Tell();
      if (!index_.Due() || searched >= kMostSearched) {
        PULSE_RETURN_IF_ERROR(Inflate(Left()));
        SplitHere();
      } else {
        const size_t before = Left();
        PULSE_RETURN_IF_ERROR(Search());
        searched += before - Left();
      }
    } while (state_->block_state != ISAL_BLOCK_FINISH && (Left() > 0 || state_->avail_out == 0));
    return absl::OkStatus();
  }

  void SplitHere() {
    if (!AtHeader(*state_)) return;
    Tell();
    if (!index_.Due()) return;
    index_.Split(8 * (in_.offset() + Taken() - static_cast<uint64_t>(state_->tmp_in_size)) -
                 static_cast<uint64_t>(state_->read_in_length));
  }

  // A few bytes on. If a block ends in them, up to its end, and a segment begins there.
  absl::Status Search() {
    const size_t step = std::min(kSearchStep, Left());
    *kept_ = *state_;
    PULSE_RETURN_IF_ERROR(Inflate(step));
    if (AtHeader(*state_)) {
      SplitHere();
      return absl::OkStatus();
    }
    // The end of the data, or of the room: nothing can be said of what lies between.
    if (state_->block_state == ISAL_BLOCK_FINISH || state_->avail_out == 0 ||
        SameBlock(*kept_, *state_)) {
      return absl::OkStatus();
    }
    size_t within = 0;
    size_t beyond = step;
    while (beyond - within > 1) {
      const size_t middle = (within + beyond) / 2;
      *state_ = *kept_;
      PULSE_RETURN_IF_ERROR(Inflate(middle));
      if (AtHeader(*state_)) {
        SplitHere();
        return absl::OkStatus();
      }
      (SameBlock(*kept_, *state_) ? within : beyond) = middle;
    }
    // A block whose header is shorter than a byte.
    *state_ = *kept_;
    return Inflate(step);
  }

  InputReader& in_;
  OutputWriter& out_;
  IndexBuilder& index_;
  const std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
  const std::unique_ptr<inflate_state> kept_ = std::make_unique<inflate_state>();
  Buffer buffer_;
  size_t told_ = 0;  // of the buffer
  absl::string_view piece_;
};

}  // namespace

void IndexBuilder::BeginMember(uint64_t offset) {
  window_.Clear();
  open_ = IndexSegment();
  open_.begin_bit = 8 * offset;
}

void IndexBuilder::Add(absl::string_view data) {
  if (data.empty() || !why_not_.empty()) return;
  open_.data_bytes += data.size();
  open_.crc =
      crc32_gzip_refl(open_.crc, reinterpret_cast<const uint8_t*>(data.data()), data.size());
  const absl::string_view last = data.substr(data.size() - std::min(data.size(), kDeflateWindow));
  if (window_.size() + last.size() > 2 * kDeflateWindow) {
    const size_t keep = std::min(window_.size(), kDeflateWindow);
    std::memmove(window_.data(), window_.data() + window_.size() - keep, keep);
    window_.Resize(keep);
  }
  window_.Append(last);
}

void IndexBuilder::Close(uint64_t end, bool ends_member) {
  if (!why_not_.empty()) return;
  open_.end = end;
  open_.ends_member = ends_member;
  if (open_.data_bytes > kLargestPiece || end - open_.begin_bit / 8 > kLargestPiece) {
    return GiveUp(absl::StrCat("a DEFLATE block of more than ", kLargestPiece >> 20, " MiB"));
  }
  index_.data_bytes += open_.data_bytes;
  index_.segments.push_back(std::move(open_));
}

void IndexBuilder::Split(uint64_t bit) {
  Close((bit + 7) / 8, false);
  open_ = IndexSegment();
  open_.begin_bit = bit;
  const absl::string_view window =
      window_.view().substr(window_.size() - std::min(window_.size(), kDeflateWindow));
  open_.window_bytes = static_cast<uint32_t>(window.size());
  if (why_not_.empty()) open_.window = PackWindow(window);
}

void IndexBuilder::EndMember(uint64_t offset) { Close(offset, true); }

void IndexBuilder::GiveUp(std::string why) {
  if (why_not_.empty()) why_not_ = std::move(why);
  index_.segments.clear();
}

absl::StatusOr<GzipIndex> IndexBuilder::Take() {
  if (!why_not_.empty()) return absl::FailedPreconditionError(why_not_);
  if (index_.segments.empty()) return absl::FailedPreconditionError("there is no member");
  return std::move(index_);
}

absl::Status InflateIndexing(InputReader& in, OutputWriter& out, IndexBuilder& index) {
  return IndexingInflater(in, out, index).Run();
}

}  // namespace pulse::ops
