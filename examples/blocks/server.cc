#include "examples/blocks/server.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "examples/blocks/wire.h"
#include "net/buffer.h"

namespace pulse::blocks {

namespace {

// Of replies in the making; a request beyond it is told to ask again.
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

}  // namespace

using examples::Io;
using examples::TextOf;
using net::Connection;
using net::Ticket;

// One message under way: its I/O, and the reply that reads go into.
struct Server::Batch {
  Connection* connection = nullptr;  // while the remote's work runs
  std::shared_ptr<net::Remote> remote;
  Ticket ticket = 0;
  std::vector<Io> ios;
  std::vector<RequestHeader> headers;
  std::string written;  // the data of writes, which outlive the message
  std::atomic<uint32_t> left{0};
  std::atomic<uint64_t>* accounted = nullptr;
  uint64_t bytes = 0;
  // The reply, as it will be if all goes well. In a buffer of the loop's where one is free.
  std::optional<net::Buffer> buffer;
  std::string text;
  char* reply = nullptr;

  ~Batch() { accounted->fetch_sub(bytes, std::memory_order_relaxed); }

  void Answer() {
    for (const Io& io : ios) {
      if (!io.status.ok()) return AnswerErrors();
    }
    if (buffer.has_value()) return connection->Reply(ticket, *std::move(buffer));
    connection->Reply(ticket, text);
  }

  // Some failed: what there is, in a message of another shape.
  void AnswerErrors() {
    MessageBuilder b(kReplyMagic);
    for (size_t i = 0; i < ios.size(); ++i) {
      const Io& io = ios[i];
      ReplyHeader h{headers[i].id, 0, kCodes.Of(io.status), headers[i].op};
      std::string_view data;
      if (!io.status.ok()) {
        data = TextOf(io.status);
      } else if (io.op == Op::kRead) {
        data = {io.data, io.size};
      }
      h.size = static_cast<uint32_t>(data.size());
      b.Add(h, data);
    }
    connection->Reply(ticket, b.Finish());
  }
};

class Server::ServerFlow : public examples::HostFlow<MessageHeader, kRequestMagic> {
 public:
  ServerFlow(Server* server, Connection* connection) : HostFlow(connection), server_(server) {}

  std::string ErrorReply(const absl::Status& error) override {
    return ErrorMessage(0, Op::kRead, kCodes.Of(error), TextOf(error));
  }

  void OnRequest(Ticket ticket, std::string_view bytes) override {
    if (absl::Status st = DecodeRequests(bytes, &requests_); !st.ok()) {
      return connection_->Close(ErrorReply(st));
    }
    if (requests_.size() == 1 && requests_[0].header.op == Op::kOpen) {
      return AnswerOpen(ticket, requests_[0]);
    }
    uint64_t size = sizeof(MessageHeader);
    uint64_t written = 0;
    for (const Request& r : requests_) {
      if (r.header.op == Op::kOpen) {
        return connection_->Reply(ticket, ErrorMessages(bytes, Code::kInvalid));
      }
      size += sizeof(ReplyHeader) + (r.header.op == Op::kRead ? r.header.size : 0);
      written += r.data.size();
    }
    const uint64_t all = size + written;
    if (server_->bytes_.fetch_add(all, std::memory_order_relaxed) + all > kMaxBytes) {
      server_->bytes_.fetch_sub(all, std::memory_order_relaxed);
      return connection_->Reply(ticket, ErrorMessages(bytes, Code::kBusy));
    }
    auto batch = std::make_unique<Batch>();
    batch->accounted = &server_->bytes_;
    batch->bytes = all;
    batch->ticket = ticket;
    Fill(batch.get(), size, written);
    for (Io& io : batch->ios) submitted_.push_back(&io);
    batches_.push_back(std::move(batch));
  }

  void OnRequestsEnd() override {
    if (submitted_.empty()) return;
    // Theirs until they are done: OnDone takes them over.
    for (auto& batch : batches_) batch.release();
    batches_.clear();
    server_->files_->Submit(submitted_.data(), submitted_.size());
    submitted_.clear();
  }

 private:
  void AnswerOpen(Ticket ticket, const Request& r) {
    const auto info = server_->files_->Find(r.data);
    if (!info.ok()) {
      return connection_->Reply(
          ticket,
          ErrorMessage(r.header.id, Op::kOpen, kCodes.Of(info.status()), TextOf(info.status())));
    }
    MessageBuilder b(kReplyMagic);
    b.Add(ReplyHeader{r.header.id, sizeof(FileInfo), Code::kOk, Op::kOpen},
          examples::BytesOf(*info));
    connection_->Reply(ticket, b.Finish());
  }

  // The I/O of requests_, and the reply around what reads will bring.
  void Fill(Batch* batch, uint64_t size, uint64_t written) {
    batch->remote = connection_->remote();
    batch->connection = connection_;
    batch->buffer = connection_->buffers()->Take(size, 0);
    if (!batch->buffer.has_value()) batch->text.resize(size);
    batch->reply = batch->buffer.has_value() ? batch->buffer->data() : batch->text.data();
    batch->written.reserve(written);
    const auto count = static_cast<uint32_t>(requests_.size());
    batch->left.store(count, std::memory_order_relaxed);
    batch->ios.resize(count);
    batch->headers.reserve(count);
    const MessageHeader h{kReplyMagic, static_cast<uint32_t>(size), count, 0};
    std::memcpy(batch->reply, &h, sizeof(h));
    char* at = batch->reply + sizeof(h);
    for (uint32_t i = 0; i < count; ++i) {
      const RequestHeader& r = requests_[i].header;
      batch->headers.push_back(r);
      Io& io = batch->ios[i];
      io.op = r.op;
      io.file = r.file;
      io.offset = r.offset;
      io.size = r.size;
      io.owner = batch;
      const uint32_t data = r.op == Op::kRead ? r.size : 0;
      const ReplyHeader reply{r.id, data, Code::kOk, r.op};
      std::memcpy(at, &reply, sizeof(reply));
      at += sizeof(reply);
      io.data = at;
      at += data;
      if (r.op != Op::kWrite) continue;
      io.data = batch->written.data() + batch->written.size();
      batch->written.append(requests_[i].data);
    }
  }

  Server* const server_;
  std::vector<Request> requests_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<Io*> submitted_;
};

absl::StatusOr<std::unique_ptr<Server>> Server::Open(examples::HostOptions options) {
  options.files.store_directory = "blocks";
  std::unique_ptr<Server> server(new Server(options));
  PULSE_ASSIGN_OR_RETURN(server->files_, examples::OpenFiles(options.files, server.get()));
  if (absl::Status st = server->Listen(options); !st.ok()) return st;
  return server;
}

Server::~Server() {
  Stop();
  files_.reset();
}

std::unique_ptr<net::Flow> Server::NewFlow(Connection* connection) {
  return std::make_unique<ServerFlow>(this, connection);
}

std::string Server::Describe() {
  return absl::StrCat(files_options_.files, " files of ", files_options_.file_bytes, " bytes");
}

void Server::OnDone(Io* io) {
  auto* const batch = static_cast<Batch*>(io->owner);
  if (batch->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Goes with the work, whether that runs or its connection has ended.
  std::shared_ptr<Batch> whole(batch);
  batch->remote->Post([whole] { whole->Answer(); });
}

}  // namespace pulse::blocks
