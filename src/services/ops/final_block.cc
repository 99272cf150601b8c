#include "services/ops/final_block.h"

#include <zlib.h>

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace pulse::ops {

struct FinalBlockClearer::State {
  State() { PULSE_CHECK(inflateInit2(&inflater, -15) == Z_OK); }
  ~State() { inflateEnd(&inflater); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  z_stream inflater{};
  Buffer scratch;
};

FinalBlockClearer::FinalBlockClearer() : state_(std::make_unique<State>()) {}
FinalBlockClearer::~FinalBlockClearer() = default;
FinalBlockClearer::FinalBlockClearer(FinalBlockClearer&&) noexcept = default;
FinalBlockClearer& FinalBlockClearer::operator=(FinalBlockClearer&&) noexcept = default;

absl::Status FinalBlockClearer::Clear(absl::string_view data, size_t begin, Buffer& out) {
  z_stream& stream = state_->inflater;
  Buffer& scratch = state_->scratch;
  inflateReset(&stream);
  // A stream that means more is found by the byte that is more.
  scratch.Resize(data.size() + 1);
  stream.next_in = out.data() + begin;
  stream.avail_in = static_cast<uInt>(out.size() - begin);
  stream.next_out = scratch.data();
  stream.avail_out = static_cast<uInt>(scratch.size());
  constexpr int kAtBoundary = 128;
  constexpr int kInLastBlock = 64;
  uint64_t last_begins = 0;  // in bits
  uint64_t ends = 0;
  while (true) {
    const int got = inflate(&stream, Z_BLOCK);
    if (got != Z_OK && got != Z_STREAM_END) {
      return absl::InternalError(absl::StrCat("the stream does not decode: ", got));
    }
    if ((stream.data_type & kAtBoundary) == 0) {
      if (stream.avail_in == 0 || stream.avail_out == 0) {
        return absl::InternalError("the stream has no end");
      }
      continue;
    }
    const uint64_t at = uint64_t{stream.total_in} * 8 - static_cast<uint64_t>(stream.data_type & 7);
    if ((stream.data_type & kInLastBlock) != 0) {
      ends = at;
      break;
    }
    last_begins = at;
  }
  if (stream.avail_out != 1 ||
      (!data.empty() && std::memcmp(scratch.data(), data.data(), data.size()) != 0)) {
    return absl::InternalError("the stream decodes to something else");
  }
  uint8_t* bytes = out.data() + begin;
  bytes[last_begins / 8] &= static_cast<uint8_t>(~(1u << (last_begins % 8)));
  // Three bits for the stored block's header; unused ones are zero.
  out.Resize(begin + (ends + 3 + 7) / 8);
  if ((ends + 3 + 7) / 8 > (ends + 7) / 8) out.data()[out.size() - 1] = 0;
  out.Append(absl::string_view("\x00\x00\xff\xff", 4));
  return absl::OkStatus();
}

}  // namespace pulse::ops
