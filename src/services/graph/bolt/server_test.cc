// The server on sockets: hostile and unlucky clients.
#include "services/graph/bolt/server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <random>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "net/address.h"
#include "services/graph/bolt/test_bolt_client.h"
#include "services/graph/model/test_memory_database.h"

namespace pulse::bolt {
namespace {

using testing_util::Eventually;

class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto address = net::ParseAddress(cypher::Concat("127.0.0.1:", port));
    connected_ = address.ok() && connect(fd_.get(), address->get(), address->size) == 0;
  }
  bool connected() const { return connected_; }
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  bool SendMessage(std::string_view message) {
    std::string bytes;
    AppendChunks(message, &bytes);
    return Send(bytes);
  }
  // At least so many, or all before the end.
  std::string Read(size_t size) {
    std::string bytes;
    char buffer[4096];
    while (bytes.size() < size) {
      const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      bytes.append(buffer, static_cast<size_t>(n));
    }
    return bytes;
  }
  std::string ReadToTheEnd() { return Read(SIZE_MAX); }
  // What comes behind is left for Answer().
  std::string ReadExactly(size_t size) {
    in_ += Read(size);
    const std::string bytes = in_.substr(0, size);
    in_.erase(0, bytes.size());
    return bytes;
  }
  std::string Answer() {
    while (true) {
      const size_t size = splitter_.Next(in_);
      if (size > 0) {
        const auto message = ReadMessage(JoinChunks(std::string_view(in_).substr(0, size)));
        in_.erase(0, size);
        return message.ok() ? test::AnswerText(*message) : std::string("?");
      }
      const std::string more = Read(1);
      if (more.empty()) return "END";
      in_ += more;
    }
  }
  bool LogOn() {
    return connected_ && Send(test::Handshake(8)) && Read(4).size() == 4 &&
           SendMessage(test::Hello()) && SendMessage(test::Logon()) && Answer() == "SUCCESS" &&
           Answer() == "SUCCESS";
  }
  void EndSending() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  ChunkSplitter splitter_;
  std::string in_;
};

constexpr char kLong[] =
    "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)";
constexpr char kManyRows[] =
    "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN a, b";

