#include "services/redis/offload/resp.h"

#include <sys/random.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/redis/offload/shared.h"
#include "services/redis/open_database.h"

namespace pulse::redis {

absl::StatusOr<std::unique_ptr<OffloadedResp>> OffloadedResp::Open(const OffloadOptions& options) {
  uint64_t random = 0;
  if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
    return absl::UnavailableError("getrandom: the kernel has no random numbers yet; try again");
  }
  // A table that forgets would be told from its versions all the same.
  PULSE_ASSIGN_OR_RETURN(auto cache,
                         ValueCache::Open(options.broken ? 0 : options.value_cache_bytes));
  auto shared = std::make_shared<OffloadShared>(options, std::move(cache));
  shared->agent_id = absl::StrCat(absl::Hex(random, absl::kZeroPad16), ":");
  shared->directory = DirectoryIdentity(options.secondary.db);
  // What an agent before this one has sent may still be carried out.
  const auto everything = shared->table.everything();
  if (!shared->table.Mark(everything)) return absl::InternalError("a new table is full");
  const auto wanted = [table = &shared->table] { return table->wanted(); };
  if (options.view != nullptr) {
    shared->view = options.view(&shared->clock, wanted);
  } else {
    auto view = Secondary::Open(options.secondary, &shared->clock, wanted);
    if (!view.ok()) return view.status();
    shared->secondary = view->get();
    shared->view = *std::move(view);
  }
  shared->pool = std::make_unique<WorkerPool>(options.readers, "pulse-agent-r", options.cpus);
  shared->fence_client = std::make_unique<FenceClient>(
      options.host, &shared->table, [view = shared->view.get()] { view->Wake(); });
  // Clients may be served before it is answered: their connections to the host are not meant.
  shared->fence_client->AwaitFence(absl::StrCat(FenceClient::kAllExcept, shared->agent_id),
                                   {everything});
  return std::unique_ptr<OffloadedResp>(new OffloadedResp(std::move(shared)));
}

OffloadedResp::~OffloadedResp() {
  shared_->pool.reset();
  shared_->fence_client.reset();
  shared_->view.reset();
}

std::unique_ptr<net::Flow> OffloadedResp::NewFlow(net::Connection* connection) {
  return NewOffloadFlow(shared_, connection);
}

OffloadFactory EmbeddedOffload() {
  return [](const OffloadSetup& setup) -> absl::StatusOr<std::shared_ptr<net::Application>> {
    OffloadOptions options;
    options.host = "unix:" + setup.host_socket;
    options.secondary.db = setup.db;
    options.secondary.directory = setup.secondary_dir;
    options.DivideMemory(setup.cache_bytes);
    options.secondary.cpus = setup.cpus;
    options.cpus = setup.cpus;
    options.limits = setup.limits;
    options.needs_auth = setup.needs_auth;
    options.wants_password = setup.wants_password;
    PULSE_ASSIGN_OR_RETURN(auto opened, OffloadedResp::Open(options));
    return std::shared_ptr<net::Application>(std::move(opened));
  };
}

const OffloadCounters& OffloadedResp::counters() const { return shared_->counters; }

OffloadNumbers OffloadedResp::numbers() const {
  OffloadNumbers n;
  n.writes_in_flight = shared_->table.in_flight();
  n.fences = shared_->fence_client->fences();
  n.known_bytes = shared_->values->bytes();
  if (shared_->secondary != nullptr) n.secondary = shared_->secondary->stats();
  return n;
}

std::string OffloadShared::Info() const {
  const OffloadCounters& c = counters;
  std::string text = "# Offload\r\n";
  const auto line = [&](const char* name, uint64_t value) {
    absl::StrAppend(&text, name, ":", value, "\r\n");
  };
  line("offload_reads", c.offloaded);
  line("offload_reads_known", c.known);
  line("offload_reads_from_page_cache", c.from_page_cache);
  line("offload_reads_from_device", c.from_device);
  line("offload_forwarded", c.forwarded);
  line("offload_forwarded_dirty", c.dirty);
  line("offload_forwarded_changed", c.changed);
  line("offload_forwarded_order", c.order);
  line("offload_forwarded_not_permitted", c.not_permitted);
  line("offload_forwarded_no_view", c.no_view);
  line("offload_forwarded_full", c.full);
  line("offload_known_bytes", values->bytes());
  line("offload_writes_in_flight", table.in_flight());
  line("offload_lost_commands", c.lost);
  line("offload_fences", fence_client == nullptr ? 0 : fence_client->fences());
  line("offload_catch_ups_begun", clock.begun());
  line("offload_catch_up_waiting", table.wanted() > clock.finished());
  if (secondary != nullptr) {
    const SecondaryStats stats = secondary->stats();
    line("offload_catch_ups", stats.catch_ups);
    line("offload_catch_ups_repeated", stats.repeated);
    line("offload_secondaries_opened", stats.opened);
    line("offload_lag_us", stats.lag_us);
    line("offload_max_lag_us", stats.max_lag_us);
    line("offload_catch_up_busy_us", stats.busy_us);
    line("offload_view_valid", stats.valid);
  }
  return text;
}

}  // namespace pulse::redis
