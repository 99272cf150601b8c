// Clients that lie, at the level of rings and messages: each gets an error or loses its session,
// and nobody else notices.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

#include "base/testing.h"
#include "channel/handshake.h"
#include "channel/progress_ring.h"
#include "channel/response_buffer.h"
#include "link/message_channel.h"
#include "services/files/test_agent.h"
#include "services/files/wire.h"

namespace pulse::files {
namespace {

using testing_util::Eventually;

constexpr GroupShape kHostileShape{1 << 16, 1 << 16, 16};

// A session with one group, driven by hand.
class RawClient {
 public:
  explicit RawClient(const std::string& socket) {
    LinkOptions link;
    link.service = {kServiceId, kServiceVersion};
    link.socket_path = socket;
    link.mover = static_cast<uint64_t>(Transfer::kShared);
    connection_ = MessageChannel::Open(link, "pulse agent").value();
    region_ = Region::CreateShared(GroupBytes(kHostileShape)).value();
    auto* header = new (region_.data()) GroupHeader();
    header->magic = wire::kRegionMagic;
    header->version = wire::kProtocolVersion;
    Doorbell::Ends ends = Doorbell::CreatePair().value();
    notify_ = std::move(ends.sleep);
    ring_ = std::move(ends.ring);
    attached = connection_->AttachGroup(0, kHostileShape, region_, ring_.get()).status();
  }
  PushResult Push(uint16_t kind, Request r, const std::string& body = {}) {
    ProgressProducer<> producer =
        MakeProgressProducer(region_.data() + RequestOffset(), {1 << 16, 1 << 16});
    const PushResult pushed =
        producer.TryPush(kind, {&r, sizeof(r)}, {body.data(), body.size()}, 8);
    connection_->Ring();
    return pushed;
  }
  PushResult Push(Operation kind, Request r, const std::string& body = {}) {
    return Push(static_cast<uint16_t>(kind), r, body);
  }
  // The next response's result; waits. Fails the test when the session ends instead.
  int64_t Answer(uint64_t* id = nullptr, std::string* data = nullptr) {
    if (reader_ == nullptr) {
      reader_ = MakeResponseReader(region_.data() + ResponseOffset(kHostileShape),
                                   ResponsesOf(kHostileShape));
    }
    TakenResponse r;
    const bool any = Eventually([&] { return reader_->Take(&r) || connection_->CheckLost(); });
    EXPECT_TRUE(any && !connection_->lost());
    if (id != nullptr) *id = r.id;
    if (data != nullptr && r.data != nullptr) data->assign(r.data, r.capacity);
    reader_->Done(r.ticket);
    return r.result;
  }
  bool Ended() {
    return Eventually([&] { return connection_->CheckLost(); });
  }
  RingPointers<>* pointers() { return PointersOf(region_.data() + RequestOffset()); }
  RingPointers<>* response_pointers() {
    return PointersOf(region_.data() + ResponseOffset(kHostileShape));
  }
  char* messages() { return MessagesOf(region_.data() + RequestOffset()); }
  MessageChannel* connection() { return connection_.get(); }
  Region& region() { return region_; }
  int ring() const { return ring_.get(); }

  absl::Status attached;

 private:
  std::unique_ptr<MessageChannel> connection_;
  Region region_;
  UniqueFd notify_;
  UniqueFd ring_;
  std::unique_ptr<ResponseReader<>> reader_;
};

class FilesHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    agent_.agent_options.limits.max_queues = 4;
    agent_.Start();
    library_ = agent_.Connect();
    client_ = std::make_unique<Client>(library_.get());
    ASSERT_EQ(client_->CreateDirectory("d"), absl::OkStatus());
    file_ = client_->Create("d", "f").file;
    ASSERT_EQ(client_->Write(file_, 0, "mine").status, absl::OkStatus());
  }
  // The others do not notice.
  void TearDown() override {
    EXPECT_EQ(client_->Read(file_, 0, 10), "mine");
    EXPECT_EQ(client_->Write(file_, 4, "!").bytes, 1u);
    library_.reset();
    EXPECT_TRUE(Eventually([&] { return agent_.server()->session_count() == 0; }));
  }
  static Request Req(uint64_t id, uint64_t file = 0, uint64_t offset = 0, uint64_t length = 0) {
    Request r{};
    r.id = id;
    r.file = file;
    r.offset = offset;
    r.length = length;
    return r;
  }

  TestAgent agent_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Client> client_;
  File file_ = File::kNone;
};

