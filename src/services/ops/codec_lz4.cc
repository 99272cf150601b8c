#include <lz4.h>
#include <lz4hc.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "services/ops/codecs.h"
#include "services/ops/lz4_frame.h"

namespace pulse::ops {
namespace {

// As the lz4 program has them: fast up to level 2, the high-compression search from there on.
class Lz4Engine : public Engine {
 public:
  Lz4Engine(int level, EngineTraits traits)
      : Engine(std::move(traits)),
        level_(level),
        states_(static_cast<size_t>(this->traits().lanes)) {
    const int bytes = level_ <= 2 ? LZ4_sizeofState() : LZ4_sizeofStateHC();
    // Words, for their alignment.
    for (auto& state : states_) state.resize(static_cast<size_t>(bytes) / 8 + 1);
  }

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    const int size = static_cast<int>(chunk.size());
    const int bound = LZ4_compressBound(size);
    result.bytes.Resize(4 + static_cast<size_t>(bound) + 4);
    uint8_t* data = result.bytes.data() + 4;
    const auto* from = reinterpret_cast<const char*>(chunk.data());
    auto* to = reinterpret_cast<char*>(data);
    void* state = states_[static_cast<size_t>(lane)].data();
    const int length = level_ <= 2
                           ? LZ4_compress_fast_extState(state, from, to, size, bound, 1)
                           : LZ4_compress_HC_extStateHC(state, from, to, size, bound, level_);
    const bool stored = length <= 0 || length >= size;
    const size_t n = static_cast<size_t>(stored ? size : length);
    if (stored) std::memcpy(data, from, n);
    std::string word;
    AppendLe(word, n | (stored ? kLz4Stored : 0), 4);
    std::memcpy(result.bytes.data(), word.data(), 4);
    word.clear();
    AppendLe(word, Xxh32(data, n), 4);
    std::memcpy(data + n, word.data(), 4);
    result.bytes.Resize(4 + n + 4);
    return absl::OkStatus();
  }

 private:
  const int level_;
  std::vector<std::vector<uint64_t>> states_;
};

}  // namespace

std::unique_ptr<Engine> MakeLz4Compressor(int level, EngineTraits traits) {
  return std::make_unique<Lz4Engine>(level, std::move(traits));
}

}  // namespace pulse::ops
