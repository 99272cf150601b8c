// libdeflate: smaller than zlib at the same level, and faster. It knows neither dictionaries nor
// flushes, and always sets the final bit: this engine clears it, for which it has to decode the
// blocks once. That also shows that they decode to the chunk.
#include <libdeflate.h>
#include <zlib.h>

#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/ops/codecs.h"
#include "services/ops/deflate_engine.h"

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
      lane.inflater = {};
      PULSE_CHECK(inflateInit2(&lane.inflater, -15) == Z_OK);
    }
  }
  ~LibdeflateEngine() override {
    for (Lane& lane : lanes_) {
      libdeflate_free_compressor(lane.compressor);
      inflateEnd(&lane.inflater);
    }
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
    return EndWithoutFinal(of, chunk, begin, out);
  }

  size_t DeflateWhole(int lane, const uint8_t* from, size_t size, uint8_t* to,
                      size_t room) override {
    return libdeflate_deflate_compress(lanes_[static_cast<size_t>(lane)].compressor, from, size, to,
                                       room);
  }

 private:
  struct Lane {
    libdeflate_compressor* compressor = nullptr;
    z_stream inflater;
    Buffer scratch;
  };

  // The stream from `begin` on loses its final bit and gets an empty stored block.
  static absl::Status EndWithoutFinal(Lane& of, const Chunk& chunk, size_t begin, Buffer& out) {
    z_stream& stream = of.inflater;
    inflateReset(&stream);
    of.scratch.Resize(chunk.size());
    stream.next_in = out.data() + begin;
    stream.avail_in = static_cast<uInt>(out.size() - begin);
    stream.next_out = of.scratch.data();
    stream.avail_out = static_cast<uInt>(chunk.size());
    constexpr int kAtBoundary = 128;
    constexpr int kInLastBlock = 64;
    uint64_t last_begins = 0;  // in bits
    uint64_t ends = 0;
    while (true) {
      const int got = inflate(&stream, Z_BLOCK);
      if (got != Z_OK) {
        return absl::InternalError(absl::StrCat("libdeflate's stream does not decode: ", got));
      }
      if ((stream.data_type & kAtBoundary) == 0) {
        if (stream.avail_in == 0) return absl::InternalError("libdeflate's stream has no end");
        continue;
      }
      const uint64_t at =
          uint64_t{stream.total_in} * 8 - static_cast<uint64_t>(stream.data_type & 7);
      if ((stream.data_type & kInLastBlock) != 0) {
        ends = at;
        break;
      }
      last_begins = at;
    }
    if (stream.avail_out != 0 || std::memcmp(of.scratch.data(), chunk.data(), chunk.size()) != 0) {
      return absl::InternalError("libdeflate's stream decodes to something else");
    }
    uint8_t* bytes = out.data() + begin;
    bytes[last_begins / 8] &= static_cast<uint8_t>(~(1u << (last_begins % 8)));
    // Three bits for the stored block's header; unused ones are zero.
    out.Resize(begin + (ends + 3 + 7) / 8);
    if ((ends + 3 + 7) / 8 > (ends + 7) / 8) out.data()[out.size() - 1] = 0;
    out.Append(absl::string_view("\x00\x00\xff\xff", 4));
    return absl::OkStatus();
  }

  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Engine> MakeLibdeflateCompressor(Format format, int level, EngineTraits traits) {
  return std::make_unique<LibdeflateEngine>(format, level, std::move(traits));
}

}  // namespace pulse::ops
