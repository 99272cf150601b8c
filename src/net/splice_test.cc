// Connections that the signature does not match: through to the host, untouched.
#include <sys/socket.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/test_director.h"

namespace pulse::net::test {
namespace {

using testing_util::Eventually;
using testing_util::TestSeed;

class SpliceTest : public DirectorTest {
 protected:
  void SetUp() override { options_.match = {"client=10.0.0.0/8"}; }
};

std::string RandomBytes(uint64_t seed, size_t n) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

std::string ReadToEnd(int fd) {
  std::string all;
  std::vector<char> bytes(1 << 16);
  ssize_t n;
  while ((n = recv(fd, bytes.data(), bytes.size(), 0)) > 0) {
    all.append(bytes.data(), static_cast<size_t>(n));
  }
  return all;
}

TEST_P(SpliceTest, Splice_RandomBytesBothWays_PassWithEachSidesEnd) {
  // A host that sends while it receives.
  const UniqueFd listener = *Listen(*ParseAddress("127.0.0.1:0"), 16);
  fcntl(listener.get(), F_SETFL, 0);
  options_.host = LocalAddress(listener.get()).ToString();
  Open();
  const std::string up = RandomBytes(TestSeed(), 20 << 20);
  const std::string down = RandomBytes(TestSeed() + 1, 13 << 20);
  for (int round = 0; round < 2; ++round) {
    TestClient client(director_->port());
    const UniqueFd host(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::string up_got;
    std::string down_got;
    std::thread a([&] {
      EXPECT_TRUE(client.Send(up));
      client.EndSending();
    });
    std::thread b([&] { up_got = ReadToEnd(host.get()); });
    std::thread c([&] { down_got = ReadToEnd(client.fd()); });
    for (size_t done = 0; done < down.size();) {
      const ssize_t n = send(host.get(), down.data() + done, down.size() - done, MSG_NOSIGNAL);
      ASSERT_GT(n, 0);
      done += static_cast<size_t>(n);
    }
    a.join();
    b.join();  // the client's end was passed on while the host's side was open
    shutdown(host.get(), SHUT_WR);
    c.join();
    EXPECT_TRUE(up_got == up);
    EXPECT_TRUE(down_got == down);
  }
  EXPECT_TRUE(Empty());
  const DirectorStats stats = director_->stats();
  EXPECT_EQ(stats.spliced_bytes, 2 * (up.size() + down.size()));
  EXPECT_EQ(stats.spliced_connections, 0u);
  EXPECT_EQ(stats.requests, 0u);
}

TEST_P(SpliceTest, Splice_IdleOrStalled_HoldsNothingOrBoundedBytes) {
  OpenWithHost();
  std::vector<std::unique_ptr<TestClient>> idle;
  for (int i = 0; i < 50; ++i) {
    idle.push_back(std::make_unique<TestClient>(director_->port()));
    EXPECT_EQ(idle.back()->Ask("x"), "hostx");
  }
  EXPECT_EQ(director_->stats().spliced_connections, 50u);
  EXPECT_TRUE(Eventually([&] { return director_->stats().held_bytes == 0; }));
  const size_t before = testing_util::OpenDescriptors();
  for (const auto& client : idle) EXPECT_EQ(client->Ask("y"), "hosty");
  EXPECT_LE(testing_util::OpenDescriptors(), before);

  host_->frozen = true;
  TestClient client(director_->port());
  const std::string line(1'000'000, 'z');
  constexpr int kLines = 30;
  std::thread sender([&] {
    for (int i = 0; i < kLines; ++i) client.Send(absl::StrCat(line, "\n"));
  });
  EXPECT_TRUE(Eventually([&] { return director_->stats().held_bytes > 0; }));
  EXPECT_LE(director_->stats().held_bytes, 512u << 10);
  host_->frozen = false;
  for (int i = 0; i < kLines; ++i) ASSERT_EQ(client.Line(), absl::StrCat("host", line));
  sender.join();
}

TEST_P(SpliceTest, Splice_HostStopped_EndsTheClientsConnection) {
  OpenWithHost();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("x"), "hostx");
  host_->Stop();
  EXPECT_NE(client.Line(), "HANGS");
  EXPECT_TRUE(Eventually([&] {
    client.Send("y\n");
    return director_->stats().connections == 0;
  }));
  // Nobody there: the connection is refused in the only way left.
  TestClient lost(director_->port());
  EXPECT_NE(lost.Ask("x"), "hostx");
}

TEST_P(SpliceTest, Connection_MatchingTheRule_GoesToTheAgent) {
  options_.match = {"client=127.0.0.1,server=127.0.0.1"};
  OpenWithHost();
  EXPECT_EQ(TestClient(director_->port()).Ask("a1"), "agenta1");
  EXPECT_EQ(director_->stats().requests, 1u);
}

}  // namespace
PULSE_SLEEPING_AND_SPINNING(SpliceTest);
}  // namespace pulse::net::test
