#include "examples/blocks/host_program.h"

#include <utility>

namespace pulse::blocks {

absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Open(const HostOptions& options) {
  if (options.agent.empty() == options.directory.empty()) {
    return absl::InvalidArgumentError("blocks: files are either in a directory or with an agent");
  }
  ServerOptions server_options;
  server_options.ordered = options.ordered;
  std::unique_ptr<HostProgram> host(new HostProgram(server_options));
  StoreFilesOptions store;
  store.socket = options.agent;
  store.shape = options.shape;
  OsFilesOptions os;
  os.directory = options.directory;
  os.shape = options.shape;
  os.engine = options.engine;
  os.direct = options.direct;
  auto files = options.agent.empty() ? OpenOsFiles(os, &host->server_)
                                     : OpenStoreFiles(store, &host->server_);
  if (!files.ok()) return files.status();
  host->files_ = *std::move(files);
  host->server_.set_files(host->files_.get());
  director::DirectorOptions d;
  d.listen = {options.listen};
  d.threads = options.threads;
  d.application = &host->server_;
  d.limits.max_message = kMaxMessage;
  auto director = director::Director::Open(std::move(d));
  if (!director.ok()) return director.status();
  host->director_ = *std::move(director);
  return host;
}

HostProgram::~HostProgram() {
  // What still comes back from the files goes to connections that have ended.
  if (director_ != nullptr) director_->Stop();
  files_.reset();
}

}  // namespace pulse::blocks