class ServerTest : public testing::Test {
 protected:
  ServerTest() { options_.port = 0; }
  void Open() {
    auto server = BoltServer::Open(&service_, options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  bool Serves() {
    Client client(server_->port());
    return client.LogOn() && client.SendMessage(test::Query("RETURN 1")) &&
           client.SendMessage(test::Pull()) && client.Answer() == "SUCCESS" &&
           client.Answer() == "RECORD 1";
  }
  bool NothingRuns() { return service_.running()->List(cypher::Caller()).empty(); }

  cypher::MemoryDatabase database_;
  cypher::GraphService service_{&database_, cypher::ServiceOptions()};
  BoltOptions options_;
  std::unique_ptr<BoltServer> server_;
};

TEST_F(ServerTest, Handshake_OfSomethingElse_IsAnsweredAndEnded) {
  Open();
  Client http(server_->port());
  ASSERT_TRUE(http.Send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_NE(http.ReadToTheEnd().find("400 Bad Request"), std::string::npos);
  Client old(server_->port());
  ASSERT_TRUE(old.Send(std::string(kMagic) + std::string("\0\0\0\x03", 4) + std::string(12, '\0')));
  EXPECT_EQ(old.ReadToTheEnd(), std::string(4, '\0'));
  EXPECT_TRUE(Serves());
}

TEST_F(ServerTest, Port_InUse_NamesTheOption) {
  Open();
  BoltOptions again = options_;
  again.port = server_->port();
  const absl::Status status = BoltServer::Open(&service_, again).status();
  EXPECT_NE(std::string(status.message()).find("choose another with --bolt"), std::string::npos)
      << status;
}

TEST_F(ServerTest, Handshake_ByteByByte_IsUnderstood) {
  Open();
  Client client(server_->port());
  for (const char byte : test::Handshake(4)) ASSERT_TRUE(client.Send({&byte, 1}));
  EXPECT_EQ(client.Read(4), std::string_view("\0\0\x04\x05", 4));
}

TEST_F(ServerTest, RandomBytes_BehindTheHandshake_HurtNobody) {
  Open();
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 100; ++round) {
    Client client(server_->port());
    std::string bytes = test::Handshake(8);
    if (round % 2 == 0) AppendChunks(test::Hello(), &bytes);
    for (uint64_t i = random() % 300; i > 0; --i) bytes += static_cast<char>(random());
    ASSERT_TRUE(client.Send(bytes));
    client.EndSending();
    if (round % 3 == 0) client.ReadToTheEnd();
  }
  EXPECT_TRUE(Serves());
}

TEST_F(ServerTest, LongMessage_BeforeLogon_IsRefused) {
  options_.limits.message_bytes_before_logon = 1000;
  Open();
  Client client(server_->port());
  std::string bytes = test::Handshake(8);
  AppendChunks(test::Hello({{"user_agent", test::Text(std::string(2000, 'x'))}}), &bytes);
  ASSERT_TRUE(client.Send(bytes));
  EXPECT_EQ(client.ReadToTheEnd().size(), 4u);  // of the handshake alone
}

TEST_F(ServerTest, LongMessage_BeyondTheLimit_IsRefused) {
  options_.limits.message_bytes = 100'000;
  Open();
  Client client(server_->port());
  ASSERT_TRUE(client.LogOn());
  ASSERT_TRUE(client.SendMessage(
      test::Query("RETURN size($x)", {{"x", test::Text(std::string(90'000, 'x'))}})));
  ASSERT_TRUE(client.SendMessage(test::Pull()));
  EXPECT_EQ(client.Answer(), "SUCCESS");
  EXPECT_EQ(client.Answer(), "RECORD 90000");
  EXPECT_EQ(client.Answer(), "SUCCESS");
  client.SendMessage(
      test::Query("RETURN size($x)", {{"x", test::Text(std::string(200'000, 'x'))}}));
  EXPECT_EQ(client.Answer(), "FAILURE Neo.ClientError.Request.Invalid");
  EXPECT_EQ(client.Answer(), "END");
  EXPECT_TRUE(Serves());
}

TEST_F(ServerTest, LongMessage_BehindAnotherLogon_IsTaken) {
  options_.limits.message_bytes_before_logon = 1000;
  Open();
  Client client(server_->port());
  ASSERT_TRUE(client.LogOn());
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(client.SendMessage(test::Packed(0x6B, {})));
    ASSERT_EQ(client.Answer(), "SUCCESS");
    std::string bytes;
    AppendChunks(test::Logon(), &bytes);
    AppendChunks(test::Query("RETURN size($x)", {{"x", test::Text(std::string(5000, 'x'))}}),
                 &bytes);
    AppendChunks(test::Pull(), &bytes);
    ASSERT_TRUE(client.Send(bytes));
    ASSERT_EQ(client.Answer(), "SUCCESS");
    ASSERT_EQ(client.Answer(), "SUCCESS");
    ASSERT_EQ(client.Answer(), "RECORD 5000");
    ASSERT_EQ(client.Answer(), "SUCCESS");
  }
}

// What is behind a LOGON is measured once that is answered, however it arrives.
TEST_F(ServerTest, LongMessage_BehindTheFirstLogon_IsTaken) {
  options_.limits.message_bytes_before_logon = 1000;
  Open();
  for (const int minor : {0, 1, 8}) {
    std::string bytes = test::Handshake(minor);
    AppendChunks(test::Hello({{"scheme", test::Text("none")}}), &bytes);
    if (minor > 0) AppendChunks(test::Logon({{"scheme", test::Text("none")}}), &bytes);
    const size_t logged_on = bytes.size();
    AppendChunks(test::Query("RETURN size($x)", {{"x", test::Text(std::string(500'000, 'x'))}}),
                 &bytes);
    AppendChunks(test::Pull(), &bytes);
    for (int round = 0; round < 20; ++round) {
      Client client(server_->port());
      // At once, or with a part of the long message in the first write.
      const size_t first = round % 2 == 0 ? bytes.size() : logged_on + 5000;
      ASSERT_TRUE(client.Send(std::string_view(bytes).substr(0, first)));
      ASSERT_TRUE(client.Send(std::string_view(bytes).substr(first)));
      ASSERT_EQ(client.ReadExactly(4).size(), 4u);
      for (int i = minor > 0 ? 0 : 1; i < 3; ++i) ASSERT_EQ(client.Answer(), "SUCCESS") << minor;
      ASSERT_EQ(client.Answer(), "RECORD 500000");
      ASSERT_EQ(client.Answer(), "SUCCESS");
    }
  }
}

TEST_F(ServerTest, LongMessage_BehindTheFirstLogonBeyondTheLimit_IsToldLimitAndRemedy) {
  options_.limits.message_bytes_before_logon = 1000;
  options_.limits.message_bytes = 100'000;
  Open();
  for (int round = 0; round < 20; ++round) {
    Client client(server_->port());
    std::string bytes = test::Handshake(8);
    AppendChunks(test::Hello(), &bytes);
    AppendChunks(test::Logon(), &bytes);
    AppendChunks(test::Query("RETURN 1", {{"x", test::Text(std::string(200'000, 'x'))}}), &bytes);
    ASSERT_TRUE(client.Send(bytes));
    std::string said = client.ReadToTheEnd();
    ASSERT_GT(said.size(), 4u);
    said.erase(0, 4);  // of the handshake
    const auto answers = test::ReadAnswers(said);
    ASSERT_EQ(answers.size(), 3u);
    EXPECT_EQ(test::AnswerText(answers[1]), "SUCCESS");
    EXPECT_EQ(test::AnswerText(answers[2]), "FAILURE Neo.ClientError.Request.Invalid");
    EXPECT_NE(said.find("limit of 100000 bytes"), std::string::npos);
    EXPECT_NE(said.find("such as a list in parts"), std::string::npos);
  }
  EXPECT_TRUE(Serves());
}

TEST_F(ServerTest, LongMessage_BehindALogonThatIsRefused_IsNotTaken) {
  options_.limits.message_bytes_before_logon = 1000;
  options_.password = "secret";
  Open();
  Client client(server_->port());
  std::string bytes = test::Handshake(8);
  AppendChunks(test::Hello(), &bytes);
  AppendChunks(test::Logon({{"scheme", test::Text("none")}}), &bytes);
  AppendChunks(test::Query("CREATE (:A)", {{"x", test::Text(std::string(200'000, 'x'))}}), &bytes);
  AppendChunks(test::Pull(), &bytes);
  ASSERT_TRUE(client.Send(bytes));
  ASSERT_EQ(client.ReadExactly(4).size(), 4u);
  EXPECT_EQ(client.Answer(), "SUCCESS");
  EXPECT_EQ(client.Answer(), "FAILURE Neo.ClientError.Security.Unauthorized");
  EXPECT_EQ(client.Answer(), "END");
  EXPECT_EQ(server_->numbers().messages, 2u) << "nothing behind it was given to the connection";
}

TEST_F(ServerTest, ClientBeforeLogon_SendsNothing_IsCutOff) {
  options_.limits.logon = std::chrono::milliseconds(50);
  Open();
  // On a busy machine a client may come too late with what it has to say; then another one.
  std::unique_ptr<Client> known;
  ASSERT_TRUE(Eventually([&] {
    known = std::make_unique<Client>(server_->port());
    return known->LogOn();
  }));
  EXPECT_TRUE(Eventually([&] {
    Client halfway(server_->port());
    return halfway.Send(test::Handshake(8)) && halfway.SendMessage(test::Hello()) &&
           halfway.ReadToTheEnd().size() > 4;
  }));
  Client silent(server_->port());
  EXPECT_EQ(silent.ReadToTheEnd(), "");
  ASSERT_TRUE(known->SendMessage(test::Query("RETURN 1")));
  EXPECT_EQ(known->Answer(), "SUCCESS");
}

TEST_F(ServerTest, Client_ThatDiesInALongQuery_EndsIt) {
  Open();
  for (const bool rows : {false, true}) {
    Client client(server_->port());
    ASSERT_TRUE(client.LogOn());
    ASSERT_TRUE(client.SendMessage(test::Begin()));
    ASSERT_TRUE(client.SendMessage(test::Query("CREATE (:A)")));
    ASSERT_TRUE(client.SendMessage(test::Pull()));
    ASSERT_TRUE(client.SendMessage(test::Query(rows ? kManyRows : kLong)));
    ASSERT_TRUE(client.SendMessage(test::Pull()));
    EXPECT_TRUE(Eventually([&] {
      const auto list = service_.running()->List(cypher::Caller());
      return !list.empty() && list[0].query.starts_with("UNWIND");
    }));
    client.Close();
    EXPECT_TRUE(Eventually([&] { return NothingRuns(); }));
    EXPECT_TRUE(Eventually([&] { return database_.open_transactions() == 0; }));
  }
}

TEST_F(ServerTest, Client_ThatDoesNotRead_HoldsABoundedResult) {
  options_.limits.stalled = std::chrono::minutes(10);
  Open();
  Client client(server_->port());
  ASSERT_TRUE(client.LogOn());
  ASSERT_TRUE(client.SendMessage(test::Query(kManyRows)));
  ASSERT_TRUE(client.SendMessage(test::Pull()));
  EXPECT_TRUE(Eventually([&] { return !NothingRuns(); }));
  EXPECT_TRUE(Serves());
  // A client that reads gets them in order, however much there is.
  EXPECT_EQ(client.Answer(), "SUCCESS");
  for (int i = 1; i <= 200'000; ++i) {
    ASSERT_EQ(client.Answer(), cypher::Concat("RECORD 1 ", i));
  }
  ASSERT_TRUE(client.SendMessage(test::Reset()));
  std::string answer;
  do {
    answer = client.Answer();
  } while (answer.starts_with("RECORD"));
  EXPECT_EQ(answer, "IGNORED");
  EXPECT_EQ(client.Answer(), "SUCCESS");
}

TEST_F(ServerTest, LongQueries_OfSome_DelayNobodyElse) {
  options_.workers = 4;
  Open();
  std::vector<std::unique_ptr<Client>> busy;
  for (int i = 0; i < 3; ++i) {
    busy.push_back(std::make_unique<Client>(server_->port()));
    ASSERT_TRUE(busy.back()->LogOn());
    ASSERT_TRUE(busy.back()->SendMessage(test::Query(kLong)));
    ASSERT_TRUE(busy.back()->SendMessage(test::Pull()));
  }
  EXPECT_TRUE(Eventually([&] { return service_.running()->List(cypher::Caller()).size() == 3; }));
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Serves());
}

TEST_F(ServerTest, ResultsThatNobodyAsksFor_DelayNobodyElse) {
  options_.workers = 2;
  Open();
  std::vector<std::unique_ptr<Client>> lazy;
  for (int i = 0; i < 12; ++i) {
    lazy.push_back(std::make_unique<Client>(server_->port()));
    ASSERT_TRUE(lazy.back()->LogOn());
    ASSERT_TRUE(lazy.back()->SendMessage(test::Query("UNWIND range(1, 1000000) AS a RETURN a")));
    ASSERT_TRUE(lazy.back()->SendMessage(test::Pull(1)));
    EXPECT_EQ(lazy.back()->Answer(), "SUCCESS");
    EXPECT_EQ(lazy.back()->Answer(), "RECORD 1");
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Serves());
  for (const auto& client : lazy) {
    ASSERT_TRUE(client->SendMessage(test::Pull(1)));
    EXPECT_EQ(client->Answer(), "SUCCESS");
    EXPECT_EQ(client->Answer(), "RECORD 2");
  }
}

TEST_F(ServerTest, Stop_WithConnectionsAndQueries_Ends) {
  Open();
  Client idle(server_->port()), busy(server_->port()), open(server_->port());
  ASSERT_TRUE(idle.LogOn() && busy.LogOn() && open.LogOn());
  ASSERT_TRUE(open.SendMessage(test::Begin()));
  EXPECT_EQ(open.Answer(), "SUCCESS");
  ASSERT_TRUE(busy.SendMessage(test::Query("UNWIND range(1, 1000000) AS a RETURN a")));
  ASSERT_TRUE(busy.SendMessage(test::Pull(10)));
  EXPECT_EQ(busy.Answer(), "SUCCESS");
  server_->Stop();
  EXPECT_TRUE(NothingRuns());
  EXPECT_EQ(database_.open_transactions(), 0);
}

TEST_F(ServerTest, Connections_BeyondTheLimit_AreEnded) {
  options_.max_clients = 2;
  Open();
  Client a(server_->port()), b(server_->port());
  ASSERT_TRUE(a.LogOn() && b.LogOn());
  Client c(server_->port());
  EXPECT_FALSE(c.LogOn());
  a.Close();
  EXPECT_TRUE(Eventually([&] { return Serves(); }));
}

TEST_F(ServerTest, Open_OnATakenPort_SaysSo) {
  Open();
  options_.port = server_->port();
  EXPECT_FALSE(BoltServer::Open(&service_, options_).ok());
  options_.port = 0;
  options_.bind = "0.0.0.0";
  EXPECT_FALSE(BoltServer::Open(&service_, options_).ok());  // without password, TLS or --insecure
}

}  // namespace
}  // namespace pulse::bolt
