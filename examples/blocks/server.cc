#include "examples/blocks/server.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/blocks/wire.h"
#include "net/buffer.h"

namespace pulse::blocks {

using director::Connection;
using director::Flow;
using director::Ticket;

// One message under way: its I/O, and the reply that reads go into.
struct Server::Batch {
  Connection* connection = nullptr;  // while the remote's work runs
  std::shared_ptr<director::Remote> remote;
  Ticket ticket = 0;
  std::vector<Io> ios;
  std::vector<RequestHeader> headers;
  std::string written;  // the data of writes, which outlive the message
  std::atomic<uint32_t> left{0};
  std::atomic<uint64_t>* accounted = nullptr;
  uint64_t bytes = 0;
  // The reply, as it will be if all goes well. In a buffer of the loop's where one is free.
  std::optional<director::Buffer> buffer;
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
      ReplyHeader h{headers[i].id, 0, CodeOf(io.status), headers[i].op};
      std::string_view data;
      if (!io.status.ok()) {
        data = std::string_view(io.status.message().data(), io.status.message().size());
      } else if (io.op == Op::kRead) {
        data = {io.data, io.size};
      }
      h.size = static_cast<uint32_t>(data.size());
      b.Add(h, data);
    }
    connection->Reply(ticket, b.Finish());
  }
};

class Server::ServerFlow : public Flow {
 public:
  ServerFlow(Server* server, Connection* connection) : server_(server), connection_(connection) {}

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    return SplitMessage(bytes, kRequestMagic);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return SplitMessage(bytes, kReplyMagic);
  }
  std::string OnHostLost(Ticket, bool) override { return {}; }  // there is no host
  std::string ErrorReply(const absl::Status& error) override {
    return ErrorMessage(0, Op::kRead, CodeOf(error),
                        std::string_view(error.message().data(), error.message().size()));
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
    if (server_->bytes_.fetch_add(all, std::memory_order_relaxed) + all >
        server_->options_.max_bytes) {
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
      const auto text = info.status().message();
      return connection_->Reply(ticket, ErrorMessage(r.header.id, Op::kOpen, CodeOf(info.status()),
                                                     std::string_view(text.data(), text.size())));
    }
    MessageBuilder b(kReplyMagic);
    b.Add(ReplyHeader{r.header.id, sizeof(FileInfo), Code::kOk, Op::kOpen},
          {reinterpret_cast<const char*>(&*info), sizeof(FileInfo)});
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
    uint64_t reads = 0;
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
      reads += r.op == Op::kRead;
      const ReplyHeader reply{r.id, data, Code::kOk, r.op};
      std::memcpy(at, &reply, sizeof(reply));
      at += sizeof(reply);
      io.data = at;
      at += data;
      if (r.op != Op::kWrite) continue;
      io.data = batch->written.data() + batch->written.size();
      batch->written.append(requests_[i].data);
    }
    server_->reads_.fetch_add(reads, std::memory_order_relaxed);
    server_->writes_.fetch_add(count - reads, std::memory_order_relaxed);
  }

  Server* const server_;
  Connection* const connection_;
  std::vector<Request> requests_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::vector<Io*> submitted_;
};

Server::~Server() = default;

std::unique_ptr<Flow> Server::NewFlow(Connection* connection) {
  return std::make_unique<ServerFlow>(this, connection);
}

void Server::OnDone(Io* io) {
  auto* const batch = static_cast<Batch*>(io->owner);
  if (batch->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Goes with the work, whether that runs or its connection has ended.
  std::shared_ptr<Batch> whole(batch);
  batch->remote->Post([whole] { whole->Answer(); });
}

}  // namespace pulse::blocks