TEST_F(FilesHostileTest, Request_ForeignOrInventedHandle_GetsEbadf) {
  RawClient raw(agent_.socket());
  ASSERT_EQ(raw.attached, absl::OkStatus());
  for (const uint64_t handle : {static_cast<uint64_t>(file_), uint64_t{0}, ~uint64_t{0},
                                uint64_t{1}, uint64_t{1} << 32, uint64_t{0xffffffff}}) {
    for (const Operation kind :
         {Operation::kRead, Operation::kWrite, Operation::kCloseFile, Operation::kSync,
          Operation::kSetSize, Operation::kReserve, Operation::kGetAttributes}) {
      const std::string body = kind == Operation::kWrite ? "evil" : "";
      ASSERT_EQ(raw.Push(kind, Req(5, handle, 0, 4), body), PushResult::kDone);
      uint64_t id = 0;
      EXPECT_EQ(raw.Answer(&id), -EBADF);
      EXPECT_EQ(id, 5u);
    }
  }
}

TEST_F(FilesHostileTest, Request_FalseLengthOffsetOrName_FailsAndWritesNothing) {
  RawClient raw(agent_.socket());
  ASSERT_EQ(raw.attached, absl::OkStatus());
  Request open = Req(1);
  open.names[0] = 1;
  open.names[1] = 1;
  ASSERT_EQ(raw.Push(Operation::kOpenFile, open, "df"), PushResult::kDone);
  std::string data;
  ASSERT_EQ(raw.Answer(nullptr, &data), 0);
  OpenedFile opened;
  std::memcpy(&opened, data.data(), sizeof(opened));
  const uint64_t f = opened.file;
  constexpr uint64_t kMost = ~uint64_t{0};
  // Reads: longer than the response buffer, beyond any file.
  for (const uint64_t length : {kMost, uint64_t{1} << 63, uint64_t{1} << 32, uint64_t{1} << 16}) {
    raw.Push(Operation::kRead, Req(2, f, 0, length));
    EXPECT_EQ(raw.Answer(), -EINVAL) << length;
  }
  for (const uint64_t offset : {kMost, kMost - 4095, uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    raw.Push(Operation::kRead, Req(2, f, offset, 4096));
    EXPECT_EQ(raw.Answer(), -EINVAL) << offset;
    raw.Push(Operation::kWrite, Req(2, f, offset, 4), "evil");
    EXPECT_EQ(raw.Answer(), -EINVAL) << offset;
    raw.Push(Operation::kSetSize, Req(2, f, offset));
    EXPECT_LT(raw.Answer(), 0) << offset;
    raw.Push(Operation::kReserve, Req(2, f, offset));
    EXPECT_LT(raw.Answer(), 0) << offset;
  }
  // Writes whose length is not that of their message.
  for (const uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{5}, uint64_t{1} << 20, kMost}) {
    raw.Push(Operation::kWrite, Req(2, f, 0, length), "evil");
    EXPECT_EQ(raw.Answer(), -EINVAL) << length;
  }
  // Names that are longer than their message, or none.
  for (const uint16_t bytes : {uint16_t{2}, uint16_t{3}, uint16_t{0xffff}}) {
    Request r = Req(3);
    r.names[0] = bytes;
    r.names[1] = 1;
    raw.Push(Operation::kCreateFile, r, "dx");
    EXPECT_LT(raw.Answer(), 0) << bytes;
  }
  Request slash = Req(4);
  slash.names[0] = 1;
  slash.names[1] = 3;
  raw.Push(Operation::kCreateFile, slash, "da/b");
  EXPECT_EQ(raw.Answer(), -EINVAL);
  slash.names[0] = 3;
  raw.Push(Operation::kCreateDirectory, slash, "a/b");
  EXPECT_EQ(raw.Answer(), -EINVAL);
  raw.Push(uint16_t{99}, Req(6));
  EXPECT_EQ(raw.Answer(), -EOPNOTSUPP);
  raw.Push(uint16_t{0xffff}, Req(6));
  EXPECT_EQ(raw.Answer(), -EOPNOTSUPP);
  // All the while nothing was written.
  raw.Push(Operation::kGetAttributes, Req(7, f));
  std::string attributes;
  ASSERT_EQ(raw.Answer(nullptr, &attributes), 0);
  WireAttributes a;
  std::memcpy(&a, attributes.data(), sizeof(a));
  EXPECT_EQ(a.size, 4u);
}

