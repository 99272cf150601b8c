#include "services/lsm/core/options.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/uri_options.h"
#include "channel/wire.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

uint64_t RoundDownToPage(uint64_t n) { return n / wire::kPage * wire::kPage; }

// `choices` are those of T, a bool or an enumeration, in its order.
template <typename T>
void ReadEnum(OptionReader* r, const char* name, const std::vector<absl::string_view>& choices,
              T* out) {
  int choice = static_cast<int>(*out);
  r->ReadChoice(name, choices, &choice);
  *out = static_cast<T>(choice);
}

// Overlays `o` with `values`.
absl::Status Read(std::map<std::string, std::string> values, Options* o) {
  o->mover_given |= values.count("mover") != 0;
  o->engine_given |= values.count("engine") != 0;
  OptionReader r(std::move(values));
  std::string engine(EngineName(o->engine));
  ReadEnum(&r, "layout", {"files", "pool"}, &o->layout);
  r.ReadString("pool", &o->pool);
  ReadEnum(&r, "placement", {"host", "split", "whole", "adaptive"}, &o->placement);
  ReadEnum(&r, "whole", {"all", "deep"}, &o->offload_all);
  r.ReadBytes("debt", 0, Options::kAutoPendingLimit - 1, &o->pending_limit);
  ReadEnum(&r, "flushes", {"host", "agent", "adaptive"}, &o->flushes);
  ReadEnum(&r, "compression", {"host", "agent"}, &o->agent_compresses);
  r.ReadInt("host_slots", 0, 1024, &o->host_slots);
  r.ReadInt("agent_tasks", 0, 1024, &o->agent_tasks);
  r.ReadString("trace", &o->trace);
  r.ReadString("status", &o->status);
  ReadEnum(&r, "sync", {"barrier", "strict"}, &o->sync);
  ReadEnum(&r, "io", {"auto", "direct", "buffered"}, &o->io);
  ReadEnum(&r, "fetch", {"off", "on"}, &o->fetch);
  ReadEnum(&r, "fallback", {"none", "embedded"}, &o->fallback_embedded);
  ReadEnum(&r, "mover", {"shared", "vmread"}, &o->mover);
  r.ReadString("engine", &engine);
  // Which all agents accept; larger queues gain nothing (PulseDB IV-F).
  const uint64_t max_arena = 512 * kMiB;
  r.ReadBytes("queue", kMiB, max_arena, &o->queue_bytes);
  r.ReadBytes("write_threshold", wire::kPage, 64 * kMiB, &o->write_threshold);
  r.ReadBytes("sync_interval", wire::kPage, 1024 * kMiB, &o->sync_interval);
  r.ReadBytes("fetch_memory", kMiB, max_arena, &o->fetch_bytes);
  r.ReadBytes("fetch_chunk", 64 * 1024, 8 * kMiB, &o->fetch_chunk);
  r.ReadBytes("readahead", 32 * 1024, 16 * kMiB, &o->readahead);
  r.ReadInt("streams", 1, 63, &o->max_streams);  // and one queue for fetch
  r.ReadInt("agent_deadline", 100, 3'600'000, &o->agent_deadline_ms);
  r.ReadCpus("agent_cpus", &o->agent_cpus);
  r.ReadInt("agent_nice", 0, 19, &o->agent_nice);
  r.ReadInt("compaction_nice", 0, 19, &o->compaction_nice);
  std::string compaction_sched = "normal";
  r.ReadString("compaction_sched", &compaction_sched);
  if (compaction_sched != "normal") {
    LogOnce(
        "compaction_sched",
        "compaction_sched does nothing any more; use compaction_nice, which gives writers more");
  }
  ReadEnum(&r, "agent_sched", {"normal", "background"}, &o->agent_background);
  r.ReadInt("spin_us", 0, 1'000'000, &o->spin_us);
  o->queue_bytes = RoundDownToPage(o->queue_bytes);
  o->fetch_chunk = RoundDownToPage(o->fetch_chunk);
  o->write_threshold = RoundDownToPage(o->write_threshold);
  PULSE_RETURN_IF_ERROR(r.Finish());
  const auto kind = ParseEngineKind(engine);
  if (!kind.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("option engine=", engine, ": ", kind.status().message()));
  }
  o->engine = *kind;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::string& uri) {
  const auto refused = [&uri](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", uri, "\": ", why...));
  };
  PULSE_ASSIGN_OR_RETURN(auto parsed, ParseUri(uri));
  if (parsed.scheme != "pulse") {
    return refused("the scheme must be pulse://");
  }
  if (!parsed.path.empty() && parsed.path[0] != '/') {
    return refused("\"", parsed.path,
                   "\" is not an absolute socket path; write pulse:///PATH/agent.sock, or "
                   "pulse:// for an embedded agent");
  }
  Options o;
  bool sched_given = parsed.options.count("agent_sched") != 0;
  if (const char* env = secure_getenv("PULSE_OPTIONS"); env != nullptr && *env != '\0') {
    auto defaults = ParseOptionList(env);
    absl::Status st = defaults.ok() ? Read(*defaults, &o) : defaults.status();
    if (!st.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment variable PULSE_OPTIONS: ", st.message()));
    }
    sched_given |= defaults->count("agent_sched") != 0;
  }
  o.socket_path = parsed.path;
  std::string unused;
  for (const char* name : {"agent_cpus", "agent_nice", "agent_sched", "agent_tasks", "spin_us"}) {
    if (parsed.options.count(name) != 0) absl::StrAppend(&unused, unused.empty() ? "" : ", ", name);
  }
  const bool flushes_given = parsed.options.count("flushes") != 0;
  const bool compression_given = parsed.options.count("compression") != 0;
  const bool status_given = parsed.options.count("status") != 0;
  if (absl::Status st = Read(std::move(parsed.options), &o); !st.ok()) return refused(st.message());
  if (!o.socket_path.empty() && !o.fallback_embedded && !unused.empty()) {
    LogOnce("idle options " + o.socket_path,
            absl::StrCat("\"", uri, "\": ", unused,
                         " says how an embedded agent runs, and nothing here; choose it for the "
                         "agent at the socket (pulse agent --help)"));
  }
  if (!o.socket_path.empty() && !o.fallback_embedded && status_given) {
    LogOnce("idle status " + o.socket_path,
            absl::StrCat("\"", uri,
                         "\": status is for an embedded agent; ask the agent itself: "
                         "pulse top --socket ",
                         o.socket_path));
  }
  if (o.layout == Layout::kPool && o.pool.empty()) {
    return refused("layout=pool needs pool=PATH; `pulse pool create PATH --size SIZE` makes one");
  }
  if (o.layout != Layout::kPool && !o.pool.empty()) {
    return refused("pool=", o.pool,
                   " is of no use without layout=pool; add that, or leave pool out");
  }
  if (!flushes_given && !o.socket_path.empty()) {
    // The environment's, which is for the embedded agents of the process.
    o.flushes = FlushMode::kDefault;
  }
  const bool on_agent = o.flushes == FlushMode::kAgent || o.flushes == FlushMode::kAdaptive;
  if (on_agent && ((!o.socket_path.empty() && !o.fallback_embedded) || o.agent_cpus.empty())) {
    return refused(
        "flushes can be made on an embedded agent's CPUs only; name those by agent_cpus=, as in "
        "pulse://?agent_cpus=1, or leave flushes out");
  }
  const bool embeds = o.socket_path.empty() || o.fallback_embedded;
  if (!compression_given && !embeds) o.agent_compresses = false;
  if (o.agent_compresses && (!embeds || o.agent_cpus.empty())) {
    return refused(
        "blocks can be compressed on an embedded agent's CPUs only; name those by agent_cpus=, as "
        "in pulse://?agent_cpus=1&compression=agent, or leave compression out");
  }
  // Beside threads that compress on its CPUs it would come last.
  if (o.agent_compresses && !sched_given) o.agent_background = false;
  if (o.agent_compresses && o.placement == PlacementMode::kHost) {
    return refused(
        "compression=agent is for outputs that the agent writes, and with placement=host it writes "
        "none; leave one of the two out");
  }
  if (o.agent_compresses && o.placement == PlacementMode::kOffloadAll &&
      o.offload_all == OffloadAllScope::kDeep) {
    return refused(
        "compression=agent is for outputs that the agent writes, and with whole=deep the host "
        "writes "
        "its own; leave one of the two out");
  }
  if (o.flushes == FlushMode::kDefault) {
    o.flushes = o.placement == PlacementMode::kAdaptive ? FlushMode::kAdaptive : FlushMode::kHost;
  }
  if (o.write_threshold * 2 > o.queue_bytes) {
    return refused("write_threshold=", o.write_threshold,
                   " must be at most half of queue=", o.queue_bytes,
                   ", or nothing would overlap; lower it or raise queue");
  }
  if (o.fetch_chunk * 4 > o.fetch_bytes) {
    return refused("fetch_chunk=", o.fetch_chunk,
                   " must be at most a quarter of fetch_memory=", o.fetch_bytes,
                   "; lower it or raise fetch_memory");
  }
  o.fetch_bytes = o.fetch_bytes / o.fetch_chunk * o.fetch_chunk;
  return o;
}

}  // namespace pulse::lsm
