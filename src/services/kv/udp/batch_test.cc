#include "services/kv/udp/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "services/kv/core/hash.h"
#include "services/kv/udp/test_udp.h"

namespace pulse::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class UdpBatchTest : public testing::Test {
 protected:
  void Open(int partitions = 2, size_t clients = 4) {
    KvStoreOptions options;
    options.memory_bytes = uint64_t{64} << 20;
    options.partitions = partitions;
    options.clock = [this] { return now_ms_; };
    options.ticks = false;
    store_ = *KvStore::Open(options);
    facts_.partitions = static_cast<uint32_t>(partitions);
    facts_.boot = 99;
    sessions_ = std::make_unique<UdpSessions>(clients);
    batch_ = std::make_unique<UdpBatch>(store_.get(), &facts_, &cookies_, sessions_.get(), &stats_);
  }
  // All answers to these datagrams, which arrive together.
  std::vector<std::string> Exchange(const std::vector<std::string>& datagrams,
                                    const UdpPeer* peer = nullptr) {
    if (peer == nullptr) peer = &peer_;
    std::vector<std::string> answers;
    const auto take = [&] {
      batch_->Run();
      for (const auto& r : batch_->replies()) {
        EXPECT_EQ(*r.peer, *peer);
        answers.emplace_back(r.bytes, r.size);
      }
      batch_->Clear();
    };
    for (const std::string& d : datagrams) {
      if (batch_->Add(*peer, d, now_)) continue;
      take();
      EXPECT_TRUE(batch_->Add(*peer, d, now_));
    }
    take();
    return answers;
  }
  uint64_t Greet(uint64_t nonce = 7, const UdpPeer* peer = nullptr) {
    auto answers = Exchange({HelloOf(nonce, 0)}, peer);
    EXPECT_EQ(answers.size(), 1u);
    EXPECT_EQ(HeaderOf(answers.at(0)).type, UdpType::kCookie);
    answers = Exchange({HelloOf(nonce, HeaderOf(answers.at(0)).session)}, peer);
    EXPECT_EQ(answers.size(), 1u);
    EXPECT_EQ(HeaderOf(answers.at(0)).type, UdpType::kWelcome);
    return HeaderOf(answers.at(0)).session;
  }
  UdpAnswers Ask(const std::string& datagram) {
    UdpAnswers all;
    for (const std::string& answer : Exchange({datagram})) {
      const UdpHeader h = HeaderOf(answer);
      EXPECT_EQ(h.type, UdpType::kResponses);
      EXPECT_EQ(h.stamp, HeaderOf(datagram).stamp);
      EXPECT_EQ(h.sequence, HeaderOf(datagram).sequence);
      EXPECT_LE(answer.size(), HeaderOf(datagram).reply_bytes);
      AddAnswers(answer, &all);
    }
    return all;
  }
  std::string Refusal(const std::string& datagram, const UdpPeer* peer = nullptr) {
    const auto answers = Exchange({datagram}, peer);
    if (answers.empty()) return "silence";
    EXPECT_EQ(answers.size(), 1u);
    EXPECT_LE(answers[0].size(), datagram.size());
    EXPECT_EQ(HeaderOf(answers[0]).type, UdpType::kRefusal);
    return std::to_string(HeaderOf(answers[0]).count);
  }

  int64_t now_ms_ = 1'000'000;
  int64_t now_ = 1;
  UdpPeer peer_ = PeerOf("127.0.0.1", 4711);
  UdpWelcome facts_{};
  UdpCookies cookies_;
  UdpStats stats_;
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<UdpSessions> sessions_;
  std::unique_ptr<UdpBatch> batch_;
};

TEST_F(UdpBatchTest, Requests_OfOneDatagram_TakeEffectInTheirOrder) {
  Open();
  const uint64_t session = Greet();
  EXPECT_THAT(Ask(RequestsOf(session, 1,
                             {GetOf("a"), SetOf("a", "1"), GetOf("a"), SetOf("a", "22222222222"),
                              GetOf("a"), DeleteOf("a"), DeleteOf("a"), GetOf("a")})),
              ElementsAre(Pair(0, "1 "), Pair(1, "0 "), Pair(2, "0 1"), Pair(3, "0 "),
                          Pair(4, "0 22222222222"), Pair(5, "0 "), Pair(6, "1 "), Pair(7, "1 ")));
  EXPECT_THAT(Ask(RequestsOf(session, 2, {SetOf("", ""), GetOf("")})),
              ElementsAre(Pair(0, "0 "), Pair(1, "0 ")));
}

