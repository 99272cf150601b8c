#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <memory>

#include "base/errors.h"
#include "services/ops/ahead/ahead_decoder.h"
#include "services/ops/ahead/isal_position.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"

namespace pulse::ops {
namespace {

// Where data shrank by more, stretches are shorter, so that their data are not more.
constexpr uint64_t kUsualRatio = 4;

absl::string_view IsalError(int code) {
  switch (code) {
    case ISAL_INVALID_BLOCK:
      return "an invalid DEFLATE block";
    case ISAL_INVALID_SYMBOL:
      return "an invalid DEFLATE symbol";
    case ISAL_INVALID_LOOKBACK:
      return "a DEFLATE distance beyond the beginning";
    default:
      return "invalid DEFLATE data";
  }
}

class Inflater {
 public:
  Inflater(InputReader& in, OutputWriter& out, absl::string_view window, AheadDecoder* ahead)
      : in_(in), out_(out), ahead_(ahead), begin_(in.offset()), buffer_(out.GetBuffer()) {
    BeginInflate(*state_, window, 0, 0);
    window_.Append(window);
    Ready();
  }

  absl::Status Run() {
    while (true) {
      PULSE_ASSIGN_OR_RETURN(absl::string_view piece, in_.Piece());
      if (piece.empty()) {
        Submit().IgnoreError();  // the input's end is the error that counts
        return absl::DataLossError("the input ends in the middle of the data");
      }
      const std::optional<uint64_t> stop = NextStop();
      if (stop.has_value()) {
        piece =
            piece.substr(0, std::min<uint64_t>(piece.size(), FirstByteFed(*stop) - in_.offset()));
      }
      PULSE_RETURN_IF_ERROR(Decode(piece));
      if (state_->block_state == ISAL_BLOCK_FINISH) {
        // Whole bytes that it took and did not need.
        in_.Unread(static_cast<size_t>(state_->read_in_length / 8));
        return Submit();
      }
      if (!stop.has_value() || in_.offset() != FirstByteFed(*stop) || !AtHeader(*state_) ||
          PositionOf(*state_, in_.offset()) != *stop) {
        continue;
      }
      PULSE_ASSIGN_OR_RETURN(const bool ended, TakeAhead(*stop));
      if (ended) return Submit();
    }
  }

 private:
  void Ready() {
    state_->next_out = buffer_.data();
    state_->avail_out = static_cast<uint32_t>(OutputWriter::kPiece);
  }
  absl::Status Submit() {
    buffer_.Resize(OutputWriter::kPiece - state_->avail_out);
    data_ += buffer_.size();
    KeepLast(window_, buffer_.view(), kDeflateWindow);
    return out_.Submit(std::move(buffer_));
  }
  absl::Status SubmitAndReady() {
    PULSE_RETURN_IF_ERROR(Submit());
    buffer_ = out_.GetBuffer();
    Ready();
    return absl::OkStatus();
  }

  // All of the piece, unless the data end in it.
  absl::Status Decode(absl::string_view piece) {
    state_->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(piece.data()));
    state_->avail_in = static_cast<uint32_t>(piece.size());
    // Where a code is damaged, ISA-L may have given back more than it was given now.
    const auto taken = [&] {
      return piece.size() - std::min<size_t>(state_->avail_in, piece.size());
    };
    while (true) {
      const int got = isal_inflate(state_.get());
      if (got < 0) {
        in_.Consume(taken());
        Submit().IgnoreError();  // the damage is the error that counts
        return absl::DataLossError(IsalError(got));
      }
      if (state_->block_state == ISAL_BLOCK_FINISH) break;
      if (state_->avail_out == 0) {
        PULSE_RETURN_IF_ERROR(SubmitAndReady());
        continue;
      }
      if (state_->avail_in == 0) break;
    }
    in_.Consume(taken());
    return absl::OkStatus();
  }

  // How much of the input a worker takes at a time. Less at first, so that it begins soon, and
  // towards the end, so that all end together. 0: the input is too short for threads and their
  // memory to pay, or has just begun.
  uint64_t NextStretch() const {
    const uint64_t most = ahead_->options().stretch;
    const uint64_t taken = in_.offset() - begin_;
    const uint64_t left = in_.Left().value_or(UINT64_MAX - taken);
    if (taken < most || taken + left < 4 * most) return 0;
    const uint64_t stretch = std::min({most, taken / 2, left / (2 * ahead_->options().workers + 4),
                                       kUsualRatio * most * taken / data_});
    return std::max(stretch, most / 4);
  }

  // Lets others decode ahead, and says at which bit they began.
  std::optional<uint64_t> NextStop() {
    if (ahead_ == nullptr || data_ < kDeflateWindow) return std::nullopt;
    stretch_ = NextStretch();
    // Where writing is slower, more data would only wait.
    if (out_.IsBehind()) stretch_ = 0;
    ahead_->Continue(in_, stretch_);
    // What was taken cannot be stopped at.
    return ahead_->NextBegin(8 * in_.offset());
  }

  // What others decoded from this bit on; it stands there. Returns whether that was all.
  absl::StatusOr<bool> TakeAhead(uint64_t bit) {
    std::optional<AheadData> ahead = ahead_->Take(bit);
    if (!ahead.has_value()) return false;
    PULSE_RETURN_IF_ERROR(SubmitAndReady());
    Buffer behind;
    while (true) {
      data_ += ahead->data->data.size();
      ahead->data->WindowBehind(window_.view(), behind);
      PULSE_RETURN_IF_ERROR(out_.SubmitLate(ahead_->Resolve(*ahead, window_.view(), out_.check())));
      std::swap(window_, behind);
      bit = ahead->end_bit;
      PULSE_RETURN_IF_ERROR(SkipTo(bit / 8));
      if (ahead->final) return true;
      ahead_->Continue(in_, stretch_);
      ahead = ahead_->Take(bit);
      if (!ahead.has_value()) break;
    }
    uint8_t before = 0;
    if (bit % 8 != 0) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view next, in_.Peek(1));
      before = static_cast<uint8_t>(next.front());
      in_.Consume(1);
    }
    BeginInflate(*state_, window_.view(), bit, before);
    Ready();
    return false;
  }

  // To what was looked at before.
  absl::Status SkipTo(uint64_t offset) {
    while (in_.offset() < offset) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in_.Piece());
      in_.Consume(std::min<uint64_t>(piece.size(), offset - in_.offset()));
    }
    return absl::OkStatus();
  }

  InputReader& in_;
  OutputWriter& out_;
  AheadDecoder* const ahead_;
  const uint64_t begin_;
  const std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();
  Buffer buffer_;
  Buffer window_;      // the last data that were submitted
  uint64_t data_ = 0;  // that were submitted
  uint64_t stretch_ = 0;
};

}  // namespace

absl::Status InflateInOrder(InputReader& in, OutputWriter& out, absl::string_view window,
                            AheadDecoder* ahead) {
  return Inflater(in, out, window, ahead).Run();
}

}  // namespace pulse::ops
