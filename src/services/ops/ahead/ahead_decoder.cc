#include "services/ops/ahead/ahead_decoder.h"

#include <isa-l/crc.h>
#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/background.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/shortage.h"
#include "services/ops/ahead/isal_position.h"

namespace pulse::ops {
namespace {

constexpr uint64_t kMostMargin = 256 << 10;
// A worker's compressed bytes before it looks whether somebody still wants it.
constexpr size_t kSlice = 128 << 10;
// Data of a stretch, at most, for each of its compressed bytes.
constexpr size_t kMostRatio = 8;
// Input between the thread in order and a new stretch, in stretches: a worker takes twice as long
// as that thread for the same, and a bit. One more for each that was overtaken; but the further
// ahead, the longer each exists, and few may.
constexpr uint64_t kGap = 2;
constexpr uint64_t kMostGap = 4;
// A worker that comes no further for so long is not running.
constexpr std::chrono::milliseconds kStall(5);
// Input that is passed by after failures, in stretches: four times as much each time, up to 32.
constexpr int kMostFailures = 5;

// Of the process: many inputs at once, as programs that embed this have them, take no more threads
// and memory than one on all CPUs.
std::atomic<size_t> running_workers{0};

}  // namespace

// A stretch's data on their way to the writer; whoever comes first, a worker or the writer, puts
// the window in.
class AheadDecoder::Resolution {
 public:
  Resolution(std::shared_ptr<TwinData> data, absl::string_view window, OutputWriter::Check check)
      : data_(std::move(data)), check_(check) {
    window_.Append(window);
  }

