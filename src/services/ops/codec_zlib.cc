// zlib: every level, with dictionary, the same bytes everywhere; the slowest.
#include <zlib.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/ops/codecs.h"
#include "services/ops/deflate_engine.h"

namespace pulse::ops {
namespace {

class ZlibEngine : public DeflateEngine {
 public:
  ZlibEngine(Format format, int level, EngineTraits traits)
      : DeflateEngine(format, std::move(traits)),
        streams_(static_cast<size_t>(this->traits().lanes)) {
    for (z_stream& stream : streams_) {
      stream = {};
      PULSE_CHECK(deflateInit2(&stream, level, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) == Z_OK);
    }
  }
  ~ZlibEngine() override {
    for (z_stream& stream : streams_) deflateEnd(&stream);
  }

 protected:
  absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) override {
    z_stream& stream = streams_[static_cast<size_t>(lane)];
    deflateReset(&stream);
    if (chunk.prefix > 0) {
      deflateSetDictionary(&stream, chunk.input.data(), static_cast<uInt>(chunk.prefix));
    }
    stream.next_in = const_cast<Bytef*>(chunk.data());
    stream.avail_in = static_cast<uInt>(chunk.size());
    while (true) {
      const size_t used = out.size();
      if (out.capacity() - used < 1024) out.Reserve(used + chunk.size() / 8 + 4096);
      const size_t room = out.capacity() - used;
      stream.next_out = out.data() + used;
      stream.avail_out = static_cast<uInt>(room);
      const int got = deflate(&stream, Z_FULL_FLUSH);
      out.Resize(used + room - stream.avail_out);
      if (got != Z_OK && got != Z_BUF_ERROR)
        return absl::InternalError(absl::StrCat("zlib: ", got));
      if (stream.avail_out > 0) return absl::OkStatus();
    }
  }

  size_t DeflateWhole(int lane, const uint8_t* from, size_t size, uint8_t* to,
                      size_t room) override {
    z_stream& stream = streams_[static_cast<size_t>(lane)];
    deflateReset(&stream);
    stream.next_in = const_cast<Bytef*>(from);
    stream.avail_in = static_cast<uInt>(size);
    stream.next_out = to;
    stream.avail_out = static_cast<uInt>(room);
    return deflate(&stream, Z_FINISH) == Z_STREAM_END ? room - stream.avail_out : 0;
  }

 private:
  std::vector<z_stream> streams_;
};

}  // namespace

std::unique_ptr<Engine> MakeZlibCompressor(Format format, int level, EngineTraits traits) {
  return std::make_unique<ZlibEngine>(format, level, std::move(traits));
}

}  // namespace pulse::ops
