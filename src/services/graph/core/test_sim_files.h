// A file system in memory whose power can be cut and whose calls can be made to fail. For tests
// only.
//
// What was written, and which names there are, is volatile until a Sync() of the file or of the
// directory. AfterPowerCut() gives what may be found afterwards: of a file's volatile writes, each
// sector was or was not persisted; of the volatile changes of names, a part of the first ones.
// AfterKill() is what a killed process leaves: everything that was written.
//
// Threads: any; one lock.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "services/graph/core/files.h"

namespace pulse::graph {

class SimFiles : public Files {
 public:
  struct Node {
    std::string written, durable;
    // Offset, and the bytes; a truncation has no bytes and the new size for an offset.
    std::vector<std::pair<uint64_t, std::string>> pending;
  };
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  // The call with this number, from 1 on, fails, and so do `fail_count` - 1 after it. 0: none does.
  void FailAt(uint64_t call, uint64_t count = 1, bool syncs_only = false) {
    std::lock_guard lock(mu_);
    calls_ = 0;
    fail_at_ = call;
    fail_count_ = count;
    syncs_only_ = syncs_only;
  }
  // Called before each sync of a file, by who syncs, without the lock.
  void OnSync(std::function<void()> call) { on_sync_ = std::move(call); }
  uint64_t calls() const {
    std::lock_guard lock(mu_);
    return calls_;
  }
  // Writes fail with "no space", or another error, where all files together would be larger.
  void SetCapacity(uint64_t bytes, int error = ENOSPC) {
    std::lock_guard lock(mu_);
    capacity_ = bytes;
    full_ = error;
  }

  std::unique_ptr<SimFiles> AfterKill() const {
    std::lock_guard lock(mu_);
    auto out = std::make_unique<SimFiles>();
    for (const auto& [name, node] : names_) out->Put(name, node->written);
    return out;
  }
  std::unique_ptr<SimFiles> AfterPowerCut(std::mt19937_64& random) const {
    std::lock_guard lock(mu_);
    auto out = std::make_unique<SimFiles>();
    Names names = durable_names_;
    const size_t kept = random() % (changes_.size() + 1);
    for (size_t i = 0; i < kept; ++i) Apply(changes_[i], &names);
    for (const auto& [name, node] : names) out->Put(name, Torn(*node, random));
    return out;
  }

