// Blocks of gzip that are decoded ahead, before the data in front of them are known: they give what
// ISA-L and zlib give with these data.
#include <isa-l/igzip_lib.h>
#include <zlib.h>

#include <memory>
#include <optional>
#include <string>

#include "fuzz_input.h"
#include "services/ops/ahead/block_finder.h"
#include "services/ops/ahead/isal_position.h"
#include "services/ops/ahead/twin_inflater.h"
#include "services/ops/deflate_frame.h"

namespace {

using pulse::ops::TwinInflater;

constexpr size_t kMost = 1 << 18;

std::string MakeWindow(uint32_t seed) {
  std::string window(pulse::ops::kDeflateWindow, '\0');
  for (char& c : window) {
    seed = seed * 1664525u + 1013904223u;
    c = static_cast<char>(seed >> 24);
  }
  return window;
}

// All of it that ISA-L decodes with the window; none: it fails, or has more than kMost.
std::optional<std::string> ByIsal(const std::string& bytes, uint64_t bit,
                                  const std::string& window) {
  const auto state = std::make_unique<inflate_state>();
  const uint64_t from = pulse::ops::FirstByteFed(bit);
  pulse::ops::BeginInflate(*state, window, bit, static_cast<uint8_t>(bytes[0]));
  std::string data(2 * kMost, '\0');
  state->next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(bytes.data())) + from;
  state->avail_in = static_cast<uint32_t>(bytes.size() - from);
  state->next_out = reinterpret_cast<uint8_t*>(data.data());
  state->avail_out = static_cast<uint32_t>(data.size());
  if (isal_inflate(state.get()) < 0 || state->avail_out == 0) return std::nullopt;
  data.resize(data.size() - state->avail_out);
  return data;
}

// The whole stream as zlib has it; none: it has no end, or is none.
std::optional<std::string> ByZlib(const std::string& bytes, uint64_t bit,
                                  const std::string& window) {
  z_stream stream{};
  if (inflateInit2(&stream, -15) != Z_OK) return std::nullopt;
  const uint64_t from = pulse::ops::FirstByteFed(bit);
  inflateSetDictionary(&stream, reinterpret_cast<const Bytef*>(window.data()),
                       static_cast<uInt>(window.size()));
  if (bit != 0) {
    inflatePrime(&stream, static_cast<int>(8 - bit), static_cast<uint8_t>(bytes[0]) >> bit);
  }
  std::string data(2 * kMost, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data())) + from;
  stream.avail_in = static_cast<uInt>(bytes.size() - from);
  stream.next_out = reinterpret_cast<Bytef*>(data.data());
  stream.avail_out = static_cast<uInt>(data.size());
  const int got = inflate(&stream, Z_FINISH);
  data.resize(stream.total_out);
  inflateEnd(&stream);
  if (got != Z_STREAM_END) return std::nullopt;
  return data;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input input(data, size);
  uint64_t bit = input.Below(8);
  const size_t step = 1 + input.Number<uint16_t>();
  const std::string window = MakeWindow(input.Number<uint32_t>());
  constexpr size_t kHead = 7;
  if (size <= kHead) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  const auto found = pulse::ops::FindBlock(bytes, bit, 8 * bytes.size());
  if (found.has_value()) {
    FUZZ_CHECK(*found >= bit && *found < 8 * bytes.size());
    if (step % 2 == 0) {
      bytes.erase(0, *found / 8);
      bit = *found % 8;
    }
  }
  TwinInflater inflater;
  pulse::ops::TwinData twins;
  inflater.Begin(bit, static_cast<uint8_t>(bytes[0]), kMost, twins);
  TwinInflater::State state = TwinInflater::State::kMore;
  for (size_t at = pulse::ops::FirstByteFed(bit);
       at < bytes.size() && state == TwinInflater::State::kMore; at += step) {
    state = inflater.Feed(absl::string_view(bytes).substr(at, step));
  }
  const auto isal = ByIsal(bytes, bit, window);
  const auto zlib = ByZlib(bytes, bit, window);
  if (state == TwinInflater::State::kFailed) {
    FUZZ_CHECK(!isal.has_value() || isal->size() >= kMost);
    return 0;
  }
  pulse::ops::Buffer behind;
  twins.WindowBehind(window, behind);
  twins.Resolve(window);
  const absl::string_view resolved = twins.data.view();
  if (isal.has_value()) {
    // Where the input ends within a block, the last symbols may be left for the next piece.
    const size_t both = std::min(isal->size(), resolved.size());
    const size_t more = std::max(isal->size(), resolved.size()) - both;
    FUZZ_CHECK(more <= (state == TwinInflater::State::kFinal ? 0 : 8));
    FUZZ_CHECK(resolved.substr(0, both) == isal->substr(0, both));
  }
  if (zlib.has_value()) {
    FUZZ_CHECK(state == TwinInflater::State::kFinal && resolved == *zlib);
  }
  const std::string all = window + std::string(resolved);
  FUZZ_CHECK(behind.view() ==
             absl::string_view(all).substr(all.size() - pulse::ops::kDeflateWindow));
  return 0;
}
