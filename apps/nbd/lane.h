// Lane: blocking calls on one poll group of the file library, from any number of threads. The NBD
// server calls its plug-in with one thread per request in flight; they share few groups, since a
// group is memory of the agent's session.
//
// Of the threads that wait, one takes completions for all and hands them out; when it has its own,
// it passes that on. So a single request costs no switch between threads.
//
// A call that the agent leaves without an answer for too long (Heartbeat) is given up. Nothing of
// its caller's is touched after that: reads are copied out of the response by whoever takes the
// completion, and what arrives for a call that was given up is dropped.
//
// Ownership: does not own the library and the heartbeat, which must outlive it. Threads: any.
// Blocking: until the agent has answered, is lost, or is silent. Errors: the library's; Unavailable
// and FailedPrecondition once the agent was lost; DeadlineExceeded when it is silent.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "apps/nbd/heartbeat.h"
#include "pulse/files.h"

namespace pulse::nbd {

class Lane {
 public:
  Lane(files::Library* library, files::Poll poll, Heartbeat* heartbeat);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  // Issues one operation by `submit`, which passes on the cookie, and waits for its completion.
  using Submit = std::function<absl::Status(uint64_t cookie)>;
  files::Completion Run(const Submit& submit);

  // All of `length` bytes, in parts that are outstanding together. OutOfRange: the file ends first.
  absl::Status Read(files::File file, uint64_t offset, char* data, uint64_t length);
  // `data` null: zeros.
  absl::Status Write(files::File file, uint64_t offset, const char* data, uint64_t length);

  // Takes what has arrived for calls that were given up. Whether nothing is outstanding any more.
  bool Drain();

  files::Library* library() const { return library_; }
  files::Poll poll() const { return poll_; }

 private:
  struct Call;
  // One operation of a call. Its address is the cookie.
  struct Part {
    Call* call = nullptr;
    char* to = nullptr;  // of a read: where its bytes go
  };
  // All fields are guarded by mu_, but for the parts, which do not change once they are issued.
  struct Call {
    std::vector<Part> parts;
    size_t pending = 0;  // operations that were issued, or are being issued
    uint64_t bytes = 0;
    absl::Status status;    // the first error
    files::Completion out;  // of the last that was taken
    bool wants_room = false;
    bool given_up = false;
    std::condition_variable cv;
  };
  using IssuePart = std::function<absl::Status(uint64_t at, uint64_t length, uint64_t cookie)>;

  absl::Status Issue(Call* call, Part* part, const Submit& submit);
  absl::Status Finish(std::unique_ptr<Call> call, absl::Status issued, files::Completion* out);
  absl::Status Parts(uint64_t length, uint64_t most, char* to, const IssuePart& issue,
                     uint64_t* bytes);
  template <typename Done>
  void Wait(std::unique_lock<std::mutex>& lock, Call* call, Done done);
  size_t Take(std::unique_lock<std::mutex>& lock, int64_t timeout_us);
  void Account(files::Completion* c);
  void GiveUp();

  files::Library* const library_;
  const files::Poll poll_;
  Heartbeat* const heartbeat_;
  const uint64_t most_read_;
  const uint64_t most_written_;

  std::mutex mu_;
  bool polling_ = false;                  // somebody is in PollWait
  std::vector<files::Completion> batch_;  // of whoever is
  std::vector<Call*> waiting_;
  std::vector<std::unique_ptr<Call>> given_up_;  // that have not been answered yet
  uint64_t progress_ = 0;                        // changes when a request may find room again
};

}  // namespace pulse::nbd
