#include <zstd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "services/ops/codecs.h"

namespace pulse::ops {
namespace {

class ZstdEngine : public Engine {
 public:
  ZstdEngine(int level, EngineTraits traits) : Engine(std::move(traits)) {
    for (int i = 0; i < this->traits().lanes; ++i) {
      contexts_.push_back(ZSTD_createCCtx());
      PULSE_CHECK(contexts_.back() != nullptr);
      ZSTD_CCtx_setParameter(contexts_.back(), ZSTD_c_compressionLevel, level);
      ZSTD_CCtx_setParameter(contexts_.back(), ZSTD_c_checksumFlag, 1);
    }
  }
  ~ZstdEngine() override {
    for (ZSTD_CCtx* context : contexts_) ZSTD_freeCCtx(context);
  }

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    result.bytes.Resize(ZSTD_compressBound(chunk.size()));
    const size_t length = ZSTD_compress2(contexts_[static_cast<size_t>(lane)], result.bytes.data(),
                                         result.bytes.size(), chunk.data(), chunk.size());
    if (ZSTD_isError(length) != 0) {
      return absl::InternalError(absl::StrCat("zstd: ", ZSTD_getErrorName(length)));
    }
    result.bytes.Resize(length);
    return absl::OkStatus();
  }

 private:
  std::vector<ZSTD_CCtx*> contexts_;
};

}  // namespace

std::unique_ptr<Engine> MakeZstdCompressor(int level, EngineTraits traits) {
  return std::make_unique<ZstdEngine>(level, std::move(traits));
}

}  // namespace pulse::ops
