#include "services/ops/ahead/twin_inflater.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "services/ops/ahead/isal_position.h"
#include "services/ops/deflate_frame.h"

namespace pulse::ops {
namespace {

constexpr size_t kFirstRoom = size_t{1} << 20;

// Byte i of the first window is the low byte of i; that of the second one is larger by 1 to 128,
// which is the high byte of i and one.
using Window = std::array<char, kDeflateWindow>;
constexpr Window kFirstWindow = [] {
  Window window{};
  for (size_t i = 0; i < window.size(); ++i) window[i] = static_cast<char>(i);
  return window;
}();
constexpr Window kSecondWindow = [] {
  Window window{};
  for (size_t i = 0; i < window.size(); ++i) window[i] = static_cast<char>(i + (i >> 8) + 1);
  return window;
}();

// What a pair of bytes means: pairs of the same byte that byte, others a byte of the window. A
// table for all pairs costs no branch, and markers are too irregular for branches.
class PairTable {
 public:
  explicit PairTable(absl::string_view window) {
    for (size_t i = 0; i < 256; ++i) table_[i] = static_cast<uint8_t>(i);
    std::memcpy(&table_[256], window.data(), kDeflateWindow);
  }

  // `to` may be `first`.
  void Resolve(const uint8_t* first, const uint8_t* second, size_t size, uint8_t* to) const {
    constexpr size_t kStep = 16;
    size_t i = 0;
    for (; i + kStep <= size; i += kStep) {
      if (std::memcmp(first + i, second + i, kStep) == 0) {
        if (to != first) std::memcpy(to + i, first + i, kStep);
        continue;
      }
      uint8_t bytes[kStep];
      for (size_t k = 0; k < kStep; ++k) bytes[k] = Of(first[i + k], second[i + k]);
      std::memcpy(to + i, bytes, kStep);
    }
    for (; i < size; ++i) to[i] = Of(first[i], second[i]);
  }

 private:
  uint8_t Of(uint8_t first, uint8_t second) const {
    return table_[size_t{static_cast<uint8_t>(second - first)} << 8 | first];
  }

  // Any pair has a place, though no more than these come.
  std::array<uint8_t, 1 << 16> table_;
};

}  // namespace

void TwinData::Resolve(absl::string_view window) {
  // On the stack: whoever resolves has nobody to tell of a lack of memory.
  const PairTable table(window);
  table.Resolve(data.data(), twin.data(), twin.size(), data.data());
}

void TwinData::WindowBehind(absl::string_view window, Buffer& behind) const {
  const size_t own = std::min(data.size(), kDeflateWindow);
  const size_t begin = data.size() - own;
  const size_t twins = twin.size() > begin ? twin.size() - begin : 0;
  behind.Clear();
  behind.Append(window.substr(own));
  behind.Append(data.data() + begin, own);
  if (twins == 0) return;
  const PairTable table(window);
  table.Resolve(data.data() + begin, twin.data() + begin, twins,
                behind.data() + kDeflateWindow - own);
}

void TwinInflater::Begin(uint64_t bit, uint8_t before, size_t most, TwinData& to) {
  BeginInflate(states_[0], {kFirstWindow.data(), kFirstWindow.size()}, bit, before);
  BeginInflate(states_[1], {kSecondWindow.data(), kSecondWindow.size()}, bit, before);
  to.data.Clear();
  to.twin.Clear();
  to_ = &to;
  most_ = most;
  taken_ = FirstByteFed(bit);
  alike_ = false;
}

// False: it failed. The output has room for all data up to the buffer's capacity, which grows.
bool TwinInflater::Run(inflate_state& state, absl::string_view input, Buffer& to) const {
  state.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(input.data()));
  state.avail_in = static_cast<uint32_t>(input.size());
  while (true) {
    const size_t used = to.size();
    to.Reserve(std::max(kFirstRoom, used));
    state.next_out = to.data() + used;
    state.avail_out = static_cast<uint32_t>(to.capacity() - used);
    if (isal_inflate(&state) < 0) return false;
    to.Resize(to.capacity() - state.avail_out);
    if (state.avail_out > 0) return true;
    if (to.size() >= most_) return false;
    to.Reserve(to.size() + 1);
  }
}

TwinInflater::State TwinInflater::Feed(absl::string_view input) {
  inflate_state& state = states_[0];
  if (!Run(state, input, to_->data)) return State::kFailed;
  if (!alike_) {
    if (!Run(states_[1], input, to_->twin)) return State::kFailed;
    // Two runs through the same codes; anything else would be a fault of the library.
    if (to_->twin.size() != to_->data.size()) return State::kFailed;
    const size_t size = to_->data.size();
    alike_ = size >= kDeflateWindow &&
             std::memcmp(to_->data.data() + size - kDeflateWindow,
                         to_->twin.data() + size - kDeflateWindow, kDeflateWindow) == 0;
  }
  taken_ += input.size() - state.avail_in;
  return state.block_state == ISAL_BLOCK_FINISH ? State::kFinal : State::kMore;
}

bool TwinInflater::IsAt(uint64_t bit) const {
  return AtHeader(states_[0]) && PositionOf(states_[0], taken_) == bit;
}

uint64_t TwinInflater::End() const {
  return taken_ - static_cast<uint64_t>(states_[0].read_in_length / 8);
}

}  // namespace pulse::ops
