// The public face: looks up groups and files, checks what can be told at once, and makes requests.
#include <algorithm>
#include <array>
#include <atomic>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "link/message_channel.h"
#include "pulse/files.h"
#include "services/files/host_group.h"

namespace pulse::files {
namespace {

constexpr uint32_t kMaxGroups = 256;
constexpr uint32_t kChunk = 4096;
constexpr uint32_t kChunks = 256;
constexpr uint64_t kMaxFile = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxDirectoryName = 1023;
constexpr size_t kMaxFileName = 255;

constexpr bool kFile = false;
constexpr bool kDirectory = true;

struct Name {
  std::string_view text;
  bool directory;
  bool after = false;  // where a list goes on: may be empty, or any name that a store can have
};

absl::Status CheckName(const Name& checked) {
  const auto [name, directory, after] = checked;
  if (name.empty() && after) return absl::OkStatus();
  const size_t most = directory ? kMaxDirectoryName : kMaxFileName;
  const char* const what = directory ? "directory" : "file";
  if (name.empty() || name.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", what, "'s name has 1 to ", most, " bytes; this has ", name.size()));
  }
  if ((!after && name.find('/') != name.npos) || name.find('\0') != name.npos ||
      (!directory && (name == "." || name == ".."))) {
    return absl::InvalidArgumentError(
        absl::StrCat("no name for a ", what, ": \"", std::string(name), "\" (no '/', no NUL)"));
  }
  return absl::OkStatus();
}

absl::Status CheckRange(uint64_t offset, uint64_t length) {
  if (offset <= kMaxFile - kBlock && length <= kMaxFile - kBlock - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no file has a range of ", length, " bytes at offset ", offset));
}

Request OnFile(File file, uint64_t offset, uint64_t length) {
  return {0, static_cast<uint64_t>(file), offset, length, {}, 0};
}

}  // namespace

class Library::Impl {
 public:
  explicit Impl(std::unique_ptr<MessageChannel> connection) : connection_(std::move(connection)) {}
  ~Impl() {
    Close();
    for (auto& chunk : chunks_) delete chunk.load();
  }

  const absl::Status& Close() {
    if (closed_) return result_;
    closed_ = true;
    uint64_t untaken = 0;
    for (const auto& group : groups_) untaken += group->outstanding();
    if (connection_->CheckLost()) result_ = connection_->LostError();
    connection_->Close();
    // Groups are looked up no more; files are found by their groups.
    for (auto& group : published_) group = nullptr;
    bool let_go = true;
    for (const auto& group : groups_) let_go = group->End() && let_go;
    groups_.clear();
    if (!result_.ok()) return result_;
    if (!let_go) {
      result_ = absl::DeadlineExceededError(
          "the agent does not answer; the memory of the poll groups stays mapped");
    } else if (untaken > 0) {
      result_ = absl::FailedPreconditionError(absl::StrCat(
          untaken,
          " operations were outstanding, whose completions nobody took; whether they were "
          "carried out is not known"));
    }
    return result_;
  }

  // Which group a file completes in, and whether it is open: by the number in its handle.
  struct Entry {
    std::atomic<uint64_t> handle{0};
    std::atomic<uint32_t> group{0};
  };
  using Chunk = std::array<Entry, kChunk>;

  HostGroup* GroupOf(Poll poll) const {
    const auto number = static_cast<uint32_t>(poll);
    return number < kMaxGroups ? published_[number].load(std::memory_order_acquire) : nullptr;
  }
  static absl::Status NoGroup() {
    return absl::InvalidArgumentError("there is no such poll group");
  }

  Entry* EntryOf(uint64_t handle, bool make) {
    const uint64_t number = handle & 0xffffffff;
    if (number >= uint64_t{kChunk} * kChunks) return nullptr;
    std::atomic<Chunk*>& slot = chunks_[number / kChunk];
    Chunk* chunk = slot.load(std::memory_order_acquire);
    if (chunk == nullptr) {
      if (!make) return nullptr;
      std::lock_guard lock(mu_);
      chunk = slot.load(std::memory_order_acquire);
      if (chunk == nullptr) {
        chunk = new Chunk();
        slot.store(chunk, std::memory_order_release);
      }
    }
    return &(*chunk)[number % kChunk];
  }
  bool Register(File file, HostGroup* group) {
    Entry* e = EntryOf(static_cast<uint64_t>(file), true);
    if (e == nullptr || file == File::kNone) return false;
    e->group.store(group->poll(), std::memory_order_relaxed);
    e->handle.store(static_cast<uint64_t>(file), std::memory_order_release);
    return true;
  }
  Entry* OpenEntry(File file) {
    Entry* e = file == File::kNone ? nullptr : EntryOf(static_cast<uint64_t>(file), false);
    const bool open =
        e != nullptr && e->handle.load(std::memory_order_acquire) == static_cast<uint64_t>(file);
    return open ? e : nullptr;
  }
  absl::StatusOr<HostGroup*> GroupOfFile(File file) {
    Entry* e = OpenEntry(file);
    if (e == nullptr) {
      return absl::FailedPreconditionError("the file is closed, or was opened by another library");
    }
    HostGroup* group = GroupOf(static_cast<Poll>(e->group.load(std::memory_order_relaxed)));
    if (group == nullptr) return NoGroup();
    return group;
  }

