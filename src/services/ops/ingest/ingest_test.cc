#include "services/ops/ingest/ingest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/file_calls.h"
#include "base/own_threads.h"
#include "base/testing.h"
#include "services/ops/compress.h"
#include "services/ops/deflate_frame.h"
#include "services/ops/filter/test_rules.h"

namespace pulse::ingest {
namespace {

using testing_util::Eventually;
using testing_util::ScratchPath;
using testing_util::TestSeed;

// What a peer has sent until it ended, or was reset.
struct Received {
  std::string bytes;
  bool reset = false;
};

Received ReadAll(int socket) {
  Received got;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(socket, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      got.reset = n < 0;
      return got;
    }
    got.bytes.append(buffer, static_cast<size_t>(n));
  }
}

net::Address Loopback() { return *net::ParseAddress("127.0.0.1:0"); }

// Takes every stream to its end.
class Host {
 public:
  Host() {
    signal(SIGPIPE, SIG_IGN);
    auto listener = net::Listen(Loopback(), 64);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    address_ = net::LocalAddress(listener_.get());
    thread_ = std::thread([this] { Run(); });
  }
  ~Host() {
    stop_ = true;
    thread_.join();
    for (std::thread& stream : streams_) stream.join();
  }
  const net::Address& address() const { return address_; }
  // All streams that have ended, once there are so many.
  std::vector<Received> Wait(size_t count) {
    EXPECT_TRUE(Eventually([&] {
      std::lock_guard lock(mu_);
      return ended_.size() >= count;
    }));
    std::lock_guard lock(mu_);
    return ended_;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  void Run() {
    while (!stop_) {
      pollfd wait{listener_.get(), POLLIN, 0};
      if (poll(&wait, 1, 20) <= 0) continue;
      UniqueFd stream(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!stream.valid()) continue;
      streams_.emplace_back([this, fd = std::move(stream)] {
        Received got;
        char buffer[1 << 16];
        ssize_t n;
        while ((n = read(fd.get(), buffer, sizeof(buffer))) > 0) {
          got.bytes.append(buffer, static_cast<size_t>(n));
          bytes_ += static_cast<uint64_t>(n);
        }
        got.reset = n < 0;
        std::lock_guard lock(mu_);
        ended_.push_back(std::move(got));
      });
    }
  }

  UniqueFd listener_;
  net::Address address_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> bytes_{0};
  std::mutex mu_;
  std::vector<Received> ended_;
  std::vector<std::thread> streams_;  // of thread_
  std::thread thread_;
};

UniqueFd ConnectTo(const net::Address& address) {
  UniqueFd fd(socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), address.get(), address.size), 0) << strerror(errno);
  return fd;
}

// Sends all, ends, and waits for the server's end.
Received SendAll(const net::Address& address, const std::string& bytes) {
  const UniqueFd fd = ConnectTo(address);
  // A reset is told once: here, or to the reader.
  const bool sent = WriteAll(fd.get(), bytes, "sending to", "the agent").ok();
  shutdown(fd.get(), SHUT_WR);
  Received got = ReadAll(fd.get());
  got.reset |= !sent;
  return got;
}

