// An agent in this process with a store of its own, and a client that does one thing at a time. For
// tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/socket_server.h"
#include "base/testing.h"
#include "channel/doorbell.h"
#include "pulse/files.h"
#include "services/files/agent_store.h"
#include "services/files/spec.h"
#include "store/store.h"

namespace pulse::files {

inline constexpr uint64_t kSegment = uint64_t{64} << 10;

class TestAgent {
 public:
  explicit TestAgent(uint64_t store_bytes = uint64_t{32} << 20)
      : store_("store"), socket_("files.sock") {
    store::CreateOptions options;
    options.size = store_bytes;
    options.segment_bytes = kSegment;
    options.metadata_bytes = uint64_t{2} << 20;
    options.prefill = false;
    EXPECT_EQ(store::Create(store_.get(), options), absl::OkStatus());
    agent_options.socket_path = socket_.get();
    agent_options.handshake_ms = 60'000;
  }
  ~TestAgent() { Stop(); }

  void Start() {
    auto files = FileStore::Open(store_.get());
    ASSERT_TRUE(files.ok()) << files.status();
    Start(*std::move(files));
  }
  void Start(std::unique_ptr<FileStore> files) {
    files_ = std::move(files);
    auto server = SocketServer::Open(agent_options, {{&kSpec, files_->Factory(copying)}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void StopSessions() { server_.reset(); }
  void Stop() {
    server_.reset();
    files_.reset();
  }
  std::unique_ptr<Library> Connect(Transfer transfer = Transfer::kShared) {
    auto library = Library::Open({socket_.get(), transfer});
    EXPECT_TRUE(library.ok()) << library.status();
    return library.ok() ? *std::move(library) : nullptr;
  }

  const std::string& socket() const { return socket_.get(); }
  const std::string& store_path() const { return store_.get(); }
  SocketServer* server() { return server_.get(); }
  FileStore* files() { return files_.get(); }

  AgentOptions agent_options;  // before Start
  bool copying = false;

 private:
  testing_util::ScratchPath store_;
  testing_util::ScratchPath socket_;
  std::unique_ptr<FileStore> files_;
  std::unique_ptr<SocketServer> server_;
};

// Waits for each operation. For a group that nobody else uses.
class Client {
 public:
  explicit Client(Library* library, const PollOptions& options = {})
      : library_(library), poll_(library->CreatePoll(options).value()) {}

  // The completion of what was submitted with `submitted`, or that refusal as one.
  Completion Wait(const absl::Status& submitted) {
    Completion c;
    if (!submitted.ok()) {
      c.status = submitted;
      return c;
    }
    const auto n = library_->PollWait(poll_, &c, 1, kForever);
    if (!n.ok()) c.status = n.status();
    return c;
  }
  absl::Status CreateDirectory(std::string_view name) {
    return Wait(library_->CreateDirectory(poll_, name, 0)).status;
  }
  Completion Create(std::string_view directory, std::string_view name) {
    return Wait(library_->CreateFile(poll_, directory, name, 0));
  }
  Completion Open(std::string_view directory, std::string_view name) {
    return Wait(library_->OpenFile(poll_, directory, name, 0));
  }
  absl::Status Close(File file) { return Wait(library_->CloseFile(file, 0)).status; }
  Completion Write(File file, uint64_t offset, const std::string& data) {
    return Wait(library_->WriteFile(file, offset, data.data(), data.size(), 0));
  }
  // What was read, or the error's code in brackets.
  std::string Read(File file, uint64_t offset, uint64_t length) {
    std::string data(length, '?');
    const Completion c = Wait(library_->ReadFile(file, offset, data.data(), length, 0));
    if (!c.status.ok()) return "[" + absl::StatusCodeToString(c.status.code()) + "]";
    data.resize(c.bytes);
    return data;
  }
  absl::Status Sync(File file) { return Wait(library_->SyncFile(file, 0)).status; }
  absl::Status SetSize(File file, uint64_t size) {
    return Wait(library_->SetSize(file, size, 0)).status;
  }
  Attributes Stat(File file) {
    const Completion c = Wait(library_->GetAttributes(file, 0));
    EXPECT_EQ(c.status, absl::OkStatus());
    return c.attributes;
  }
  std::vector<std::string> List(std::string_view directory) {
    std::vector<std::string> names;
    std::string after;
    while (true) {
      const Completion c = Wait(library_->ListDirectory(poll_, directory, after, 0));
      EXPECT_EQ(c.status, absl::OkStatus());
      for (const DirectoryEntry& e : c.entries) names.push_back(e.name);
      if (!c.more || !c.status.ok()) return names;
      after = names.back();
    }
  }

  Library* library() { return library_; }
  Poll poll() const { return poll_; }

 private:
  Library* const library_;
  const Poll poll_;
};

inline bool Is(const absl::Status& status, absl::StatusCode code) { return status.code() == code; }

}  // namespace pulse::files