TEST_F(UdpBatchTest, Set_WithTimeToLive_EndsThen) {
  Open();
  const uint64_t session = Greet();
  Ask(RequestsOf(session, 1, {SetOf("a", "1", 1000), SetOf("b", "1", INT64_MAX)}));
  now_ms_ += 999;
  EXPECT_EQ(Ask(RequestsOf(session, 2, {GetOf("a")})).at(0), "0 1");
  now_ms_ += 1;
  EXPECT_THAT(Ask(RequestsOf(session, 3, {GetOf("a"), GetOf("b")})),
              ElementsAre(Pair(0, "1 "), Pair(1, "0 1")));
}

// Random requests of several datagrams at once, on keys of all partitions, against a map.
TEST_F(UdpBatchTest, RandomDatagrams_AnswerAsAMapDoes) {
  Open(3);
  std::mt19937_64 random(testing_util::TestSeed());
  const uint64_t session = Greet();
  std::unordered_map<std::string, std::string> model;
  uint64_t sequence = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> datagrams;
    std::unordered_map<uint64_t, UdpAnswers> expected;
    std::unordered_map<uint64_t, UdpAnswers> got;
    const uint32_t reply_bytes = random() % 2 == 0 ? 512 : 8000;
    for (uint64_t left = random() % 8; left > 0; --left) {
      std::deque<std::string> texts;  // stay where they are
      std::vector<UdpCommand> commands;
      ++sequence;
      for (uint64_t i = 0; i <= random() % 60; ++i) {
        const std::string& key = texts.emplace_back("key" + std::to_string(random() % 50));
        const auto at = static_cast<int>(commands.size());
        if (random() % 3 == 0) {
          const std::string& value = texts.emplace_back(
              std::string(random() % 700, static_cast<char>('a' + random() % 26)));
          commands.push_back(SetOf(key, value));
          model[key] = value;
          expected[sequence][at] = "0 ";
        } else if (random() % 5 == 0) {
          commands.push_back(DeleteOf(key));
          expected[sequence][at] = model.erase(key) > 0 ? "0 " : "1 ";
        } else {
          commands.push_back(GetOf(key));
          const auto found = model.find(key);
          expected[sequence][at] =
              found == model.end() ? "1 "
              : UdpResponseBytes(found->second.size()) + sizeof(UdpHeader) > reply_bytes
                  ? "3 " + std::to_string(found->second.size())
                  : "0 " + found->second;
        }
      }
      datagrams.push_back(RequestsOf(session, sequence, commands, reply_bytes));
    }
    for (const std::string& answer : Exchange(datagrams)) {
      EXPECT_LE(answer.size(), reply_bytes);
      AddAnswers(answer, &got[HeaderOf(answer).sequence]);
    }
    ASSERT_EQ(got, expected) << "round " << round;
  }
  EXPECT_EQ(stats_.Get(UdpStats::kRepeats), 0u);
}

