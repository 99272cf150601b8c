#include "mover/dsa_copy_engine.h"

#include <linux/idxd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace pulse {
namespace {

static_assert(sizeof(dsa_hw_desc) == 64);
static_assert(sizeof(dsa_completion_record) == 32);

constexpr uintptr_t kPage = 4096;
constexpr size_t kMostBatch = 1024;

// What the device reads and writes, one for each copy, and one for each batch.
struct alignas(64) Descriptor {
  dsa_hw_desc desc;
};
struct alignas(32) Record {
  dsa_completion_record record;
};

uint8_t StatusOf(const Record& record) {
  // What the device wrote before the status is seen after it.
  return __atomic_load_n(&record.record.status, __ATOMIC_ACQUIRE) & DSA_COMP_STATUS_MASK;
}

// So that the device finds the pages: the source's are read; the destination is the engine's, and
// each page of it is written with what it has.
void TouchForReading(const char* at, uint64_t length) {
  const volatile char* byte = at;
  for (uint64_t i = 0; i < length; i += kPage) (void)byte[i];
  if (length > 0) (void)byte[length - 1];
}
void TouchForWriting(char* at, uint64_t length) {
  volatile char* byte = at;
  for (uint64_t i = 0; i < length; i += kPage) byte[i] = byte[i];
  if (length > 0) byte[length - 1] = byte[length - 1];
}

class DsaCopyEngine : public CopyEngine {
 public:
  DsaCopyEngine(std::unique_ptr<DsaPortal> portal, const DsaOptions& options)
      : options_(options),
        portal_(std::move(portal)),
        descriptors_(options.depth),
        records_(options.depth),
        items_(options.depth),
        batches_(std::max<size_t>(1, options.depth / 2)),
        batch_descriptors_(batches_.size()),
        batch_records_(batches_.size()) {
    for (size_t i = options.depth; i > 0; --i) free_.push_back(i - 1);
    for (size_t i = batches_.size(); i > 0; --i) free_batches_.push_back(i - 1);
  }

  ~DsaCopyEngine() override {
    CopyCompletion done[16];
    while (in_flight() > 0) {
      if (Poll(done, std::size(done)) == 0) sched_yield();
    }
  }

  size_t Submit(const CopyItem* items, size_t n) override {
    n = std::min(n, free_.size());
    size_t taken = 0;
    while (taken < n) {
      // Bad items complete by themselves; the others before and after go to the device.
      if (absl::Status st = CheckCopy(items[taken]); !st.ok() || items[taken].length == 0) {
        refused_.push_back({items[taken].tag, 0, std::move(st)});
        const size_t slot = free_.back();  // counted as in flight
        free_.pop_back();
        refused_slots_.push_back(slot);
        ++taken;
        continue;
      }
      size_t together = 1;
      while (taken + together < n && together < options_.batch &&
             items[taken + together].length > 0 && CheckCopy(items[taken + together]).ok()) {
        ++together;
      }
      const size_t submitted = SubmitSome(items + taken, together);
      taken += submitted;
      if (submitted < together) break;
    }
    return taken;
  }

