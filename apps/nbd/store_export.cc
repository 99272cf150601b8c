#include "apps/nbd/store_export.h"

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::nbd {
namespace {

using files::Completion;

absl::Status Prefixed(const absl::Status& st, const std::string& what) {
  return st.ok() ? st : absl::Status(st.code(), absl::StrCat(what, ": ", st.message()));
}

std::string NameOf(const std::string& directory, const std::string& file) {
  return absl::StrCat(directory, "/", file);
}

absl::Status NoFile(const std::string& directory, const std::string& file) {
  return absl::NotFoundError(absl::StrCat(
      "the store has no file ", NameOf(directory, file),
      "; create it with create=true size=SIZE, or see what there is: nbdinfo --list, or, while no "
      "agent runs, pulse pool ls"));
}

Completion OpenIn(Lane* lane, const std::string& directory, const std::string& file) {
  return lane->Run([&](uint64_t cookie) {
    return lane->library()->OpenFile(lane->poll(), directory, file, cookie);
  });
}

void CloseIn(Lane* lane, files::File file) {
  // Nobody to tell: an agent that is gone has closed it, and one that is there does not refuse.
  lane->Run([&](uint64_t cookie) { return lane->library()->CloseFile(file, cookie); })
      .status.IgnoreError();
}

}  // namespace

// --- the agent

void Unflushed::Flushed(uint64_t written) {
  uint64_t flushed = flushed_;
  while (flushed < written && !flushed_.compare_exchange_weak(flushed, written)) {
  }
}

absl::StatusOr<std::shared_ptr<Link>> Link::Open(const std::string& socket,
                                                 const files::PollOptions& poll,
                                                 std::chrono::milliseconds silence) {
  files::Options options;
  options.socket = socket;
  PULSE_ASSIGN_OR_RETURN(auto library, files::Library::Open(options));
  return std::shared_ptr<Link>(new Link(std::move(library), poll, silence));
}

absl::StatusOr<Lane*> Link::NextLane() {
  std::lock_guard lock(mu_);
  if (next_ == most_) next_ = 0;
  if (lanes_[next_] == nullptr) {
    const auto poll = library_->CreatePoll(poll_);
    const bool refused =
        absl::IsResourceExhausted(poll.status()) || absl::IsFailedPrecondition(poll.status());
    if (!poll.ok() && (next_ == 0 || !refused)) return poll.status();
    if (poll.ok()) {
      lanes_[next_] = std::make_unique<Lane>(library_.get(), *poll, &heartbeat_);
    } else {
      // The agent gives a session no more groups, or no more memory: these have to do.
      most_ = next_;
      next_ = 0;
    }
  }
  return lanes_[next_++].get();
}

std::shared_ptr<Unflushed> Link::UnflushedOf(const std::string& directory,
                                             const std::string& file) {
  std::lock_guard lock(mu_);
  std::shared_ptr<Unflushed>& u = unflushed_[{directory, file}];
  if (u == nullptr) u = std::make_shared<Unflushed>();
  return u;
}

bool Link::any_unflushed() {
  std::lock_guard lock(mu_);
  for (const auto& [name, u] : unflushed_) {
    if (u->any()) return true;
  }
  return false;
}

absl::Status Link::CheckAnswers() {
  if (!heartbeat_.silent()) return absl::OkStatus();
  std::lock_guard lock(mu_);
  const uint64_t seen = heartbeat_.given_up();
  bool settled = true;
  for (const auto& lane : lanes_) {
    if (lane != nullptr && !lane->Drain()) settled = false;
  }
  if (settled) heartbeat_.Revive(seen);
  return heartbeat_.silent() ? heartbeat_.Error() : absl::OkStatus();
}

files::PollOptions Agent::DefaultPoll() {
  files::PollOptions options;
  options.request_bytes = uint64_t{8} << 20;
  options.response_bytes = uint64_t{8} << 20;
  return options;
}

absl::StatusOr<std::shared_ptr<Link>> Agent::Connect() {
  std::lock_guard lock(mu_);
  if (link_ != nullptr && !link_->lost()) {
    if (absl::Status st = link_->CheckAnswers(); !st.ok()) return st;
    if (!link_->lost()) return link_;  // which may have been noticed just now
  }
  if (link_ != nullptr && link_->any_unflushed()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent at ", socket_,
        " was lost after writes that no flush had followed; they may be lost. Check the data, "
        "then start nbdkit again"));
  }
  PULSE_ASSIGN_OR_RETURN(link_, Link::Open(socket_, poll_, silence_));
  return link_;
}

// --- an export

absl::StatusOr<std::unique_ptr<StoreExport>> StoreExport::Open(Agent* agent,
                                                               const std::string& directory,
                                                               const std::string& file) {
  std::unique_ptr<StoreExport> e(new StoreExport);
  PULSE_ASSIGN_OR_RETURN(e->link_, agent->Connect());
  PULSE_ASSIGN_OR_RETURN(e->lane_, e->link_->NextLane());
  const Completion c = OpenIn(e->lane_, directory, file);
  if (absl::IsNotFound(c.status)) return NoFile(directory, file);
  if (!c.status.ok()) {
    return Prefixed(e->Explain(c.status), absl::StrCat("opening ", NameOf(directory, file)));
  }
  e->file_ = c.file;
  e->size_ = c.attributes.size;
  e->unflushed_ = e->link_->UnflushedOf(directory, file);
  return e;
}

