// ISA-L's inflate at any bit of a stream: to begin there, and to say where it stands. It decodes
// all that it is given; to have it stop at a block's header, one gives it the bytes up to there.
#pragma once

#include <isa-l/igzip_lib.h>

#include <cstdint>

#include "absl/strings/string_view.h"

namespace pulse::ops {

// The first byte that is given to ISA-L when it begins at this bit.
inline uint64_t FirstByteFed(uint64_t bit) { return (bit + 7) / 8; }

// `window`: the data before it. `before`: the byte that holds the bit, if that is not its lowest.
inline void BeginInflate(inflate_state& state, absl::string_view window, uint64_t bit,
                         uint8_t before) {
  isal_inflate_init(&state);
  state.crc_flag = ISAL_DEFLATE;
  if (!window.empty()) {
    // The library's input is not const, and not written to.
    isal_inflate_set_dict(&state, reinterpret_cast<uint8_t*>(const_cast<char*>(window.data())),
                          static_cast<uint32_t>(window.size()));
  }
  if (bit % 8 != 0) {
    state.read_in = before >> (bit % 8);
    state.read_in_length = static_cast<int32_t>(8 - bit % 8);
  }
}

// All data are in the output, and the next thing is the header of a block, not behind the last one.
inline bool AtHeader(const inflate_state& state) {
  const bool header =
      state.block_state == ISAL_BLOCK_NEW_HDR || state.block_state == ISAL_BLOCK_HDR;
  return header && state.bfinal == 0 && state.avail_out > 0 &&
         state.tmp_out_processed == state.tmp_out_valid;
}

// The bit of the stream at which it stands, if AtHeader; it has taken the bytes up to `taken`.
inline uint64_t PositionOf(const inflate_state& state, uint64_t taken) {
  return 8 * (taken - static_cast<uint64_t>(state.tmp_in_size)) -
         static_cast<uint64_t>(state.read_in_length);
}

}  // namespace pulse::ops
