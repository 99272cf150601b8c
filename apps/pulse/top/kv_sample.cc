#include "apps/pulse/top/kv_sample.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "apps/pulse/top/units.h"
#include "base/errors.h"
#include "base/json.h"

namespace pulse::top {
namespace {

// The lines of an INFO reply.
class Fields {
 public:
  explicit Fields(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      line = absl::StripSuffix(line, "\r");
      const std::pair<absl::string_view, absl::string_view> both =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      if (!line.empty() && line[0] != '#')
        fields_[std::string(both.first)] = std::string(both.second);
    }
  }
  bool Has(const std::string& name) const { return fields_.count(name) != 0; }
  std::string Text(const std::string& name) const {
    const auto it = fields_.find(name);
    return it == fields_.end() ? "" : CleanText(it->second);
  }
  // 0 where it is missing, unless it has to be there.
  template <class T>
  absl::Status Read(const std::string& name, T* value, bool needed = true) const {
    const auto it = fields_.find(name);
    if (it == fields_.end() && !needed) return absl::OkStatus();
    bool good = it != fields_.end();
    if constexpr (std::is_same_v<T, double>) {
      good = good && absl::SimpleAtod(it->second, value) && *value >= 0;
    } else {
      good = good && absl::SimpleAtoi(it->second, value);
    }
    if (good) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("INFO has no number as ", name,
                     it == fields_.end() ? "" : absl::StrCat(" (", CleanText(it->second), ")")));
  }

 private:
  std::map<std::string, std::string> fields_;
};

absl::StatusOr<uint64_t> KeysOf(const Fields& fields) {
  // "keys=N,expires=..."; no line when there is none.
  const std::string text = fields.Text("db0");
  uint64_t keys = 0;
  const std::string first = text.substr(0, text.find(','));
  if (text.empty() ||
      (absl::StartsWith(first, "keys=") && absl::SimpleAtoi(first.substr(5), &keys))) {
    return keys;
  }
  return absl::InvalidArgumentError(absl::StrCat("INFO has no number of keys (", text, ")"));
}

}  // namespace

absl::StatusOr<KvSample> ParseInfo(std::string_view text) {
  const Fields fields(absl::string_view(text.data(), text.size()));
  if (!fields.Has("pulse_version")) {
    return absl::InvalidArgumentError(
        "this is no PulseDB server: its INFO has no pulse_version; pulse top --kv watches pulse kv "
        "and pulse serve");
  }
  KvSample s;
  s.version = fields.Text("pulse_version");
  s.mode = fields.Text("redis_mode");
  s.design = fields.Text("design");
  s.design_now = fields.Has("design_now") ? fields.Text("design_now") : s.design;
  s.policy = fields.Text("maxmemory_policy");
  PULSE_RETURN_IF_ERROR(fields.Read("process_id", &s.pid));
  PULSE_RETURN_IF_ERROR(fields.Read("uptime_in_seconds", &s.uptime));
  PULSE_RETURN_IF_ERROR(fields.Read("connected_clients", &s.clients));
  PULSE_RETURN_IF_ERROR(fields.Read("total_connections_received", &s.connections));
  PULSE_RETURN_IF_ERROR(fields.Read("total_commands_processed", &s.commands));
  PULSE_RETURN_IF_ERROR(fields.Read("total_error_replies", &s.errors));
  PULSE_RETURN_IF_ERROR(fields.Read("keyspace_hits", &s.hits));
  PULSE_RETURN_IF_ERROR(fields.Read("keyspace_misses", &s.misses));
  PULSE_RETURN_IF_ERROR(fields.Read("used_memory_rss", &s.resident));
  PULSE_ASSIGN_OR_RETURN(s.keys, KeysOf(fields));
  const bool kv = !s.design.empty();
  // An older server has no partition_limit: its maxmemory is that limit.
  PULSE_RETURN_IF_ERROR(
      fields.Read(fields.Has("partition_limit") ? "partition_limit" : "maxmemory", &s.memory, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("partition_bytes", &s.partitions, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("index_bytes", &s.index, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("item_bytes", &s.live, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("dead_bytes", &s.dead, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("expired_keys", &s.expired, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("evicted_keys", &s.evicted, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("refused_keys", &s.refused, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("shared_memory_requests", &s.shared_requests, kv));
  PULSE_RETURN_IF_ERROR(fields.Read("design_changes", &s.design_changes, /*needed=*/false));
  double system = 0;
  PULSE_RETURN_IF_ERROR(fields.Read("used_cpu_sys", &system));
  PULSE_RETURN_IF_ERROR(fields.Read("used_cpu_user", &s.cpu));
  s.cpu += system;
  for (size_t side = 0; side < kCpuSideNames.size(); ++side) {
    for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
      PULSE_RETURN_IF_ERROR(
          fields.Read(absl::StrCat("profile_", kCpuSideNames[side], "_", kCpuComponentNames[i]),
                      &s.profile[side][i]));
    }
  }
  return s;
}

KvRates CompareKv(const KvSample* before, KvSample now, double seconds) {
  KvRates r;
  r.now = std::move(now);
  if (before == nullptr || before->pid != r.now.pid || before->uptime > r.now.uptime ||
      seconds <= 0) {
    return r;
  }
  r.seconds = seconds;
  const auto rate = [&](uint64_t KvSample::*counter) {
    return Grown(before->*counter, r.now.*counter) / seconds;
  };
  r.shared_requests = rate(&KvSample::shared_requests);
  r.requests = rate(&KvSample::commands) + r.shared_requests;
  r.connections = rate(&KvSample::connections);
  r.errors = rate(&KvSample::errors);
  r.expired = rate(&KvSample::expired);
  r.evicted = rate(&KvSample::evicted);
  r.refused = rate(&KvSample::refused);
  const double hits = rate(&KvSample::hits);
  const double reads = hits + rate(&KvSample::misses);
  if (reads > 0) r.hit_share = hits / reads;
  r.cpu_share = std::max(0.0, r.now.cpu - before->cpu) / seconds;
  for (size_t side = 0; side < kCpuSideNames.size(); ++side) {
    for (size_t i = 0; i < kCpuComponentNames.size(); ++i) {
      r.shares[side][i] =
          std::max(0.0, r.now.profile[side][i] - before->profile[side][i]) / seconds;
    }
  }
  return r;
}

}  // namespace pulse::top