  void Put(const std::string& path, std::string content) {
    auto node = std::make_shared<Node>();
    node->written = content;
    node->durable = std::move(content);
    names_[path] = node;
    durable_names_[path] = node;
  }
  std::string& Content(const std::string& path) { return names_.at(path)->written; }
  Names& names() { return names_; }

  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("creating", path);
    auto node = std::make_shared<Node>();
    Change({path, node, {}});
    return std::make_unique<SimFile>(this, node, path);
  }
  absl::StatusOr<std::unique_ptr<File>> OpenForWriting(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("opening", path);
    const auto it = names_.find(path);
    if (it == names_.end()) return absl::NotFoundError(path);
    return std::make_unique<SimFile>(this, it->second, path);
  }
  absl::StatusOr<std::string> Read(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("reading", path);
    const auto it = names_.find(path);
    if (it == names_.end()) return absl::NotFoundError(path);
    return it->second->written;
  }
  absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                       size_t size) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("reading", path);
    const auto it = names_.find(path);
    if (it == names_.end()) return absl::NotFoundError(path);
    const std::string& bytes = it->second->written;
    return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
  }
  absl::StatusOr<uint64_t> Size(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("looking at", path);
    const auto it = names_.find(path);
    if (it == names_.end()) return absl::NotFoundError(path);
    return it->second->written.size();
  }
  absl::StatusOr<RunBytes> Map(const std::string& path) override {
    auto bytes = Read(path);
    if (!bytes.ok()) return bytes.status();
    return OwnRun(*std::move(bytes), path);
  }
  absl::StatusOr<std::shared_ptr<void>> Lock(const std::string&) override {
    return std::make_shared<int>(0);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("listing", directory);
    std::vector<std::string> out;
    const std::string prefix = directory + "/";
    for (const auto& [name, node] : names_) {
      if (name.starts_with(prefix) && name.find('/', prefix.size()) == std::string::npos)
        out.push_back(name.substr(prefix.size()));
    }
    return out;
  }
  absl::Status Remove(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("removing", path);
    if (!names_.contains(path)) return absl::NotFoundError(path);
    Change({path, nullptr, {}});
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    std::lock_guard lock(mu_);
    if (Fails(false)) return Injected("renaming", from);
    const auto it = names_.find(from);
    if (it == names_.end()) return absl::NotFoundError(from);
    Change({to, it->second, from});
    return absl::OkStatus();
  }
  absl::Status MakeDirectory(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncDirectory(const std::string& path) override {
    std::lock_guard lock(mu_);
    if (Fails(true)) return Injected("syncing", path);
    durable_names_ = names_;
    changes_.clear();
    return absl::OkStatus();
  }

 private:
  struct NameChange {
    std::string name;
    std::shared_ptr<Node> node;  // null: removed
    std::string removed;         // by a rename
  };

  class SimFile : public File {
   public:
    SimFile(SimFiles* files, std::shared_ptr<Node> node, std::string path)
        : files_(files), node_(std::move(node)), path_(std::move(path)) {}
    absl::Status WriteAt(std::string_view bytes, uint64_t offset) override {
      std::lock_guard lock(files_->mu_);
      if (files_->Fails(false)) {
        // A part of it may have been written.
        Write(bytes.substr(0, bytes.size() / 2), offset);
        return Injected("writing", path_);
      }
      const uint64_t grows =
          std::max<uint64_t>(offset + bytes.size(), node_->written.size()) - node_->written.size();
      uint64_t used = 0;
      for (const auto& [name, node] : files_->names_) used += node->written.size();
      if (used + grows > files_->capacity_) {
        return ErrnoError(files_->full_, "writing", path_);
      }
      Write(bytes, offset);
      return absl::OkStatus();
    }
    absl::Status Sync() override {
      if (files_->on_sync_) files_->on_sync_();
      std::lock_guard lock(files_->mu_);
      if (files_->Fails(true)) return Injected("syncing", path_);
      // Not a copy of all of it: a log that is synced for each commit would be copied each time.
      std::string& durable = node_->durable;
      for (const auto& [offset, bytes] : node_->pending) {
        if (bytes.empty() || durable.size() < offset + bytes.size()) {
          durable.resize(offset + bytes.size());
        }
        durable.replace(offset, bytes.size(), bytes);
      }
      node_->pending.clear();
      return absl::OkStatus();
    }
    absl::Status Truncate(uint64_t size) override {
      std::lock_guard lock(files_->mu_);
      if (files_->Fails(false)) return Injected("truncating", path_);
      node_->written.resize(size);
      node_->pending.emplace_back(size, std::string());
      return absl::OkStatus();
    }

   private:
    void Write(std::string_view bytes, uint64_t offset) {
      if (bytes.empty()) return;
      if (node_->written.size() < offset + bytes.size())
        node_->written.resize(offset + bytes.size());
      node_->written.replace(offset, bytes.size(), bytes);
      node_->pending.emplace_back(offset, std::string(bytes));
    }
    SimFiles* const files_;
    const std::shared_ptr<Node> node_;
    const std::string path_;
  };

  static absl::Status Injected(const std::string& what, const std::string& path) {
    return absl::InternalError(what + " " + path + ": made to fail");
  }
  bool Fails(bool sync) {
    if (syncs_only_ && !sync) return false;
    ++calls_;
    return fail_at_ != 0 && calls_ >= fail_at_ && calls_ < fail_at_ + fail_count_;
  }
  static void Apply(const NameChange& change, Names* names) {
    if (!change.removed.empty()) names->erase(change.removed);
    if (change.node == nullptr) {
      names->erase(change.name);
    } else {
      (*names)[change.name] = change.node;
    }
  }
  void Change(NameChange change) {
    Apply(change, &names_);
    changes_.push_back(std::move(change));
  }
  static std::string Torn(const Node& node, std::mt19937_64& random) {
    constexpr size_t kSector = 512;
    std::string out = node.durable;
    const uint64_t kind = random() % 3;  // all, none, some
    if (kind == 0) return node.written;
    if (kind == 1) return out;
    for (const auto& [offset, bytes] : node.pending) {
      if (bytes.empty()) {
        if (random() % 2 == 0) out.resize(offset);
        continue;
      }
      for (size_t at = 0; at < bytes.size();) {
        const size_t n = std::min(bytes.size() - at, kSector - (offset + at) % kSector);
        if (random() % 2 == 0) {
          if (out.size() < offset + at + n) out.resize(offset + at + n);
          out.replace(offset + at, n, bytes, at, n);
        }
        at += n;
      }
    }
    return out;
  }

  std::function<void()> on_sync_;
  mutable std::mutex mu_;
  Names names_, durable_names_;
  std::vector<NameChange> changes_;  // since the last sync of the directory
  uint64_t calls_ = 0;
  uint64_t fail_at_ = 0;
  uint64_t fail_count_ = 0;
  bool syncs_only_ = false;
  uint64_t capacity_ = ~uint64_t{0} >> 1;
  int full_ = ENOSPC;  // what who writes beyond it is told
};

}  // namespace pulse::graph
