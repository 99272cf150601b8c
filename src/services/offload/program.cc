#include "services/offload/program.h"

#include <dlfcn.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::offload {
namespace {

absl::Status Rule(const Program& p, const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("offload program ", p.name != nullptr ? p.name : "without a name", ": ", what));
}

absl::Status CheckSize(const Program& p, const char* field, uint32_t value, uint32_t most) {
  if (value <= most) return absl::OkStatus();
  return Rule(p, absl::StrCat(field, " is ", value, "; at most ", most));
}

}  // namespace

absl::Status CheckProgram(const Program& p) {
  // Version first: of another one, nothing else is where it is looked for.
  if (p.version != kProgramVersion || p.size != sizeof(Program)) {
    return absl::FailedPreconditionError(
        absl::StrCat("an offload program of version ", p.version, " with a table of ", p.size,
                     " bytes; this agent has version ", kProgramVersion, " with ", sizeof(Program),
                     ": build it against this agent's pulse/offload.h"));
  }
  if (p.name == nullptr) return Rule(p, "name is null");
  PULSE_RETURN_IF_ERROR(CheckSize(p, "key_size", p.key_size, kMaxKeyBytes));
  PULSE_RETURN_IF_ERROR(CheckSize(p, "item_size", p.item_size, kMaxItemBytes));
  PULSE_RETURN_IF_ERROR(CheckSize(p, "max_request", p.max_request, kMaxRequestBytes));
  PULSE_RETURN_IF_ERROR(CheckSize(p, "max_reply_header", p.max_reply_header, kMaxReplyHeader));
  PULSE_RETURN_IF_ERROR(CheckSize(p, "max_reply_trailer", p.max_reply_trailer, kMaxReplyTrailer));
  PULSE_RETURN_IF_ERROR(CheckSize(p, "order", static_cast<uint32_t>(p.order), 1));
  if (p.split_request == nullptr) return Rule(p, "split_request is null");
  if (p.split_reply == nullptr) return Rule(p, "split_reply is null");
  if (p.predicate != nullptr && p.read == nullptr) return Rule(p, "predicate without read");
  if (p.predicate != nullptr && p.max_request == 0) return Rule(p, "max_request is 0");
  if (p.key_size == 0 && (p.cache != nullptr || p.invalidate != nullptr)) {
    return Rule(p, "cache or invalidate without a key_size");
  }
  return absl::OkStatus();
}

absl::StatusOr<const Program*> LoadProgram(const std::string& path) {
  if (!absl::StrContains(path, "/") && !absl::EndsWith(path, ".so")) {
    return absl::NotFoundError(
        absl::StrCat("offload program ", path, ": the path of a shared object is expected"));
  }
  // For good: what a function that was abandoned has left may point into it.
  void* const object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == nullptr) {
    const char* why = dlerror();
    return absl::NotFoundError(absl::StrCat("offload program: ", why != nullptr ? why : path));
  }
  const auto* program = static_cast<const Program*>(dlsym(object, kProgramSymbol));
  if (program == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("offload program ", path, " exports no ", kProgramSymbol,
                     "; define it with PULSE_OFFLOAD_PROGRAM of pulse/offload.h"));
  }
  if (absl::Status st = CheckProgram(*program); !st.ok()) {
    return absl::Status(st.code(), absl::StrCat(path, ": ", st.message()));
  }
  return program;
}

}  // namespace pulse::offload
