// `pulse top --kv` without a server: what it makes of two INFO replies, and the picture of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "apps/pulse/top/cpu_lines.h"
#include "apps/pulse/top/kv_sample.h"
#include "apps/pulse/top/kv_view.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/testing.h"

namespace pulse::top {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_util::Text;

// What a `pulse kv` says `at` seconds after its start, having done `at` times the same.
std::string InfoAt(int at) {
  std::string text = absl::StrCat(
      "# Server\r\nredis_version:7.0.15\r\npulse_version:1.2.3\r\nredis_mode:standalone\r\n"
      "process_id:4242\r\nuptime_in_seconds:",
      at, "\r\n\r\n# Clients\r\nconnected_clients:50\r\n# Memory\r\nused_memory_rss:",
      uint64_t{1} << 30, "\r\npartition_limit:", uint64_t{4} << 30,
      "\r\nmaxmemory_policy:allkeys-lfu\r\nitem_bytes:1000\r\ndead_bytes:200\r\n"
      "index_bytes:2097152\r\npartition_bytes:1073741824\r\n# Stats\r\n");
  for (const auto& [name, rate] : {std::pair{"total_connections_received", 2},
                                   {"total_commands_processed", 200'000},
                                   {"total_error_replies", 0},
                                   {"keyspace_hits", 90'000},
                                   {"keyspace_misses", 10'000},
                                   {"expired_keys", 3},
                                   {"evicted_keys", 4},
                                   {"refused_keys", 0}}) {
    absl::StrAppend(&text, name, ":", rate * at, "\r\n");
  }
  absl::StrAppend(&text, "# CPU\r\nused_cpu_sys:", 0.25 * at, "\r\nused_cpu_user:", 0.5 * at,
                  "\r\n");
  // Host: a half of a CPU, of which the store has a half; agent: a tenth.
  absl::StrAppend(&text, "profile_host_other:", 0.05 * at, "\r\nprofile_host_receive:", 0.1 * at,
                  "\r\nprofile_host_parse:", 0.05 * at, "\r\nprofile_host_store:", 0.25 * at,
                  "\r\nprofile_host_respond:", 0.05 * at, "\r\n");
  absl::StrAppend(&text, "profile_agent_other:0.000000\r\nprofile_agent_receive:", 0.06 * at,
                  "\r\nprofile_agent_parse:", 0.02 * at,
                  "\r\nprofile_agent_store:0\r\nprofile_agent_respond:", 0.02 * at, "\r\n");
  absl::StrAppend(&text, "# Keyspace\r\ndb0:keys=26000000,expires=0,avg_ttl=0\r\n# KV\r\n",
                  "partitions:2\r\ndesign:adaptive\r\ndesign_now:lat\r\ndesign_changes:3\r\n",
                  "shared_memory_requests:", 50'000 * at, "\r\n");
  return text;
}

KvRates Between(int before, int now, double seconds) {
  const KvSample first = ParseInfo(InfoAt(before)).value();
  return CompareKv(&first, ParseInfo(InfoAt(now)).value(), seconds);
}

WatchedKv Watched50() {
  WatchedKv w;
  w.address = "127.0.0.1:6379";
  w.rates = Between(10, 12, 2);
  w.known = true;
  return w;
}

std::string Picture(const std::vector<WatchedKv>& servers, const Look& look, size_t height = 0) {
  return absl::StrJoin(RenderAll({}, servers, {}, 1, "12:00:00", look, height, height > 0), "\n");
}

double ShareOf(const KvRates& r, size_t side, CpuComponent component) {
  return r.shares[side][static_cast<size_t>(component)];
}

TEST(KvTopTest, CompareKv_TwoReplies_RatesOfTheInterval) {
  const KvRates r = Between(10, 14, 2);  // twice as much in each second
  EXPECT_DOUBLE_EQ(r.seconds, 2);
  EXPECT_DOUBLE_EQ(r.requests, 500'000);
  EXPECT_DOUBLE_EQ(r.shared_requests, 100'000);
  EXPECT_DOUBLE_EQ(r.hit_share, 0.9);
  EXPECT_DOUBLE_EQ(r.connections, 4);
  EXPECT_DOUBLE_EQ(r.expired, 6);
  EXPECT_DOUBLE_EQ(r.evicted, 8);
  EXPECT_EQ(r.refused, 0);
  EXPECT_NEAR(r.cpu_share, 1.5, 1e-9);
  EXPECT_NEAR(SumOf(r.shares[0]), 1, 1e-9);
  EXPECT_NEAR(SumOf(r.shares[1]), 0.2, 1e-9);
  EXPECT_NEAR(ShareOf(r, 0, CpuComponent::kStore), 0.5, 1e-9);
  EXPECT_NEAR(ShareOf(r, 1, CpuComponent::kReceive), 0.12, 1e-9);
  EXPECT_NEAR(r.PerRequest(0, static_cast<size_t>(CpuComponent::kStore)), 1e-6, 1e-12);
  EXPECT_EQ(r.now.keys, 26'000'000u);
  EXPECT_EQ(r.now.design, "adaptive");
  EXPECT_EQ(r.now.design_now, "lat");
  EXPECT_EQ(r.now.memory, uint64_t{4} << 30);
}

TEST(KvTopTest, CompareKv_FirstReplyOrNewProcess_NothingMeasured) {
  EXPECT_EQ(CompareKv(nullptr, ParseInfo(InfoAt(5)).value(), 1).seconds, 0);
  KvSample other = ParseInfo(InfoAt(5)).value();
  other.pid = 1;
  EXPECT_EQ(CompareKv(&other, ParseInfo(InfoAt(6)).value(), 1).seconds, 0);
  // The same number, given to another process.
  EXPECT_EQ(Between(6, 5, 1).seconds, 0);
  // Counters that go back count as nothing.
  KvSample more = ParseInfo(InfoAt(5)).value();
  more.commands = UINT64_MAX;
  more.cpu = 1e9;
  more.profile[0][0] = 1e9;
  const KvRates r = CompareKv(&more, ParseInfo(InfoAt(6)).value(), 1);
  EXPECT_DOUBLE_EQ(r.requests, 50'000);
  EXPECT_EQ(r.cpu_share, 0);
  EXPECT_EQ(r.shares[0][0], 0);
}

// Older servers say maxmemory alone.
TEST(KvTopTest, ParseInfo_NoPartitionLimit_TakesMaxmemory) {
  const std::string older = absl::StrReplaceAll(InfoAt(10), {{"partition_limit:", "maxmemory:"}});
  const auto sample = ParseInfo(older);
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_EQ(sample->memory, uint64_t{4} << 30);
  const auto newer = ParseInfo(absl::StrCat(InfoAt(10), "maxmemory:5368709120\r\n"));
  ASSERT_TRUE(newer.ok()) << newer.status();
  EXPECT_EQ(newer->memory, uint64_t{4} << 30);
  const std::string neither = absl::StrReplaceAll(InfoAt(10), {{"partition_limit:", "no:"}});
  EXPECT_TRUE(absl::IsInvalidArgument(ParseInfo(neither).status()));
}

TEST(KvTopTest, ParseInfo_ManyKeys_AreCounted) {
  const auto sample =
      ParseInfo(absl::StrReplaceAll(InfoAt(10), {{"keys=26000000", "keys=12345678901234567890"}}));
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_EQ(sample->keys, 12'345'678'901'234'567'890u);
}

TEST(KvTopTest, ParseInfo_AnotherServerOrNonsense_IsAnError) {
  EXPECT_THAT(Text(ParseInfo("redis_version:7.0.15\r\n").status()), HasSubstr("no PulseDB server"));
  EXPECT_THAT(Text(ParseInfo("").status()), HasSubstr("no PulseDB server"));
  for (const auto& [field, value] : {std::pair{"process_id:4242", "process_id:many"},
                                     {"connected_clients:50", "nothing:50"},
                                     {"partition_limit:4294967296", "partition_limit:-1"},
                                     {"used_cpu_user:5", "used_cpu_user:nan"},
                                     {"used_cpu_user:5", "used_cpu_user:-5"},
                                     {"db0:keys=26000000", "db0:keys=x"},
                                     {"profile_host_parse:", "profile_host_parse:\x1b[2J"}}) {
    const std::string text = absl::StrReplaceAll(InfoAt(10), {{field, value}});
    ASSERT_NE(text, InfoAt(10)) << field;
    const absl::Status status = ParseInfo(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << field << ": " << status;
    EXPECT_THAT(Text(status), AllOf(HasSubstr("INFO has no number"), Not(HasSubstr("\x1b"))));
  }
}

TEST(KvTopTest, ParseInfo_DamagedBytes_NeverCrashes) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string text = InfoAt(3);
    for (int n = 0; n < 5; ++n) text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % (text.size() + 1));
    const auto sample = ParseInfo(text);
    if (!sample.ok()) continue;
    WatchedKv w;
    w.rates = CompareKv(nullptr, *sample, 0);
    w.known = true;
    for (const char c : Picture({w}, {.width = 60, .colours = false, .blocks = false})) {
      ASSERT_TRUE(static_cast<unsigned char>(c) >= 32 || c == '\n') << i;
    }
    ToJson(std::vector<WatchedKv>{w}).dump();
  }
}

// A server over RocksDB has no design and no limit.
TEST(KvTopTest, RenderAll_ServerWithoutDesigns_IsShown) {
  std::string text = InfoAt(2);
  text = text.substr(0, text.find("# KV"));
  for (const char* line : {"partition_limit", "item_bytes", "partition_bytes", "expired_keys"}) {
    const size_t at = text.find(absl::StrCat(line, ":"));
    text.erase(at, text.find('\n', at) + 1 - at);
  }
  const auto sample = ParseInfo(text);
  ASSERT_TRUE(sample.ok()) << sample.status();
  WatchedKv w;
  w.address = "a";
  w.rates = CompareKv(nullptr, *sample, 0);
  w.known = true;
  const std::string picture = Picture({w}, {});
  EXPECT_THAT(picture, AllOf(HasSubstr("CPU, host"), HasSubstr("1.0 GiB")));
  EXPECT_THAT(picture, Not(HasSubstr("design")));
  EXPECT_FALSE(ToJson(std::vector<WatchedKv>{w})[0].contains("design"));
}

TEST(KvTopTest, RenderAll_MeasuredServer_HasItsProfile) {
  const std::string picture = Picture({Watched50()}, {});
  EXPECT_THAT(picture, AllOf(HasSubstr("1 server "), HasSubstr("127.0.0.1:6379"),
                             HasSubstr("lat by adaptive, 3 changes"), HasSubstr("250.0 K/s"),
                             HasSubstr("50.0 K/s by shared memory"), HasSubstr("90 % of reads"),
                             HasSubstr("50 clients"), HasSubstr("1.0 GiB of 4.0 GiB")));
  EXPECT_THAT(picture, AllOf(HasSubstr("25 %"), HasSubstr("26000000 keys"),
                             HasSubstr("3/s expire, 4/s evicted"), HasSubstr("CPU, host"),
                             HasSubstr("CPU, agent"), HasSubstr("receive"), HasSubstr("respond")));
  // The store: a half of half a CPU, for 250,000 requests a second.
  EXPECT_THAT(picture, AllOf(HasSubstr("50 %  1.000 us a request"), HasSubstr("  60 %")));
  WatchedKv lost = Watched50();
  lost.error = "no server at 127.0.0.1:6379: Connection refused; start one with: pulse kv";
  const std::string gone = Picture({lost}, {});
  EXPECT_THAT(
      gone, AllOf(HasSubstr("0 servers"), HasSubstr("Connection refused"), Not(HasSubstr("CPU"))));
}

TEST(KvTopTest, RenderAll_AnyWindow_Fits) {
  Watched agent;
  agent.socket = "/run/agent.sock";
  agent.error = "no agent";
  for (const size_t width : {size_t{1}, size_t{40}, size_t{80}, size_t{200}}) {
    for (const size_t height : {size_t{1}, size_t{3}, size_t{10}, size_t{24}, size_t{60}}) {
      for (const bool both : {false, true}) {
        const std::vector<Watched> agents(both ? 1 : 0, agent);
        Look look;
        look.width = width;
        const auto lines =
            RenderAll(agents, {Watched50(), Watched50()}, {}, 1, "12:00:00", look, height, true);
        EXPECT_EQ(lines.size(), height);
        for (const std::string& line : lines) EXPECT_LE(Columns(line), width) << line;
        if (width == 80) {
          EXPECT_THAT(lines.back(), HasSubstr("q quits"));
        }
      }
    }
  }
}

TEST(KvTopTest, ToJson_MeasuredServer_HasTheSame) {
  WatchedKv lost;
  lost.address = "b";
  lost.error = "gone";
  const nlohmann::json json = ToJson(std::vector<WatchedKv>{Watched50(), lost});
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["address"], "127.0.0.1:6379");
  EXPECT_EQ(json[0]["design_now"], "lat");
  EXPECT_EQ(json[0]["clients"], 50);
  EXPECT_DOUBLE_EQ(json[0]["requests_per_second"], 250'000);
  EXPECT_NEAR(json[0]["cpu"]["host"]["store"]["share"].get<double>(), 0.25, 1e-9);
  EXPECT_NEAR(json[0]["cpu"]["agent"]["receive"]["seconds_per_request"].get<double>(), 0.24e-6,
              1e-12);
  EXPECT_EQ(json[1], (nlohmann::json{{"address", "b"}, {"error", "gone"}}));
}

}  // namespace
}  // namespace pulse::top
