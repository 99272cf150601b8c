#include "bench/rivals/engines.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::rivals {
namespace {

template <typename Create>
IoBackendFactory OrProducts(absl::string_view name, EngineKind nearest, Create create) {
  return [name = std::string(name), nearest,
          create](const IoBackendOptions& options) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
    auto made = create(options);
    if (made.ok()) return std::unique_ptr<IoBackend>(*std::move(made));
    LogOnce("engine " + name,
            absl::StrCat("engine ", name, " is not to be had here (", made.status().message(),
                         "); measuring engine=", EngineName(nearest), " in its place"));
    IoBackendOptions plain = options;
    plain.factory = nullptr;
    plain.kind = nearest;
    return CreateIoBackend(plain);
  };
}

}  // namespace

absl::StatusOr<IoBackendFactory> FactoryOf(absl::string_view name) {
  if (name == "libaio") return OrProducts(name, EngineKind::kThreads, CreateAioBackend);
  if (name == "io_uring_poll") return OrProducts(name, EngineKind::kUring, CreatePollBackend);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown rival engine \"", name, "\"; known are io_uring_poll, libaio"));
}

}  // namespace pulse::rivals
