// ISA-L: several times as fast as zlib, at about its level 1 to 3.
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <array>
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
constexpr size_t kLevelBuffer = std::max(ISAL_DEF_LVL2_MEDIUM, ISAL_DEF_LVL3_MEDIUM);

// In what shrinks to a half or so, as prose does, level 3 finds 2 to 4 % more than level 2 in
// hardly more time; in what shrinks to less, as logs do, it takes up to twice the time, and three
// times that in what does not shrink. So at the lowest levels a sample says which of the two a
// chunk gets.
constexpr size_t kSample = size_t{16} << 10, kLeastSampled = 8 * kSample;
constexpr size_t kLeastForThree = kSample * 35 / 100, kMostForThree = kSample * 60 / 100;

class IsalEngine : public DeflateEngine {
 public:
  IsalEngine(Format format, int level, EngineTraits traits)
      : DeflateEngine(format, std::move(traits)), level_(IsalLevel(level)) {
    for (int i = 0; i < this->traits().lanes; ++i) {
      auto lane = std::make_unique<Lane>();
      lane->level_buffer.resize(kLevelBuffer);
      lanes_.push_back(std::move(lane));
    }
  }

 protected:
  absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) override {
    const uint32_t level = ChooseLevel(lane, chunk);
    isal_zstream& stream = StreamOf(lane);
    isal_deflate_init(&stream);
    Configure(lane, level);
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
    return DeflateAt(level_, lane, from, size, to, room);
  }

 private:
  struct Lane {
    isal_zstream stream;
    std::vector<uint8_t> level_buffer;
    std::array<uint8_t, kMostForThree> sample;
  };

  // 0: it does not fit into `room`.
  size_t DeflateAt(uint32_t level, int lane, const uint8_t* from, size_t size, uint8_t* to,
                   size_t room) {
    isal_zstream& stream = StreamOf(lane);
    isal_deflate_stateless_init(&stream);
    Configure(lane, level);
    stream.end_of_stream = 1;
    stream.next_in = const_cast<uint8_t*>(from);
    stream.avail_in = static_cast<uint32_t>(size);
    stream.next_out = to;
    stream.avail_out = static_cast<uint32_t>(room);
    if (isal_deflate_stateless(&stream) != COMP_OK || stream.avail_in != 0) return 0;
    return room - stream.avail_out;
  }

  uint32_t ChooseLevel(int lane, const Chunk& chunk) {
    if (level_ != 2 || chunk.size() < kLeastSampled) return level_;
    auto& sample = lanes_[static_cast<size_t>(lane)]->sample;
    const uint8_t* const middle = chunk.input.data() + chunk.prefix + chunk.size() / 2;
    const size_t size = DeflateAt(2, lane, middle, kSample, sample.data(), sample.size());
    return size < kLeastForThree ? 2 : 3;  // 0: more than the most
  }

  isal_zstream& StreamOf(int lane) { return lanes_[static_cast<size_t>(lane)]->stream; }
  void Configure(int lane, uint32_t level) {
    Lane& of = *lanes_[static_cast<size_t>(lane)];
    of.stream.level = level;
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
