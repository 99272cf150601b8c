// The engines that work on a device of DPDK.
#include <isa-l/crc.h>
#include <libdeflate.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/errors.h"
#include "services/ops/decoders.h"
#include "services/ops/deflate_engine.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/dpdk/device.h"
#include "services/ops/final_block.h"

namespace pulse::ops::dpdk {
namespace {

// Of the chunks that a device has compressed, one in so many is decompressed again, and the first.
constexpr uint64_t kDecodeEach = 64;
constexpr absl::string_view kFlush("\x00\x00\xff\xff", 4);

// What `bytes` of data become at most, nearly always. More is tried where it does not fit.
uint64_t RoomFor(uint64_t bytes) { return bytes + bytes / 64 + 256; }

class DeviceCompressor : public DeflateEngine {
 public:
  DeviceCompressor(const Device& device, Format format, std::unique_ptr<Device::Work> flushed,
                   std::unique_ptr<Device::Work> whole, EngineTraits traits)
      : DeflateEngine(format, std::move(traits)),
        device_(device),
        flushed_(std::move(flushed)),
        whole_(std::move(whole)),
        clearers_(static_cast<size_t>(this->traits().lanes)) {}

  // The counters and samples are those of one input: an engine is kept for the next one.
  void Begin() override {
    done_ = 0;
    pieces_ = 0;
    retries_ = 0;
  }
  EngineCounts Counts() const override {
    return {pieces_.load(std::memory_order_relaxed), retries_.load(std::memory_order_relaxed)};
  }

 protected:
  // The chunk's prefix is not used.
  absl::Status Deflate(int lane, const Chunk& chunk, Buffer& out) override {
    const size_t begin = out.size();
    // Pieces such that what they become fits a buffer, too.
    const uint64_t most = device_.facts().largest_buffer;
    const uint64_t piece = std::min<uint64_t>(chunk.size(), most - most / 32 - 256);
    std::vector<Job> jobs;
    std::vector<Buffer> outputs;
    uint64_t at = 0;
    do {
      Job job{};
      job.input = chunk.data() + at;
      job.input_bytes = std::min<uint64_t>(piece, chunk.size() - at);
      job.room = std::min(most, RoomFor(job.input_bytes));
      Buffer output;
      output.Resize(job.room);
      job.output = output.data();
      outputs.push_back(std::move(output));
      jobs.push_back(job);
      at += job.input_bytes;
    } while (at < chunk.size());
    pieces_.fetch_add(jobs.size(), std::memory_order_relaxed);
    flushed_->Run(jobs.data(), jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i) {
      Job& job = jobs[i];
      if (job.outcome == Outcome::kTooSmall && job.room < most) {
        job.room = std::min(most, 2 * job.input_bytes + 4096);
        outputs[i].Resize(job.room);
        job.output = outputs[i].data();
        retries_.fetch_add(1, std::memory_order_relaxed);
        flushed_->Run(&job, 1);
      }
      PULSE_RETURN_IF_ERROR(CheckJob(job));
      const absl::string_view data(reinterpret_cast<const char*>(job.input), job.input_bytes);
      const size_t from = out.size();
      out.Append(job.output, job.produced);
      if (device_.facts().final_on_flush != 0) {
        const absl::Status cleared = clearers_[static_cast<size_t>(lane)].Clear(data, from, out);
        if (!cleared.ok()) return Lost(cleared.message());
      } else if (!EndsWithFlush(out, from)) {
        return Lost("its output does not end with a flush");
      }
    }
    return CheckSometimes(chunk, begin, out);
  }

  size_t DeflateWhole(int, const uint8_t* from, size_t size, uint8_t* to, size_t room) override {
    Job job{};
    job.input = from;
    job.input_bytes = size;
    job.room = std::min<uint64_t>(room, device_.facts().largest_buffer);
    job.output = to;
    pieces_.fetch_add(1, std::memory_order_relaxed);
    whole_->Run(&job, 1);
    // Any failure: the block is stored.
    if (job.outcome != Outcome::kOk || job.produced == 0) return 0;
    return Decodes({reinterpret_cast<const char*>(from), size}, to, job.produced) ? job.produced
                                                                                  : 0;
  }

 private:
  static bool EndsWithFlush(const Buffer& out, size_t from) {
    return out.size() - from > kFlush.size() &&
           out.view().substr(out.size() - kFlush.size()) == kFlush;
  }

  // As the queue takes them: a device that refuses good data is lost.
  absl::Status CheckJob(const Job& job) const {
    if (job.outcome == Outcome::kOk) return absl::OkStatus();
    const absl::Status error = device_.ErrorOf(job);
    return absl::IsDataLoss(error) ? Lost(error.message()) : error;
  }

  absl::Status Lost(absl::string_view why) const {
    return absl::UnavailableError(absl::StrCat("device ", device_.name(), " of DPDK failed: ", why,
                                               "; with CPUs of the host (a placement other than "
                                               "agent) the host goes on"));
  }

