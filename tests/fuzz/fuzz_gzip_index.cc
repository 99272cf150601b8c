// The index of a foreign gzip file, and what an agent is told of a filter: what is accepted is
// within its bounds, and is written as it was read.
#include <zlib.h>

#include <string>

#include "fuzz_input.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/filter/filter.h"
#include "services/ops/filter/filter_order.h"
#include "services/ops/format.h"
#include "services/ops/index/gzip_index.h"

namespace {

using pulse::ops::DecodeIndex;
using pulse::ops::EncodeIndex;
using pulse::ops::IndexSegment;

void ReadIndex(const std::string& bytes) {
  const auto index = DecodeIndex(bytes);
  if (!index.ok()) return;
  FUZZ_CHECK(EncodeIndex(*index).size() == bytes.size());
  uint64_t data = 0;
  uint64_t before = 0;
  for (const IndexSegment& segment : index->segments) {
    FUZZ_CHECK(segment.begin_bit / 8 < segment.end && segment.end <= index->file_bytes);
    FUZZ_CHECK(segment.begin_bit / 8 + 1 >= before);
    FUZZ_CHECK(segment.data_bytes <= pulse::ops::kLargestPiece);
    FUZZ_CHECK(segment.window_bytes <= pulse::ops::kDeflateWindow);
    before = segment.end;
    data += segment.data_bytes;
    std::string window(segment.window_bytes, '\0');
    pulse::ops::UnpackWindow(segment, reinterpret_cast<uint8_t*>(window.data()));
  }
  FUZZ_CHECK(data == index->data_bytes && before <= index->end);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadIndex(bytes);
  // Nobody finds a checksum by chance.
  if (size >= 4) {
    std::string right = bytes.substr(0, size - 4);
    pulse::ops::AppendLe(
        right,
        crc32(0, reinterpret_cast<const Bytef*>(right.data()), static_cast<uInt>(right.size())), 4);
    ReadIndex(right);
  }
  const auto filter = pulse::filter::ReadFilterOrder(bytes);
  if (filter.ok()) FUZZ_CHECK(filter->rules.size() <= pulse::filter::kMostRules);
  return 0;
}