StoreExport::~StoreExport() {
  if (file_ != files::File::kNone) CloseIn(lane_, file_);
}

absl::Status StoreExport::Explain(const absl::Status& st) const {
  if (st.ok() || !link_->lost()) return st;
  return absl::UnavailableError(
      "the agent was lost; what was not flushed may be lost. Start it again (pulse agent --store), "
      "then connect again");
}

absl::Status StoreExport::Read(uint64_t offset, char* data, uint64_t length) {
  if (absl::Status st = link_->CheckAnswers(); !st.ok()) return Explain(st);
  return Explain(lane_->Read(file_, offset, data, length));
}

absl::Status StoreExport::Write(uint64_t offset, const char* data, uint64_t length) {
  if (absl::Status st = link_->CheckAnswers(); !st.ok()) return Explain(st);
  unflushed_->BeginWrite();
  const absl::Status st = lane_->Write(file_, offset, data, length);
  unflushed_->EndWrite(st.ok());
  return Explain(st);
}

absl::Status StoreExport::Flush() {
  if (absl::Status st = link_->CheckAnswers(); !st.ok()) return Explain(st);
  const uint64_t written = unflushed_->written();
  const Completion c =
      lane_->Run([&](uint64_t cookie) { return lane_->library()->SyncFile(file_, cookie); });
  if (c.status.ok()) unflushed_->Flushed(written);
  return Explain(c.status);
}

// --- names

absl::StatusOr<std::vector<std::string>> ListFiles(Agent* agent, const std::string& directory,
                                                   size_t most) {
  PULSE_ASSIGN_OR_RETURN(auto link, agent->Connect());
  PULSE_ASSIGN_OR_RETURN(auto lane, link->NextLane());
  std::vector<std::string> names;
  std::string after;
  while (true) {
    const Completion c = lane->Run([&](uint64_t cookie) {
      return lane->library()->ListDirectory(lane->poll(), directory, after, cookie);
    });
    if (absl::IsNotFound(c.status)) {
      return absl::NotFoundError(absl::StrCat(
          "the store has no directory ", directory,
          "; create it with file=NAME create=true size=SIZE, or see what there is while no agent "
          "runs: pulse pool ls"));
    }
    if (!c.status.ok()) return Prefixed(c.status, absl::StrCat("listing ", directory));
    for (const files::DirectoryEntry& e : c.entries) {
      if (names.size() == most) return names;
      names.push_back(e.name);
    }
    if (!c.more || c.entries.empty()) return names;
    after = names.back();
  }
}

absl::Status PrepareFile(Agent* agent, const std::string& directory, const std::string& file,
                         uint64_t size) {
  PULSE_ASSIGN_OR_RETURN(auto link, agent->Connect());
  PULSE_ASSIGN_OR_RETURN(Lane* const lane, link->NextLane());
  files::Library* const library = lane->library();
  const files::Poll poll = lane->poll();
  const std::string name = NameOf(directory, file);

  bool made_directory = false;
  bool made_file = false;
  Completion c = OpenIn(lane, directory, file);
  if (absl::IsNotFound(c.status)) {
    if (size == 0) return NoFile(directory, file);
    const absl::Status made =
        lane->Run([&](uint64_t k) { return library->CreateDirectory(poll, directory, k); }).status;
    made_directory = made.ok();
    if (!made.ok() && !absl::IsAlreadyExists(made)) return Prefixed(made, "creating " + directory);
    c = lane->Run([&](uint64_t k) { return library->CreateFile(poll, directory, file, k); });
    made_file = c.status.ok();
  }
  absl::Status st = Prefixed(c.status, "opening " + name);
  if (st.ok()) {
    // One of 0 bytes: whoever created it was stopped before it had its size.
    if (size != 0 && c.attributes.size == 0) {
      st = lane->Run([&](uint64_t k) { return library->SetSize(c.file, size, k); }).status;
      st = Prefixed(st, absl::StrCat("making ", name, " ", size, " bytes long"));
    } else if (size != 0 && c.attributes.size != size) {
      st = absl::FailedPreconditionError(
          absl::StrCat(name, " is there already, with ", c.attributes.size, " bytes and not ", size,
                       "; leave size= and create= out to export it as it is"));
    }
    CloseIn(lane, c.file);
  }
  if (!st.ok()) {
    // As it was before, as far as it can be; the first error is the one to tell.
    if (made_file) {
      lane->Run([&](uint64_t k) { return library->RemoveFile(poll, directory, file, k); })
          .status.IgnoreError();
    }
    if (made_directory) {
      lane->Run([&](uint64_t k) { return library->RemoveDirectory(poll, directory, k); })
          .status.IgnoreError();
    }
  }
  return st;
}

int ErrnoForClient(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return ENOSPC;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kNotFound:
      return ENOENT;
    case absl::StatusCode::kPermissionDenied:
      return EPERM;
    default:
      return EIO;
  }
}

}  // namespace pulse::nbd
