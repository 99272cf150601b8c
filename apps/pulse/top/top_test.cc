// `pulse top` without a terminal: what it makes of two answers of an agent, and the picture of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "agent/status.h"
#include "apps/pulse/top/sample.h"
#include "apps/pulse/top/view.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/json.h"
#include "base/testing.h"
#include "services/graph/engines/agent_service.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/host_numbers.h"
#include "services/lsm/core/spec.h"
#include "services/lsm/placement/task_numbers.h"
#include "services/ops/ingest/ingest.h"
#include "services/ops/remote/counters.h"

namespace pulse::top {
namespace {

using lsm::HostNumber;
using lsm::RequestKind;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kSecond = 1'000'000'000;

// An agent with `sessions` sessions, `at` seconds after its start, each of which has done `at`
// times the same.
AgentStatusCopy StatusAt(uint64_t at, int sessions = 1) {
  AgentStatusCopy a;
  a.kind = "agent";
  a.engine = "io_uring";
  a.socket = "/run/pulse/agent.sock";
  a.pid = 4242;
  a.workers = 1;
  a.now_nanos = static_cast<int64_t>((1000 + at) * kSecond);
  a.uptime_nanos = static_cast<int64_t>(at * kSecond);
  a.cpu_nanos = at * kSecond / 4;
  for (int i = 0; i < sessions; ++i) {
    SessionStatus s;
    s.id = static_cast<uint64_t>(i) + 2;
    s.pid = 100 + i;
    s.service = &lsm::kSpec;
    s.mover = "shared";
    s.bytes_read = at * 100'000'000;
    s.bytes_written = at * 200'000'000;
    s.fetch_busy_nanos = at * kSecond / 2;
    s.persist_busy_nanos = at * kSecond * 3 / 4;
    s.persist_in_flight = 3;
    s.requests[static_cast<size_t>(RequestKind::kWrite)] = at * 190;
    s.requests[static_cast<size_t>(RequestKind::kSyncClose)] = at * 10;
    s.sync_counts[11] = at * 10;  // 1 to 2 ms
    s.sync_nanos = at * 15'000'000;
    HostNumbersCopy h;
    h[HostNumber::kTime] = static_cast<uint64_t>(a.now_nanos) - 100'000'000;
    h[HostNumber::kOutputOpenNanos] = at * kSecond * 2;
    h[HostNumber::kBackpressureNanos] = at * kSecond / 4;
    h[HostNumber::kFetchWaitNanos] = at * kSecond / 4;
    h[HostNumber::kBarrierNanos] = at * kSecond / 8;
    h[HostNumber::kBytesPersisted] = at * 200'000'000;
    h[HostNumber::kBytesFetched] = at * 90'000'000;
    h[HostNumber::kOutputsOpen] = 2;
    h[HostNumber::kQueuedBytes] = 16 << 20;
    h[HostNumber::kQueueMemory] = 64 << 20;
    h[HostNumber::kDatabases] = 1;
    h.names = {"/data/db" + std::to_string(i)};
    s.host = h;
    a.sessions.push_back(s);
  }
  return a;
}

AgentSample SampleOf(const AgentStatusCopy& status) {
  auto sample = ParseStatus(pulse::ToJson(status));
  EXPECT_TRUE(sample.ok()) << sample.status();
  return *sample;
}

Watched WatchedOf(const AgentRates& rates) {
  Watched w;
  w.socket = "/run/pulse/agent.sock";
  w.rates = rates;
  w.known = true;
  return w;
}

AgentRates RatesOf(int sessions = 1) {
  const AgentSample before = SampleOf(StatusAt(10, sessions));
  return Compare(&before, SampleOf(StatusAt(12, sessions)), nullptr);
}

TEST(TopTest, Compare_TwoSamples_GivesRatesOfTheInterval) {
  const AgentRates r = RatesOf();
  EXPECT_DOUBLE_EQ(r.seconds, 2);
  EXPECT_DOUBLE_EQ(r.cpu_share, 0.25);
  ASSERT_EQ(r.sessions.size(), 1u);
  const SessionRates& s = r.sessions[0];
  EXPECT_TRUE(s.measured);
  EXPECT_DOUBLE_EQ(s.fetch_share, 0.5);
  EXPECT_DOUBLE_EQ(s.persist_share, 0.75);
  EXPECT_DOUBLE_EQ(s.read, 100e6);
  EXPECT_DOUBLE_EQ(s.written, 200e6);
  EXPECT_DOUBLE_EQ(s.requests, 200);
  EXPECT_DOUBLE_EQ(s.syncs, 10);
  EXPECT_NEAR(s.sync_p50, 1.536e-3, 1e-6) << "the middle of the bucket";
  EXPECT_GT(s.sync_p99, s.sync_p50);
  EXPECT_LE(s.sync_p99, 2.048e-3);
  EXPECT_DOUBLE_EQ(s.host.merging, 1.5) << "outputs open, less the waits for space and input";
  EXPECT_DOUBLE_EQ(s.host.backpressure, 0.25);
  EXPECT_DOUBLE_EQ(s.host.barrier, 0.125);
  EXPECT_DOUBLE_EQ(s.host.persisted, 200e6);
  EXPECT_FALSE(s.IsInline());
}

TEST(TopTest, Render_AgentWithFront_AddsALine) {
  const auto with_front = [](uint64_t at) {
    AgentStatusCopy a = StatusAt(at);
    a.front.emplace();
    a.front->service = "redis";
    a.front->connections = 3;
    a.front->answered = at * 900;
    a.front->to_host = {{"dirty", at * 40}, {"not_offloadable", at * 60}};
    a.front->cpu_nanos = at * kSecond / 10;
    return SampleOf(a);
  };
  const AgentSample before = with_front(10);
  const AgentRates r = Compare(&before, with_front(12), nullptr);
  ASSERT_TRUE(r.front.has_value());
  EXPECT_DOUBLE_EQ(r.front->requests, 1000);
  EXPECT_DOUBLE_EQ(r.front->offloaded, 0.9);
  EXPECT_DOUBLE_EQ(r.front->cpu_share, 0.1);
  const auto lines = Render({WatchedOf(r)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("front redis"), HasSubstr("90 %"),
                                    HasSubstr("of 1000/s"), HasSubstr("3 connections"))));
  EXPECT_EQ(ToJson({WatchedOf(r)})["agents"][0]["front"]["offloaded_share"], 0.9);
  const auto plain = Render({WatchedOf(RatesOf())}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(plain, Each(Not(HasSubstr("front"))));
  EXPECT_EQ(lines.size(), plain.size() + 1);
  // It counts when there is just room for the blocks: a line is kept free.
  const size_t room = plain.size() + 1;
  EXPECT_THAT(Render({WatchedOf(RatesOf())}, 1, "", Look{}, room, false),
              Contains(HasSubstr("merge-encode")));
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, room, false),
              Each(Not(HasSubstr("merge-encode"))));
}