// What does not fit together is told by its size, and fits alone.
TEST_F(UdpBatchTest, Gets_OfMoreThanAnAnswerTakes_TellSizes) {
  Open(1);
  const uint64_t session = Greet();
  const std::string value(60'000, 'v');
  ASSERT_EQ(Ask(RequestsOf(session, 1, {SetOf("a", value)}, kUdpMostDatagram)).at(0), "0 ");
  const UdpAnswers two = Ask(RequestsOf(session, 2, {GetOf("a"), GetOf("a")}, kUdpMostDatagram));
  EXPECT_EQ(two.at(0), "0 " + value);
  EXPECT_EQ(two.at(1), "3 60000");
  EXPECT_EQ(Ask(RequestsOf(session, 3, {GetOf("a")}, kUdpMostDatagram)).at(0), "0 " + value);
  EXPECT_EQ(Ask(RequestsOf(session, 4, {GetOf("a")}, 1432)).at(0), "3 60000");
  // The most requests, each of which finds the value: bounded.
  const std::vector<UdpCommand> most(kUdpMostRequests, GetOf("a"));
  const auto answers = Exchange({RequestsOf(session, 5, most, kUdpLeastDatagram)});
  size_t bytes = 0;
  for (const auto& a : answers) bytes += a.size();
  EXPECT_LE(bytes, kUdpMostReply * 3 / 2);
}

TEST_F(UdpBatchTest, Write_ThatComesAgain_IsAnsweredAndNotCarriedOut) {
  Open();
  const uint64_t session = Greet();
  const std::string set = RequestsOf(session, 1, {SetOf("a", "1"), GetOf("a"), DeleteOf("b")});
  const UdpAnswers first = Ask(set);
  EXPECT_THAT(first, ElementsAre(Pair(0, "0 "), Pair(1, "0 1"), Pair(2, "1 ")));
  // Somebody else writes in between.
  store_->WithPartition("b", true, [](Partition& p, uint64_t hash) {
    Item* item = nullptr;
    ASSERT_EQ(p.Put("b", hash, 0, {}, &item), Partition::Result::kStored);
  });
  store_->WithPartition("a", true, [](Partition& p, uint64_t hash) { p.Erase("a", hash); });
  EXPECT_THAT(Ask(set), ElementsAre(Pair(0, "0 "), Pair(1, "1 "), Pair(2, "1 ")));
  EXPECT_EQ(stats_.Get(UdpStats::kRepeats), 1u);
  store_->WithPartition("b", true,
                        [](Partition& p, uint64_t hash) { EXPECT_NE(p.Find("b", hash), nullptr); });
  // Twice at once: one is carried out, the other one ignored.
  const std::string remove = RequestsOf(session, 2, {DeleteOf("b")});
  const auto answers = Exchange({remove, remove});
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(stats_.Get(UdpStats::kStale), 1u);
  EXPECT_EQ(Ask(remove).at(0), "0 ");  // as the first time
}

// A copy that the network has kept back does not undo what the client did since.
TEST_F(UdpBatchTest, Write_BelowTheFloor_IsNotCarriedOut) {
  Open();
  const uint64_t session = Greet();
  const std::string late = RequestsOf(session, 1, {SetOf("a", "old")});
  EXPECT_EQ(Ask(RequestsOf(session, 2, {SetOf("a", "new")}, 1432, 2)).at(0), "0 ");
  EXPECT_TRUE(Exchange({late}).empty());
  EXPECT_EQ(Ask(RequestsOf(session, 3, {GetOf("a")}, 1432, 3)).at(0), "0 new");
  EXPECT_EQ(stats_.Get(UdpStats::kStale), 1u);
  // Where both are waited for, both count.
  EXPECT_EQ(Ask(RequestsOf(session, 5, {SetOf("a", "5")}, 1432, 4)).at(0), "0 ");
  EXPECT_EQ(Ask(RequestsOf(session, 4, {SetOf("a", "4")}, 1432, 4)).at(0), "0 ");
}

TEST_F(UdpBatchTest, Nonsense_IsRefusedOrIgnored_AndNeverAnsweredByMore) {
  Open();
  const uint64_t session = Greet();
  const std::string good = RequestsOf(session, 1, {SetOf("a", "1")});
  UdpHeader h = HeaderOf(good);
  const std::string body = good.substr(sizeof(h));
  const auto with = [&](auto change) {
    UdpHeader changed = h;
    change(&changed);
    return DatagramOf(changed, body);
  };
  const auto refusal = [](UdpRefusal r) { return std::to_string(static_cast<int>(r)); };
  const std::string malformed = refusal(UdpRefusal::kMalformed);
  EXPECT_EQ(Refusal(""), "silence");
  EXPECT_EQ(Refusal("get a\r\n"), "silence");
  EXPECT_EQ(Refusal(good.substr(0, sizeof(h) - 1)), "silence");
  EXPECT_EQ(Refusal(with([](auto* x) { x->magic ^= 1; })), "silence");
  // Answers, as another server would send them: no loops.
  for (const UdpType type : {UdpType::kCookie, UdpType::kWelcome, UdpType::kResponses,
                             UdpType::kRefusal, static_cast<UdpType>(0), static_cast<UdpType>(9)}) {
    EXPECT_EQ(Refusal(with([&](auto* x) { x->type = type; })), "silence");
  }
  EXPECT_EQ(Refusal(with([](auto* x) { x->version = 2; })), refusal(UdpRefusal::kVersion));
  EXPECT_EQ(Refusal(with([](auto* x) { ++x->session; })), refusal(UdpRefusal::kNoSession));
  EXPECT_EQ(Refusal(with([](auto* x) { x->count = 0; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->count = 2; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->count = 65535; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->reply_bytes = kUdpLeastDatagram - 8; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->reply_bytes = kUdpMostDatagram + 8; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->reply_bytes = 1001; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->sequence = 0; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->floor = 0; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->floor = 2; })), malformed);
  EXPECT_EQ(Refusal(with([](auto* x) { x->sequence = x->floor + kUdpWindow; })), malformed);
  for (size_t size = sizeof(h); size < good.size(); ++size) {
    EXPECT_EQ(Refusal(good.substr(0, size)), malformed) << size;
  }
  EXPECT_EQ(Refusal(good + std::string(8, '\0')), malformed);
  // Another address has no session, whatever it says.
  const UdpPeer other = PeerOf("127.0.0.1", 4712);
  EXPECT_EQ(Refusal(good, &other), refusal(UdpRefusal::kNoSession));
  // A hello that is shorter than its answer.
  const std::string hello = HelloOf(1, 0);
  for (const size_t size : {sizeof(h), sizeof(h) + sizeof(UdpHello), kUdpHelloBytes - 1}) {
    EXPECT_EQ(Refusal(hello.substr(0, size)), "silence");
  }
  EXPECT_EQ(Exchange({hello}).at(0).size(), sizeof(UdpHeader));
  EXPECT_EQ(Exchange({HelloOf(1, cookies_.Of(other))}).at(0).size(), sizeof(UdpHeader));
  // Nothing of all this has been carried out, and the session is well.
  EXPECT_EQ(store_->numbers().items, 0u);
  EXPECT_EQ(Ask(good).at(0), "0 ");
}

TEST_F(UdpBatchTest, Hello_WhenThereAreAsManyClients_IsRefused) {
  Open(1, 1);
  const uint64_t session = Greet();
  const UdpPeer other = PeerOf("127.0.0.1", 4712);
  const std::string hello = HelloOf(1, cookies_.Of(other));
  EXPECT_EQ(Refusal(hello, &other), std::to_string(static_cast<int>(UdpRefusal::kClients)));
  EXPECT_EQ(Ask(RequestsOf(session, 1, {SetOf("a", "1")})).at(0), "0 ");
}

// Datagrams of a client that knows its session, and means harm: bytes change at random, and all
// answers stay within bounds.
TEST_F(UdpBatchTest, ChangedBytes_NeverBreakABatch) {
  Open();
  std::mt19937_64 random(testing_util::TestSeed());
  const uint64_t session = Greet();
  uint64_t sequence = 1;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> datagrams;
    for (uint64_t left = 1 + random() % 40; left > 0; --left) {
      // Numbers come again, and one slot is used for two at a time.
      sequence += random() % 40;
      std::vector<UdpCommand> commands;
      for (uint64_t i = 0; i <= random() % 30; ++i) {
        commands.push_back(random() % 2 == 0 ? GetOf("key")
                                             : SetOf("key", "a value of some bytes"));
      }
      std::string d = RequestsOf(session, sequence, commands, 512);
      for (uint64_t changes = random() % 4; changes > 0; --changes) {
        d[random() % d.size()] = static_cast<char>(random());
      }
      if (random() % 50 == 0) d = HelloOf(random() % 2 + 7, cookies_.Of(peer_));
      datagrams.push_back(d);
    }
    for (const std::string& answer : Exchange(datagrams)) ASSERT_LE(answer.size(), 65'536u);
    if (random() % 100 == 0) sequence = 1;
  }
}

TEST_F(UdpBatchTest, FullStore_RefusesAndForgetsNothing) {
  Open(1);
  const uint64_t session = Greet();
  const std::string value(60'000, 'v');
  uint64_t sequence = 0;
  std::string last;
  UdpAnswers answers;
  do {
    ++sequence;
    last = RequestsOf(session, sequence, {SetOf(std::to_string(sequence), value)});
    answers = Ask(last);
  } while (answers.at(0) == "0 ");
  EXPECT_EQ(answers.at(0), "2 ");
  EXPECT_EQ(Ask(last).at(0), "2 ");
  EXPECT_EQ(Ask(RequestsOf(session, sequence + 1, {GetOf("1")}, kUdpMostDatagram)).at(0),
            "0 " + value);
}

}  // namespace
}  // namespace pulse::kv