TEST_F(FilesHostileTest, Ring_WithNonsense_EndsTheSession) {
  {
    RawClient raw(agent_.socket());
    raw.pointers()->tail.store(uint64_t{1} << 40);
    raw.pointers()->progress.store(uint64_t{1} << 40);
    raw.connection()->Ring();
    EXPECT_TRUE(raw.Ended());
  }
  {
    RawClient raw(agent_.socket());
    const MessageHeader header{1 << 20, 1, 0};
    std::memcpy(raw.messages(), &header, sizeof(header));
    raw.pointers()->tail.store(64);
    raw.pointers()->progress.store(64);
    raw.connection()->Ring();
    EXPECT_TRUE(raw.Ended());
  }
  {
    RawClient raw(agent_.socket());
    const MessageHeader header{8, static_cast<uint16_t>(Operation::kRead), 0};  // too short
    std::memcpy(raw.messages(), &header, sizeof(header));
    raw.pointers()->tail.store(16);
    raw.pointers()->progress.store(16);
    raw.connection()->Ring();
    EXPECT_TRUE(raw.Ended());
  }
  {
    RawClient raw(agent_.socket());
    raw.response_pointers()->head.store(12345 * 8);
    // Found when the agent looks for room.
    int pushed = 0;
    testing_util::Eventually([&] {
      do {
        if (pushed == 4096 || raw.connection()->CheckLost()) return true;
        raw.Push(Operation::kCloseFile, Req(1));
      } while (++pushed % 16 != 0);
      return false;
    });
    EXPECT_TRUE(raw.Ended());
  }
}

TEST_F(FilesHostileTest, AttachGroup_MalformedGroup_IsRefusedAndSessionGoesOn) {
  RawClient raw(agent_.socket());
  MessageChannel& c = *raw.connection();
  Region& region = raw.region();
  EXPECT_FALSE(c.AttachGroup(0, kHostileShape, region, raw.ring()).ok()) << "a number in use";
  EXPECT_FALSE(c.AttachGroup(1, {1 << 16, 1 << 17, 16}, region, raw.ring()).ok()) << "too small";
  EXPECT_FALSE(c.AttachGroup(1, {uint64_t{1} << 60, 1 << 16, 16}, region, raw.ring()).ok());
  EXPECT_FALSE(c.AttachGroup(1, {1 << 16, 1 << 16, 17}, region, raw.ring()).ok());
  EXPECT_FALSE(c.AttachGroup(1, {1 << 16, 1 << 16, 0}, region, raw.ring()).ok());
  EXPECT_FALSE(c.AttachGroup(1, kHostileShape, region, region.fd()).ok()) << "no doorbell";
  // Memory that could be resized.
  const UniqueFd fd(memfd_create("loose", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(GroupBytes(kHostileShape))), 0);
  wire::Message m = MakeMessage(wire::MessageType::kAttachGroup);
  m.args[0] = 1;
  m.args[1] = m.args[2] = 1 << 16;
  m.args[3] = 16;
  ASSERT_EQ(SendMessage(c.socket(), m, {fd.get(), raw.ring()}), absl::OkStatus());
  EXPECT_NE(ReceiveMessage(c.socket()).value().message.status, 0);
  auto* header = reinterpret_cast<GroupHeader*>(region.data());
  header->version = 1;
  EXPECT_FALSE(c.AttachGroup(1, kHostileShape, region, raw.ring()).ok());
  header->version = wire::kProtocolVersion;
  // Refusals end nothing.
  EXPECT_EQ(c.AttachGroup(1, kHostileShape, region, raw.ring()).status(), absl::OkStatus());
  raw.Push(Operation::kCloseFile, Req(1));
  EXPECT_EQ(raw.Answer(), -EBADF);
}

TEST_F(FilesHostileTest, Message_OfAnotherService_IsRefusedAndSessionGoesOn) {
  RawClient raw(agent_.socket());
  wire::Message m = MakeMessage(wire::MessageType::kAttachQueue);
  m.args[1] = wire::kMinArenaBytes;
  ASSERT_EQ(SendMessage(raw.connection()->socket(), m), absl::OkStatus());
  EXPECT_NE(ReceiveMessage(raw.connection()->socket()).value().message.status, 0);
  raw.Push(Operation::kCloseFile, Req(1));
  EXPECT_EQ(raw.Answer(), -EBADF);
}

// A client that ends with requests in flight leaves nothing behind.
TEST_F(FilesHostileTest, Client_LeavesWithRequestsInFlight_LeavesNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    auto library = agent_.Connect(round % 2 == 0 ? Transfer::kShared : Transfer::kVmRead);
    Client client(library.get());
    const File f = client.Open("d", "f").file;
    static std::vector<std::string> data(64, std::string(10'000, 'l'));
    for (uint64_t i = 0; i < 64; ++i) {
      if (i % 2 == 0) {
        library->WriteFile(f, 4096 + i * 10'000, data[i].data(), data[i].size(), i).IgnoreError();
      } else {
        library->ReadInPlace(f, i * 5000, 10'000, i).IgnoreError();
      }
      if (i == 40) library->SetSize(f, 100'000 + i, i).IgnoreError();
      if (i == 50) library->SyncFile(f, i).IgnoreError();
    }
  }
  EXPECT_TRUE(Eventually([&] { return agent_.server()->session_count() == 1; }));
  EXPECT_EQ(client_->SetSize(file_, 4), absl::OkStatus());
}

}  // namespace
}  // namespace pulse::files
