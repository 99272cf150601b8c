#include "examples/pages/server.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "examples/pages/wire.h"

namespace pulse::pages {
namespace {

using director::Connection;
using director::Flow;
using director::Ticket;

std::string TextReply(uint64_t id, Kind kind, const absl::Status& st) {
  return ErrorReply(id, kind, CodeOf(st),
                    std::string_view(st.message().data(), st.message().size()));
}

class PageFlow : public Flow {
 public:
  PageFlow(PageServer* server, Connection* connection) : server_(server), connection_(connection) {}

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    return SplitMessage(bytes, kRequestMagic);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return SplitMessage(bytes, kReplyMagic);
  }
  std::string OnHostLost(Ticket, bool) override { return {}; }  // there is no host
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
        const StatusBody status = server_->status();
        return connection_->Reply(
            ticket, MakeMessage(kReplyMagic, {0, 0, m->header.id, Kind::kStatus, Code::kOk, 0},
                                {reinterpret_cast<const char*>(&status), sizeof(status)}));
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
                      std::string reply;
                      if (lsn.ok()) {
                        reply = MakeMessage(kReplyMagic, {0, 0, id, Kind::kAppend, Code::kOk, 0},
                                            {reinterpret_cast<const char*>(&*lsn), sizeof(*lsn)});
                      } else {
                        reply = TextReply(id, Kind::kAppend, lsn.status());
                      }
                      remote->Post([reply = std::move(reply), ticket, connection] {
                        connection->Reply(ticket, reply);
                      });
                    });
  }

  PageServer* const server_;
  Connection* const connection_;
  std::vector<Record> records_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Open(const HostOptions& options) {
  std::unique_ptr<HostProgram> host(new HostProgram(options.ordered));
  auto server = PageServer::Open(options.server);
  if (!server.ok()) return server.status();
  host->server_ = *std::move(server);
  director::DirectorOptions d;
  d.listen = {options.listen};
  d.threads = options.threads;
  d.application = host.get();
  d.limits.max_message = kMaxMessage;
  auto director = director::Director::Open(std::move(d));
  if (!director.ok()) return director.status();
  host->director_ = *std::move(director);
  return host;
}

HostProgram::~HostProgram() {
  if (director_ != nullptr) director_->Stop();
  server_.reset();
}

std::unique_ptr<Flow> HostProgram::NewFlow(Connection* connection) {
  return std::make_unique<PageFlow>(server_.get(), connection);
}

}  // namespace pulse::pages
