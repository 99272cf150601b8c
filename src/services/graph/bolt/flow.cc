#include "services/graph/bolt/flow.h"

#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "services/graph/bolt/connection.h"
#include "services/graph/bolt/messages.h"
#include "services/graph/model/text.h"

namespace pulse::bolt {
namespace {

class BoltFlow : public net::Flow {
 public:
  BoltFlow(BoltShared* shared, size_t room, net::Connection* connection)
      : shared_(shared),
        room_(room),
        connection_(connection),
        bolt_(std::make_shared<BoltConnection>(
            shared, connection->peer(), std::make_unique<Sink>(this, connection->remote()))) {
    shared->unauthenticated.Add({bolt_, [this, remote = connection->remote()] {
                                   remote->Post([this] { connection_->Close({}); });
                                 }});
  }
  ~BoltFlow() override { bolt_->Close(); }

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    if (phase_ == Phase::kHandshake) {
      const size_t known = std::min(bytes.size(), kMagic.size());
      if (bytes.substr(0, known) != kMagic.substr(0, known)) {
        return absl::InvalidArgumentError("this is a port of Bolt");
      }
      return bytes.size() < kHandshakeBytes ? 0 : kHandshakeBytes;
    }
    if (phase_ == Phase::kChoice) {
      Version ignored;
      return ReadChoice(bytes, &ignored);
    }
    const size_t size = splitter_.Next(bytes);
    const size_t most = bolt_->known_once() ? shared_->limits.message_bytes
                                            : shared_->limits.message_bytes_before_logon;
    if ((size == 0 ? bytes.size() : size) > most) {
      return absl::ResourceExhaustedError(
          cypher::Concat("a message is longer than the limit of ", most,
                         " bytes: send what it has in several, such as a list in parts"));
    }
    return size;
  }
  absl::StatusOr<size_t> SplitReply(std::string_view) override {
    return absl::InternalError("there is no host");
  }
  void OnRequest(net::Ticket ticket, std::string_view bytes) override {
    switch (phase_) {
      case Phase::kHandshake:
        return Handshake(ticket, bytes);
      case Phase::kChoice: {
        Version version;
        if (!ReadChoice(bytes, &version).ok()) return connection_->Close({});
        SetVersion(version);
        phase_ = Phase::kMessages;
        return connection_->Reply(ticket, std::string_view());
      }
      case Phase::kMessages: {
        std::string message = JoinChunks(bytes);
        if (message.empty()) return connection_->Reply(ticket, std::string_view());  // keep-alive
        if (!bolt_->known_once() && SaysWho(message)) logon_ = ticket;
        bolt_->Arrive(ticket, std::move(message));
      }
    }
  }
  size_t held() const override { return bolt_->held(); }
  // How long a message behind the LOGON may be is known once that is answered.
  bool takes_requests() const override { return logon_ == 0; }
  void OnRoom() override { Send(); }
  // Nobody waits for what runs any more: no client of Bolt ends one side alone.
  void OnClientEnd() override { connection_->Close({}); }
  std::string OnHostLost(net::Ticket, bool) override { return {}; }
  // Before the handshake a browser may be told, and afterwards who has logged on.
  std::string ErrorReply(const absl::Status& error) override {
    if (phase_ == Phase::kMessages && absl::IsResourceExhausted(error)) return TooLong(error);
    if (phase_ != Phase::kHandshake || absl::IsResourceExhausted(error)) return {};
    return "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
           "This port speaks Bolt, for Neo4j's drivers.\n";
  }

 private:
  enum class Phase { kHandshake, kChoice, kMessages };

  // Posts to the loop, where the flow lives as long as what was posted is run.
  class Sink : public PartSink {
   public:
    Sink(BoltFlow* flow, std::shared_ptr<net::Remote> remote)
        : flow_(flow), remote_(std::move(remote)) {}
    void Deliver(std::vector<Part> parts) override {
      remote_->Post([flow = flow_, parts = std::move(parts)]() mutable {
        for (Part& part : parts) flow->out_.push_back(std::move(part));
        flow->Send();
      });
    }
    void CloseConnection() override {
      remote_->Post([flow = flow_] {
        flow->close_ = true;
        flow->Send();
      });
    }

   private:
    BoltFlow* const flow_;
    const std::shared_ptr<net::Remote> remote_;
  };

  // LOGON, or the HELLO that is one, too.
  bool SaysWho(std::string_view message) const {
    if (message.size() < 2) return false;
    const auto tag = static_cast<uint8_t>(message[1]);
    return tag == kLogon || (tag == kHello && !version_.AtLeast(1));
  }

  void SetVersion(Version version) {
    version_ = version;
    bolt_->SetVersion(version);
  }

  std::string TooLong(const absl::Status& error) {
    if (!bolt_->known_once()) return {};
    const std::string text(error.message());
    Log(LogLevel::kWarn, cypher::Concat("graph: bolt: ", connection_->peer(), ": ", text));
    shared_->failures.fetch_add(1, std::memory_order_relaxed);
    std::string bytes;
    AppendChunks(FailureMessage(cypher::FailureOf(error, Doing::kProtocol), version_), &bytes);
    return bytes;
  }

  void Handshake(net::Ticket ticket, std::string_view bytes) {
    const auto answer = AnswerHandshake(bytes);
    if (!answer.ok()) return connection_->Close({});
    if (!answer->manifest && answer->version.major == 0) return connection_->Close(answer->bytes);
    SetVersion(answer->version);
    phase_ = answer->manifest ? Phase::kChoice : Phase::kMessages;
    connection_->Reply(ticket, answer->bytes);
  }

  // As much as there is room for.
  void Send() {
    size_t sent = 0;
    while (!out_.empty() && connection_->unsent() <= room_) {
      const Part part = std::move(out_.front());
      out_.pop_front();
      sent += part.bytes.size();
      if (part.last) {
        if (part.ticket == logon_) logon_ = 0;
        connection_->Reply(part.ticket, std::string_view(part.bytes));
      } else {
        connection_->ReplyPart(part.ticket, part.bytes);
      }
    }
    if (sent > 0) bolt_->inbox()->Sent(sent);
    if (close_ && out_.empty()) Close();
  }

  // What was answered goes out before, which Close alone does not promise.
  void Close() {
    if (std::exchange(closed_, true)) return;
    connection_->Close({});
  }

  BoltShared* const shared_;
  const size_t room_;
  net::Connection* const connection_;
  const std::shared_ptr<BoltConnection> bolt_;
  Phase phase_ = Phase::kHandshake;
  Version version_;
  net::Ticket logon_ = 0;  // of the first LOGON, while it has no answer; 0: there is none
  ChunkSplitter splitter_;
  std::deque<Part> out_;
  bool close_ = false;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<net::Flow> BoltApplication::NewFlow(net::Connection* connection) {
  return std::make_unique<BoltFlow>(shared_, room_, connection);
}

}  // namespace pulse::bolt
