// Names, sizes, syncs: what is carried out on FileStore's threads.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/files/agent_op.h"
#include "services/files/agent_service.h"

namespace pulse::files {
namespace {

constexpr uint64_t kMaxFileSize = std::numeric_limits<int64_t>::max();
// Of one response with a listing. Not more, since it is put together on the worker.
constexpr size_t kListingBytes = size_t{64} << 10;

// By operation: how many names it takes, and whether it changes names.
struct OnNames {
  size_t count;
  bool changes;
};
constexpr OnNames kOnNames[] = {{0, false}, {1, true},  {1, true}, {2, true},
                                {1, false}, {2, false}, {2, true}, {2, false},
                                {0, false}, {2, true},  {4, true}};

OnNames NamesOf(Operation kind) {
  const auto number = static_cast<size_t>(kind);
  return number < std::size(kOnNames) ? kOnNames[number] : OnNames{0, false};
}

template <typename T>
void Append(std::string* to, const T& value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// The store takes any byte but NUL in the name of a directory.
absl::Status CheckDirectory(const std::string& name) {
  if (name.find('/') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("no name for a directory: \"", name, "\" (no '/')"));
}

}  // namespace

void FileService::Change(Op* op, bool durable, std::function<absl::Status()> work,
                         std::function<void(const absl::Status&)> then) {
  const bool names = NamesOf(op->kind).changes;
  files_->Change(this, [this, durable, names, post = session()->config().post,
                        work = std::move(work), then = std::move(then)] {
    absl::Status st = work();
    if (names) files_->NamesChanged();
    if (!st.ok() || !durable) return post([then, st = std::move(st)] { then(st); });
    files_->store().CommitLater([post, then](const absl::Status& committed) {
      post([then, st = CopyOf(committed)] { then(st); });
    });
  });
}

void FileService::SettleIfDue() {
  if (!files_->SettleIsDue() || shutting_down()) return;
  BeginWork();
  files_->Settle(session()->config().post, [this](const absl::Status&) { EndWork(); });
}

// --- of an open file

void FileService::HandleFileChange(Op* op) {
  switch (op->kind) {
    case Operation::kSetSize:
      if (op->request.offset > kMaxFileSize) return Complete(op, -EINVAL);
      if (op->file->Enter(Access::kExclusive, op)) StartSetSize(op);
      return;
    case Operation::kReserve:
      if (op->request.offset > kMaxFileSize) return Complete(op, -EINVAL);
      if (op->file->Enter(Access::kReserve, op)) StartReserve(op);
      return;
    case Operation::kSync:
      if (op->file->Enter(Access::kSettle, op)) SyncNow(op);
      return;
    default: {
      const WireAttributes a = AttributesOf(op->file);
      std::string data;
      Append(&data, a);
      return Complete(op, 0, std::move(data));
    }
  }
}

WireAttributes FileService::AttributesOf(OpenFile* file) const {
  const auto a = files_->store().Stat(file->id());
  return {file->size(), file->allocated(), a.ok() ? a->modified_ns : 0, file->id()};
}

void FileService::StartSetSize(Op* op) {
  const store::FileId id = op->file->id();
  const uint64_t size = op->request.offset;
  const bool grows = size > op->file->size();
  const bool shrinks = size < op->file->size();
  FileHooks* const hooks = files_->hooks();
  if (hooks != nullptr) hooks->FileChangeBegins(id);
  Change(
      op, /*durable=*/true,
      [this, id, size, grows, shrinks]() -> absl::Status {
        store::Store& s = files_->store();
        // A size that there is no room for is an error now, not at some later write.
        if (grows) PULSE_RETURN_IF_ERROR(s.Reserve(id, size));
        PULSE_RETURN_IF_ERROR(s.SetSize(id, size));
        // Of lengths that were not synced the store has not heard: to it this may be no cut.
        return shrinks ? s.Trim(id) : absl::OkStatus();
      },
      [this, op, hooks, id](const absl::Status& st) {
        if (hooks != nullptr) hooks->FileChangeEnds(id);
        const absl::Status refreshed =
            st.ok() ? files_->RefreshSize(op->file) : files_->RefreshSegments(op->file, 0);
        op->file->Leave(Access::kExclusive);
        Complete(op, st.ok() ? refreshed : st);
      });
}

void FileService::StartReserve(Op* op) {
  const store::FileId id = op->file->id();
  const uint64_t bytes = op->request.offset;
  Change(
      op, /*durable=*/true, [this, id, bytes] { return files_->store().Reserve(id, bytes); },
      [this, op](const absl::Status& st) {
        // Some segments may have been taken before there were no more.
        const absl::Status refreshed = files_->RefreshSegments(op->file, 0);
        op->file->Leave(Access::kReserve);
        Complete(op, st.ok() ? refreshed : st);
      });
}

void FileService::SyncNow(Op* op) {
  files_->Settle(session()->config().post, [this, op](const absl::Status& st) {
    op->file->Leave(Access::kSettle);
    Complete(op, st);
  });
}

// --- of names

bool FileService::TakeNames(const Request& r, const RingMessage& m, size_t count, Names* names) {
  const char* at = m.data + sizeof(Request);
  uint64_t left = m.length - sizeof(Request);
  for (size_t i = 0; i < count; ++i) {
    if (r.names[i] > left || r.names[i] > store::kMaxDirectoryName + 1) return false;
    (*names)[i].assign(at, r.names[i]);
    at += r.names[i];
    left -= r.names[i];
  }
  return true;
}

void FileService::FinishOpen(Op* op, store::FilePin pin) {
  const auto file = files_->Adopt(std::move(pin));
  if (!file.ok()) return Complete(op, file.status());
  const uint64_t handle = shutting_down() ? 0 : NewHandle(*file);
  if (handle == 0) {
    files_->DropUser(*file);
    return TooManyFiles(op);
  }
  std::string data;
  Append(&data, OpenedFile{handle, AttributesOf(*file)});
  Complete(op, 0, std::move(data));
}

void FileService::TooManyFiles(Op* op) {
  Complete(op, -ENFILE,
           absl::StrCat("the session has its ", open_handles_ + promised_handles_,
                        " files open already (pulse agent --max-files)"));
}

bool FileService::HandleName(MessageGroup* group, Operation kind, const Request& r,
                             const RingMessage& m) {
  const size_t count = NamesOf(kind).count;
  if (count == 0) return false;
  auto names = std::make_shared<Names>();
  if (!TakeNames(r, m, count, names.get())) {
    Refuse(group, kind, r.id, EINVAL);
    return true;
  }
  Op* op = NewOp(group, kind, r);
  store::Store* s = &files_->store();
  switch (kind) {
    case Operation::kCreateDirectory:
    case Operation::kRemoveDirectory:
    case Operation::kRenameDirectory:
      Change(
          op, true,
          [s, names, kind]() -> absl::Status {
            const auto& n = *names;
            if (kind == Operation::kRemoveDirectory) return s->RemoveDirectory(n[0]);
            const bool renames = kind == Operation::kRenameDirectory;
            PULSE_RETURN_IF_ERROR(CheckDirectory(n[renames ? 1 : 0]));
            return renames ? s->RenameDirectory(n[0], n[1]) : s->CreateDirectory(n[0]);
          },
          [this, op](const absl::Status& st) { Complete(op, st); });
      break;
    case Operation::kRemoveFile:
    case Operation::kRenameFile: {
      auto gone = std::make_shared<store::FileId>(store::kNoFile);
      Change(
          op, true,
          [s, names, gone, kind, hooks = files_->hooks()]() -> absl::Status {
            const auto& n = *names;
            const bool removes = kind == Operation::kRemoveFile;
            const auto id = s->Lookup(removes ? n[0] : n[2], removes ? n[1] : n[3]);
            if (id.ok()) *gone = *id;
            if (hooks != nullptr && id.ok()) hooks->FileChangeBegins(*id);
            absl::Status st = removes ? s->Unlink(n[0], n[1]) : s->Rename(n[0], n[1], n[2], n[3]);
            if (hooks != nullptr && id.ok()) hooks->FileChangeEnds(*id);
            return st;
          },
          [this, op, gone](const absl::Status& st) {
            if (*gone != store::kNoFile) files_->Unlinked(*gone);
            Complete(op, st);
          });
      break;
    }
    case Operation::kCreateFile:
    case Operation::kOpenFile: {
      const bool creates = kind == Operation::kCreateFile;
      // Before anything is done: a file that is there and was refused is neither.
      if (creates && !HandlesLeft()) {
        TooManyFiles(op);
        break;
      }
      if (creates) ++promised_handles_;
      auto pin = std::make_shared<store::FilePin>();
      Change(
          op, creates,
          [s, names, pin, creates]() -> absl::Status {
            const auto& n = *names;
            PULSE_ASSIGN_OR_RETURN(const auto id,
                                   creates ? s->CreateFile(n[0], n[1]) : s->Lookup(n[0], n[1]));
            PULSE_ASSIGN_OR_RETURN(*pin, s->Pin(id));
            return absl::OkStatus();
          },
          [this, op, pin, creates](const absl::Status& st) {
            if (creates) --promised_handles_;
            if (!st.ok()) return Complete(op, st);
            FinishOpen(op, std::move(*pin));
          });
      break;
    }
    case Operation::kListDirectories:
    case Operation::kListDirectory: {
      const bool directories = kind == Operation::kListDirectories;
      const std::string directory = directories ? "" : (*names)[0];
      const std::string after = (*names)[directories ? 0 : 1];
      auto listing = std::make_shared<Listing>();
      listing->directories = directories;
      listing->directory = directory;
      listing->from = after;
      std::shared_ptr<Listing> last = listing_;
      // What goes on has the state of its beginning; a new one has that of now.
      if (last != nullptr && (last->directories != directories || last->directory != directory ||
                              last->from > after || after.empty())) {
        last.reset();
      }
      // In its turn among the changes, as it is to show those that were asked for before it.
      Change(
          op, false,
          [this, s, listing, last, after]() -> absl::Status {
            listing->names = files_->names();
            if (last != nullptr && last->names == listing->names) return absl::OkStatus();
            auto& entries = listing->entries;
            if (listing->directories) {
              for (std::string& name : s->ListDirectories())
                entries.push_back({std::move(name), {}});
            } else {
              PULSE_ASSIGN_OR_RETURN(entries, s->List(listing->directory));
            }
            if (!after.empty()) {
              std::erase_if(entries, [&](const auto& e) { return e.name <= after; });
            }
            std::sort(entries.begin(), entries.end(),
                      [](const auto& a, const auto& b) { return a.name < b.name; });
            return absl::OkStatus();
          },
          [this, op, listing, last, after](const absl::Status& st) {
            if (!st.ok()) return Complete(op, st);
            listing_ = last != nullptr && last->names == listing->names ? last : listing;
            const auto& entries = listing_->entries;
            const auto next =
                std::upper_bound(entries.begin(), entries.end(), after,
                                 [](const std::string& a, const auto& e) { return a < e.name; });
            listing_->at = static_cast<size_t>(next - entries.begin());
            Complete(op, 0,
                     EncodeListing(std::min<uint64_t>(kListingBytes, op->group->MaxData(8))));
          });
      break;
    }
    default:
      break;
  }
  return true;
}

std::string FileService::EncodeListing(size_t most) {
  Listing& l = *listing_;
  std::string data;
  ListHeader header{0, 0};
  Append(&data, header);
  for (; l.at < l.entries.size(); ++l.at, ++header.entries) {
    const store::DirectoryEntry& e = l.entries[l.at];
    const size_t name_bytes = RoundUp(e.name.size(), 8);
    if (data.size() + sizeof(EntryHeader) + name_bytes > most) break;
    // Files that have grown and were not synced since are larger than the store knows.
    const OpenFile* open = l.directories ? nullptr : files_->Find(e.attributes.id);
    Append(&data, EntryHeader{open != nullptr ? open->size() : e.attributes.size,
                              e.attributes.modified_ns, static_cast<uint32_t>(e.name.size()), 0});
    data += e.name;
    data.resize(RoundUp(data.size(), 8));
  }
  header.more = l.at < l.entries.size();
  std::memcpy(data.data(), &header, sizeof(header));
  if (header.more == 0) listing_.reset();
  return data;
}

}  // namespace pulse::files