// An agent that hands all over to a store, and whose CPU time is known by component.
TEST(TopTest, Render_FrontOfAStore_ShowsItsCpuByComponent) {
  const auto with_front = [](uint64_t at) {
    AgentStatusCopy a = StatusAt(at);
    a.front.emplace();
    a.front->service = "kv";
    a.front->requests = at * 20'000;
    a.front->component_nanos[static_cast<size_t>(CpuComponent::kReceive)] = at * kSecond / 10;
    a.front->component_nanos[static_cast<size_t>(CpuComponent::kParse)] = at * kSecond / 40;
    return SampleOf(a);
  };
  const AgentSample before = with_front(10);
  const AgentRates r = Compare(&before, with_front(12), nullptr);
  ASSERT_TRUE(r.front.has_value());
  EXPECT_DOUBLE_EQ(r.front->requests, 20'000);
  const auto lines = Render({WatchedOf(r)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("front kv"), HasSubstr("20.0 K/s handed over"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("CPU, front"), HasSubstr("12 %"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("receive"), HasSubstr("80 %"),
                                    HasSubstr("5.000 us a request"))));
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("parse"), HasSubstr("20 %"))));
  EXPECT_NEAR(ToJson({WatchedOf(r)})["agents"][0]["front"]["cpu"]["parse"]["share"].get<double>(),
              0.025, 1e-9);
  // All its lines count when there is just room for the blocks: a line is kept free.
  const size_t room = lines.size() + 1;
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, room, false),
              Contains(HasSubstr("merge-encode")));
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, room - 1, false),
              Each(Not(HasSubstr("merge-encode"))));
}

