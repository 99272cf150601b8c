// Device: a compression device of DPDK as a supplier of engines (engine_order.h): `pulse compress
// --engine dpdk:NAME` and its like use it. It is the co-processor of the
// co-processing paper's sections 5.3 to 5.6 where it is a card, and a software driver
// (compress_isal, compress_zlib) where there is none.
//
// It compresses chunks of gzip, zlib and BGZF, and decompresses chunks of marked gzip and zlib
// (decoders.h). It has no preset dictionary: a chunk with a prefix is compressed without it, which
// is as valid and a little larger. A device that ends a flush with a final block has
// its output decoded once by the host, which clears the bit, as for libdeflate.
//
// A device is not trusted: of chunks that it compressed the first and each 64th are decoded and
// compared; a chunk that it calls damaged, the host decodes before it says so; one that does not
// answer for 4 seconds is lost. A chunk that is too large for its buffers goes to another engine.
//
// Thread-safe. Outlives the engines that it makes. Open blocks for the driver; DPDK begins with the
// first device and stays until the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/dpdk/module_api.h"
#include "services/ops/engine_order.h"
#include "services/ops/format.h"

namespace pulse::ops::dpdk {

// Loads the module. Unimplemented: there is none; it says what to install. FailedPrecondition: it
// is there and does not load, or is of another version.
absl::StatusOr<const ModuleApi*> LoadModule();

class Device : public EngineSupplier {
 public:
  // `name`: a software driver of DPDK, or a card's PCI address. `queues`: chunks that are in it at
  // a time; 0: for a card 4, else one for each CPU of this process.
  // NotFound: there is no such device, or its driver is not installed. FailedPrecondition: it is
  // there, and of no use. Else as LoadModule.
  static absl::StatusOr<std::shared_ptr<Device>> Open(const std::string& name, int queues = 0);
  // The same by a given module.
  static absl::StatusOr<std::shared_ptr<Device>> Open(const ModuleApi* module,
                                                      const std::string& name, int queues);

  absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder& order, EngineTraits traits,
                                               MakeLocal local) override;
  int threads() const override { return static_cast<int>(facts_.queues); }

  const std::string& name() const { return name_; }
  const DeviceFacts& facts() const { return facts_; }
  // "compress_isal: driver compress_isal, 2 queues ...", for a person.
  std::string Describe() const;

  // An operation of this device: jobs with the same settings.
  class Work {
   public:
    Work(const Device& device, void* work) : device_(device), work_(work) {}
    ~Work() { device_.module_->close_work(work_); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    void Run(Job* jobs, size_t count) const {
      device_.module_->run(work_, jobs, static_cast<uint32_t>(count));
    }

   private:
    const Device& device_;
    void* const work_;
  };
  // ResourceExhausted: the device has no room for another one. Unimplemented: it cannot do this.
  absl::StatusOr<std::unique_ptr<Work>> OpenWork(const WorkSpec& spec) const;
  // For a job that is neither done nor too small: Unimplemented (another engine may do it),
  // DataLoss (the device calls its input invalid), Unavailable (the device is lost).
  absl::Status ErrorOf(const Job& job) const;

 private:
  Device(std::string name, const ModuleApi* module, void* device, const DeviceFacts& facts)
      : name_(std::move(name)), module_(module), device_(device), facts_(facts) {}

  const std::string name_;
  const ModuleApi* const module_;
  void* const device_;
  const DeviceFacts facts_;
};

// What Device::Make makes.
std::unique_ptr<Engine> MakeDeviceCompressor(const Device& device, Format format,
                                             std::unique_ptr<Device::Work> flushed,
                                             std::unique_ptr<Device::Work> whole,
                                             EngineTraits traits);
std::unique_ptr<Engine> MakeDeviceDecoder(const Device& device, bool adler,
                                          std::unique_ptr<Device::Work> work, EngineTraits traits,
                                          EngineSupplier::MakeLocal local);

}  // namespace pulse::ops::dpdk
