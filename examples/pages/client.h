// A client of a page server: one connection, requests that may be outstanding together, replies in
// any order. Pages are checked (checksum, number) before they are handed out.
//
// One thread at a time; calls block. Errors: Unavailable when the connection is lost: records of
// appends without a reply may have been appended; connect anew. NotFound: no such page.
// DeadlineExceeded: the page does not reach that LSN. ResourceExhausted: ask again. DataLoss: the
// server has sent a page that is not what was asked for.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/common/load.h"
#include "examples/pages/wire.h"

namespace pulse::pages {

struct Response {
  uint64_t id = 0;
  Kind kind = Kind::kGet;
  absl::Status status;
  uint64_t lsn = 0;  // of the page; or of the last record appended
  std::string page;  // kPageBytes
  StatusBody server{};
};

class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& host, uint16_t port);

  // --- One at a time.
  // The payload of the page, of an LSN at or above `lsn`; its own LSN goes to `page_lsn`.
  absl::StatusOr<std::string> GetPage(uint64_t page, uint64_t lsn, uint64_t* page_lsn = nullptr);
  // The LSN of the last record, once all are durable.
  absl::StatusOr<uint64_t> Append(std::span<const Record> records);
  absl::StatusOr<StatusBody> Status();

  // --- Many at a time: queue, flush, then receive as many as were queued. Returned: the id.
  uint64_t QueueGet(uint64_t page, uint64_t lsn);
  uint64_t QueueAppend(std::span<const Record> records);
  absl::Status Flush() { return stream_.Send(); }
  absl::StatusOr<Response> Receive();
  size_t outstanding() const { return pending_.size(); }

 private:
  struct Pending {
    Kind kind;
    uint64_t page;
  };
  Client() = default;
  uint64_t Queue(Kind kind, uint32_t count, std::string_view body, uint64_t page = 0);
  absl::StatusOr<Response> Only(uint64_t id);
  absl::Status Interpret(const Message& m, const Pending& asked, Response* r) const;

  examples::MessageStream stream_{"pages"};
  uint64_t next_id_ = 1;
  std::unordered_map<uint64_t, Pending> pending_;
};

}  // namespace pulse::pages
