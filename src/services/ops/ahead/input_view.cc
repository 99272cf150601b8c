#include "services/ops/ahead/input_view.h"

#include <algorithm>

#include "services/ops/ahead/block_finder.h"

namespace pulse::ops {
namespace {

constexpr size_t kSearchedTogether = 32 << 10;

}  // namespace

absl::string_view InputView::At(uint64_t offset) const {
  for (const InputReader::Ahead& piece : pieces_) {
    if (offset < piece.offset || offset >= EndOf(piece)) continue;
    return piece.bytes().substr(offset - piece.offset);
  }
  return {};
}

std::optional<uint64_t> InputView::Find(uint64_t from, uint64_t to) {
  to = std::min(to, 8 * end());
  while (from < to) {
    const uint64_t begin = from / 8;
    together_.Clear();
    for (uint64_t at = begin; together_.size() < kSearchedTogether + kLongestBlockHeader;) {
      const absl::string_view piece =
          At(at).substr(0, kSearchedTogether + kLongestBlockHeader - together_.size());
      if (piece.empty()) break;
      together_.Append(piece);
      at += piece.size();
    }
    const uint64_t searched = std::min(to, 8 * (begin + kSearchedTogether));
    const auto found = FindBlock(together_.view(), from - 8 * begin, searched - 8 * begin);
    if (found.has_value()) return 8 * begin + *found;
    from = searched;
  }
  return std::nullopt;
}

}  // namespace pulse::ops