  void RunIfFirst() {
    {
      const std::lock_guard lock(mutex_);
      if (begun_) return;
      begun_ = true;
    }
    data_->Resolve(window_.view());
    const Buffer& data = data_->data;
    if (check_ == OutputWriter::Check::kCrc32) sum_ = crc32_gzip_refl(0, data.data(), data.size());
    if (check_ == OutputWriter::Check::kAdler32) {
      sum_ = libdeflate_adler32(1, data.data(), data.size());
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  absl::string_view Get(uint32_t& checksum) {
    RunIfFirst();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
    const Buffer& data = data_->data;
    const auto size = static_cast<off64_t>(data.size());
    if (check_ == OutputWriter::Check::kCrc32)
      checksum = static_cast<uint32_t>(crc32_combine64(checksum, sum_, size));
    if (check_ == OutputWriter::Check::kAdler32)
      checksum = static_cast<uint32_t>(adler32_combine64(checksum, sum_, size));
    return data.view();
  }

 private:
  const std::shared_ptr<TwinData> data_;
  const OutputWriter::Check check_;
  Buffer window_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool begun_ = false;
  bool done_ = false;
  uint32_t sum_ = 0;
};

uint64_t AheadDecoder::StretchFor(size_t workers) {
  constexpr uint64_t kAll = uint64_t{16} << 20;
  return std::clamp<uint64_t>(kAll / workers, 512 << 10, 2 << 20);
}

AheadDecoder::AheadDecoder(Options options)
    : options_(std::move(options)),
      margin_(std::min(kMostMargin, options_.stretch / 4)),
      gap_stretches_(kGap) {}

void AheadDecoder::Start() {
  const size_t all = std::max(static_cast<size_t>(AllowedCpus()), options_.workers);
  try {
    while (workers_.size() < options_.workers) {
      if (running_workers.fetch_add(1) >= all) {
        --running_workers;
        break;
      }
      try {
        workers_.emplace_back([this] { Work(); });
      } catch (...) {
        --running_workers;
        throw;
      }
    }
  } catch (const std::system_error&) {
    // With fewer, or none.
  } catch (const std::bad_alloc&) {
    // Likewise.
  }
  options_.workers = workers_.size();
}

AheadDecoder::~AheadDecoder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& stretch : stretches_) stretch->cancelled = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  running_workers -= workers_.size();
}

void AheadDecoder::Continue(InputReader& in, uint64_t stretch) {
  const Lock lock(mutex_);
  position_ = in.offset();
  stretch_ = stretch;
  if (stretch_ == 0) return;
  while (!pieces_.empty() && pieces_.front().offset + pieces_.front().bytes().size() <= position_) {
    pieces_.pop_front();
  }
  seen_ = std::max(seen_, position_);
  // Up to the last stretch that may be begun before the first one is taken.
  const uint64_t wanted = position_ + (gap_stretches_ + MostStretches()) * stretch_ + 2 * margin_;
  while (seen_ < wanted) {
    auto piece = in.LookAhead();
    if (!piece.has_value()) break;
    seen_ = piece->offset + piece->bytes().size();
    pieces_.push_back(*std::move(piece));
  }
  sees_end_ = in.SeesEnd();
  while (!stretches_.empty()) {
    Stretch& first = *stretches_.front();
    const bool found = first.state == State::kFound || first.state == State::kDecoded;
    if (found ? first.begin_bit >= 8 * position_ : first.end > position_) break;
    first.cancelled = true;
    if (first.state != State::kDecoded) gap_stretches_ = std::min(gap_stretches_ + 1, kMostGap);
    stretches_.pop_front();
  }
  if (!Plan().has_value()) return;
  if (workers_.empty()) Start();
  changed_.notify_one();
}

std::optional<uint64_t> AheadDecoder::NextBegin(uint64_t bit) {
  const Lock lock(mutex_);
  for (const auto& stretch : stretches_) {
    const bool found = stretch->state == State::kFound || stretch->state == State::kDecoded;
    if (found && stretch->begin_bit > bit) return stretch->begin_bit;
  }
  return std::nullopt;
}

std::optional<AheadData> AheadDecoder::Take(uint64_t bit) {
  Lock lock(mutex_);
  const auto at = std::find_if(stretches_.begin(), stretches_.end(), [&](const auto& stretch) {
    return stretch->state != State::kPlanned && stretch->begin_bit == bit;
  });
  if (at == stretches_.end()) return std::nullopt;
  const std::shared_ptr<Stretch> stretch = *at;
  if (stretch->state == State::kFound) {
    gap_stretches_ = std::min(gap_stretches_ + 1, kMostGap);
    // The rest takes a worker twice the time.
    if (2 * stretch->fed < stretch->end - stretch->begin) {
      stretch->cancelled = true;
      Remove(*stretch);
      return std::nullopt;
    }
    while (stretch->state == State::kFound) {
      const uint64_t fed = stretch->fed;
      changed_.wait_for(lock, kStall, [&] { return stretch->state != State::kFound; });
      if (stretch->state != State::kFound || stretch->fed != fed) continue;
      // Its worker has no CPU.
      stretch->cancelled = true;
      Remove(*stretch);
      return std::nullopt;
    }
  }
  if (stretch->state != State::kDecoded) return std::nullopt;
  Remove(*stretch);
  if (!stretch->busy) failures_ = 0;
  taken_ += stretch->ahead.data->data.size();
  return std::move(stretch->ahead);
}

OutputWriter::Late AheadDecoder::Resolve(const AheadData& ahead, absl::string_view window,
                                         OutputWriter::Check check) {
  auto resolution = std::make_shared<Resolution>(ahead.data, window, check);
  {
    const Lock lock(mutex_);
    to_resolve_.push_back(resolution);
  }
  changed_.notify_one();
  return
      [resolution](OutputWriter::Check, uint32_t& checksum) { return resolution->Get(checksum); };
}

void AheadDecoder::Remove(const Stretch& stretch) {
  const auto at = std::find_if(stretches_.begin(), stretches_.end(),
                               [&](const auto& each) { return each.get() == &stretch; });
  if (at != stretches_.end()) stretches_.erase(at);
}

void AheadDecoder::PassBy(const Stretch& stretch) {
  const uint64_t much = std::max(stretch_, stretch.end - stretch.begin) << failures_;
  not_before_ = std::max(not_before_, stretch.end + much);
  failures_ = std::min(failures_ + 2, kMostFailures);
}

std::optional<AheadDecoder::Range> AheadDecoder::Plan() const {
  size_t exist = pool_.in_use();
  for (const auto& stretch : stretches_) exist += stretch->state == State::kPlanned ? 1 : 0;
  if (stretch_ == 0 || exist >= MostStretches()) return std::nullopt;
  // What is no stretch's, the thread in order decodes.
  uint64_t begin = position_;
  uint64_t own = 0;
  for (const auto& stretch : stretches_) {
    own += std::max(stretch->begin, begin) - begin;
    begin = std::max(stretch->end, begin);
  }
  own += std::max(not_before_, begin) - begin;
  begin = std::max(not_before_, begin);
  const uint64_t gap = gap_stretches_ * stretch_;
  if (own < gap) begin += gap - own;
  const uint64_t end = begin + stretch_;
  if (end + 2 * margin_ <= seen_) return Range{begin, end, false};
  if (sees_end_ && begin + stretch_ / 4 <= seen_) return Range{begin, seen_, true};
  return std::nullopt;
}

std::shared_ptr<AheadDecoder::Stretch> AheadDecoder::Add(const Range& range) {
  std::vector<InputReader::Ahead> pieces;
  for (const InputReader::Ahead& piece : pieces_) {
    if (piece.offset >= range.end + 2 * margin_) break;
    if (piece.offset + piece.bytes().size() > range.begin) pieces.push_back(piece);
  }
  auto stretch = std::make_shared<Stretch>(range, std::move(pieces));
  stretches_.push_back(stretch);
  return stretch;
}

void AheadDecoder::Work() {
  // What they decode is of use, but never as much as what the thread in order decodes meanwhile.
  EnterBackground(false, options_.cpus, "decompression ahead");
  std::unique_ptr<TwinInflater> inflater;
  Lock lock(mutex_);
  while (true) {
    std::optional<Range> range;
    changed_.wait(lock,
                  [&] { return stop_ || !to_resolve_.empty() || (range = Plan()).has_value(); });
    if (stop_) return;
    if (!to_resolve_.empty()) {
      const std::shared_ptr<Resolution> resolution = to_resolve_.front().lock();
      to_resolve_.pop_front();
      lock.unlock();
      if (resolution != nullptr) resolution->RunIfFirst();
      lock.lock();
      continue;
    }
    std::shared_ptr<Stretch> stretch;
    try {
      stretch = Add(*range);
    } catch (const std::bad_alloc&) {
      not_before_ = std::max(not_before_, range->end + stretch_);
      continue;
    }
    if (Plan().has_value()) changed_.notify_one();
    lock.unlock();
    const int64_t begin = NowNanos();
    const int64_t cpu_begin = ThreadCpuNanos();
    const bool done = Decode(*stretch, inflater);
    const auto took = static_cast<double>(NowNanos() - begin);
    const auto cpu = static_cast<double>(ThreadCpuNanos() - cpu_begin);
    lock.lock();
    stretch->busy = cpu < options_.least_cpu_share * took;
    stretch->state = done ? State::kDecoded : State::kFailed;
    if (!done) {
      stretch->ahead.data.reset();
      Remove(*stretch);
    }
    if (stretch->busy || (!done && !stretch->cancelled)) PassBy(*stretch);
    changed_.notify_all();
  }
}

bool AheadDecoder::Decode(Stretch& stretch, std::unique_ptr<TwinInflater>& inflater) {
  const absl::StatusOr<bool> done = CatchNoMemory([&]() -> absl::StatusOr<bool> {
    const std::optional<uint64_t> begin =
        stretch.input.Find(8 * stretch.begin, 8 * (stretch.begin + margin_ / 2));
    if (!begin.has_value()) return false;
    {
      const Lock lock(mutex_);
      stretch.begin_bit = *begin;
      stretch.state = State::kFound;
      stretch.ahead.data = pool_.Get();
    }
    if (inflater == nullptr) inflater = std::make_unique<TwinInflater>();
    return DecodeFrom(*begin, stretch, *inflater);
  });
  return done.ok() && *done;
}

bool AheadDecoder::DecodeFrom(uint64_t bit, Stretch& stretch, TwinInflater& inflater) {
  InputView& input = stretch.input;
  const absl::string_view first = input.At(bit / 8);
  inflater.Begin(bit, static_cast<uint8_t>(first[0]), kMostRatio * options_.stretch,
                 *stretch.ahead.data);
  uint64_t at = FirstByteFed(bit);
  std::optional<uint64_t> end = input.Find(8 * stretch.end, 8 * (stretch.end + margin_));
  while (true) {
    if (!end.has_value() && !stretch.last) return false;
    const uint64_t stop = end.has_value() ? FirstByteFed(*end) : input.end();
    while (at < stop) {
      if (stretch.cancelled) return false;
      const absl::string_view slice = input.At(at).substr(0, std::min<uint64_t>(kSlice, stop - at));
      const TwinInflater::State state = inflater.Feed(slice);
      if (state == TwinInflater::State::kFailed) return false;
      if (state == TwinInflater::State::kFinal) {
        stretch.ahead.final = true;
        stretch.ahead.end_bit = 8 * inflater.End();
        return true;
      }
      at += slice.size();
      stretch.fed = at - stretch.begin;
    }
    if (!end.has_value()) return false;
    if (inflater.IsAt(*end)) {
      stretch.ahead.end_bit = *end;
      return true;
    }
    end = input.Find(*end + 1, 8 * (stretch.end + margin_));
  }
}

}  // namespace pulse::ops
