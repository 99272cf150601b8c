// What the NBD plug-in needs of the file library, without nbdkit: the connection to the agent, and
// a file as one NBD client has it open.
//
// Agent. One library for all clients, with a few lanes. When it is lost, the exports that were open
// on it stay dead: their clients get an error for every request. A client that connects later gets
// a new library, unless writes were acknowledged and not flushed: a client that connects again by
// itself would take a later flush to cover them. Then the remedy is to start the server again.
//
// StoreExport. One NBD client's handle. Flush covers what any client has written before, so that a
// client may spread over several connections.
//
// When the agent is silent (Heartbeat), what was in flight ends with an error, and every request is
// refused until all that was given up has been answered after all: a write that was given up must
// not overtake the one with which the client tries again.
//
// Ownership: an export keeps its link. Threads: any. Blocking: until the agent has answered, is
// lost or is silent; connecting for at most ten seconds. Errors: statuses whose text names the
// remedy.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/nbd/lane.h"
#include "pulse/files.h"

namespace pulse::nbd {

// Of a file: what was written since the last flush.
class Unflushed {
 public:
  void BeginWrite() { ++in_flight_; }
  void EndWrite(bool acknowledged) {
    if (acknowledged) ++written_;
    --in_flight_;
  }
  uint64_t written() const { return written_; }
  // A flush that began when `written` had been acknowledged has succeeded.
  void Flushed(uint64_t written);
  bool any() const { return in_flight_ > 0 || written_ > flushed_; }

 private:
  std::atomic<uint64_t> in_flight_{0};
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> flushed_{0};
};

// One connection to the agent.
class Link {
 public:
  static constexpr size_t kLanes = 4;

  static absl::StatusOr<std::shared_ptr<Link>> Open(const std::string& socket,
                                                    const files::PollOptions& poll,
                                                    std::chrono::milliseconds silence);
  // One after the other; each is made when it is first wanted.
  absl::StatusOr<Lane*> NextLane();
  std::shared_ptr<Unflushed> UnflushedOf(const std::string& directory, const std::string& file);
  bool lost() const { return library_->lost(); }
  bool any_unflushed();
  // OK unless requests that were given up have no answer yet. Takes what has arrived of them.
  absl::Status CheckAnswers();

 private:
  Link(std::unique_ptr<files::Library> library, const files::PollOptions& poll,
       std::chrono::milliseconds silence)
      : poll_(poll), library_(std::move(library)), heartbeat_(library_.get(), silence) {}

  const files::PollOptions poll_;
  std::unique_ptr<files::Library> library_;
  Heartbeat heartbeat_;
  std::mutex mu_;
  size_t next_ = 0;
  size_t most_ = kLanes;  // fewer where the agent gives no more
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Unflushed>> unflushed_;
};

class Agent {
 public:
  // `silence`: how long an agent may show no sign of life; 0: for as long as it likes.
  explicit Agent(std::string socket, const files::PollOptions& poll = DefaultPoll(),
                 std::chrono::milliseconds silence = std::chrono::milliseconds(0))
      : socket_(std::move(socket)), poll_(poll), silence_(silence) {}

  // The link there is, or a new one.
  absl::StatusOr<std::shared_ptr<Link>> Connect();

  static files::PollOptions DefaultPoll();

 private:
  const std::string socket_;
  const files::PollOptions poll_;
  const std::chrono::milliseconds silence_;
  std::mutex mu_;
  std::shared_ptr<Link> link_;
};

class StoreExport {
 public:
  static absl::StatusOr<std::unique_ptr<StoreExport>> Open(Agent* agent,
                                                           const std::string& directory,
                                                           const std::string& file);
  ~StoreExport();
  StoreExport(const StoreExport&) = delete;
  StoreExport& operator=(const StoreExport&) = delete;

  uint64_t size() const { return size_; }  // when it was opened
  absl::Status Read(uint64_t offset, char* data, uint64_t length);
  // `data` null: zeros.
  absl::Status Write(uint64_t offset, const char* data, uint64_t length);
  absl::Status Zero(uint64_t offset, uint64_t length) { return Write(offset, nullptr, length); }
  absl::Status Flush();

 private:
  StoreExport() = default;
  // The error, with what to do where the agent is gone.
  absl::Status Explain(const absl::Status& st) const;

  std::shared_ptr<Link> link_;
  Lane* lane_ = nullptr;
  files::File file_ = files::File::kNone;
  uint64_t size_ = 0;
  std::shared_ptr<Unflushed> unflushed_;
};

// The files of a directory, at most `most`.
absl::StatusOr<std::vector<std::string>> ListFiles(Agent* agent, const std::string& directory,
                                                   size_t most);

// Makes the file, and its directory, where it is missing or still empty; leaves one of that size
// alone. FailedPrecondition for one of another size; after any error nothing new is left behind.
// `size` 0: it must be there.
absl::Status PrepareFile(Agent* agent, const std::string& directory, const std::string& file,
                         uint64_t size);

// The errno that an NBD client is told.
int ErrnoForClient(const absl::Status& status);

}  // namespace pulse::nbd
