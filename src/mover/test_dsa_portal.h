// A DSA in software, behind the portal: carries out descriptors on a thread of its own, in any
// order, and does by its seed what hardware does: its queue is full, copies stop at page faults or
// fail, a batch ends before all of its descriptors were fetched. A destination has nothing of a
// copy before it counts as done. For tests only.
#pragma once

#include <linux/idxd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mover/dsa_copy_engine.h"

namespace pulse {

struct TestDsaFaults {
  uint32_t full = 0;         // of a thousand submissions
  uint32_t page_faults = 0;  // of a thousand copies
  uint32_t errors = 0;
  uint32_t cut_batches = 0;  // of a thousand batches
  size_t size = 16;          // of the work queue
  uint64_t largest = uint64_t{2} << 20;
  uint64_t takes = ~uint64_t{0};  // so many submissions, and then none
};

class TestDsaPortal : public DsaPortal {
 public:
  struct Counts {
    std::atomic<uint64_t> copies{0}, batches{0}, faults{0}, errors{0}, full{0}, wrong{0};
  };

  TestDsaPortal(uint64_t seed, const TestDsaFaults& faults, Counts* counts)
      : faults_(faults), counts_(*counts), random_(seed), thread_([this] { Run(); }) {}
  ~TestDsaPortal() override {
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  bool Submit(const void* descriptor) override {
    dsa_hw_desc desc;
    if (reinterpret_cast<uintptr_t>(descriptor) % 64 != 0) ++counts_.wrong;
    std::memcpy(&desc, descriptor, sizeof(desc));
    const std::lock_guard lock(mu_);
    if (taken_ >= faults_.takes || queue_.size() >= faults_.size || Happens(faults_.full)) {
      ++counts_.full;
      return false;
    }
    ++taken_;
    queue_.push_back(desc);
    wake_.notify_one();
    return true;
  }
  std::string Describe() const override { return "a DSA in software"; }

 private:
  bool Happens(uint32_t of_thousand) { return random_() % 1000 < of_thousand; }

  void Run() {
    while (true) {
      dsa_hw_desc desc;
      {
        std::unique_lock lock(mu_);
        wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        const size_t at = random_() % queue_.size();
        desc = queue_[at];
        queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (desc.opcode == DSA_OPCODE_BATCH) {
        DoBatch(desc);
      } else {
        Do(desc);
      }
    }
  }
  uint64_t Draw() {
    const std::lock_guard lock(mu_);
    return random_();
  }

  void DoBatch(const dsa_hw_desc& batch) {
    ++counts_.batches;
    // As the specification has them: two at least, aligned.
    if (batch.desc_count < 2 || batch.desc_list_addr % 64 != 0) ++counts_.wrong;
    const auto* list = reinterpret_cast<const dsa_hw_desc*>(batch.desc_list_addr);
    uint32_t count = batch.desc_count;
    uint8_t status = DSA_COMP_SUCCESS;
    if (Draw() % 1000 < faults_.cut_batches) {
      count = static_cast<uint32_t>(Draw() % count);
      status = DSA_COMP_BATCH_PAGE_FAULT;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (Do(list[i]) != DSA_COMP_SUCCESS && status == DSA_COMP_SUCCESS) {
        status = DSA_COMP_BATCH_FAIL;
      }
    }
    Finish(batch, status, count);
  }

  uint8_t Do(const dsa_hw_desc& desc) {
    ++counts_.copies;
    if (desc.opcode != DSA_OPCODE_MEMMOVE || desc.xfer_size == 0 ||
        desc.xfer_size > faults_.largest ||
        (desc.flags & (IDXD_OP_FLAG_CRAV | IDXD_OP_FLAG_RCR)) !=
            (IDXD_OP_FLAG_CRAV | IDXD_OP_FLAG_RCR)) {
      ++counts_.wrong;
      return Finish(desc, DSA_COMP_BAD_OPCODE, 0);
    }
    uint32_t bytes = desc.xfer_size;
    uint8_t status = DSA_COMP_SUCCESS;
    const uint64_t dice = Draw() % 1000;
    if (dice < faults_.page_faults) {
      ++counts_.faults;
      bytes = static_cast<uint32_t>(Draw() % bytes);
      status = DSA_COMP_PAGE_FAULT_NOBOF;
    } else if (dice < faults_.page_faults + faults_.errors) {
      ++counts_.errors;
      status = DSA_COMP_HW_ERR1;
      bytes = 0;
    }
    std::memcpy(reinterpret_cast<void*>(desc.dst_addr),
                reinterpret_cast<const void*>(desc.src_addr), bytes);
    return Finish(desc, status, status == DSA_COMP_SUCCESS ? 0 : bytes);
  }

  uint8_t Finish(const dsa_hw_desc& desc, uint8_t status, uint32_t bytes) {
    if (desc.completion_addr % 32 != 0) ++counts_.wrong;
    auto* record = reinterpret_cast<dsa_completion_record*>(desc.completion_addr);
    record->bytes_completed = bytes;
    // The top bit tells reads from writes at a fault.
    const auto told = status == DSA_COMP_PAGE_FAULT_NOBOF
                          ? static_cast<uint8_t>(status | DSA_COMP_STATUS_WRITE)
                          : status;
    __atomic_store_n(&record->status, told, __ATOMIC_RELEASE);
    return status;
  }

  const TestDsaFaults faults_;
  Counts& counts_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::mt19937_64 random_;
  std::vector<dsa_hw_desc> queue_;
  uint64_t taken_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last
};

}  // namespace pulse
