#include "examples/pages/server.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "examples/pages/wire.h"

namespace pulse::pages {
namespace {

using examples::BytesOf;
using net::Connection;
using net::Ticket;

std::string TextReply(uint64_t id, Kind kind, const absl::Status& st) {
  return ErrorReply(id, kind, kCodes.Of(st), examples::TextOf(st));
}

std::string GoodReply(uint64_t id, Kind kind, std::string_view body) {
  return MakeMessage(kReplyMagic, {0, 0, id, kind, Code::kOk, 0}, body);
}

class PageFlow : public examples::HostFlow<MessageHeader, kRequestMagic> {
 public:
  PageFlow(PageServer* server, Connection* connection) : HostFlow(connection), server_(server) {}

  std::string ErrorReply(const absl::Status& error) override {
    return TextReply(0, Kind::kStatus, error);
  }

  void OnRequest(Ticket ticket, std::string_view bytes) override {
    const auto m = DecodeRequest(bytes);
    if (!m.ok()) return connection_->Close(TextReply(0, Kind::kStatus, m.status()));
    switch (m->header.kind) {
      case Kind::kGet:
        return Get(ticket, *m);
      case Kind::kAppend:
        return Append(ticket, *m);
      case Kind::kStatus:
        return connection_->Reply(
            ticket, GoodReply(m->header.id, Kind::kStatus, BytesOf(server_->status())));
    }
  }

 private:
  void Get(Ticket ticket, const Message& m) {
    GetBody body;
    std::memcpy(&body, m.body.data(), sizeof(body));
    auto reply = std::make_shared<std::string>(sizeof(MessageHeader) + kPageBytes, '\0');
    const MessageHeader h{
        kReplyMagic, static_cast<uint32_t>(reply->size()), m.header.id, Kind::kGet, Code::kOk, 0};
    std::memcpy(reply->data(), &h, sizeof(h));
    char* const to = reply->data() + sizeof(h);
    server_->Get(body.page, body.lsn, to,
                 [reply, ticket, id = h.id, connection = connection_,
                  remote = connection_->remote()](const absl::Status& st) {
                   if (!st.ok()) *reply = TextReply(id, Kind::kGet, st);
                   remote->Post([reply, ticket, connection] { connection->Reply(ticket, *reply); });
                 });
  }

  void Append(Ticket ticket, const Message& m) {
    absl::Status st = DecodeRecords(m.body, m.header.count, &records_);
    for (const Record& r : records_) {
      if (st.ok() && r.page >= server_->pages()) st = absl::NotFoundError("pages: no such page");
    }
    if (!st.ok()) return connection_->Reply(ticket, TextReply(m.header.id, Kind::kAppend, st));
    server_->Append(std::string(m.body), m.header.count,
                    [ticket, id = m.header.id, connection = connection_,
                     remote = connection_->remote()](const absl::StatusOr<uint64_t>& lsn) {
                      std::string reply = lsn.ok() ? GoodReply(id, Kind::kAppend, BytesOf(*lsn))
                                                   : TextReply(id, Kind::kAppend, lsn.status());
                      remote->Post([reply = std::move(reply), ticket, connection] {
                        connection->Reply(ticket, reply);
                      });
                    });
  }

  PageServer* const server_;
  std::vector<Record> records_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Open(const HostOptions& options) {
  std::unique_ptr<HostProgram> host(new HostProgram(options));
  PageServerOptions server_options = options.server;
  server_options.files = options.files;
  PULSE_ASSIGN_OR_RETURN(host->server_, PageServer::Open(server_options));
  if (absl::Status st = host->Listen(options); !st.ok()) return st;
  return host;
}

HostProgram::~HostProgram() {
  Stop();
  server_.reset();
}

std::unique_ptr<net::Flow> HostProgram::NewFlow(Connection* connection) {
  return std::make_unique<PageFlow>(server_.get(), connection);
}

std::string HostProgram::Describe() {
  const StatusBody status = server_->status();
  return absl::StrCat(status.pages, " pages, log to LSN ", status.durable, ", checkpoint at ",
                      status.checkpoint);
}

}  // namespace pulse::pages
