// Runtime: a program, its cache table, and whether it is still trusted: what the engine and the
// file service's hooks share. All calls of a program's functions go through here, contained.
//
// Threads: any; Cache and Invalidate by one at a time. Never blocks.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "pulse/offload.h"
#include "services/offload/cache_table.h"
#include "services/offload/containment.h"

namespace pulse::offload {

class Runtime {
 public:
  // `program` has passed CheckProgram. ResourceExhausted: no memory for a table of `items`.
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(const Program* program, uint64_t items);

  const Program& program() const { return *program_; }
  // A function has failed: nothing is offloaded any more.
  bool off() const { return off_.load(std::memory_order_relaxed); }
  // One of the protocol's has: its connections end, too.
  bool broken() const { return broken_.load(std::memory_order_relaxed); }
  const CacheTable* table() const { return table_.get(); }

  // -1 also when the function has failed.
  int64_t SplitRequest(std::string_view bytes);
  int64_t SplitReply(std::string_view bytes);
  uint32_t Replies(std::string_view message);
  size_t Error(std::string_view request, offload::Error error, char* out, size_t room);

  // False: it has failed, and what it has put anywhere does not count.
  bool Predicate(std::string_view message, Requests* out);
  // False: let the host answer.
  bool Read(std::string_view request, ReadOp* op);
  bool BuildReply(std::string_view request, const ReadOp& op, Reply* reply);

  void Cache(const WriteOp& op);
  void Invalidate(const ReadOp& op);

 private:
  explicit Runtime(const Program* program) : program_(program) {}
  static int Find(const Table* table, const void* key, void* item);
  static void Put(Changes* out, const void* key, const void* item);
  static void Erase(Changes* out, const void* key);
  template <typename T, typename Call>
  T Run(const char* function, bool of_protocol, T otherwise, Call&& call);
  void Failed(const char* function, bool of_protocol, Containment::End end);

  const Program* const program_;
  std::unique_ptr<CacheTable> table_;
  Table view_{};
  Changes changes_{};
  std::atomic<bool> off_{false};
  std::atomic<bool> broken_{false};
};

}  // namespace pulse::offload
