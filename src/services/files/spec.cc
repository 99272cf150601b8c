#include "services/files/spec.h"

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/files/agent_service.h"
#include "services/files/wire.h"

namespace pulse::files {
namespace {

constexpr IoClassSpec kIoClassSpecs[] = {{IoClass::kInteractive, "files"}};

// By RequestKind.
constexpr const char* kRequestKinds[] = {"open", "read", "write", "sync", "name"};
static_assert(std::size(kRequestKinds) == static_cast<size_t>(RequestKind::kCount));

constexpr OptionSpec kOptions[] = {
    {.name = "--store",
     .help = "segment store whose files the file library may use (pulse pool create); locked\n"
             "while the agent runs"},
    {.name = "--copy-payload",
     .kind = OptionSpec::Kind::kFlag,
     .help = "file library: copy data once more on the agent, to compare with",
     .needs = {"--store"}}};
constexpr const OptionSpec& kStore = kOptions[0];
constexpr const OptionSpec& kCopyPayload = kOptions[1];

class Module : public ServiceModule {
 public:
  Module(std::unique_ptr<FileStore> store, std::string path, bool copying)
      : store_(std::move(store)), path_(std::move(path)), copying_(copying) {}

  std::optional<OfferedService> Offer() override {
    return OfferedService{&kSpec, store_->Factory(copying_)};
  }
  std::string Describe() const override { return absl::StrCat(", store ", path_); }
  FileStore* store() { return store_.get(); }

 private:
  const std::unique_ptr<FileStore> store_;
  const std::string path_;
  const bool copying_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts&) {
  const std::string path = options.Text(kStore);
  if (path.empty()) return nullptr;
  PULSE_ASSIGN_OR_RETURN(auto store, FileStore::Open(path));
  return std::make_unique<Module>(std::move(store), path, options.Flag(kCopyPayload));
}

}  // namespace

const ServiceSpec kSpec = {.name = "files",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --store PATH",
                           .io_classes = kIoClassSpecs,
                           .request_kinds = kRequestKinds,
                           // The store's sessions share what is open, without locks.
                           .one_worker = true};

const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

FileStore* StoreOf(ServiceModule* module) { return static_cast<Module*>(module)->store(); }

}  // namespace pulse::files
