#include "services/files/agent_module.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/files/agent_store.h"
#include "services/files/spec.h"

namespace pulse::files {
namespace {

constexpr OptionSpec kOptions[] = {
    {.name = "--store",
     .help = "segment store whose files the file library may use (pulse pool create); locked\n"
             "while the agent runs"},
    {.name = "--copy-payload",
     .kind = OptionSpec::Kind::kFlag,
     .help = "file library: copy data once more on the agent, to compare with"}};
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
  auto store = FileStore::Open(path);
  if (!store.ok()) return store.status();
  return std::make_unique<Module>(*std::move(store), path, options.Flag(kCopyPayload));
}

}  // namespace

const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

FileStore* StoreOf(ServiceModule* module) { return static_cast<Module*>(module)->store(); }

}  // namespace pulse::files
