// ISA-L: several times as fast as zlib, at about its level 1 to 3.
#include <isa-l/igzip_lib.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/ops/codecs.h"
#include "services/ops/deflate_engine.h"

namespace pulse::ops {
namespace {

// The library's level 1 is hardly faster than its level 2, and its output is 2 to 3 % larger.
uint32_t IsalLevel(int level) { return level <= 2 ? 2 : 3; }

// For 32 Ki symbols a block: codes that fit their block better are worth more than what each costs.
size_t LevelBuffer(uint32_t level) {
  return level == 2 ? ISAL_DEF_LVL2_MEDIUM : ISAL_DEF_LVL3_MEDIUM;
}

class IsalEngine : public DeflateEngine {
 public:
  IsalEngine(Format format, int level, EngineTraits traits)
      : DeflateEngine(format, std::move(traits)), level_(IsalLevel(level)) {
    for (int i = 0; i < this->traits().lanes; ++i) {
      auto lane = std::make_unique<Lane>();
      lane->level_buffer.resize(LevelBuffer(level_));
      lanes_.push_back(std::move(lane));
    }
  }

 protected:
  absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) override {
    isal_zstream& stream = Prepare(lane);
    isal_deflate_init(&stream);
    Configure(lane);
    stream.flush = FULL_FLUSH;
    // The library's input is not const, and not written to.
    auto* input = const_cast<uint8_t*>(chunk.input.data());
    if (chunk.prefix > 0) {
      const int got = isal_deflate_set_dict(&stream, input, static_cast<uint32_t>(chunk.prefix));
      if (got != COMP_OK) return absl::InternalError(absl::StrCat("ISA-L's dictionary: ", got));
    }
    stream.next_in = input + chunk.prefix;
    stream.avail_in = static_cast<uint32_t>(chunk.size());
    while (true) {
      const size_t used = out.size();
      // More room than was reserved is needed for data that does not compress only.
      if (out.capacity() - used < 1024) out.Reserve(used + chunk.size() / 8 + 4096);
      const size_t room = out.capacity() - used;
      stream.next_out = out.data() + used;
      stream.avail_out = static_cast<uint32_t>(room);
      const int got = isal_deflate(&stream);
      out.Resize(used + room - stream.avail_out);
      if (got != COMP_OK) return absl::InternalError(absl::StrCat("ISA-L: ", got));
      if (stream.avail_out > 0) {
        if (stream.avail_in == 0) return absl::OkStatus();
        return absl::InternalError("ISA-L left input");
      }
    }
  }

  size_t DeflateWhole(int lane, const uint8_t* from, size_t size, uint8_t* to,
                      size_t room) override {
    isal_zstream& stream = Prepare(lane);
    isal_deflate_stateless_init(&stream);
    Configure(lane);
    stream.end_of_stream = 1;
    stream.next_in = const_cast<uint8_t*>(from);
    stream.avail_in = static_cast<uint32_t>(size);
    stream.next_out = to;
    stream.avail_out = static_cast<uint32_t>(room);
    if (isal_deflate_stateless(&stream) != COMP_OK || stream.avail_in != 0) return 0;
    return room - stream.avail_out;
  }

 private:
  struct Lane {
    isal_zstream stream;
    std::vector<uint8_t> level_buffer;
  };

  isal_zstream& Prepare(int lane) { return lanes_[static_cast<size_t>(lane)]->stream; }
  void Configure(int lane) {
    Lane& of = *lanes_[static_cast<size_t>(lane)];
    of.stream.level = level_;
    of.stream.level_buf = of.level_buffer.data();
    of.stream.level_buf_size = static_cast<uint32_t>(of.level_buffer.size());
    of.stream.gzip_flag = IGZIP_DEFLATE;
  }

  const uint32_t level_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

std::unique_ptr<Engine> MakeIsalCompressor(Format format, int level, EngineTraits traits) {
  return std::make_unique<IsalEngine>(format, level, std::move(traits));
}

}  // namespace pulse::ops
