// Compress: one input to one valid stream, on all processors. Chunks are compressed by codecs
// (codecs.h) that pull them from the queue, and are joined to one gzip or zlib member, to BGZF
// blocks, to zstd frames with a seek table, or to one LZ4 frame. Every usual decoder reads the
// result.
//
// The chunks do not depend on timing or on the number of CPUs. With `deterministic` neither does
// anything else: only codecs are used whose bytes are the same on every CPU, and no name or time is
// written.
//
// Section 5.6 of the co-processing paper is about compression by host and DPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/ops/byte_stream.h"
#include "services/ops/codecs.h"
#include "services/ops/format.h"
#include "services/ops/operation.h"

namespace pulse::ops {

struct CompressOptions {
  Format format = Format::kGzip;
  int level = 6;  // kMinLevel to kMaxLevel
  bool deterministic = false;
  // Chunks of gzip and zlib refer to the 32 KiB before them: smaller, but nothing can decode it in
  // parallel.
  bool primed = false;
  std::optional<Codec> codec;  // instead of the fastest that suits
  uint64_t chunk_bytes = 0;    // 0: what suits the format
  // For gzip's header.
  std::string name;
  uint32_t mtime = 0;
  Processors processors;
};

// Reads the descriptor `in` from where it is to its end and writes the stream to `out`; the names
// are for messages. A regular file is read by the lanes themselves. Blocks. Errors: of reading and
// writing; InvalidArgument for options that do not go together; DataLoss if a file becomes shorter
// meanwhile, or is changed where chunks that refer to each other meet; Cancelled.
absl::StatusOr<QueueStats> Compress(const CompressOptions& options, int in,
                                    const std::string& in_name, int out,
                                    const std::string& out_name);

// The same to any sink, and from any source.
absl::StatusOr<QueueStats> Compress(const CompressOptions& options, int in,
                                    const std::string& in_name, ByteSink& out,
                                    const std::string& out_name);
absl::StatusOr<QueueStats> Compress(const CompressOptions& options, ByteSource& in, ByteSink& out,
                                    const std::string& out_name);

}  // namespace pulse::ops
