// DeflateEngine: what the engines that write DEFLATE share: marks, checksums and BGZF's blocks. A
// library adds how a chunk becomes DEFLATE blocks.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "services/ops/engine.h"
#include "services/ops/format.h"

namespace pulse::ops {

class DeflateEngine : public Engine {
 public:
  DeflateEngine(Format format, EngineTraits traits) : Engine(std::move(traits)), format_(format) {}

  absl::Status Process(int lane, const Chunk& chunk, Result& result) final;

 protected:
  // Appends the chunk's blocks, none of them final, ended by a flush at a byte boundary. Nothing in
  // them refers to what is before the prefix.
  virtual absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) = 0;
  // A whole stream with its final block, at most `room` bytes. 0: it does not fit.
  virtual size_t DeflateWhole(int lane, const uint8_t* from, size_t size, uint8_t* to,
                              size_t room) = 0;

 private:
  absl::Status ProcessBgzf(int lane, const Chunk& chunk, Result& result);

  const Format format_;
};

}  // namespace pulse::ops