// A status of an earlier release has no components.
TEST(TopTest, ParseStatus_FrontWithoutComponents_IsRead) {
  AgentStatusCopy a = StatusAt(1);
  a.front.emplace();
  auto json = nlohmann::json::parse(ToJson(a));
  json["front"].erase("cpu_components");
  const auto sample = ParseStatus(json.dump());
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_FALSE(sample->front->KnowsComponents());
}

TEST(TopTest, Render_AgentWithOperators_AddsALine) {
  const auto with_ops = [](uint64_t at, uint64_t chunks) {
    AgentStatusCopy a = StatusAt(at);
    ops::remote::OpsCounters counters;
    counters.threads = 2;
    counters.waiting = 3;
    for (const size_t task : {0, 8}) {
      counters.tasks[task].chunks = chunks;
      counters.tasks[task].bytes_in = chunks * 1'000'000;
      counters.tasks[task].busy_nanos = chunks * 10'000'000;
      counters.tasks[task].failed = 1;
    }
    a.groups = {ops::remote::OpsNumbers(counters)};
    return SampleOf(a);
  };
  const AgentSample before = with_ops(10, 0);
  const AgentRates r = Compare(&before, with_ops(12, 100), nullptr);
  const auto lines = Render({WatchedOf(r)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("operators"), HasSubstr("50 %"),
                                    HasSubstr("100.0 MB/s, 3 wait, 2 failed"))));
  EXPECT_EQ(ToJson({WatchedOf(r)})["agents"][0]["ops"]["chunks"], 200);
  const auto plain = Render({WatchedOf(RatesOf())}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(plain, Each(Not(HasSubstr("operators"))));
  EXPECT_EQ(lines.size(), plain.size() + 1);
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, plain.size() + 1, false),
              Each(Not(HasSubstr("merge-encode"))));
}

TEST(TopTest, Render_AgentWithGraphMerges_AddsALine) {
  const auto with_merges = [](uint64_t at, uint64_t merges) {
    AgentStatusCopy a = StatusAt(at);
    graph::engines::MergeCounters counters;
    counters.merges = merges;
    counters.failed = 1;
    counters.refused = 5;
    counters.running = 2;
    counters.waiting = 3;
    counters.bytes_in = merges * 20'000'000;
    counters.bytes_out = merges * 10'000'000;
    counters.cpu_nanos = merges * 100'000'000;
    a.groups = {graph::engines::MergeNumbers(counters)};
    return SampleOf(a);
  };
  const AgentSample before = with_merges(10, 0);
  const AgentRates r = Compare(&before, with_merges(12, 10), nullptr);
  const auto lines = Render({WatchedOf(r)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("graph merges"), HasSubstr("50 %"),
                                    HasSubstr("100.0 MB/s, 3 wait, 1 failed"))));
  const auto json = ToJson({WatchedOf(r)})["agents"][0]["graph"];
  EXPECT_EQ(json["merges"], 10);
  EXPECT_EQ(json["refused"], 5);
  EXPECT_EQ(json["running"], 2);
  EXPECT_EQ(json["output_bytes_per_second"], 50e6);
  const auto plain = Render({WatchedOf(RatesOf())}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(plain, Each(Not(HasSubstr("graph"))));
  EXPECT_FALSE(ToJson({WatchedOf(RatesOf())})["agents"][0].contains("graph"));
  // It counts when there is just room for the blocks.
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, plain.size() + 1, false),
              Each(Not(HasSubstr("merge-encode"))));
}

TEST(TopTest, Render_AgentWithIngest_AddsALine) {
  const auto with_ingest = [](uint64_t at, uint64_t streams) {
    AgentStatusCopy a = StatusAt(at);
    ingest::IngestStats stats;
    stats.streams = streams;
    stats.failed = 2;
    stats.open = 4;
    stats.bytes_received = streams * 5'000'000;
    stats.bytes_filtered = streams * 20'000'000;
    stats.bytes_sent = streams * 5'000'000;
    a.groups = {ingest::IngestNumbers(stats)};
    return SampleOf(a);
  };
  const AgentSample before = with_ingest(10, 0);
  const AgentRates r = Compare(&before, with_ingest(12, 10), nullptr);
  const auto lines = Render({WatchedOf(r)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("ingest"), HasSubstr("25 %"),
                                    HasSubstr("of 100.0 MB/s, 4 open, 2 failed"))));
  const auto json = ToJson({WatchedOf(r)})["agents"][0]["ingest"];
  EXPECT_EQ(json["streams_per_second"], 5);
  EXPECT_EQ(json["received_bytes_per_second"], 25e6);
  const auto plain = Render({WatchedOf(RatesOf())}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(plain, Each(Not(HasSubstr("ingest"))));
  EXPECT_FALSE(ToJson({WatchedOf(RatesOf())})["agents"][0].contains("ingest"));
  EXPECT_THAT(Render({WatchedOf(r)}, 1, "", Look{}, plain.size() + 1, false),
              Each(Not(HasSubstr("merge-encode"))));
}

