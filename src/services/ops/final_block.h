// FinalBlockClearer: makes a whole DEFLATE stream, as encoders write it that know no flushes, into
// blocks none of which is final, ended at a byte boundary by an empty stored block. To find the
// final bit it decodes the stream, and so also shows that it means the data.
//
// For one thread. Never blocks.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/ops/buffer.h"

namespace pulse::ops {

class FinalBlockClearer {
 public:
  FinalBlockClearer();
  ~FinalBlockClearer();
  FinalBlockClearer(FinalBlockClearer&&) noexcept;
  FinalBlockClearer& operator=(FinalBlockClearer&&) noexcept;

  // Of the stream from `begin` to the end of `out`, which is of `data`. Internal: the stream is not
  // valid, or means something else.
  absl::Status Clear(absl::string_view data, size_t begin, Buffer& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pulse::ops
