#include "apps/pulse/cmd_agent_redis.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/uri_options.h"
#include "services/redis/front_numbers.h"
#include "services/redis/private_directory.h"

namespace pulse {
namespace {

class RedisFrontImpl final : public RedisFront {
 public:
  absl::Status Start(const RedisFrontArgs& args, const FrontArgs& front,
                     const std::vector<int>& cpus) {
    auto options = FrontOptions(front);
    if (!options.ok()) return options.status();
    // A client that is passed through writes without the agent's knowledge, and comes to the
    // server's private socket.
    if (!front.match.empty()) {
      return absl::InvalidArgumentError(
          "--match does not go with --serve-db: the agent has to see all writes, or its answers "
          "would be old values");
    }
    const auto cache = ParseBytes(args.cache);
    if (!cache.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--serve-cache: ", cache.status().message()));
    }
    redis::OffloadOptions offload;
    PULSE_RETURN_IF_ERROR(
        ReadSize("--serve-max-value", args.max_value, kMostMaxValue, &offload.limits.max_bulk));
    redis::LimitMessages(offload.limits, &options->limits);
    PULSE_RETURN_IF_ERROR(directory_.Make());
    offload.host = options->host;
    offload.secondary.db = args.db;
    offload.secondary.directory = directory_.path();
    offload.DivideMemory(*cache);
    offload.secondary.cpus = cpus;
    offload.cpus = cpus;
    // Whether the server wants a password is its secret until it has answered, unless we are told.
    offload.needs_auth = !args.no_password;
    auto opened = redis::OffloadedResp::Open(offload);
    if (!opened.ok()) return opened.status();
    application_ = *std::move(opened);
    options->application = application_.get();
    options->threads = args.loops;
    options->limits.idle_ms = args.idle_seconds * int64_t{1000};
    options->cpus = cpus;
    auto director = director::Director::Open(*std::move(options));
    if (!director.ok()) return director.status();
    director_ = *std::move(director);
    where_ = absl::StrCat("reads of ", args.db, " at ", front.serve.front(), " (port ",
                          director_->port(), "), server ", front.host);
    return absl::OkStatus();
  }
  std::string Describe() const override { return where_; }
  FrontStatus Status() const override { return RedisFrontStatus(*director_, *application_); }

 private:
  // In this order they end from the last.
  redis::PrivateDirectory directory_;  // for the secondary's own files
  std::unique_ptr<redis::OffloadedResp> application_;
  std::unique_ptr<director::Director> director_;
  std::string where_;
};

}  // namespace

absl::Status ReadSize(const char* option, const std::string& text, uint64_t most, uint64_t* bytes) {
  const auto size = ParseBytes(text);
  if (!size.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(option, ": ", size.status().message()));
  }
  if (*size == 0 || *size > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, ": expected a size above 0, at most ", most, " bytes"));
  }
  *bytes = *size;
  return absl::OkStatus();
}

void AddRedisFrontOptions(CLI::App* cmd, RedisFrontArgs* args) {
  cmd->add_option("--serve-db", args->db,
                  "answer reads of Redis clients from this RocksDB, which `pulse serve --db DIR\n"
                  "--host-socket SOCKET` has open; needs --serve and --serve-host SOCKET");
  cmd->add_option("--serve-cache", args->cache, "memory for values and blocks of it that were read")
      ->capture_default_str();
  cmd->add_option("--serve-max-value", args->max_value,
                  "the longest argument of a request: what `pulse serve` has as --max-value")
      ->capture_default_str();
  cmd->add_flag(
      "--serve-no-password", args->no_password,
      "the server wants no password: answer everyone, also who comes while the server is\n"
      "away; else a connection's first read is the server's");
  cmd->add_option("--serve-idle-timeout", args->idle_seconds,
                  "seconds after which a client that asks nothing is cut off; 0: never")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  cmd->add_option("--serve-loops", args->loops, "threads that serve its clients")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
}

absl::StatusOr<std::unique_ptr<RedisFront>> RedisFront::Open(const RedisFrontArgs& args,
                                                             const FrontArgs& front,
                                                             const std::vector<int>& cpus) {
  auto impl = std::make_unique<RedisFrontImpl>();
  PULSE_RETURN_IF_ERROR(impl->Start(args, front, cpus));
  return impl;
}

FrontStatus RedisFrontStatus(const director::Director& director,
                             const redis::OffloadedResp& reads) {
  FrontStatus f = DirectorStatus(director, "redis");
  const redis::OffloadCounters& c = reads.counters();
  // What is part of another number, or taken from it, in the order in which neither exceeds it.
  std::vector<Number> numbers = redis::FrontNumbers(reads);
  const uint64_t forwarded = c.forwarded;
  f.answered = c.offloaded;
  f.to_host = {{"dirty", c.dirty},     {"changed", c.changed},
               {"order", c.order},     {"not_permitted", c.not_permitted},
               {"no_view", c.no_view}, {"full", c.full}};
  // The rest are writes and other commands, less the reads that have two of these reasons.
  uint64_t told = 0;
  for (const auto& [reason, count] : f.to_host) told += count;
  f.to_host.emplace_back("not_offloadable", forwarded > told ? forwarded - told : 0);
  f.numbers = std::move(numbers);
  return f;
}

}  // namespace pulse
