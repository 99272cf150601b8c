#include "services/files/spec.h"

#include <iterator>

#include "services/files/agent_service.h"
#include "services/files/wire.h"

namespace pulse::files {
namespace {

constexpr IoClassSpec kIoClassSpecs[] = {{IoClass::kInteractive, "files"}};

// By RequestKind.
constexpr const char* kRequestKinds[] = {"open", "read", "write", "sync", "name"};
static_assert(std::size(kRequestKinds) == static_cast<size_t>(RequestKind::kCount));

}  // namespace

const ServiceSpec kSpec = {.name = "files",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --store PATH",
                           .io_classes = kIoClassSpecs,
                           .request_kinds = kRequestKinds,
                           // The store's sessions share what is open, without locks.
                           .one_worker = true};

}  // namespace pulse::files
