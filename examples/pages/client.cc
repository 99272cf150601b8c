#include "examples/pages/client.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "examples/common/load.h"

namespace pulse::pages {
namespace {

constexpr size_t kReceive = size_t{128} << 10;

absl::Status Lost(const absl::Status& why) { return absl::UnavailableError(why.message()); }

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& host, uint16_t port) {
  auto fd = examples::ConnectTcp(host, port);
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<Client>(new Client(*std::move(fd)));
}

uint64_t Client::QueueGet(uint64_t page, uint64_t lsn) {
  const uint64_t id = next_id_++;
  out_ += GetRequest(id, page, lsn);
  pending_[id] = {Kind::kGet, page, lsn};
  return id;
}

uint64_t Client::QueueAppend(std::span<const Record> records) {
  const uint64_t id = next_id_++;
  std::string body;
  for (const Record& r : records) AppendRecord(r, &body);
  out_ += MakeMessage(kRequestMagic,
                      {0, 0, id, Kind::kAppend, Code::kOk, static_cast<uint32_t>(records.size())},
                      body);
  pending_[id] = {Kind::kAppend, 0, 0};
  return id;
}

uint64_t Client::QueueStatus() {
  const uint64_t id = next_id_++;
  out_ += MakeMessage(kRequestMagic, {0, 0, id, Kind::kStatus, Code::kOk, 0}, {});
  pending_[id] = {Kind::kStatus, 0, 0};
  return id;
}

absl::Status Client::Flush() {
  std::string_view rest = out_;
  while (!rest.empty()) {
    const ssize_t n = send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Lost(ErrnoError(errno, "sending", "requests"));
    rest.remove_prefix(static_cast<size_t>(n));
  }
  out_.clear();
  return absl::OkStatus();
}

absl::StatusOr<Response> Client::Receive() {
  while (true) {
    const std::string_view have = std::string_view(in_).substr(taken_);
    const auto size = SplitMessage(have, kReplyMagic);
    if (!size.ok()) return size.status();
    if (*size > 0) {
      const auto m = DecodeReply(have.substr(0, *size));
      if (!m.ok()) return m.status();
      const auto it = pending_.find(m->header.id);
      if (it == pending_.end()) {
        if (m->header.code != Code::kOk) return kCodes.ToStatus(m->header.code, m->body);
        return absl::DataLossError("pages: a reply to a request that was not made");
      }
      Response r;
      r.id = m->header.id;
      r.kind = it->second.kind;
      r.status = m->header.code == Code::kOk ? Interpret(*m, it->second, &r)
                                             : kCodes.ToStatus(m->header.code, m->body);
      pending_.erase(it);
      taken_ += *size;
      return r;
    }
    in_.erase(0, taken_);
    taken_ = 0;
    const size_t had = in_.size();
    in_.resize(had + kReceive);
    const ssize_t n = recv(fd_.get(), in_.data() + had, kReceive, 0);
    in_.resize(had + static_cast<size_t>(n > 0 ? n : 0));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Lost(ErrnoError(errno, "receiving", "replies"));
    if (n == 0) return absl::UnavailableError("pages: the server closed the connection");
  }
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
  auto r = Only(QueueGet(page, lsn));
  if (!r.ok()) return r.status();
  if (page_lsn != nullptr) *page_lsn = r->lsn;
  return r->page.substr(sizeof(PageHeader));
}

absl::StatusOr<uint64_t> Client::Append(std::span<const Record> records) {
  const auto r = Only(QueueAppend(records));
  if (!r.ok()) return r.status();
  return r->lsn;
}

absl::StatusOr<StatusBody> Client::Status() {
  const auto r = Only(QueueStatus());
  if (!r.ok()) return r.status();
  return r->server;
}

}  // namespace pulse::pages
