#include "cmd_agent_redis.h"

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/uri_options.h"
#include "offload_resp.h"
#include "private_directory.h"

namespace pulse {
namespace {

class RedisFrontImpl final : public RedisFront {
 public:
  absl::Status Start(const RedisFrontArgs& args, const FrontArgs& front,
                     const std::vector<int>& cpus) {
    auto options = FrontOptions(front);
    if (!options.ok()) return options.status();
    const auto cache = ParseBytes(args.cache);
    if (!cache.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--serve-cache: ", cache.status().message()));
    }
    PULSE_RETURN_IF_ERROR(directory_.Make());
    resp::OffloadOptions offload;
    offload.host = options->host;
    offload.secondary.db = args.db;
    offload.secondary.directory = directory_.path();
    offload.secondary.cache_bytes = *cache;
    offload.secondary.cpus = cpus;
    offload.cpus = cpus;
    // Whether the server wants a password is its secret until it has answered, unless we are told.
    offload.needs_auth = !args.no_password;
    auto opened = resp::OffloadedResp::Open(offload);
    if (!opened.ok()) return opened.status();
    application_ = *std::move(opened);
    options->application = application_.get();
    options->threads = args.loops;
    options->cpus = cpus;
    auto director = director::Director::Open(*std::move(options));
    if (!director.ok()) return director.status();
    director_ = *std::move(director);
    where_ = absl::StrCat("reads of ", args.db, " at ", front.serve.front(), " (port ",
                          director_->port(), "), server ", front.host);
    return absl::OkStatus();
  }
  std::string Describe() const override { return where_; }

 private:
  // In this order they end from the last.
  resp::PrivateDirectory directory_;  // for the secondary's own files
  std::unique_ptr<resp::OffloadedResp> application_;
  std::unique_ptr<director::Director> director_;
  std::string where_;
};

}  // namespace

void AddRedisFrontOptions(CLI::App* cmd, RedisFrontArgs* args) {
  cmd->add_option("--serve-db", args->db,
                  "answer reads of Redis clients from this RocksDB, which `pulse serve --db DIR\n"
                  "--host-socket SOCKET` has open; needs --serve and --serve-host SOCKET");
  cmd->add_option("--serve-cache", args->cache, "memory for blocks of it that were read")
      ->capture_default_str();
  cmd->add_flag(
      "--serve-no-password", args->no_password,
      "the server wants no password: answer everyone, also who comes while the server is\n"
      "away; else a connection's first read is the server's");
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

}  // namespace pulse