  static bool Decodes(absl::string_view data, const uint8_t* stream, size_t size) {
    libdeflate_decompressor* const decoder = libdeflate_alloc_decompressor();
    PULSE_CHECK(decoder != nullptr);
    Buffer back;
    back.Resize(data.size() + 1);
    size_t length = 0;
    size_t used = 0;
    const libdeflate_result got = libdeflate_deflate_decompress_ex(
        decoder, stream, size, back.data(), data.size(), &used, &length);
    libdeflate_free_decompressor(decoder);
    return got == LIBDEFLATE_SUCCESS && used == size && length == data.size() &&
           std::memcmp(back.data(), data.data(), length) == 0;
  }

  absl::Status CheckSometimes(const Chunk& chunk, size_t begin, const Buffer& out) {
    // Where the final bit was cleared, all was decoded.
    if (device_.facts().final_on_flush != 0) return absl::OkStatus();
    if (done_.fetch_add(1, std::memory_order_relaxed) % kDecodeEach != 0) return absl::OkStatus();
    Buffer stream;
    stream.Append(out.view().substr(begin));
    stream.Append(kDeflateEnd);
    const absl::string_view data(reinterpret_cast<const char*>(chunk.data()), chunk.size());
    if (Decodes(data, stream.data(), stream.size())) return absl::OkStatus();
    return Lost(absl::StrCat("its output for chunk ", chunk.number, " means something else"));
  }

  const Device& device_;
  const std::unique_ptr<Device::Work> flushed_;
  const std::unique_ptr<Device::Work> whole_;
  std::vector<FinalBlockClearer> clearers_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> pieces_{0};
  std::atomic<uint64_t> retries_{0};
};

class DeviceDecoder : public Engine {
 public:
  DeviceDecoder(const Device& device, bool adler, std::unique_ptr<Device::Work> work,
                EngineTraits traits, EngineSupplier::MakeLocal local)
      : Engine(std::move(traits)),
        device_(device),
        adler_(adler),
        work_(std::move(work)),
        make_local_(std::move(local)) {}

  void Begin() override {
    pieces_ = 0;
    retries_ = 0;
  }
  EngineCounts Counts() const override {
    return {pieces_.load(std::memory_order_relaxed), retries_.load(std::memory_order_relaxed)};
  }

  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    const uint64_t most = device_.facts().largest_buffer;
    Job job{};
    job.input = chunk.data();
    job.input_bytes = chunk.size();
    job.room = std::min<uint64_t>(most, usual_.load(std::memory_order_relaxed));
    pieces_.fetch_add(1, std::memory_order_relaxed);
    while (true) {
      result.Clear();
      result.bytes.Resize(job.room);
      job.output = result.bytes.data();
      work_->Run(&job, 1);
      if (job.outcome != Outcome::kTooSmall || job.room == most) break;
      job.room = std::min(most, 2 * job.room);
      retries_.fetch_add(1, std::memory_order_relaxed);
      usual_.store(job.room, std::memory_order_relaxed);
    }
    if (job.outcome != Outcome::kOk) {
      const absl::Status error = device_.ErrorOf(job);
      return absl::IsDataLoss(error) ? Confirm(error, chunk, result) : error;
    }
    result.bytes.Resize(job.produced);
    result.checksum = adler_ ? libdeflate_adler32(1, result.bytes.data(), job.produced)
                             : crc32_gzip_refl(0, result.bytes.data(), job.produced);
    return absl::OkStatus();
  }

 private:
  // The device says that a chunk is damaged. It may be wrong.
  absl::Status Confirm(const absl::Status& said, const Chunk& chunk, Result& result) {
    const std::lock_guard lock(local_mu_);
    if (local_ == nullptr) {
      PULSE_ASSIGN_OR_RETURN(local_, make_local_({"confirm", Side::kHost, 1, {}}));
    }
    result.Clear();
    PULSE_RETURN_IF_ERROR(local_->Process(0, chunk, result));
    return absl::UnavailableError(absl::StrCat("device ", device_.name(), " of DPDK failed chunk ",
                                               chunk.number, ", which is good: ", said.message()));
  }

  const Device& device_;
  const bool adler_;
  const std::unique_ptr<Device::Work> work_;
  const EngineSupplier::MakeLocal make_local_;
  std::atomic<uint64_t> pieces_{0};
  std::atomic<uint64_t> retries_{0};
  // What chunks of this stream decode to, as far as is known.
  std::atomic<uint64_t> usual_{(uint64_t{1} << 20) + 4096};
  std::mutex local_mu_;
  std::unique_ptr<Engine> local_;
};

}  // namespace

std::unique_ptr<Engine> MakeDeviceCompressor(const Device& device, Format format,
                                             std::unique_ptr<Device::Work> flushed,
                                             std::unique_ptr<Device::Work> whole,
                                             EngineTraits traits) {
  return std::make_unique<DeviceCompressor>(device, format, std::move(flushed), std::move(whole),
                                            std::move(traits));
}

std::unique_ptr<Engine> MakeDeviceDecoder(const Device& device, bool adler,
                                          std::unique_ptr<Device::Work> work, EngineTraits traits,
                                          EngineSupplier::MakeLocal local) {
  return std::make_unique<DeviceDecoder>(device, adler, std::move(work), std::move(traits),
                                         std::move(local));
}

}  // namespace pulse::ops::dpdk
