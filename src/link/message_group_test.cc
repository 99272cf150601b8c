// A group of messages on an agent whose service sends each message back.
#include "link/message_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "agent/message_service.h"
#include "agent/socket_server.h"

namespace pulse {
namespace {

constexpr uint16_t kSendBack = 1;

struct Request {
  uint64_t id;
};

class SendBackService : public MessageService {
 public:
  using MessageService::MessageService;

 private:
  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override {
    Request request;
    std::memcpy(&request, message.data, sizeof(request));
    std::string body(message.data + sizeof(request), message.length - sizeof(request));
    const auto bytes = static_cast<int64_t>(body.size());
    group->Answer(request.id, kSendBack, bytes, std::move(body));
    group->Forget(ticket);
    return true;
  }
};

constexpr const char* kKinds[] = {"send back"};
const ServiceSpec kSendBackSpec = {
    .name = "send-back", .id = 200, .version = 1, .start_hint = "none", .request_kinds = kKinds};

class Results : public HostMessageGroup::Taker {
 public:
  bool OnResponse(const TakenResponse& r, uint32_t /*slot*/) override {
    last = r.result;
    return false;
  }
  void OnLost(uint64_t /*id*/, uint32_t /*slot*/) override { last = -ECONNRESET; }
  int64_t last = 0;
};

// A host may have less room for answers than for requests.
TEST(HostMessageGroup, AnswerLongerThanHalfTheRing_FailsAndOthersGoOn) {
  AgentOptions options;
  options.socket_path = "/tmp/pulse-link-" + std::to_string(getpid()) + ".sock";
  options.handshake_ms = 60'000;
  options.known_services = {&kSendBackSpec};
  const auto create = [](Session* session, FileEngine*) -> std::unique_ptr<Service> {
    return std::make_unique<SendBackService>(session);
  };
  const auto server = SocketServer::Open(options, {{&kSendBackSpec, create}}).value();
  const LinkOptions link{.service = {kSendBackSpec.id, kSendBackSpec.version},
                         .socket_path = options.socket_path};
  const auto channel = MessageChannel::Open(link, "").value();
  const GroupShape shape = {uint64_t{1} << 20, kMinGroupRing, 16};
  const auto group = HostMessageGroup::Create(channel.get(), shape).value();
  Results results;
  const auto send = [&](size_t size) {
    Request request{};
    const uint32_t slot = group->TakeSlot(&request.id);
    const std::string text(size, 't');
    EXPECT_EQ(group->Submit(slot, request.id, kSendBack, {&request, sizeof(request)},
                            {text.data(), text.size()}),
              absl::OkStatus());
    EXPECT_EQ(group->Wait(&results, 1, 60'000'000).value_or(0), 1u);
    return results.last;
  };
  constexpr size_t kMost = kMinGroupRing / 2;
  EXPECT_EQ(send(kMost), static_cast<int64_t>(kMost));
  EXPECT_EQ(send(kMost + 1), -EMSGSIZE);
  EXPECT_EQ(send(100), 100);
  channel->Close();
}

}  // namespace
}  // namespace pulse