  // A request on names, one behind the other in its body.
  absl::Status SubmitNames(Poll poll, Operation operation, std::initializer_list<Name> names,
                           uint64_t cookie, RequestId* id) {
    for (const Name& name : names) PULSE_RETURN_IF_ERROR(CheckName(name));
    HostGroup* group = GroupOf(poll);
    if (group == nullptr) return NoGroup();
    Request request{};
    std::string body;
    size_t i = 0;
    for (const Name& name : names) {
      request.names[i++] = static_cast<uint16_t>(name.text.size());
      body += name.text;
    }
    const Outstanding what(cookie, operation);
    return group->Submit(what, request, {body.data(), body.size()}, false, id);
  }

  absl::Status SubmitFile(File file, Operation operation, uint64_t value, uint64_t cookie,
                          RequestId* id) {
    PULSE_ASSIGN_OR_RETURN(const auto group, GroupOfFile(file));
    if (value > kMaxFile) {
      return absl::InvalidArgumentError(
          absl::StrCat("no file has ", value, " bytes; the most is 2^63 - 1"));
    }
    const Request request = OnFile(file, value, 0);
    const Outstanding what(cookie, operation);
    return group->Submit(what, request, {}, false, id);
  }

  absl::Status SubmitRead(File file, uint64_t offset, Outstanding* what, RequestId* id) {
    PULSE_ASSIGN_OR_RETURN(const auto group, GroupOfFile(file));
    uint64_t length = 0;
    for (uint8_t i = 0; i < what->pieces; ++i) {
      if (what->piece[i].size > group->max_read() - length) {
        return TooLong("read", group->max_read(), "response_bytes");
      }
      length += what->piece[i].size;
    }
    PULSE_RETURN_IF_ERROR(CheckRange(offset, length));
    const Request request = OnFile(file, offset, length);
    what->operation = Operation::kRead;
    what->skip = static_cast<uint16_t>(offset % kBlock);
    return group->Submit(*what, request, {}, false, id);
  }

  static absl::Status TooLong(const char* what, uint64_t most, const char* option) {
    return absl::InvalidArgumentError(absl::StrCat("a ", what, " of this poll group moves at most ",
                                                   most, " bytes; make ", option, " larger"));
  }

