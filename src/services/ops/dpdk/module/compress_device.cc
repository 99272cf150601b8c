// Devices of DPDK's compressdev, behind module_api.h.
//
// A device has queue pairs; each call of Run has one to itself. Data are copied to mbufs of the
// device's pool and back, since cards reach only memory that was registered with them. A buffer
// larger than an mbuf is a chain of them, where the device takes chains.
#include <rte_comp.h>
#include <rte_compressdev.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "services/ops/dpdk/module/environment.h"
#include "services/ops/dpdk/module/pause.h"
#include "services/ops/dpdk/module/regex_device.h"
#include "services/ops/dpdk/module_api.h"

namespace pulse::ops::dpdk {
namespace {

// Of an mbuf: all that its 16-bit length can say, in whole cache lines.
constexpr uint32_t kSegment = 0xFFC0;
// Of an mbuf of a chain: less, since the last one may have a byte more for each of the others.
constexpr uint32_t kPart = kSegment - 128;
constexpr uint64_t kLargestChain = uint64_t{4} << 20;
constexpr uint32_t kSegmentsOfChain = (kLargestChain + kPart - 1) / kPart;
static_assert(kSegmentsOfChain <= 128);
constexpr uint32_t kBurst = 16;
constexpr uint32_t kMostQueues = 32;
// Works that are open at a time on one device.
constexpr uint32_t kMostWorks = 16;
constexpr uint8_t kWindowBits = 15;
// In place of DPDK's status.
constexpr int32_t kSenseless = -1;

void Say(Error* error, const std::string& text) {
  std::snprintf(error->text, sizeof(error->text), "%s", text.c_str());
}

struct Device {
  std::string name;
  uint8_t id = 0;
  DeviceFacts facts{};
  bool shared_xforms = false;
  rte_mempool* buffers = nullptr;
  rte_mempool* operations = nullptr;

  std::mutex mutex;
  std::condition_variable freed;
  std::vector<uint16_t> free_queues;
  bool lost = false;
};

struct Work {
  Device* device;
  WorkSpec spec;
  // One for all queues, or one for each.
  std::vector<void*> xforms;
};

// Takes a free queue of the device while it lives.
class QueueLease {
 public:
  explicit QueueLease(Device& device) : device_(device) {
    std::unique_lock lock(device_.mutex);
    device_.freed.wait(lock, [&] { return device_.lost || !device_.free_queues.empty(); });
    if (device_.lost) return;
    queue_ = device_.free_queues.back();
    device_.free_queues.pop_back();
    held_ = true;
  }
  QueueLease(const QueueLease&) = delete;
  QueueLease& operator=(const QueueLease&) = delete;
  ~QueueLease() {
    if (!held_) return;
    const std::lock_guard lock(device_.mutex);
    device_.free_queues.push_back(queue_);
    device_.freed.notify_one();
  }
  // The device has kept what was given to it: nobody may use this queue, or the device, again.
  void Lose() {
    const std::lock_guard lock(device_.mutex);
    device_.lost = true;
    held_ = false;
    device_.freed.notify_all();
  }
  bool held() const { return held_; }
  uint16_t queue() const { return queue_; }