  size_t Poll(CopyCompletion* out, size_t max) override {
    size_t given = 0;
    while (given < max && !refused_.empty()) {
      out[given++] = std::move(refused_.back());
      refused_.pop_back();
      free_.push_back(refused_slots_.back());
      refused_slots_.pop_back();
    }
    for (size_t i = 0; i < open_batches_.size() && given < max;) {
      const size_t batch = open_batches_[i];
      const uint8_t status = StatusOf(batch_records_[batch]);
      if (status == DSA_COMP_NONE) {
        ++i;
        continue;
      }
      Batch& b = batches_[batch];
      // All of its copies have ended now, or were never begun.
      while (given < max && !b.slots.empty()) {
        out[given++] = Complete(b.slots.back(), status);
        b.slots.pop_back();
      }
      if (!b.slots.empty()) break;
      free_batches_.push_back(batch);
      open_batches_.erase(open_batches_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (size_t i = 0; i < open_.size() && given < max;) {
      const size_t slot = open_[i];
      if (StatusOf(records_[slot]) == DSA_COMP_NONE) {
        ++i;
        continue;
      }
      out[given++] = Complete(slot, DSA_COMP_SUCCESS);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return given;
  }
  size_t in_flight() const override { return options_.depth - free_.size(); }
  size_t depth() const override { return options_.depth; }

 private:
  struct Batch {
    std::vector<size_t> slots;
  };

  void Prepare(size_t slot, const CopyItem& item) {
    items_[slot] = item;
    const uint64_t length = std::min(item.length, options_.largest);
    if (options_.touch_pages) {
      TouchForReading(item.source, length);
      TouchForWriting(item.destination, length);
    }
    std::memset(&records_[slot], 0, sizeof(Record));
    dsa_hw_desc& desc = descriptors_[slot].desc;
    std::memset(&desc, 0, sizeof(desc));
    desc.opcode = DSA_OPCODE_MEMMOVE;
    desc.flags = IDXD_OP_FLAG_CRAV | IDXD_OP_FLAG_RCR;
    desc.completion_addr = reinterpret_cast<uintptr_t>(&records_[slot]);
    desc.src_addr = reinterpret_cast<uintptr_t>(item.source);
    desc.dst_addr = reinterpret_cast<uintptr_t>(item.destination);
    desc.xfer_size = static_cast<uint32_t>(length);
  }

  // Of `n` copies, as many as were submitted: all of them, or the first, or none.
  size_t SubmitSome(const CopyItem* items, size_t n) {
    // The descriptors of a batch follow each other in memory.
    const size_t first = n > 1 && !free_batches_.empty() ? TakeRow(&n) : kNone;
    if (first == kNone) {
      const size_t slot = free_.back();
      Prepare(slot, items[0]);
      if (!portal_->Submit(&descriptors_[slot])) return 0;
      free_.pop_back();
      open_.push_back(slot);
      return 1;
    }
    const size_t batch = free_batches_.back();
    for (size_t i = 0; i < n; ++i) Prepare(first + i, items[i]);
    std::memset(&batch_records_[batch], 0, sizeof(Record));
    dsa_hw_desc& desc = batch_descriptors_[batch].desc;
    std::memset(&desc, 0, sizeof(desc));
    desc.opcode = DSA_OPCODE_BATCH;
    desc.flags = IDXD_OP_FLAG_CRAV | IDXD_OP_FLAG_RCR;
    desc.completion_addr = reinterpret_cast<uintptr_t>(&batch_records_[batch]);
    desc.desc_list_addr = reinterpret_cast<uintptr_t>(&descriptors_[first]);
    desc.desc_count = static_cast<uint32_t>(n);
    if (!portal_->Submit(&batch_descriptors_[batch])) {
      for (size_t i = n; i > 0; --i) free_.push_back(first + i - 1);
      return 0;
    }
    free_batches_.pop_back();
    open_batches_.push_back(batch);
    batches_[batch].slots.clear();
    for (size_t i = n; i > 0; --i) batches_[batch].slots.push_back(first + i - 1);
    return n;
  }

  // Takes up to *n free slots that follow each other, at least two; kNone: there are none.
  size_t TakeRow(size_t* n) {
    std::sort(free_.begin(), free_.end(), std::greater<>());
    size_t begin = free_.size(), most = 0;
    for (size_t i = free_.size(); i > 0;) {
      size_t run = 1;
      while (i > run && run < *n && free_[i - run - 1] == free_[i - run] + 1) ++run;
      if (run > most) {
        most = run;
        begin = i;
        if (run == *n) break;
      }
      i -= run;
    }
    if (most < 2) return kNone;
    *n = most;
    const size_t first = free_[begin - 1];
    const auto end = free_.begin() + static_cast<std::ptrdiff_t>(begin);
    free_.erase(end - static_cast<std::ptrdiff_t>(most), end);
    return first;
  }

  CopyCompletion Complete(size_t slot, uint8_t of_batch) {
    free_.push_back(slot);
    const CopyItem& item = items_[slot];
    const uint64_t length = std::min(item.length, options_.largest);
    const dsa_completion_record& record = records_[slot].record;
    const uint8_t status = StatusOf(records_[slot]);
    // The device is not trusted with more than it was given.
    const uint64_t done = std::min<uint64_t>(record.bytes_completed, length);
    switch (status) {
      case DSA_COMP_SUCCESS:
        return {item.tag, length, absl::OkStatus()};
      case DSA_COMP_PAGE_FAULT_NOBOF:
        // Where it stopped, the page is fetched for the next time.
        TouchForReading(item.source + done, std::min<uint64_t>(length - done, kPage));
        TouchForWriting(item.destination + done, std::min<uint64_t>(length - done, kPage));
        return {item.tag, done, absl::OkStatus()};
      case DSA_COMP_NONE:
        return {item.tag, 0,
                absl::UnavailableError(absl::StrCat("a batch of the DSA ended with status ",
                                                    int{of_batch}, " before this copy"))};
      default:
        return {item.tag, 0,
                absl::UnavailableError(absl::StrCat("the DSA ended a copy of ", length,
                                                    " bytes with status ", int{status}))};
    }
  }

  static constexpr size_t kNone = ~size_t{0};

  const DsaOptions options_;
  const std::unique_ptr<DsaPortal> portal_;
  std::vector<Descriptor> descriptors_;  // by slot
  std::vector<Record> records_;
  std::vector<CopyItem> items_;
  std::vector<Batch> batches_;
  std::vector<Descriptor> batch_descriptors_;
  std::vector<Record> batch_records_;
  std::vector<size_t> free_, free_batches_;
  std::vector<size_t> open_, open_batches_;  // on the device
  std::vector<CopyCompletion> refused_;      // that never went there
  std::vector<size_t> refused_slots_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopyEngine>> CreateDsaCopyEngine(std::unique_ptr<DsaPortal> portal,
                                                                const DsaOptions& options) {
  if (options.depth == 0 || options.depth > (size_t{1} << 16) || options.batch == 0 ||
      options.batch > kMostBatch || options.largest == 0 || options.largest > ~uint32_t{0}) {
    return absl::InvalidArgumentError(
        "a DSA engine has a depth of 1 to 65536, batches of 1 to 1024, and copies of 1 byte to "
        "4 GiB");
  }
  return std::make_unique<DsaCopyEngine>(std::move(portal), options);
}

}  // namespace pulse
