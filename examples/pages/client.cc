#include "examples/pages/client.h"

#include <cstring>

#include "base/errors.h"

namespace pulse::pages {

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& host, uint16_t port) {
  std::unique_ptr<Client> client(new Client);
  if (absl::Status st = client->stream_.Connect(host, port); !st.ok()) return st;
  return client;
}

uint64_t Client::Queue(Kind kind, uint32_t count, std::string_view body, uint64_t page) {
  const uint64_t id = next_id_++;
  stream_.Queue(MakeMessage(kRequestMagic, {0, 0, id, kind, Code::kOk, count}, body));
  pending_[id] = {kind, page};
  return id;
}

uint64_t Client::QueueGet(uint64_t page, uint64_t lsn) {
  return Queue(Kind::kGet, 0, examples::BytesOf(GetBody{page, lsn}), page);
}

uint64_t Client::QueueAppend(std::span<const Record> records) {
  std::string body;
  for (const Record& r : records) AppendRecord(r, &body);
  return Queue(Kind::kAppend, static_cast<uint32_t>(records.size()), body);
}

absl::StatusOr<Response> Client::Receive() {
  PULSE_ASSIGN_OR_RETURN(const auto message, stream_.WaitForNext<MessageHeader>(kReplyMagic));
  PULSE_ASSIGN_OR_RETURN(const auto m, DecodeReply(message));
  const bool ok = m.header.code == Code::kOk;
  const auto asked = pending_.extract(m.header.id);
  if (asked.empty()) {
    if (!ok) return kCodes.ToStatus(m.header.code, m.body);
    return absl::DataLossError("pages: a reply to a request that was not made");
  }
  Response r;
  r.id = m.header.id;
  r.kind = asked.mapped().kind;
  r.status = ok ? Interpret(m, asked.mapped(), &r) : kCodes.ToStatus(m.header.code, m.body);
  return r;
}

absl::Status Client::Interpret(const Message& m, const Pending& asked, Response* r) const {
  if (m.header.kind != asked.kind) {
    return absl::DataLossError("pages: a reply to a request of another kind");
  }
  if (asked.kind == Kind::kAppend) {
    std::memcpy(&r->lsn, m.body.data(), sizeof(r->lsn));
  } else if (asked.kind == Kind::kStatus) {
    std::memcpy(&r->server, m.body.data(), sizeof(r->server));
  } else {
    if (absl::Status st = CheckPage(m.body.data(), asked.page); !st.ok()) return st;
    r->lsn = HeaderOf(m.body.data()).lsn;
    r->page = std::string(m.body);
  }
  return absl::OkStatus();
}

absl::StatusOr<Response> Client::Only(uint64_t id) {
  PULSE_RETURN_IF_ERROR(Flush());
  auto r = Receive();
  if (!r.ok()) return r.status();
  if (r->id != id) return absl::FailedPreconditionError("pages: others are outstanding: Receive");
  if (!r->status.ok()) return r->status;
  return r;
}

absl::StatusOr<std::string> Client::GetPage(uint64_t page, uint64_t lsn, uint64_t* page_lsn) {
  PULSE_ASSIGN_OR_RETURN(auto r, Only(QueueGet(page, lsn)));
  if (page_lsn != nullptr) *page_lsn = r.lsn;
  return r.page.substr(sizeof(PageHeader));
}

absl::StatusOr<uint64_t> Client::Append(std::span<const Record> records) {
  PULSE_ASSIGN_OR_RETURN(const auto r, Only(QueueAppend(records)));
  return r.lsn;
}

absl::StatusOr<StatusBody> Client::Status() {
  PULSE_ASSIGN_OR_RETURN(const auto r, Only(Queue(Kind::kStatus, 0, {})));
  return r.server;
}

}  // namespace pulse::pages
