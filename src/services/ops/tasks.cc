#include "services/ops/tasks.h"

#include "base/check.h"
#include "services/ops/codecs.h"
#include "services/ops/decoders.h"

namespace pulse::ops {
namespace {

// In the order of TaskOf.
constexpr const char* kNames[kTasks] = {"compress_isal",   "compress_zlib",  "compress_libdeflate",
                                        "compress_zstd",   "compress_lz4",   "decompress_deflate",
                                        "decompress_zstd", "decompress_lz4", "filter"};

}  // namespace

const char* TaskName(size_t task) {
  PULSE_CHECK(task < kTasks);
  return kNames[task];
}

size_t TaskOf(const EngineOrder& order) {
  switch (order.kind) {
    case EngineOrder::Kind::kCompress:
      return static_cast<size_t>(static_cast<Codec>(order.codec));
    case EngineOrder::Kind::kDecompress:
      switch (static_cast<Piece>(order.format)) {
        case Piece::kZstd:
          return 6;
        case Piece::kLz4:
          return 7;
        default:
          return 5;
      }
    case EngineOrder::Kind::kFilter:
      break;
  }
  return 8;
}

}  // namespace pulse::ops
