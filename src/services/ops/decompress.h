// Decompress: the data of a compressed stream, whatever its format and whoever wrote it. What
// consists of parts that can be decoded alone is decoded on all processors: gzip and zlib streams
// of Compress (compress.h), BGZF, zstd frames that say their size, LZ4 frames with independent
// blocks. Other streams are decoded by one thread, gzip's by ISA-L; reading, checksum and writing
// are done by two others. Of long ones of gzip and zlib, more threads decode parts ahead of it
// (ahead/ahead_decoder.h).
//
// Members and frames may follow each other. What follows and is none is ignored, as gzip does:
// zeros silently, other bytes with a remark in the report.
//
// Nothing is delivered unchecked beyond the chunk or buffer at hand; what was decoded before an
// error has been written when it is returned. Section 5.7 of the co-processing paper is about
// decompression by host and DPU.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/ops/byte_stream.h"
#include "services/ops/format.h"
#include "services/ops/index/indexed_source.h"
#include "services/ops/operation.h"

namespace pulse::ops {

struct DecompressOptions {
  // More output is refused with ResourceExhausted. 0: no limit.
  uint64_t max_output = 0;
  // Of a regular file: the path of its index (index/gzip_index.h). By a good one, its segments are
  // decoded on all processors; else one is written, if the file is of foreign gzip members alone
  // and there is an output. Only an index or an empty file is replaced.
  std::string index;
  // Only this part of the data; needs a good index.
  std::optional<DataRange> range;
  Processors processors;
  // Input in none of the formats is written as it is, also behind members of gzip; zlib's is none
  // then, as text may look so.
  bool pass_unknown = false;
  // The input begins so, and is refused if it does not; gzip is BGZF, too. None: it is recognised.
  std::optional<Format> format;
  // What is written before damage matters: pieces are decoded one by one, which is slower.
  bool salvage = false;
  // Gets the number of bytes that were written, after an error, too; may be null.
  uint64_t* written = nullptr;
};

struct DecompressReport {
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  uint64_t members = 0;
  uint64_t parallel_members = 0;  // decoded chunk by chunk; others in one piece
  uint64_t ahead_bytes = 0;       // of the output, of other members: decoded ahead of their place
  // Bytes that are no member followed at this offset.
  bool trailing_garbage = false;
  uint64_t garbage_offset = 0;
  // Of the parallel parts, by decoder (DecoderName): members of one kind together.
  std::map<std::string, QueueStats> queues;
  bool by_index = false;
  bool index_failed = false;  // it could not be written, as a remark says
  // Why the index was not used, or not written, as far as that is unexpected; for people.
  std::vector<std::string> remarks;

  // One line: members, and what each decoder's engines did (QueueStats::Explain).
  std::string Explain() const;
};

// Reads `in` from where it is and writes to `out` (negative: only checks). The names are for
// messages. Blocks. Errors: FailedPrecondition for a range without an index;
// InvalidArgument for an index's path that has something else; of reading and
// writing; NotFound for input in none of the formats;
// DataLoss for damaged or truncated data, saying at which offset of the input; ResourceExhausted;
// Cancelled.
absl::StatusOr<DecompressReport> Decompress(const DecompressOptions& options, int in,
                                            const std::string& in_name, int out,
                                            const std::string& out_name);

// The same from any source to any sink; without index and range.
absl::StatusOr<DecompressReport> Decompress(const DecompressOptions& options, ByteSource& in,
                                            const std::string& in_name, ByteSink& out,
                                            const std::string& out_name);

// The offset of the input at which it is damaged or ends too early, as Decompress said in this
// DataLoss; none where it said none.
std::optional<uint64_t> DamageOffset(const absl::Status& status);

}  // namespace pulse::ops