  std::unique_ptr<MessageChannel> connection_;
  bool closed_ = false;
  absl::Status result_;  // of Close
  std::mutex mu_;        // groups and chunks that are being made
  std::vector<std::unique_ptr<HostGroup>> groups_;
  std::array<std::atomic<HostGroup*>, kMaxGroups> published_{};
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
};

Library::Library(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Library::~Library() = default;
absl::Status Library::Close() { return impl_->Close(); }

absl::StatusOr<std::unique_ptr<Library>> Library::Open(const Options& options) {
  LinkOptions link;
  link.service = {kServiceId, kServiceVersion};
  link.socket_path = options.socket;
  link.mover = static_cast<uint64_t>(options.transfer);
  PULSE_ASSIGN_OR_RETURN(auto connection,
                         MessageChannel::Open(link, absl::StrCat("pulse agent --socket ",
                                                                 options.socket, " --store PATH")));
  return std::unique_ptr<Library>(new Library(std::make_unique<Impl>(std::move(connection))));
}

// --- poll groups

absl::StatusOr<Poll> Library::CreatePoll(const PollOptions& options) {
  std::lock_guard lock(impl_->mu_);
  if (impl_->closed_) return absl::FailedPreconditionError("the library is closed");
  const auto number = static_cast<uint32_t>(impl_->groups_.size());
  if (number >= kMaxGroups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the library has its ", kMaxGroups, " poll groups already"));
  }
  PULSE_ASSIGN_OR_RETURN(auto group, HostGroup::Create(impl_->connection_.get(), number, options));
  impl_->published_[number].store(group.get(), std::memory_order_release);
  impl_->groups_.push_back(std::move(group));
  return static_cast<Poll>(number);
}

absl::Status Library::PollAdd(Poll poll, File file) {
  if (impl_->GroupOf(poll) == nullptr) return Impl::NoGroup();
  Impl::Entry* e = impl_->OpenEntry(file);
  if (e == nullptr) return impl_->GroupOfFile(file).status();
  e->group.store(static_cast<uint32_t>(poll), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<size_t> Library::PollWait(Poll poll, Completion* out, size_t max,
                                         int64_t timeout_us) {
  HostGroup* group = impl_->GroupOf(poll);
  if (group == nullptr) return Impl::NoGroup();
  const absl::StatusOr<size_t> n = group->Wait(out, max, timeout_us);
  for (size_t i = 0; n.ok() && i < *n; ++i) {
    Completion& c = out[i];
    if (c.operation != Operation::kCreateFile && c.operation != Operation::kOpenFile) continue;
    if (c.status.ok() && !impl_->Register(c.file, group)) {
      c.status = absl::InternalError("the agent gave a handle that makes no sense");
      c.file = File::kNone;
    }
  }
  return n;
}

void Library::PollWake(Poll poll) {
  if (HostGroup* group = impl_->GroupOf(poll)) group->Wake();
}

void Library::Release(Poll poll, Completion* completion) {
  if (HostGroup* group = impl_->GroupOf(poll)) group->Release(completion);
}

uint64_t Library::max_read(Poll poll) const {
  const HostGroup* group = impl_->GroupOf(poll);
  return group == nullptr ? 0 : group->max_read();
}

uint64_t Library::max_write(Poll poll) const {
  const HostGroup* group = impl_->GroupOf(poll);
  return group == nullptr ? 0 : group->max_write();
}

uint64_t Library::outstanding(Poll poll) const {
  const HostGroup* group = impl_->GroupOf(poll);
  return group == nullptr ? 0 : group->outstanding();
}

bool Library::lost() const { return impl_->connection_->lost(); }

uint64_t Library::Ping() { return impl_->connection_->Ping(); }

// --- names

absl::Status Library::CreateDirectory(Poll poll, std::string_view name, uint64_t cookie,
                                      RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kCreateDirectory, {{name, kDirectory}}, cookie, id);
}

absl::Status Library::RemoveDirectory(Poll poll, std::string_view name, uint64_t cookie,
                                      RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kRemoveDirectory, {{name, kDirectory}}, cookie, id);
}

absl::Status Library::RenameDirectory(Poll poll, std::string_view from, std::string_view to,
                                      uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kRenameDirectory,
                            {{from, kDirectory}, {to, kDirectory}}, cookie, id);
}

absl::Status Library::ListDirectories(Poll poll, std::string_view after, uint64_t cookie,
                                      RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kListDirectories, {{after, kDirectory, true}}, cookie,
                            id);
}

absl::Status Library::ListDirectory(Poll poll, std::string_view directory, std::string_view after,
                                    uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kListDirectory,
                            {{directory, kDirectory}, {after, kFile, true}}, cookie, id);
}

absl::Status Library::CreateFile(Poll poll, std::string_view directory, std::string_view name,
                                 uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kCreateFile, {{directory, kDirectory}, {name, kFile}},
                            cookie, id);
}

absl::Status Library::OpenFile(Poll poll, std::string_view directory, std::string_view name,
                               uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kOpenFile, {{directory, kDirectory}, {name, kFile}},
                            cookie, id);
}

absl::Status Library::RemoveFile(Poll poll, std::string_view directory, std::string_view name,
                                 uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(poll, Operation::kRemoveFile, {{directory, kDirectory}, {name, kFile}},
                            cookie, id);
}

absl::Status Library::RenameFile(Poll poll, std::string_view directory, std::string_view name,
                                 std::string_view to_directory, std::string_view to_name,
                                 uint64_t cookie, RequestId* id) {
  return impl_->SubmitNames(
      poll, Operation::kRenameFile,
      {{directory, kDirectory}, {name, kFile}, {to_directory, kDirectory}, {to_name, kFile}},
      cookie, id);
}

// --- files

