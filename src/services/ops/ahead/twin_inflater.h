// TwinInflater: decodes DEFLATE blocks whose window, the 32 KiB of data before them, is not known
// yet.
//
// ISA-L decodes them twice, with two made-up windows. These differ in each of their bytes, and no
// pair of bytes at one place occurs at another. So where both results are alike, a byte is the
// data's own; where they differ, the pair says which byte of the window belongs there. TwinData
// puts it there once the window is known. As soon as the last 32 KiB of both are alike, nothing
// that follows depends on the window, and one run is enough.
//
// For one thread. Never blocks.
#pragma once

#include <isa-l/igzip_lib.h>

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "services/ops/buffer.h"

namespace pulse::ops {

struct TwinData {
  Buffer data;
  // Of the second run, as far as it went: later data do not depend on the window.
  Buffer twin;

  // Puts the window's bytes (all 32 KiB) in their places.
  void Resolve(absl::string_view window);
  // The last 32 KiB of the window with the data behind it, before Resolve.
  void WindowBehind(absl::string_view window, Buffer& behind) const;
};

class TwinInflater {
 public:
  // A block begins at this bit of the stream, in the byte `before` if it is not the lowest of one.
  // More than `most` bytes of data are not made.
  void Begin(uint64_t bit, uint8_t before, size_t most, TwinData& to);

  // kFinal: the last block has ended. kFailed: it is no such stream, or has too many data.
  enum class State : uint8_t { kMore, kFinal, kFailed };
  // What follows in the stream, the first time from FirstByteFed(bit) on.
  State Feed(absl::string_view input);
  // Whether it stands at the header of a block, at this bit.
  bool IsAt(uint64_t bit) const;
  // kFinal: of the byte behind the stream.
  uint64_t End() const;

 private:
  bool Run(inflate_state& state, absl::string_view input, Buffer& to) const;

  const std::unique_ptr<inflate_state[]> states_ = std::make_unique<inflate_state[]>(2);
  TwinData* to_ = nullptr;
  size_t most_ = 0;
  uint64_t taken_ = 0;
  bool alike_ = false;
};

}  // namespace pulse::ops