std::string Compressed(const std::string& text, ops::Format format) {
  const ScratchPath in("ingest-in");
  const ScratchPath out("ingest-out");
  {
    const UniqueFd fd = OpenFile(in.get(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_TRUE(WriteAll(fd.get(), text, "writing", in.get()).ok());
  }
  const UniqueFd from = OpenFile(in.get(), O_RDONLY);
  const UniqueFd to = OpenFile(out.get(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  ops::CompressOptions options;
  options.format = format;
  const auto report = ops::Compress(options, from.get(), "the text", to.get(), "the stream");
  EXPECT_TRUE(report.ok()) << report.status();
  const auto size = static_cast<uint64_t>(lseek(to.get(), 0, SEEK_END));
  return *ReadFirst(to.get(), size, "reading", out.get());
}

std::string Lines(int count, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::string text;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "line ", i, " ", rng() % 7 == 0 ? "error: disk" : "all is well", " ",
                    rng(), "\n");
  }
  return text;
}

std::string Matching(const std::string& text) {
  std::string out;
  for (const std::string& line : filter::Re2Lines({"error"}, text))
    absl::StrAppend(&out, line, "\n");
  return out;
}

std::unique_ptr<IngestServer> Start(const net::Address& host, int max_streams = 64,
                                    uint64_t max_record = 1 << 20, uint64_t max_decompressed = 0,
                                    bool idle_only = false) {
  IngestOptions options;
  options.listen = Loopback();
  options.host = host;
  options.max_streams = max_streams;
  options.max_record = max_record;
  options.max_decompressed = max_decompressed;
  options.idle_only = idle_only;
  auto server = IngestServer::Open(options, filter::MakeSet({"error"}));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(IngestTest, Streams_PlainAndCompressed_HostGetsMatchingRecords) {
  const std::string text = Lines(20000, TestSeed());
  for (const auto format : {std::optional<ops::Format>(), std::optional(ops::Format::kGzip),
                            std::optional(ops::Format::kZstd), std::optional(ops::Format::kLz4)}) {
    Host host;
    const auto server = Start(host.address());
    const std::string sent = format ? Compressed(text, *format) : text;
    EXPECT_FALSE(SendAll(server->address(), sent).reset);
    const std::vector<Received> got = host.Wait(1);
    EXPECT_FALSE(got[0].reset);
    EXPECT_EQ(got[0].bytes, Matching(text));
    ASSERT_TRUE(Eventually([&] { return server->stats().streams == 1; }));
    const IngestStats stats = server->stats();
    EXPECT_EQ(stats.failed, 0u);
    EXPECT_EQ(stats.bytes_filtered, text.size());
    EXPECT_EQ(stats.bytes_sent, got[0].bytes.size());
    EXPECT_GE(stats.bytes_received, sent.size());
    EXPECT_EQ(stats.records_sent, filter::Re2Lines({"error"}, text).size());
  }
}

TEST(IngestTest, ManyClients_AtOnce_EachHasItsStream) {
  constexpr int kClients = 12;
  Host host;
  const auto server = Start(host.address(), /*max_streams=*/4);  // the others wait
  std::multiset<std::string> expected;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    const std::string text = Lines(500 + 300 * i, TestSeed() + static_cast<uint64_t>(i));
    expected.insert(Matching(text));
    clients.emplace_back([&server, text, i] {
      SendAll(server->address(), i % 2 == 0 ? text : Compressed(text, ops::Format::kGzip));
    });
  }
  for (std::thread& client : clients) client.join();
  std::multiset<std::string> got;
  for (Received& r : host.Wait(kClients)) {
    EXPECT_FALSE(r.reset);
    got.insert(std::move(r.bytes));
  }
  EXPECT_EQ(got, expected);
}

TEST(IngestTest, PausingClient_WholeRecords_ArriveBeforeTheEnd) {
  Host host;
  const auto server = Start(host.address());
  const UniqueFd client = ConnectTo(server->address());
  const std::string line = "an error\n";
  ASSERT_TRUE(WriteAll(client.get(), line + "half an err", "sending to", "the agent").ok());
  EXPECT_TRUE(Eventually([&] { return host.bytes() == line.size(); }));
  ASSERT_TRUE(WriteAll(client.get(), "or\n", "sending to", "the agent").ok());
  EXPECT_TRUE(Eventually([&] { return host.bytes() == line.size() + 14; }));
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(host.Wait(1)[0].bytes, "an error\nhalf an error\n");
}

// Threads of this process with this policy.
int ThreadsWith(int policy) {
  int count = 0;
  for (const pid_t id : OwnThreads()) {
    const bool nice = getpriority(PRIO_PROCESS, static_cast<id_t>(id)) >= 5;
    count += sched_getscheduler(id) == policy && nice ? 1 : 0;
  }
  return count;
}

TEST(IngestTest, ThreadsOfStreams_GiveWay) {
  const std::string sent = Compressed(Lines(20000, TestSeed()), ops::Format::kGzip);
  for (const bool idle_only : {false, true}) {
    const int policy = idle_only ? SCHED_IDLE : SCHED_BATCH;
    Host host;
    const auto server = Start(host.address(), 64, 1 << 20, 0, idle_only);
    EXPECT_EQ(ThreadsWith(policy), 0);
    const UniqueFd client = ConnectTo(server->address());
    ASSERT_TRUE(WriteAll(client.get(), sent.substr(0, 1000), "sending to", "the agent").ok());
    // The stream's, one that decompresses, and a lane of each.
    EXPECT_TRUE(Eventually([&] { return ThreadsWith(policy) >= 4; }));
    EXPECT_EQ(ThreadsWith(idle_only ? SCHED_BATCH : SCHED_IDLE), 0);
  }
}

TEST(IngestTest, DamagedOrTruncatedStream_IsResetOnBothSides) {
  const std::string whole = Compressed(Lines(20000, TestSeed()), ops::Format::kGzip);
  std::string damaged = whole;
  for (size_t i = whole.size() / 2; i < whole.size() / 2 + 64; ++i) damaged[i] ^= 0x55;
  for (const std::string& bad : {damaged, whole.substr(0, whole.size() / 2)}) {
    Host host;
    const auto server = Start(host.address());
    EXPECT_TRUE(SendAll(server->address(), bad).reset);
    EXPECT_TRUE(host.Wait(1)[0].reset);
    EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
    const IngestStats stats = server->stats();
    EXPECT_EQ(stats.streams, 1u);
    EXPECT_EQ(stats.bytes_filtered + stats.bytes_sent + stats.records_sent, 0u);
  }
}

TEST(IngestTest, StreamThatDecompressesToTooMuch_IsReset) {
  const std::string text = Lines(20000, TestSeed());
  Host host;
  const auto server = Start(host.address(), 64, 1 << 20, text.size() - 1);
  EXPECT_TRUE(SendAll(server->address(), Compressed(text, ops::Format::kGzip)).reset);
  EXPECT_TRUE(host.Wait(1)[0].reset);
  // One that is not compressed may be as long as it likes.
  EXPECT_FALSE(SendAll(server->address(), text).reset);
  EXPECT_EQ(host.Wait(2)[1].bytes, Matching(text));
  EXPECT_TRUE(Eventually([&] { return server->stats().streams == 2; }));
  EXPECT_EQ(server->stats().failed, 1u);
}

TEST(IngestTest, GarbageBehindACompressedStream_IsIgnoredAndCounted) {
  const std::string text = Lines(20000, TestSeed());
  const std::string whole = Compressed(text, ops::Format::kGzip);
  Host host;
  const auto server = Start(host.address());
  SendAll(server->address(), whole + "garbage");
  SendAll(server->address(), whole);
  for (const Received& got : host.Wait(2)) {
    EXPECT_FALSE(got.reset);
    EXPECT_EQ(got.bytes, Matching(text));
  }
  ASSERT_TRUE(Eventually([&] { return server->stats().streams == 2; }));
  EXPECT_EQ(server->stats().garbage, 1u);
  EXPECT_EQ(server->stats().failed, 0u);
}

TEST(IngestTest, RecordTooLong_IsReset) {
  Host host;
  const auto server = Start(host.address(), 64, /*max_record=*/64 << 10);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(SendAll(server->address(), std::string(8 << 20, 'x')).reset);
  EXPECT_TRUE(host.Wait(1)[0].reset);
  EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("bytes; --ingest-max-line allows longer ones"));
}

TEST(IngestTest, ClientVanishes_HostIsReset) {
  Host host;
  const auto server = Start(host.address());
  {
    const UniqueFd client = ConnectTo(server->address());
    ASSERT_TRUE(WriteAll(client.get(), "an error\n", "sending to", "the agent").ok());
    EXPECT_TRUE(Eventually([&] { return host.bytes() == 9; }));
    const linger hard{1, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  }
  EXPECT_TRUE(host.Wait(1)[0].reset);
}

// Between two members nothing tells a part from the whole but how the connection ends.
TEST(IngestTest, ClientVanishesBehindACompressedMember_HostIsReset) {
  const std::string text = Lines(2000, TestSeed());
  for (const auto format : {ops::Format::kGzip, ops::Format::kBgzf, ops::Format::kZstd}) {
    Host host;
    const auto server = Start(host.address());
    {
      const UniqueFd client = ConnectTo(server->address());
      ASSERT_TRUE(WriteAll(client.get(), Compressed(text, format), "sending to", "the agent").ok());
      // What is not acknowledged yet would go with the connection.
      EXPECT_TRUE(Eventually([&] {
        int unacknowledged = 1;
        return ioctl(client.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
      }));
      const linger hard{1, 0};
      setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    EXPECT_TRUE(host.Wait(1)[0].reset) << ops::FormatName(format);
    EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
  }
}

TEST(IngestTest, BadCompressedStreamOfAClientThatStays_IsReset) {
  // A block of no type: of another program's stream, and of a chunk that has others behind it.
  const std::string foreign = ops::WriteGzipHeader({}) + "\x07" + std::string(1000, '\0');
  std::string chunks = Compressed(Lines(60000, TestSeed()), ops::Format::kGzip);
  const auto size = ops::GzipHeaderSize(chunks);
  ASSERT_TRUE(size.ok()) << size.status();
  const auto mark = ops::ReadMark(absl::string_view(chunks).substr(*size));
  ASSERT_TRUE(mark.has_value());
  chunks[*size + mark->size] |= 6;
  // A good one, whose line is longer than a chunk and than the limit.
  const std::string line = Compressed(std::string(600'000, 'x'), ops::Format::kLz4);
  for (const std::string& bad : {foreign, chunks, line}) {
    Host host;
    const auto server = Start(host.address(), 64, /*max_record=*/64 << 10);
    const UniqueFd client = ConnectTo(server->address());
    // It may be reset before all is sent.
    WriteAll(client.get(), bad, "sending to", "the agent").IgnoreError();
    EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
    EXPECT_TRUE(host.Wait(1)[0].reset);
  }
}

TEST(IngestTest, NoHost_ClientIsReset) {
  net::Address nobody;
  {
    const auto listener = net::Listen(Loopback(), 1);
    ASSERT_TRUE(listener.ok());
    nobody = net::LocalAddress(listener->get());
  }
  const auto server = Start(nobody);
  EXPECT_TRUE(SendAll(server->address(), "an error\n").reset);
  EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
}

TEST(IngestTest, HostGoesAway_ClientIsReset) {
  auto listener = net::Listen(Loopback(), 4);
  ASSERT_TRUE(listener.ok());
  const auto server = Start(net::LocalAddress(listener->get()));
  const UniqueFd client = ConnectTo(server->address());
  pollfd wait{listener->get(), POLLIN, 0};
  ASSERT_EQ(poll(&wait, 1, 20000), 1);
  UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  const std::string line = "an error\n";
  EXPECT_TRUE(Eventually([&] { return !WriteAll(client.get(), line, "to", "agent").ok(); }));
  EXPECT_TRUE(Eventually([&] { return server->stats().failed == 1; }));
}

TEST(IngestTest, Stop_OpenStreams_AreReset) {
  Host host;
  auto server = Start(host.address());
  const UniqueFd client = ConnectTo(server->address());
  ASSERT_TRUE(WriteAll(client.get(), "an error\n", "sending to", "the agent").ok());
  EXPECT_TRUE(Eventually([&] { return host.bytes() == 9; }));
  EXPECT_EQ(server->stats().open, 1u);
  server->Stop();
  EXPECT_TRUE(host.Wait(1)[0].reset);
  EXPECT_EQ(server->stats().failed, 1u);
  server = nullptr;
}

// A host that neither reads nor ends.
TEST(IngestTest, Stop_SilentHost_DoesNotWaitForIt) {
  auto listener = net::Listen(Loopback(), 4);
  ASSERT_TRUE(listener.ok());
  auto server = Start(net::LocalAddress(listener->get()));
  const UniqueFd ended = ConnectTo(server->address());
  ASSERT_TRUE(WriteAll(ended.get(), "an error\n", "sending to", "the agent").ok());
  shutdown(ended.get(), SHUT_WR);
  std::thread sender([&] {
    const UniqueFd client = ConnectTo(server->address());
    std::string lines;
    for (int i = 0; i < 100000; ++i) lines += "an error\n";
    while (WriteAll(client.get(), lines, "sending to", "the agent").ok()) {
    }
  });
  EXPECT_TRUE(Eventually([&] { return server->stats().open == 2; }));
  // sleep: so that the kernel's buffers are full, which nothing tells
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server->Stop();
  sender.join();
  EXPECT_EQ(server->stats().open, 0u);
}

TEST(IngestTest, TakenAddress_IsRefused) {
  Host host;
  const auto server = Start(host.address());
  IngestOptions options;
  options.listen = server->address();
  options.host = host.address();
  EXPECT_FALSE(IngestServer::Open(options, filter::MakeSet({"error"})).ok());
}

}  // namespace
}  // namespace pulse::ingest