TEST(TopTest, Render_WholeCompactions_AddsALine) {
  const auto with_tasks = [](uint64_t at, uint64_t running, uint64_t done) {
    AgentStatusCopy a = StatusAt(at);
    lsm::TaskCounters counters;
    counters.most = 2;
    counters.running = running;
    counters.done = done;
    a.groups = {lsm::TaskNumbers(counters)};
    return SampleOf(a);
  };
  const AgentSample before = with_tasks(10, 0, 0);
  const AgentRates idle = Compare(&before, with_tasks(12, 0, 0), nullptr);
  const auto plain = Render({WatchedOf(idle)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(plain, Each(Not(HasSubstr("compactions")))) << "none was ever asked for";
  const AgentRates busy = Compare(&before, with_tasks(12, 1, 7), nullptr);
  const auto lines = Render({WatchedOf(busy)}, 1, "12:00:00", Look{}, 0, false);
  EXPECT_THAT(lines, Contains(AllOf(HasSubstr("compactions"), HasSubstr("50 %"),
                                    HasSubstr("1 of 2 run, 7 done, 0 failed"))));
  EXPECT_EQ(lines.size(), plain.size() + 1);
  EXPECT_EQ(ToJson({WatchedOf(busy)})["agents"][0]["tasks"]["done"], 7);
  EXPECT_FALSE(ToJson({WatchedOf(RatesOf())})["agents"][0].contains("tasks"));
  // It counts when there is just room for the blocks.
  EXPECT_THAT(Render({WatchedOf(busy)}, 1, "", Look{}, plain.size() + 1, false),
              Each(Not(HasSubstr("merge-encode"))));
}

TEST(TopTest, Compare_HostWithoutNewNumbers_KeepsItsRates) {
  const AgentSample first = SampleOf(StatusAt(10));
  const AgentSample second = SampleOf(StatusAt(12));
  const AgentRates rates = Compare(&first, second, nullptr);
  AgentStatusCopy later = StatusAt(12);
  later.now_nanos += 200'000'000;
  later.uptime_nanos += 200'000'000;
  const AgentRates again = Compare(&second, SampleOf(later), &rates);
  EXPECT_DOUBLE_EQ(again.sessions[0].host.merging, 1.5);
  EXPECT_DOUBLE_EQ(again.sessions[0].read, 0) << "of these the agent knows";
}

TEST(TopTest, Compare_SilentHost_HasNoRates) {
  const AgentSample first = SampleOf(StatusAt(10));
  const AgentSample second = SampleOf(StatusAt(12));
  const AgentRates rates = Compare(&first, second, nullptr);
  EXPECT_EQ(rates.sessions[0].host_silent, 0);
  AgentStatusCopy later = StatusAt(12);
  later.now_nanos += 7 * static_cast<int64_t>(kSecond);
  later.uptime_nanos += 7 * static_cast<int64_t>(kSecond);
  const AgentRates silent = Compare(&second, SampleOf(later), &rates);
  EXPECT_EQ(silent.sessions[0].host.merging, 0);
  EXPECT_NEAR(silent.sessions[0].host_silent, 7.1, 0.001);
  std::string all;
  for (const auto& line : Render({WatchedOf(silent)}, 1, "", Look{}, 0, false)) all += line + "\n";
  EXPECT_THAT(all, HasSubstr("host silent for 7 s"));
}

TEST(TopTest, Compare_AnotherAgentAtTheSocket_BeginsAnew) {
  const AgentSample before = SampleOf(StatusAt(10));
  AgentStatusCopy next = StatusAt(11);
  next.pid = 4243;
  EXPECT_EQ(Compare(&before, SampleOf(next), nullptr).seconds, 0);
  // The same number again, but a younger process.
  EXPECT_EQ(Compare(&before, SampleOf(StatusAt(3)), nullptr).seconds, 0);
}

TEST(TopTest, Compare_CountersThatGoBack_CountAsZero) {
  const AgentSample before = SampleOf(StatusAt(10));
  AgentStatusCopy now = StatusAt(12);
  now.sessions[0].bytes_read = 5;
  (*now.sessions[0].host)[HostNumber::kBarrierNanos] = 0;
  const AgentRates r = Compare(&before, SampleOf(now), nullptr);
  EXPECT_EQ(r.sessions[0].read, 0);
  EXPECT_EQ(r.sessions[0].host.barrier, 0);
}

TEST(TopTest, ParseStatus_Nonsense_IsRefusedOrHarmless) {
  EXPECT_TRUE(absl::IsInvalidArgument(ParseStatus("no json").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseStatus("{}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseStatus("[1,2]").status()));
  auto j = nlohmann::json::parse(pulse::ToJson(StatusAt(1)));
  j["version"] = 2;
  EXPECT_TRUE(absl::IsFailedPrecondition(ParseStatus(j.dump()).status()));
  j["version"] = 1;
  j["sessions"][0]["syncs"] = "none";
  EXPECT_TRUE(absl::IsInvalidArgument(ParseStatus(j.dump()).status()));
  // Cut and spoilt at random: an error or a sample, never a crash.
  const std::string whole = pulse::ToJson(StatusAt(7, 2));
  std::mt19937_64 rng(testing_util::TestSeed());
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole.substr(0, i % 2 == 0 ? whole.size() : rng() % whole.size());
    for (int k = 0; k < 3 && !text.empty(); ++k) {
      text[rng() % text.size()] = static_cast<char>(rng());
    }
    const auto sample = ParseStatus(text);
    if (!sample.ok()) continue;
    const auto look = Look{};
    for (const std::string& line :
         Render({WatchedOf(Compare(&*sample, *sample, nullptr))}, 1, "12:00:00", look, 0, false)) {
      ASSERT_EQ(CleanText(line), line);
    }
  }
}

TEST(TopTest, Render_OneAgent_ShowsWhatIsMeasured) {
  Look look;
  std::string all;
  for (const std::string& line :
       Render({WatchedOf(RatesOf())}, 1, "12:34:56", look, /*height=*/24, /*keys=*/true)) {
    EXPECT_LE(Columns(line), 80u) << line;
    all += line + "\n";
  }
  EXPECT_THAT(all, HasSubstr("1 agent, 1 session, 1 database"));
  EXPECT_THAT(all, HasSubstr("/run/pulse/agent.sock"));
  EXPECT_THAT(all, HasSubstr("/data/db0"));
  EXPECT_THAT(all, HasSubstr("process 100, session 2, shared"));
  EXPECT_THAT(all, HasSubstr("▕██████████          ▏  50 %  100.0 MB/s"));
  EXPECT_THAT(all, HasSubstr("▕████████████████████▏ 150 %  (host)"));
  EXPECT_THAT(all, HasSubstr("▕███████████████     ▏  75 %  200.0 MB/s"));
  EXPECT_THAT(all, HasSubstr("16.0 of 64.0 M"));
  EXPECT_THAT(all, HasSubstr("space 25 %  barrier 12 %  fetch 25 %"));
  EXPECT_THAT(all, HasSubstr("10.0/s  p50 1.5 ms  p99 2.0 ms"));
  EXPECT_THAT(all, HasSubstr("q quits"));
  EXPECT_THAT(all, Not(HasSubstr("inline\n")));
  EXPECT_THAT(all, Not(HasSubstr("\x1b"))) << "no colours unless asked for";
}

TEST(TopTest, Render_AnyWidthAndHeight_FitsTheScreen) {
  std::vector<Watched> agents = {WatchedOf(RatesOf(1)), WatchedOf(RatesOf(9))};
  agents[0].rates.sessions[0].now.databases[0] = "/" + std::string(300, 'x') + "/größe/end";
  agents.emplace_back();
  agents.back().socket = "/tmp/gone.sock";
  agents.back().error = "no agent at /tmp/gone.sock: nothing is there; start one with: pulse agent";
  for (const size_t width : {1, 20, 40, 80, 200}) {
    for (const size_t height : {1, 2, 5, 24, 60, 200}) {
      Look look;
      look.width = width;
      const auto lines = Render(agents, 1, "12:34:56", look, height, true);
      EXPECT_EQ(lines.size(), height);
      for (const std::string& line : lines) {
        ASSERT_LE(Columns(line), width) << line;
        ASSERT_EQ(CleanText(line), line) << "a character was cut in two";
      }
    }
  }
  Look look;
  std::string all;
  for (const auto& line : Render(agents, 1, "12:34:56", look, 24, true)) all += line + "\n";
  EXPECT_THAT(all, HasSubstr("merge")) << "rows of a table";
  EXPECT_THAT(all, HasSubstr("größe/end")) << "of a long path its end";
  // Where not all fit, it says how many do not.
  all.clear();
  for (const auto& line : Render({WatchedOf(RatesOf(40))}, 1, "", look, 24, true))
    all += line + "\n";
  EXPECT_THAT(all, HasSubstr("more sessions; make the window higher"));
}

TEST(TopTest, Render_WithColours_HasTheSameText) {
  Look plain, coloured;
  coloured.colours = true;
  const std::vector<Watched> agents = {WatchedOf(RatesOf(2))};
  const auto a = Render(agents, 1, "12:34:56", plain, 0, false);
  const auto b = Render(agents, 1, "12:34:56", coloured, 0, false);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    std::string stripped;
    for (size_t at = 0; at < b[i].size(); ++at) {
      if (b[i][at] != '\x1b') {
        stripped += b[i][at];
        continue;
      }
      at = b[i].find('m', at);
    }
    EXPECT_EQ(stripped, a[i]);
  }
  EXPECT_NE(a, b);
  // Without block characters it is ASCII.
  plain.blocks = false;
  for (const std::string& line : Render(agents, 1, "12:34:56", plain, 0, false)) {
    for (const char c : line) ASSERT_GE(c, 0) << line;
  }
}

TEST(TopTest, Render_HostWithoutItsAgent_IsShownAsInline) {
  const AgentSample before = SampleOf(StatusAt(10));
  AgentStatusCopy now = StatusAt(12);
  HostNumbersCopy& h = *now.sessions[0].host;
  h[HostNumber::kBytesPersisted] = 10 * 200'000'000ull;
  h[HostNumber::kBytesInline] = 50'000'000;
  h[HostNumber::kFailovers] = 1;
  std::string all;
  for (const auto& line :
       Render({WatchedOf(Compare(&before, SampleOf(now), nullptr))}, 1, "", Look{}, 0, false)) {
    all += line + "\n";
  }
  EXPECT_THAT(all, HasSubstr("/data/db0 inline"));
  EXPECT_THAT(all, HasSubstr("inline 25.0 MB/s"));
  EXPECT_THAT(all, HasSubstr("1 lost"));
}

TEST(TopTest, Tail_OfWideCharacters_FitsTheColumns) {
  EXPECT_EQ(Tail("世界世界ab", 10), "世界世界ab");
  EXPECT_EQ(Tail("世界世界ab", 9), "...世界ab");
  EXPECT_EQ(Tail("世界世界ab", 8), "...界ab") << "half a character is none";
  EXPECT_EQ(Tail("größen", 5), "...en");
}

TEST(TopTest, ToJson_MeasuredAndLostAgents_HasTheSame) {
  std::vector<Watched> agents = {WatchedOf(RatesOf())};
  agents.emplace_back();
  agents.back().socket = "/tmp/gone.sock";
  agents.back().error = "it is gone";
  const auto j = ToJson(agents);
  EXPECT_EQ(j["format"], "pulse-top");
  EXPECT_EQ(j["agents"][1]["error"], "it is gone");
  const auto& s = j["agents"][0]["sessions"][0];
  EXPECT_EQ(s["fetch_share"], 0.5);
  EXPECT_EQ(s["host"]["merging_threads"], 1.5);
  EXPECT_EQ(s["databases"][0], "/data/db0");
  EXPECT_EQ(s["host"]["queue_memory"], 64 << 20);
}

}  // namespace
}  // namespace pulse::top
