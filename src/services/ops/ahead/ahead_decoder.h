// AheadDecoder: threads that decode stretches of a DEFLATE stream ahead of the thread that decodes
// it in order, which takes their data when it comes to where such a stretch begins.
//
// A worker takes a stretch of the compressed input (some MiB), finds the first block that seems to
// begin in it (block_finder.h), and decodes without the data before it (twin_inflater.h) up to the
// first block that begins behind the stretch. The thread in order never relies on a guess: it uses
// such a stretch only if it has itself come to the header of a block at exactly the bit at which
// the stretch begins; all that follows from there on is then what it would have decoded. Anything
// that goes wrong in a stretch makes it worthless, and the thread in order comes to the same place
// and sees for itself.
//
// Between the thread in order and the next stretch there is always as much input as that thread
// decodes while a worker does a stretch, so that neither waits. The memory is bounded: a stretch
// whose data are too large is given up, and few exist at a time.
//
// One thread calls it; it blocks in Take. Without threads to be had nothing is decoded ahead.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/ops/ahead/input_view.h"
#include "services/ops/ahead/twin_inflater.h"
#include "services/ops/file_io.h"
#include "services/ops/recycle_pool.h"

namespace pulse::ops {

// Data of a stretch, whose window is not known yet.
struct AheadData {
  uint64_t end_bit = 0;  // where the next block begins
  bool final = false;    // no block follows; end_bit is the first of the byte behind the stream
  std::shared_ptr<TwinData> data;
};

class AheadDecoder {
 public:
  struct Options {
    size_t workers = 1;
    std::vector<int> cpus;  // of the workers; none: where the caller runs
    // Compressed bytes of a stretch, at most.
    uint64_t stretch = uint64_t{2} << 20;
    // Of a CPU: a worker that had less of it found the machine busy, and fewer stretches follow.
    double least_cpu_share = 2.0 / 3;
  };

  // Of a long stretch only the beginning is decoded twice; many are shorter, since all take memory.
  static uint64_t StretchFor(size_t workers);

  explicit AheadDecoder(Options options);
  ~AheadDecoder();
  AheadDecoder(const AheadDecoder&) = delete;
  AheadDecoder& operator=(const AheadDecoder&) = delete;

  // Gives the workers what `in`, from whose place the caller goes on, has read ahead. `stretch`:
  // compressed bytes of one from now on; 0: none is begun.
  void Continue(InputReader& in, uint64_t stretch);
  const Options& options() const { return options_; }
  // Bytes of data that were taken so far.
  uint64_t taken() const { return taken_; }
  // The first bit above `bit` at which a stretch begins.
  std::optional<uint64_t> NextBegin(uint64_t bit);
  // What was decoded from this bit on. Waits if that is shorter than to decode it again.
  std::optional<AheadData> Take(uint64_t bit);
  // The data with their window (32 KiB), as a worker or the writer puts it in.
  OutputWriter::Late Resolve(const AheadData& ahead, absl::string_view window,
                             OutputWriter::Check check);

 private:
  enum class State : uint8_t { kPlanned, kFound, kDecoded, kFailed };
  // Of the input, in bytes: blocks that begin here are those of a stretch. The last one has all up
  // to the end of the stream.
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool last = false;
  };
  struct Stretch {
    Stretch(const Range& range, std::vector<InputReader::Ahead> pieces)
        : begin(range.begin), end(range.end), last(range.last), input(std::move(pieces)) {}
    const uint64_t begin;
    const uint64_t end;
    const bool last;
    InputView input;
    State state = State::kPlanned;
    uint64_t begin_bit = 0;  // from kFound on
    AheadData ahead;
    std::atomic<uint64_t> fed{0};  // bytes of the input
    bool busy = false;
    std::atomic<bool> cancelled{false};
  };
  class Resolution;
  using Lock = std::unique_lock<std::mutex>;

  // That exist at a time: being decoded, to be taken, to be written.
  size_t MostStretches() const { return 2 * options_.workers + 1; }
  void Start();
  void Work();
  // The next stretch, if it is time for one.
  std::optional<Range> Plan() const;
  std::shared_ptr<Stretch> Add(const Range& range);
  // `inflater` is made for the first one.
  bool Decode(Stretch& stretch, std::unique_ptr<TwinInflater>& inflater);
  bool DecodeFrom(uint64_t bit, Stretch& stretch, TwinInflater& inflater);
  void Remove(const Stretch& stretch);
  void PassBy(const Stretch& stretch);

  Options options_;  // workers: those that there are, once they were started
  // Compressed bytes in which a block is to begin behind the end of a stretch, and twice as many as
  // at its beginning; twice as many are there to look for it.
  const uint64_t margin_;
  RecyclePool<TwinData> pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<InputReader::Ahead> pieces_;  // that may still be needed
  uint64_t seen_ = 0;                      // where they end
  bool sees_end_ = false;
  uint64_t position_ = 0;  // of the thread in order
  uint64_t stretch_ = 0;
  uint64_t gap_stretches_;
  // Stretches begin no earlier, after some that were worthless, or done on a busy machine.
  uint64_t not_before_ = 0;
  int failures_ = 0;
  std::deque<std::shared_ptr<Stretch>> stretches_;  // in their order
  std::deque<std::weak_ptr<Resolution>> to_resolve_;
  bool stop_ = false;
  uint64_t taken_ = 0;
  std::vector<std::thread> workers_;  // from the first stretch on
};

}  // namespace pulse::ops
