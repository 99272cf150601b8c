#include "services/ops/dpdk/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "services/ops/codecs.h"
#include "services/ops/decoders.h"

namespace pulse::ops::dpdk {
namespace {

// Chunks in a card at a time: they hide what each waits for.
constexpr int kCardQueues = 4;

// Beside this program: in the build's lib, or where it is installed. Last the dynamic linker's own
// places.
std::vector<std::string> ModulePaths() {
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path prefix = program.parent_path().parent_path();
    for (const char* folder : {"lib", PULSE_OPS_LIBDIR}) {
      paths.push_back((prefix / folder / kModuleFile).string());
    }
  }
  paths.emplace_back(kModuleFile);
  return paths;
}

absl::StatusOr<const ModuleApi*> LoadModuleOnce() {
  std::string why;
  for (const std::string& path : ModulePaths()) {
    if (path != kModuleFile && !std::filesystem::exists(path)) continue;
    // Never closed: DPDK's threads run its code.
    void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      const char* const text = dlerror();
      why = text == nullptr ? "no reason given" : text;
      if (path == kModuleFile) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          path, " does not load; install DPDK's libraries (package libdpdk-dev): ", why));
    }
    const auto entry = reinterpret_cast<ModuleEntry>(dlsym(module, kModuleEntry));
    const ModuleApi* const api = entry == nullptr ? nullptr : entry();
    if (api == nullptr || api->version != kModuleVersion || api->size != sizeof(ModuleApi)) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is of another version of PulseDB; install the one of this version"));
    }
    return api;
  }
  return absl::UnimplementedError(absl::StrCat("devices of DPDK need ", kModuleFile,
                                               ", which is built where DPDK is installed ",
                                               "(scripts/setup-debian.sh --dpdk, or the package "
                                               "libdpdk-dev; then configure and build again): ",
                                               why));
}

absl::Status StatusOf(Outcome outcome, const std::string& text) {
  switch (outcome) {
    case Outcome::kNoDevice:
      return absl::NotFoundError(text);
    case Outcome::kFull:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

}  // namespace

absl::StatusOr<const ModuleApi*> LoadModule() {
  static const absl::StatusOr<const ModuleApi*> module = LoadModuleOnce();
  return module;
}

absl::StatusOr<std::shared_ptr<Device>> Device::Open(const std::string& name, int queues) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "a device of DPDK has a name: compress_isal, compress_zlib, or a card's PCI address");
  }
  PULSE_ASSIGN_OR_RETURN(const ModuleApi* module, LoadModule());
  return Open(module, name, queues);
}

absl::StatusOr<std::shared_ptr<Device>> Device::Open(const ModuleApi* module,
                                                     const std::string& name, int queues) {
  if (queues == 0) queues = absl::StrContains(name, ':') ? kCardQueues : AllowedCpus();
  void* device = nullptr;
  DeviceFacts facts{};
  Error error{};
  const Outcome got = module->open(name.c_str(), static_cast<uint32_t>(std::max(1, queues)),
                                   &device, &facts, &error);
  if (got != Outcome::kOk) {
    return StatusOf(got, absl::StrCat("device ", name, " of DPDK: ", error.text,
                                      got == Outcome::kNoDevice
                                          ? "; software drivers are compress_isal and "
                                            "compress_zlib (packages librte-compress-...), cards "
                                            "have PCI addresses such as 0000:03:00.0"
                                          : ""));
  }
  return std::shared_ptr<Device>(new Device(name, module, device, facts));
}

std::string Device::Describe() const {
  return absl::StrCat(name_, ": driver ", facts_.driver,
                      facts_.hardware != 0 ? ", a card, " : ", software, ", facts_.queues,
                      " queues, buffers of up to ", facts_.largest_buffer,
                      facts_.final_on_flush != 0 ? ", final block after a flush" : "");
}

absl::StatusOr<std::unique_ptr<Device::Work>> Device::OpenWork(const WorkSpec& spec) const {
  void* work = nullptr;
  Error error{};
  const Outcome got = module_->open_work(device_, &spec, &work, &error);
  if (got == Outcome::kOk) return std::make_unique<Work>(*this, work);
  const std::string text =
      absl::StrCat("device ", name_, " of DPDK cannot ",
                   spec.compress != 0 ? "compress" : "decompress", ": ", error.text);
  if (got == Outcome::kFull) return absl::ResourceExhaustedError(text);
  return absl::UnimplementedError(text);
}

absl::Status Device::ErrorOf(const Job& job) const {
  const std::string text = absl::StrCat("device ", name_, " of DPDK: ", job.input_bytes,
                                        " bytes, room for ", job.room, ": ");
  switch (job.outcome) {
    case Outcome::kLost:
      return absl::UnavailableError(absl::StrCat(text, "it does not answer; the device is lost"));
    case Outcome::kFull:
      return absl::UnimplementedError(absl::StrCat(text, "no buffers are left"));
    case Outcome::kUnsupported:
    case Outcome::kTooSmall:
      return absl::UnimplementedError(
          absl::StrCat(text, "its buffers have at most ", facts_.largest_buffer, " bytes"));
    default:
      return absl::DataLossError(absl::StrCat(text, "it says ", module_->status_name(job.status)));
  }
}

absl::StatusOr<std::unique_ptr<Engine>> Device::Make(const EngineOrder& order, EngineTraits traits,
                                                     MakeLocal local) {
  traits.side = Side::kAgent;
  traits.name = absl::StrCat("dpdk:", name_);
  traits.lanes = threads();
  traits.pipeline = facts_.hardware != 0;
  if (order.portable) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the bytes of device ", name_, " are its own; leave --deterministic or --engine out"));
  }
  if (order.kind == EngineOrder::Kind::kCompress) {
    const auto format = static_cast<Format>(order.format);
    if (format != Format::kGzip && format != Format::kZlib && format != Format::kBgzf) {
      return absl::UnimplementedError(absl::StrCat("device ", name_,
                                                   " of DPDK writes gzip, zlib and bgzf, not ",
                                                   FormatName(format), "; leave --engine out"));
    }
    PULSE_ASSIGN_OR_RETURN(auto flushed, OpenWork({1, order.level, 0}));
    std::unique_ptr<Work> whole;
    if (format == Format::kBgzf) {
      PULSE_ASSIGN_OR_RETURN(whole, OpenWork({1, order.level, 1}));
    }
    return MakeDeviceCompressor(*this, format, std::move(flushed), std::move(whole),
                                std::move(traits));
  }
  if (order.kind == EngineOrder::Kind::kDecompress) {
    const auto piece = static_cast<Piece>(order.format);
    if (piece != Piece::kMarkedCrc && piece != Piece::kMarkedAdler) {
      // A stream may have members of several formats: those of other ones are the host's.
      return absl::ResourceExhaustedError(
          absl::StrCat("device ", name_,
                       " of DPDK decompresses gzip and zlib of `pulse compress`, not this format"));
    }
    PULSE_ASSIGN_OR_RETURN(auto work, OpenWork({0, 1, 0}));
    return MakeDeviceDecoder(*this, piece == Piece::kMarkedAdler, std::move(work),
                             std::move(traits), std::move(local));
  }
  return absl::UnimplementedError(
      absl::StrCat("device ", name_, " of DPDK compresses and decompresses; it does not filter"));
}

}  // namespace pulse::ops::dpdk
