#include <lz4frame.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"
#include "services/ops/decoders.h"
#include "services/ops/format.h"

namespace pulse::ops {
namespace {

// 128 MiB, as the zstd program allows without --long.
constexpr int kMostWindowLog = 27;

absl::Status Truncated() { return absl::DataLossError("the input ends in the middle of the data"); }

// What a frame that begins with these bytes needs; its data if it has no window of its own.
uint64_t WindowOf(absl::string_view frame) {
  const auto byte = [&](size_t at) { return at < frame.size() ? frame[at] & 0xff : 0; };
  if ((byte(4) & 0x20) != 0) return ZSTD_getFrameContentSize(frame.data(), frame.size());
  const uint64_t base = uint64_t{1} << (10 + (byte(5) >> 3));
  return base + base / 8 * static_cast<uint64_t>(byte(5) & 7);
}

// Of a frame that begins with these bytes, which may be a good one that is not for this program.
absl::Status ZstdError(size_t error, absl::string_view frame, const std::string& where) {
  switch (ZSTD_getErrorCode(error)) {
    case ZSTD_error_frameParameter_windowTooLarge:
      return absl::ResourceExhaustedError(
          absl::StrCat(where, " needs a window of ", WindowOf(frame), " bytes, and at most ",
                       1 << kMostWindowLog, " are taken; `zstd -d --long=31` decodes it"));
    case ZSTD_error_dictionary_wrong:
      return absl::UnimplementedError(
          absl::StrCat(where, " needs a dictionary; `zstd -d -D DICTIONARY` decodes it"));
    default:
      return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(error)));
  }
}

}  // namespace

absl::Status ZstdSerial(InputReader& in, OutputWriter& out) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  PULSE_CHECK(context != nullptr);
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, kMostWindowLog);
  const uint64_t begin = in.offset();
  PULSE_ASSIGN_OR_RETURN(const absl::string_view peeked, in.Peek(kRecogniseBytes));
  const std::string head(peeked.substr(0, kRecogniseBytes));
  while (true) {
    Buffer buffer = out.GetBuffer();
    ZSTD_outBuffer to{buffer.data(), OutputWriter::kPiece, 0};
    while (to.pos < to.size) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in.Piece());
      ZSTD_inBuffer from{piece.data(), piece.size(), 0};
      const size_t before = to.pos;
      const size_t got = ZSTD_decompressStream(context.get(), &to, &from);
      in.Consume(from.pos);
      const bool failed = ZSTD_isError(got) != 0;
      const bool stuck = !failed && got != 0 && piece.empty() && to.pos == before;
      if (!failed && !stuck && got != 0) continue;
      buffer.Resize(to.pos);
      const absl::Status submitted = out.Submit(std::move(buffer));
      if (failed) {
        return ZstdError(got, head, absl::StrCat(in.name(), ": the zstd frame at offset ", begin));
      }
      if (stuck) return Truncated();
      return submitted;
    }
    buffer.Resize(to.pos);
    PULSE_RETURN_IF_ERROR(out.Submit(std::move(buffer)));
  }
}

absl::Status Lz4Serial(InputReader& in, OutputWriter& out) {
  LZ4F_dctx* raw = nullptr;
  PULSE_CHECK(LZ4F_isError(LZ4F_createDecompressionContext(&raw, LZ4F_VERSION)) == 0);
  const std::unique_ptr<LZ4F_dctx, LZ4F_errorCode_t (*)(LZ4F_dctx*)> context(
      raw, LZ4F_freeDecompressionContext);
  while (true) {
    Buffer buffer = out.GetBuffer();
    size_t used = 0;
    while (used < OutputWriter::kPiece) {
      PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, in.Piece());
      size_t room = OutputWriter::kPiece - used;
      size_t taken = piece.size();
      const size_t got = LZ4F_decompress(context.get(), buffer.data() + used, &room, piece.data(),
                                         &taken, nullptr);
      const bool failed = LZ4F_isError(got) != 0;
      if (!failed) {
        in.Consume(taken);
        used += room;
      }
      const bool stuck = !failed && got != 0 && piece.empty() && room == 0;
      if (!failed && !stuck && got != 0) continue;
      buffer.Resize(used);
      const absl::Status submitted = out.Submit(std::move(buffer));
      if (failed) return absl::DataLossError(absl::StrCat("lz4: ", LZ4F_getErrorName(got)));
      if (stuck) return Truncated();
      return submitted;
    }
    buffer.Resize(used);
    PULSE_RETURN_IF_ERROR(out.Submit(std::move(buffer)));
  }
}

}  // namespace pulse::ops