 private:
  Device& device_;
  uint16_t queue_ = 0;
  bool held_ = false;
};

uint64_t PartsOf(uint64_t bytes) { return bytes <= kSegment ? 1 : (bytes + kPart - 1) / kPart; }

// A chain with room for `bytes`; its lengths say that all of it is used. The parts are of one size,
// and the last has what is left beside: compress_isal ends too early where the last one is smaller
// than the one before it. Null: no mbufs are left.
rte_mbuf* MakeChain(rte_mempool* pool, uint64_t bytes) {
  const uint64_t count = PartsOf(bytes);
  std::vector<rte_mbuf*> parts(count);
  if (rte_pktmbuf_alloc_bulk(pool, parts.data(), static_cast<unsigned>(count)) != 0) return nullptr;
  for (uint64_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    parts[i]->data_off = 0;
    parts[i]->data_len =
        static_cast<uint16_t>(last ? bytes - bytes / count * (count - 1) : bytes / count);
    parts[i]->next = last ? nullptr : parts[i + 1];
  }
  parts[0]->pkt_len = static_cast<uint32_t>(bytes);
  parts[0]->nb_segs = static_cast<uint16_t>(count);
  return parts[0];
}

void CopyIn(rte_mbuf* chain, const uint8_t* from) {
  for (; chain != nullptr; chain = chain->next) {
    if (chain->data_len != 0) std::memcpy(rte_pktmbuf_mtod(chain, void*), from, chain->data_len);
    from += chain->data_len;
  }
}

void CopyOut(const rte_mbuf* chain, uint8_t* to, uint64_t bytes) {
  for (; chain != nullptr && bytes != 0; chain = chain->next) {
    const uint64_t n = std::min<uint64_t>(bytes, chain->data_len);
    std::memcpy(to, rte_pktmbuf_mtod(chain, const void*), n);
    to += n;
    bytes -= n;
  }
}

void FreeOperation(rte_comp_op* op) {
  rte_pktmbuf_free(op->m_src);
  rte_pktmbuf_free(op->m_dst);
  rte_comp_op_free(op);
}

// Null: there is no room for it in the pools.
rte_comp_op* MakeOperation(const Work& work, uint16_t queue, const Job& job) {
  const Device& device = *work.device;
  rte_comp_op* const op = rte_comp_op_alloc(device.operations);
  if (op == nullptr) return nullptr;
  op->m_src = MakeChain(device.buffers, job.input_bytes);
  op->m_dst = MakeChain(device.buffers, job.room);
  if (op->m_src == nullptr || op->m_dst == nullptr) {
    FreeOperation(op);
    return nullptr;
  }
  CopyIn(op->m_src, job.input);
  op->op_type = RTE_COMP_OP_STATELESS;
  op->private_xform = work.xforms[device.shared_xforms ? 0 : queue];
  op->src.offset = 0;
  op->src.length = static_cast<uint32_t>(job.input_bytes);
  op->dst.offset = 0;
  op->flush_flag =
      work.spec.compress != 0 && work.spec.whole == 0 ? RTE_COMP_FLUSH_FULL : RTE_COMP_FLUSH_FINAL;
  op->input_chksum = 0;
  op->consumed = 0;
  op->produced = 0;
  op->status = RTE_COMP_OP_STATUS_NOT_PROCESSED;
  return op;
}

void TakeResult(const rte_comp_op& op, Job& job) {
  job.status = op.status;
  job.produced = 0;
  switch (op.status) {
    case RTE_COMP_OP_STATUS_SUCCESS:
      // Input that is left over, or more output than there is room for, is a lie of the device.
      if (op.consumed != job.input_bytes || op.produced > job.room) {
        job.outcome = Outcome::kRefused;
        job.status = kSenseless;
        return;
      }
      CopyOut(op.m_dst, job.output, op.produced);
      job.produced = op.produced;
      job.outcome = Outcome::kOk;
      return;
    case RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED:
    // Only operations with a state can be continued; ours begin again with more room.
    case RTE_COMP_OP_STATUS_OUT_OF_SPACE_RECOVERABLE:
      job.outcome = Outcome::kTooSmall;
      return;
    default:
      job.outcome = Outcome::kRefused;
  }
}

// At most facts.burst jobs. False: the device is lost, with all that it was given.
bool RunBurst(const Work& work, uint16_t queue, Job* jobs, uint32_t count) {
  Device& device = *work.device;
  std::vector<rte_comp_op*> ops;
  std::vector<Job*> of;
  for (uint32_t i = 0; i < count; ++i) {
    Job& job = jobs[i];
    job.produced = 0;
    job.status = RTE_COMP_OP_STATUS_NOT_PROCESSED;
    job.outcome = Outcome::kFull;
    if (job.input_bytes > device.facts.largest_buffer || job.room > device.facts.largest_buffer) {
      job.outcome = Outcome::kUnsupported;
      continue;
    }
    rte_comp_op* const op = MakeOperation(work, queue, job);
    if (op == nullptr) continue;
    ops.push_back(op);
    of.push_back(&job);
  }
  size_t given = 0;
  size_t back = 0;
  Pause pause;
  std::vector<rte_comp_op*> done(ops.size());
  while (back < ops.size()) {
    const uint16_t taken = rte_compressdev_enqueue_burst(device.id, queue, ops.data() + given,
                                                         static_cast<uint16_t>(ops.size() - given));
    given += taken;
    const uint16_t got = rte_compressdev_dequeue_burst(device.id, queue, done.data(),
                                                       static_cast<uint16_t>(done.size()));
    for (uint16_t i = 0; i < got; ++i) {
      const auto at = std::find(ops.begin(), ops.end(), done[i]) - ops.begin();
      TakeResult(*done[i], *of[static_cast<size_t>(at)]);
    }
    back += got;
    if (taken != 0 || got != 0) {
      pause.Reset();
    } else if (!pause.Wait()) {
      // What it has not given back it may still write to.
      for (Job* job : of) {
        if (job->outcome != Outcome::kOk) job->outcome = Outcome::kLost;
      }
      return false;
    }
  }
  for (rte_comp_op* op : ops) FreeOperation(op);
  return true;
}

// Mbufs of one side of a burst; each queue has as many for each side.
uint32_t PartsOfBurst(const DeviceFacts& facts) {
  return facts.chained != 0 ? kSegmentsOfChain : facts.burst;
}

// How many of the jobs go together. At least one.
uint32_t BurstOf(const Device& device, const Job* jobs, uint32_t count) {
  const uint64_t most = PartsOfBurst(device.facts);
  uint64_t in = 0;
  uint64_t out = 0;
  for (uint32_t n = 0; n < std::min(count, device.facts.burst); ++n) {
    in += PartsOf(jobs[n].input_bytes);
    out += PartsOf(jobs[n].room);
    if (n > 0 && (in > most || out > most)) return n;
  }
  return std::min(count, device.facts.burst);
}

void Run(void* opaque, Job* jobs, uint32_t count) {
  const Work& work = *static_cast<const Work*>(opaque);
  for (uint32_t i = 0; i < count; ++i) jobs[i].outcome = Outcome::kLost;
  QueueLease lease(*work.device);
  if (!lease.held()) return;
  for (uint32_t at = 0; at < count;) {
    const uint32_t n = BurstOf(*work.device, jobs + at, count - at);
    if (!RunBurst(work, lease.queue(), jobs + at, n)) {
      lease.Lose();
      return;
    }
    at += n;
  }
}

rte_comp_xform Xform(const WorkSpec& spec) {
  rte_comp_xform xform{};
  if (spec.compress != 0) {
    xform.type = RTE_COMP_COMPRESS;
    xform.compress.algo = RTE_COMP_ALGO_DEFLATE;
    xform.compress.deflate.huffman = RTE_COMP_HUFFMAN_DYNAMIC;
    xform.compress.level = spec.level;
    xform.compress.window_size = kWindowBits;
    xform.compress.chksum = RTE_COMP_CHECKSUM_NONE;
    xform.compress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
  } else {
    xform.type = RTE_COMP_DECOMPRESS;
    xform.decompress.algo = RTE_COMP_ALGO_DEFLATE;
    xform.decompress.chksum = RTE_COMP_CHECKSUM_NONE;
    xform.decompress.window_size = kWindowBits;
    xform.decompress.hash_algo = RTE_COMP_HASH_ALGO_NONE;
  }
  return xform;
}

void CloseWork(void* opaque) {
  auto* const work = static_cast<Work*>(opaque);
  Device& device = *work->device;
  {
    const std::lock_guard lock(device.mutex);
    for (void* xform : work->xforms) rte_compressdev_private_xform_free(device.id, xform);
  }
  delete work;
}

Outcome OpenWork(void* opaque, const WorkSpec* spec, void** out, Error* error) {
  auto& device = *static_cast<Device*>(opaque);
  auto work = std::make_unique<Work>(Work{&device, *spec, {}});
  const rte_comp_xform xform = Xform(*spec);
  const uint32_t count = device.shared_xforms ? 1 : device.facts.queues;
  int got = 0;
  {
    const std::lock_guard lock(device.mutex);
    TakeLog();
    for (uint32_t i = 0; i < count && got == 0; ++i) {
      void* made = nullptr;
      got = rte_compressdev_private_xform_create(device.id, &xform, &made);
      if (got == 0) work->xforms.push_back(made);
    }
  }
  if (got == 0) {
    *out = work.release();
    return Outcome::kOk;
  }
  const std::string said = TakeLog();
  CloseWork(work.release());
  Say(error, "the driver does not prepare for it: " + std::string(strerror(-got)) +
                 (said.empty() ? "" : " (" + said + ")"));
  return got == -ENOMEM ? Outcome::kFull : Outcome::kUnsupported;
}

// What the device has, before it is configured. Not Ok: it is of no use.
Outcome ReadFacts(Device& device, uint32_t queues, std::string& why) {
  rte_compressdev_info info{};
  rte_compressdev_info_get(device.id, &info);
  const rte_compressdev_capabilities* const can =
      rte_compressdev_capability_get(device.id, RTE_COMP_ALGO_DEFLATE);
  DeviceFacts& facts = device.facts;
  std::snprintf(facts.driver, sizeof(facts.driver), "%s",
                info.driver_name == nullptr ? "unnamed" : info.driver_name);
  if (can == nullptr || can->window_size.max < kWindowBits) {
    why = std::string("driver ") + facts.driver + " has no DEFLATE with a window of 32 KiB";
    return Outcome::kUnsupported;
  }
  if ((can->comp_feature_flags & RTE_COMP_FF_HUFFMAN_DYNAMIC) == 0) {
    why = std::string("driver ") + facts.driver + " has no dynamic Huffman codes";
    return Outcome::kUnsupported;
  }
  device.shared_xforms = (can->comp_feature_flags & RTE_COMP_FF_SHAREABLE_PRIV_XFORM) != 0;
  facts.hardware = (info.feature_flags & RTE_COMPDEV_FF_HW_ACCELERATED) != 0 ? 1 : 0;
  facts.chained = (can->comp_feature_flags & RTE_COMP_FF_OOP_SGL_IN_SGL_OUT) != 0 ? 1 : 0;
  facts.largest_buffer = facts.chained != 0 ? kLargestChain : kSegment;
  facts.queues_limit = info.max_nb_queue_pairs;
  facts.queues = std::clamp<uint32_t>(queues, 1, kMostQueues);
  if (info.max_nb_queue_pairs != 0) {
    facts.queues = std::min<uint32_t>(facts.queues, info.max_nb_queue_pairs);
  }
  // Operations with one xform that is not to be shared must not be in the device together.
  facts.burst = device.shared_xforms ? kBurst : 1;
  return Outcome::kOk;
}

Outcome Configure(Device& device, std::string& why) {
  const uint32_t queues = device.facts.queues;
  rte_compressdev_config config{};
  config.socket_id = SOCKET_ID_ANY;
  config.nb_queue_pairs = static_cast<uint16_t>(queues);
  config.max_nb_priv_xforms =
      static_cast<uint16_t>(kMostWorks * (device.shared_xforms ? 1 : queues));
  config.max_nb_streams = 0;
  const auto failed = [&](const char* what, int got) {
    const std::string said = TakeLog();
    why = std::string(what) + ": " + strerror(got < 0 ? -got : got) +
          (said.empty() ? "" : " (" + said + ")");
    return Outcome::kUnsupported;
  };
  const uint32_t segments = queues * 2 * PartsOfBurst(device.facts);
  device.buffers = rte_pktmbuf_pool_create((device.name + "_b").c_str(), segments, 0, 0, kSegment,
                                           SOCKET_ID_ANY);
  device.operations =
      rte_comp_op_pool_create((device.name + "_o").c_str(), queues * kBurst, 0, 0, SOCKET_ID_ANY);
  if (device.buffers == nullptr || device.operations == nullptr) {
    return failed(
        "no memory for its buffers, or DPDK's mempool driver is not installed (package "
        "librte-mempool-ring)",
        rte_errno);
  }
  if (const int got = rte_compressdev_configure(device.id, &config); got != 0) {
    return failed("it cannot be configured", got);
  }
  for (uint32_t queue = 0; queue < queues; ++queue) {
    const int got = rte_compressdev_queue_pair_setup(device.id, static_cast<uint16_t>(queue),
                                                     kBurst, SOCKET_ID_ANY);
    if (got != 0) return failed("a queue of it cannot be set up", got);
    device.free_queues.push_back(static_cast<uint16_t>(queue));
  }
  if (const int got = rte_compressdev_start(device.id); got != 0) {
    return failed("it does not start", got);
  }
  return Outcome::kOk;
}

// Some drivers end a full flush with a final block: a sample tells. With a flush it ends with an
// empty stored block; this sample's own blocks cannot end so.
Outcome LearnFlush(Device& device, std::string& why) {
  Error error{};
  const WorkSpec spec{1, 1, 0};
  void* work = nullptr;
  if (const Outcome got = OpenWork(&device, &spec, &work, &error); got != Outcome::kOk) {
    why = error.text;
    return got;
  }
  uint8_t sample[256];
  for (size_t i = 0; i < sizeof(sample); ++i) sample[i] = static_cast<uint8_t>('a' + i % 7);
  uint8_t output[1024];
  Job job{sample, sizeof(sample), output, sizeof(output), 0, Outcome::kLost, 0};
  Run(work, &job, 1);
  CloseWork(work);
  if (job.outcome != Outcome::kOk) {
    why = "it does not compress a sample (status " + std::to_string(job.status) + ")";
    return Outcome::kUnsupported;
  }
  static constexpr uint8_t kFlush[4] = {0, 0, 0xFF, 0xFF};
  const bool flushed = job.produced > 4 &&
                       std::memcmp(output + job.produced - 4, kFlush, sizeof(kFlush)) == 0 &&
                       (output[0] & 1) == 0;
  device.facts.final_on_flush = flushed ? 0 : 1;
  return Outcome::kOk;
}

struct Registry {
  std::mutex mutex;
  std::map<std::string, Device*> devices;
  std::set<uint8_t> ids;
};

Registry& TheRegistry() {
  static Registry* const registry = new Registry;  // as long as DPDK's own threads
  return *registry;
}

Outcome OpenDevice(Registry& registry, const std::string& name, uint32_t queues, Device& device,
                   std::string& why) {
  if (const Outcome got = BeginEnvironment(name, "compress", why); got != Outcome::kOk) return got;
  if (const Outcome got = AddDevice(name, "compress", why); got != Outcome::kOk) return got;
  // Cards give their devices names of their own: ours is the one that is new.
  bool found = false;
  // None is closed, so that those that are there have the first numbers.
  for (unsigned id = 0; id < rte_compressdev_count() && !found; ++id) {
    const auto candidate = static_cast<uint8_t>(id);
    if (registry.ids.count(candidate) != 0) continue;
    registry.ids.insert(candidate);
    device.id = candidate;
    found = true;
  }
  if (!found) {
    why = IsPciAddress(name) ? "there is no such card, or no driver that compresses with it"
                             : "its driver has no compression";
    return Outcome::kNoDevice;
  }
  device.name = name;
  if (const Outcome got = ReadFacts(device, queues, why); got != Outcome::kOk) return got;
  if (const Outcome got = Configure(device, why); got != Outcome::kOk) return got;
  return LearnFlush(device, why);
}

Outcome Open(const char* name, uint32_t queues, void** out, DeviceFacts* facts, Error* error) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  auto it = registry.devices.find(name);
  if (it == registry.devices.end()) {
    auto device = std::make_unique<Device>();
    std::string why;
    if (const Outcome got = OpenDevice(registry, name, queues, *device, why); got != Outcome::kOk) {
      Say(error, why);
      return got;
    }
    it = registry.devices.emplace(name, device.release()).first;
  }
  *out = it->second;
  *facts = it->second->facts;
  return Outcome::kOk;
}

const char* StatusName(int32_t status) {
  switch (status) {
    case kSenseless:
      return "SUCCESS, with input left over or more output than there is room";
    case RTE_COMP_OP_STATUS_SUCCESS:
      return "SUCCESS";
    case RTE_COMP_OP_STATUS_NOT_PROCESSED:
      return "NOT_PROCESSED";
    case RTE_COMP_OP_STATUS_INVALID_ARGS:
      return "INVALID_ARGS";
    case RTE_COMP_OP_STATUS_ERROR:
      return "ERROR";
    case RTE_COMP_OP_STATUS_INVALID_STATE:
      return "INVALID_STATE";
    case RTE_COMP_OP_STATUS_OUT_OF_SPACE_TERMINATED:
      return "OUT_OF_SPACE_TERMINATED";
    case RTE_COMP_OP_STATUS_OUT_OF_SPACE_RECOVERABLE:
      return "OUT_OF_SPACE_RECOVERABLE";
    default:
      return "unknown";
  }
}

constexpr ModuleApi kApi = {kModuleVersion, sizeof(ModuleApi), Open,     OpenWork, CloseWork, Run,
                            StatusName,     OpenRegex,         ScanRegex};

}  // namespace
}  // namespace pulse::ops::dpdk

extern "C" __attribute__((visibility("default"))) const pulse::ops::dpdk::ModuleApi*
pulse_ops_dpdk_module() {
  return &pulse::ops::dpdk::kApi;
}
