// InputView: a stretch of the input that lies in pieces. For one thread; never blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/ops/buffer.h"
#include "services/ops/file_io.h"

namespace pulse::ops {

class InputView {
 public:
  // Pieces that follow each other.
  explicit InputView(std::vector<InputReader::Ahead> pieces) : pieces_(std::move(pieces)) {}

  uint64_t end() const { return pieces_.empty() ? 0 : EndOf(pieces_.back()); }
  // What lies together from this byte of the input on; empty outside.
  absl::string_view At(uint64_t offset) const;
  // The first bit in [from, to) at which a block may begin (FindBlock).
  std::optional<uint64_t> Find(uint64_t from, uint64_t to);

 private:
  static uint64_t EndOf(const InputReader::Ahead& piece) {
    return piece.offset + piece.bytes().size();
  }

  const std::vector<InputReader::Ahead> pieces_;
  Buffer together_;  // what is searched
};

}  // namespace pulse::ops
