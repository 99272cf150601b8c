// libdeflate: smaller than zlib at the same level, and faster. It knows neither dictionaries nor
// flushes, and always sets the final bit: this engine clears it, for which it has to decode the
// blocks once. That also shows that they decode to the chunk.
#include <libdeflate.h>

#include <memory>
#include <vector>

#include "base/check.h"
#include "services/ops/codecs.h"
#include "services/ops/deflate_engine.h"
#include "services/ops/final_block.h"

namespace pulse::ops {
namespace {

int LibdeflateLevel(int level) { return level; }

class LibdeflateEngine : public DeflateEngine {
 public:
  LibdeflateEngine(Format format, int level, EngineTraits traits)
      : DeflateEngine(format, std::move(traits)),
        lanes_(static_cast<size_t>(this->traits().lanes)) {
    for (Lane& lane : lanes_) {
      lane.compressor = libdeflate_alloc_compressor(LibdeflateLevel(level));
      PULSE_CHECK(lane.compressor != nullptr);
    }
  }
  ~LibdeflateEngine() override {
    for (Lane& lane : lanes_) libdeflate_free_compressor(lane.compressor);
  }

 protected:
  absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) override {
    if (chunk.prefix > 0) return absl::InternalError("libdeflate takes no dictionary");
    Lane& of = lanes_[static_cast<size_t>(lane)];
    const size_t begin = out.size();
    const size_t bound = libdeflate_deflate_compress_bound(of.compressor, chunk.size());
    out.Resize(begin + bound + 8);
    const size_t length = libdeflate_deflate_compress(of.compressor, chunk.data(), chunk.size(),
                                                      out.data() + begin, bound);
    if (length == 0) return absl::InternalError("libdeflate's bound is none");
    out.Resize(begin + length);
    const absl::string_view data(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    return of.clearer.Clear(data, begin, out);
  }

  size_t DeflateWhole(int lane, const uint8_t* from, size_t size, uint8_t* to,
                      size_t room) override {
    return libdeflate_deflate_compress(lanes_[static_cast<size_t>(lane)].compressor, from, size, to,
                                       room);
  }

 private:
  struct Lane {
    libdeflate_compressor* compressor = nullptr;
    FinalBlockClearer clearer;
  };

  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Engine> MakeLibdeflateCompressor(Format format, int level, EngineTraits traits) {
  return std::make_unique<LibdeflateEngine>(format, level, std::move(traits));
}

}  // namespace pulse::ops
