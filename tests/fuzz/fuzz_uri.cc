// The URI and everything that is read out of it. What is accepted must be within the documented
// bounds.
#include <string>

#include "base/cpu_list.h"
#include "base/uri_options.h"
#include "channel/wire.h"
#include "fuzz_input.h"
#include "services/lsm/core/options.h"

namespace pulse {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const uint64_t kind = in.Below(5);
  const std::string text = in.Rest();
  switch (kind) {
    case 0: {
      const auto bytes = ParseBytes(text);
      if (bytes.ok()) FUZZ_CHECK(*bytes < uint64_t{1} << 63);
      break;
    }
    case 1: {
      const auto cpus = ParseCpuList(text);
      if (cpus.ok()) {
        const auto again = ParseCpuList(FormatCpuList(*cpus));
        FUZZ_CHECK(cpus->empty() || (again.ok() && *again == *cpus));
      }
      break;
    }
    case 2: {
      const auto list = ParseOptionList(text);
      if (list.ok()) {
        for (const auto& [key, value] : *list) FUZZ_CHECK(!key.empty());
      }
      break;
    }
    case 3: {
      const auto uri = ParseUri(text);
      if (uri.ok()) FUZZ_CHECK(!uri->scheme.empty());
      break;
    }
    default: {
      const auto o = lsm::ParseOptions("pulse://" + text);
      if (!o.ok()) {
        FUZZ_CHECK(!o.status().message().empty());
        break;
      }
      FUZZ_CHECK(o->queue_bytes >= wire::kMinArenaBytes && o->queue_bytes <= wire::kMaxArenaBytes);
      FUZZ_CHECK(o->queue_bytes % wire::kPage == 0 && o->write_threshold % wire::kPage == 0);
      FUZZ_CHECK(o->write_threshold > 0 && o->write_threshold * 2 <= o->queue_bytes);
      FUZZ_CHECK(o->fetch_chunk > 0 && o->fetch_bytes % o->fetch_chunk == 0);
      FUZZ_CHECK(o->fetch_bytes >= 4 * o->fetch_chunk && o->fetch_bytes <= wire::kMaxArenaBytes);
      FUZZ_CHECK(o->fetch_bytes % wire::kPage == 0);
      FUZZ_CHECK(o->max_streams >= 1 && o->max_streams <= 63);
      FUZZ_CHECK(o->socket_path.empty() || o->socket_path[0] == '/');
    }
  }
  return 0;
}

}  // namespace pulse
