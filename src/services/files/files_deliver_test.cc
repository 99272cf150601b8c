// When the service gives answers to the host. On one thread: the test is host and worker in turn.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <utility>

#include "agent/test_host.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"
#include "services/files/agent_store.h"
#include "services/files/test_agent.h"
#include "services/files/wire.h"

namespace pulse::files {
namespace {

constexpr GroupShape kShape{1 << 16, 1 << 16, 64};

// A poll group's memory, and the host's ends of its rings.
struct Group {
  explicit Group(uint32_t number) : region(Region::CreateShared(GroupBytes(kShape)).value()) {
    auto* header = new (region.data()) GroupHeader();
    header->magic = wire::kRegionMagic;
    header->version = wire::kProtocolVersion;
    header->group = number;
    Doorbell::Ends ends = Doorbell::CreatePair().value();
    sleep = std::move(ends.sleep);
    ring = std::move(ends.ring);
    attach = MakeMessage(wire::MessageType::kAttachGroup);
    attach.args[0] = number;
    attach.args[1] = kShape.request_bytes;
    attach.args[2] = kShape.response_bytes;
    attach.args[3] = kShape.requests;
    attach.args[4] = reinterpret_cast<uintptr_t>(region.data());
  }
  // Answered at once: there is no such file.
  void Ask(int times) {
    ProgressProducer<> producer = MakeProgressProducer(
        region.data() + RequestOffset(), {kShape.request_bytes, kShape.request_bytes});
    for (int i = 0; i < times; ++i) {
      Request r{};
      r.id = static_cast<uint64_t>(i) + 1;
      ASSERT_EQ(producer.TryPush(static_cast<uint16_t>(Operation::kGetAttributes), {&r, sizeof(r)},
                                 {}, 8),
                PushResult::kDone);
    }
  }
  size_t Answers() {
    if (reader == nullptr) {
      reader = MakeResponseReader(region.data() + ResponseOffset(kShape), ResponsesOf(kShape));
    }
    TakenResponse r;
    size_t n = 0;
    for (; reader->Take(&r); ++n) reader->Done(r.ticket);
    return n;
  }

  Region region;
  UniqueFd sleep;
  UniqueFd ring;
  wire::Message attach;
  std::unique_ptr<ResponseReader<>> reader;
};

// A mover that copies waits for a batch: of one group, not for the others to have nothing to do.
TEST(FilesDeliver, Deliver_OneGroupBusy_AnswersOfAnotherAreNotKeptBack) {
  const TestAgent place;  // its store
  auto files = FileStore::Open(place.store_path()).value();
  FileEngine engine(CreateThreadBackend({}).value());
  agent_test::TestHost host(/*shared=*/true);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  host.socket().reset(ends[0]);
  auto session = host.NewSession(&engine, {}, UniqueFd(ends[1]), files->Factory(),
                                 std::make_shared<AgentUsage>(), MoverKind::kVmRead);
  Group quiet(0), busy(1);
  for (Group* g : {&quiet, &busy}) {
    ASSERT_TRUE(SendMessage(host.socket().get(), g->attach, {g->region.fd(), g->ring.get()}).ok());
    ASSERT_TRUE(session->HandleSocket());
    ASSERT_EQ(host.Answer(wire::MessageType::kAttachAck), absl::OkStatus());
  }
  busy.Ask(40);
  quiet.Ask(1);
  ASSERT_GT(session->PollQueues(16), 1u);
  session->Deliver();
  ASSERT_GT(session->PollQueues(16), 0u) << "the busy one has more";
  session->Deliver();
  EXPECT_EQ(quiet.Answers(), 1u);
  EXPECT_EQ(busy.Answers(), 0u) << "waits for its batch";
  while (session->PollQueues(16) > 0) session->Deliver();
  session->Deliver();
  EXPECT_EQ(busy.Answers(), 40u);
  session->BeginShutdown();
  while (!session->Drained()) engine.Poll();
}

}  // namespace
}  // namespace pulse::files