absl::Status Library::CloseFile(File file, uint64_t cookie, RequestId* id) {
  PULSE_ASSIGN_OR_RETURN(const auto group, impl_->GroupOfFile(file));
  Impl::Entry* e = impl_->EntryOf(static_cast<uint64_t>(file), false);
  // Of several that close it, one does.
  auto handle = static_cast<uint64_t>(file);
  if (!e->handle.compare_exchange_strong(handle, 0)) return impl_->GroupOfFile(file).status();
  const Request request = OnFile(file, 0, 0);
  const Outstanding what(cookie, Operation::kCloseFile);
  const absl::Status st = group->Submit(what, request, {}, false, id);
  // Nobody else can have been given the number meanwhile: the agent has it still.
  if (!st.ok()) e->handle.store(static_cast<uint64_t>(file), std::memory_order_release);
  return st;
}

absl::Status Library::GetAttributes(File file, uint64_t cookie, RequestId* id) {
  return impl_->SubmitFile(file, Operation::kGetAttributes, 0, cookie, id);
}

absl::Status Library::SetSize(File file, uint64_t size, uint64_t cookie, RequestId* id) {
  return impl_->SubmitFile(file, Operation::kSetSize, size, cookie, id);
}

absl::Status Library::Reserve(File file, uint64_t bytes, uint64_t cookie, RequestId* id) {
  return impl_->SubmitFile(file, Operation::kReserve, bytes, cookie, id);
}

absl::Status Library::SyncFile(File file, uint64_t cookie, RequestId* id) {
  return impl_->SubmitFile(file, Operation::kSync, 0, cookie, id);
}

absl::Status Library::ReadFile(File file, uint64_t offset, void* buffer, uint64_t length,
                               uint64_t cookie, RequestId* id) {
  const Piece piece{buffer, length};
  return ReadScatter(file, offset, &piece, 1, cookie, id);
}

absl::Status Library::ReadScatter(File file, uint64_t offset, const Piece* pieces, size_t count,
                                  uint64_t cookie, RequestId* id) {
  if (count > kMaxPieces) {
    return absl::InvalidArgumentError(
        absl::StrCat("a read takes at most ", kMaxPieces, " pieces; here are ", count));
  }
  Outstanding what;
  what.cookie = cookie;
  what.mode = ReadMode::kPieces;
  what.pieces = static_cast<uint8_t>(count);
  std::copy(pieces, pieces + count, what.piece);
  return impl_->SubmitRead(file, offset, &what, id);
}

absl::Status Library::ReadInPlace(File file, uint64_t offset, uint64_t length, uint64_t cookie,
                                  RequestId* id) {
  Outstanding what;
  what.cookie = cookie;
  what.mode = ReadMode::kInPlace;
  what.pieces = 1;
  what.piece[0] = {nullptr, length};
  return impl_->SubmitRead(file, offset, &what, id);
}

absl::Status Library::WriteFile(File file, uint64_t offset, const void* data, uint64_t length,
                                uint64_t cookie, RequestId* id) {
  PULSE_ASSIGN_OR_RETURN(const auto group, impl_->GroupOfFile(file));
  PULSE_RETURN_IF_ERROR(CheckRange(offset, length));
  if (length > group->max_write()) {
    return Impl::TooLong("write", group->max_write(), "request_bytes");
  }
  const Request request = OnFile(file, offset, length);
  const Outstanding what(cookie, Operation::kWrite);
  const bool direct = (offset | length) % kBlock == 0;
  return group->Submit(what, request, {data, length}, direct, id);
}

absl::Status Library::WriteGather(File file, uint64_t offset, const ConstPiece* pieces,
                                  size_t count, uint64_t cookie, RequestId* id) {
  if (count > kMaxPieces) {
    return absl::InvalidArgumentError(
        absl::StrCat("a write takes at most ", kMaxPieces, " pieces; here are ", count));
  }
  if (count == 1) return WriteFile(file, offset, pieces[0].data, pieces[0].size, cookie, id);
  PULSE_ASSIGN_OR_RETURN(const auto group, impl_->GroupOfFile(file));
  uint64_t length = 0;
  for (size_t i = 0; i < count; ++i) {
    if (pieces[i].size > group->max_write() - length) {
      return Impl::TooLong("write", group->max_write(), "request_bytes");
    }
    length += pieces[i].size;
  }
  // The ring takes a body in one piece.
  std::string joined;
  joined.reserve(length);
  for (size_t i = 0; i < count; ++i) {
    joined.append(static_cast<const char*>(pieces[i].data), pieces[i].size);
  }
  return WriteFile(file, offset, joined.data(), joined.size(), cookie, id);
}

}  // namespace pulse::files
