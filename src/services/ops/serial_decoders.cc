#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"
#include "services/ops/decoders.h"

namespace pulse::ops {
namespace {

absl::Status Truncated() { return absl::DataLossError("the input ends in the middle of the data"); }

}  // namespace

absl::Status ZstdSerial(InputReader& in, OutputWriter& out) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  PULSE_CHECK(context != nullptr);
  // 128 MiB, as the zstd program allows without --long.
  ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, 27);
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
      if (failed) return absl::DataLossError(absl::StrCat("zstd: ", ZSTD_getErrorName(got)));
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
