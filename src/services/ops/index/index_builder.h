// IndexBuilder: makes a GzipIndex while a member is decoded by one thread (InflateIndexing), about
// one segment for each kSpacing bytes of data.
//
// ISA-L decodes as much as it is given, and does not stop between blocks. Where a segment is due,
// it is given small pieces and its state is kept before each; a piece behind which it has other
// codes than before holds the end of a block, and is given again, cut in halves, until ISA-L stands
// in the next block's header.
//
// One thread. Never blocks by itself.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/ops/buffer.h"
#include "services/ops/file_io.h"
#include "services/ops/index/gzip_index.h"

namespace pulse::ops {

class IndexBuilder {
 public:
  static constexpr uint64_t kSpacing = uint64_t{4} << 20;

  // The data of a member begin at this byte of the file.
  void BeginMember(uint64_t offset);
  // More data of the member, in their order.
  void Add(absl::string_view data);
  // Whether it is time for the next segment.
  bool Due() const { return open_.data_bytes >= kSpacing; }
  // A block's header begins at this bit, behind all data that were added.
  void Split(uint64_t bit);
  // The member's data end, and its trailer begins here.
  void EndMember(uint64_t offset);
  // Something that is no foreign gzip: there will be no index. `why` is for people.
  void GiveUp(std::string why);

  // The index of all members, as soon as the last has ended; the caller says of which file it is.
  // FailedPrecondition: there is none, and why.
  absl::StatusOr<GzipIndex> Take();

 private:
  void Close(uint64_t end, bool ends_member);

  GzipIndex index_;
  IndexSegment open_;
  Buffer window_;  // the last data, up to twice the window's size
  std::string why_not_;
};

// As InflateInOrder without a window, and tells the builder.
absl::Status InflateIndexing(InputReader& in, OutputWriter& out, IndexBuilder& index);

}  // namespace pulse::ops
