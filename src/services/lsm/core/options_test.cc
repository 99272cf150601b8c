#include "services/lsm/core/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace pulse::lsm {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionsTest : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("PULSE_OPTIONS"); }
  void TearDown() override { unsetenv("PULSE_OPTIONS"); }

  static std::string ErrorOf(const std::string& uri) {
    const auto o = ParseOptions(uri);
    if (o.ok()) return "accepted";
    EXPECT_TRUE(absl::IsInvalidArgument(o.status())) << o.status();
    return std::string(o.status().message());
  }
};

TEST_F(OptionsTest, Parse_BareUri_HasDefaults) {
  const auto o = ParseOptions("pulse://");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->socket_path, "");
  EXPECT_EQ(o->placement, PlacementMode::kOffloadIo);
  EXPECT_EQ(o->sync, SyncMode::kBarrier);
  EXPECT_EQ(o->io, IoMode::kAuto);
  EXPECT_TRUE(o->fetch);
  EXPECT_FALSE(o->fallback_embedded);
  EXPECT_FALSE(o->mover_given);
  EXPECT_FALSE(o->engine_given);
  EXPECT_EQ(o->mover, MoverKind::kShared);
  EXPECT_EQ(o->engine, EngineKind::kUring);
  EXPECT_EQ(o->queue_bytes, uint64_t{32} << 20);
  EXPECT_EQ(o->pending_limit, Options::kAutoPendingLimit);
  EXPECT_EQ(o->write_threshold, uint64_t{1} << 20);
  EXPECT_EQ(o->fetch_bytes % o->fetch_chunk, 0u);
}

TEST_F(OptionsTest, Parse_EveryKey_IsRead) {
  const auto o = ParseOptions(
      "pulse:///run/pulse/agent.sock?sync=strict&io=direct&fetch=off&fallback=embedded&"
      "mover=vmread&engine=threads&queue=8M&write_threshold=512K&sync_interval=256K&"
      "fetch_memory=16M&fetch_chunk=128K&readahead=64K&streams=3&agent_cpus=0&spin_us=0&"
      "placement=whole&whole=deep&host_slots=2&agent_tasks=3&debt=2G");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->placement, PlacementMode::kOffloadAll);
  EXPECT_EQ(o->offload_all, OffloadAllScope::kDeep);
  EXPECT_EQ(o->host_slots, 2);
  EXPECT_EQ(o->agent_tasks, 3);
  EXPECT_EQ(o->pending_limit, uint64_t{2} << 30);
  EXPECT_EQ(o->socket_path, "/run/pulse/agent.sock");
  EXPECT_EQ(o->sync, SyncMode::kStrict);
  EXPECT_EQ(o->io, IoMode::kDirect);
  EXPECT_FALSE(o->fetch);
  EXPECT_TRUE(o->fallback_embedded);
  EXPECT_TRUE(o->mover_given);
  EXPECT_EQ(o->mover, MoverKind::kVmRead);
  EXPECT_TRUE(o->engine_given);
  EXPECT_EQ(o->engine, EngineKind::kThreads);
  EXPECT_EQ(o->queue_bytes, uint64_t{8} << 20);
  EXPECT_EQ(o->write_threshold, uint64_t{512} << 10);
  EXPECT_EQ(o->sync_interval, uint64_t{256} << 10);
  EXPECT_EQ(o->fetch_bytes, uint64_t{16} << 20);
  EXPECT_EQ(o->fetch_chunk, uint64_t{128} << 10);
  EXPECT_EQ(o->readahead, uint64_t{64} << 10);
  EXPECT_EQ(o->max_streams, 3);
  EXPECT_THAT(o->agent_cpus, ElementsAre(0));
  EXPECT_EQ(o->spin_us, 0);
}

TEST_F(OptionsTest, Parse_FlushesWithoutAgentCpus_IsRefused) {
  for (const auto& [uri, mode] :
       {std::pair{"pulse://", FlushMode::kHost},
        std::pair{"pulse://?placement=whole&agent_cpus=0", FlushMode::kHost},
        std::pair{"pulse://?placement=adaptive", FlushMode::kAdaptive},
        std::pair{"pulse:///a.sock?placement=adaptive", FlushMode::kAdaptive},
        std::pair{"pulse://?placement=adaptive&flushes=host", FlushMode::kHost},
        std::pair{"pulse://?flushes=adaptive&agent_cpus=0", FlushMode::kAdaptive},
        std::pair{"pulse://?flushes=agent&agent_cpus=0", FlushMode::kAgent}}) {
    const auto o = ParseOptions(uri);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->flushes, mode) << uri;
  }
  for (const char* bad : {"pulse://?flushes=agent", "pulse:///a.sock?flushes=agent&agent_cpus=0",
                          "pulse:///a.sock?flushes=adaptive"}) {
    EXPECT_THAT(ErrorOf(bad), HasSubstr("agent_cpus=")) << bad;
  }
}

TEST_F(OptionsTest, Parse_Compression_NeedsAnEmbeddedAgentsCpus) {
  EXPECT_FALSE(ParseOptions("pulse://")->agent_compresses);
  EXPECT_FALSE(ParseOptions("pulse:///a.sock?compression=host")->agent_compresses);
  for (const char* good : {"pulse://?compression=agent&agent_cpus=0",
                           "pulse:///a.sock?compression=agent&agent_cpus=0&fallback=embedded"}) {
    const auto o = ParseOptions(good);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_TRUE(o->agent_compresses) << good;
  }
  for (const char* bad :
       {"pulse://?compression=agent", "pulse:///a.sock?compression=agent&agent_cpus=0"}) {
    EXPECT_THAT(ErrorOf(bad), AllOf(HasSubstr("agent_cpus="), HasSubstr("compression"))) << bad;
  }
  EXPECT_THAT(ErrorOf("pulse://?compression=agent&agent_cpus=0&placement=host"),
              HasSubstr("placement=host"));
  EXPECT_THAT(ErrorOf("pulse://?compression=agent&agent_cpus=0&placement=whole&whole=deep"),
              HasSubstr("whole=deep"));
  // Its threads would come before an agent in the background.
  EXPECT_FALSE(ParseOptions("pulse://?compression=agent&agent_cpus=0")->agent_background);
  setenv("PULSE_OPTIONS", "agent_sched=background", 1);
  EXPECT_TRUE(ParseOptions("pulse://?compression=agent&agent_cpus=0")->agent_background);
  // The environment's is for the embedded agents of the process.
  setenv("PULSE_OPTIONS", "compression=agent&agent_cpus=0", 1);
  EXPECT_TRUE(ParseOptions("pulse://")->agent_compresses);
  EXPECT_FALSE(ParseOptions("pulse:///a.sock")->agent_compresses);
}

TEST_F(OptionsTest, Parse_EngineNames_AreRead) {
  for (const auto& [name, kind] :
       {std::pair{"io_uring", EngineKind::kUring}, std::pair{"threads", EngineKind::kThreads}}) {
    const auto o = ParseOptions(std::string("pulse://?engine=") + name);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->engine, kind);
  }
}

TEST_F(OptionsTest, Parse_UnknownKey_IsRefusedByName) {
  EXPECT_THAT(ErrorOf("pulse://?sinc=strict"),
              AllOf(HasSubstr("\"sinc\""), HasSubstr("sync"), HasSubstr("write_threshold")));
  // Also when something else is wrong as well.
  EXPECT_THAT(ErrorOf("pulse://?Queue=1M&sync=strict"), HasSubstr("\"Queue\""));
}

TEST_F(OptionsTest, Parse_BadValue_IsNamed) {
  for (const char* bad : {"sync=maybe",
                          "sync=",
                          "debt=much",
                          "debt=-1",
                          "io=mmap",
                          "fetch=1",
                          "fallback=yes",
                          "mover=rdma",
                          "engine=uring",
                          "engine=libaio",
                          "engine=io_uring_poll",
                          "queue=1",
                          "queue=2G",
                          "queue=-1M",

                          "write_threshold=1K",
                          "write_threshold=128M",
                          "sync_interval=0",
                          "fetch_memory=1K",
                          "fetch_chunk=1M1",
                          "fetch_chunk=16M",
                          "readahead=1K",
                          "streams=0",
                          "streams=65",
                          "streams=many",
                          "flushes=card",
                          "compression=zstd",
                          "agent_cpus=x",
                          "agent_cpus=3-1",
                          "spin_us=-1",
                          "spin_us=1000001"}) {
    EXPECT_THAT(ErrorOf(std::string("pulse://?") + bad), HasSubstr(bad)) << bad;
  }
}

TEST_F(OptionsTest, Parse_MalformedUri_IsRefused) {
  for (const char* bad : {"", "pulse", "pulse:", "pulse:/", "rocks://", "pulse://?sync",
                          "pulse://?sync=strict&sync=strict", "pulse://?=x", "pulse://?&"}) {
    EXPECT_NE(ErrorOf(bad), "accepted") << bad;
  }
}

TEST_F(OptionsTest, Parse_RelativeSocketPath_IsRefused) {
  EXPECT_EQ(ParseOptions("pulse:///a.sock")->socket_path, "/a.sock");
  EXPECT_EQ(ParseOptions("pulse:///a b/c.sock?")->socket_path, "/a b/c.sock");
  EXPECT_THAT(ErrorOf("pulse://agent.sock"),
              AllOf(HasSubstr("agent.sock"), HasSubstr("pulse:///PATH")));
  EXPECT_THAT(ErrorOf("pulse://run/agent.sock?sync=strict"), HasSubstr("absolute"));
}

TEST_F(OptionsTest, Parse_ThresholdAboveHalfTheQueue_IsRefused) {
  EXPECT_TRUE(ParseOptions("pulse://?queue=2M&write_threshold=1M").ok());
  EXPECT_THAT(ErrorOf("pulse://?queue=2M&write_threshold=1052672"),  // a page too many
              AllOf(HasSubstr("write_threshold"), HasSubstr("queue")));
  EXPECT_THAT(ErrorOf("pulse://?queue=1M"), HasSubstr("write_threshold"));  // the default is 1M
  EXPECT_TRUE(ParseOptions("pulse://?queue=1M&write_threshold=4K").ok());
}

TEST_F(OptionsTest, Parse_FetchChunkAboveAQuarter_IsRefused) {
  EXPECT_TRUE(ParseOptions("pulse://?fetch_memory=1M&fetch_chunk=256K").ok());
  EXPECT_THAT(ErrorOf("pulse://?fetch_memory=1M&fetch_chunk=260K"),
              AllOf(HasSubstr("fetch_chunk"), HasSubstr("fetch_memory")));
}

TEST_F(OptionsTest, Parse_UnalignedSizes_AreRounded) {
  const auto o = ParseOptions(
      "pulse://?queue=3000001&write_threshold=70001&fetch_memory=3000001&fetch_chunk=70001");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->queue_bytes % 4096, 0u);
  EXPECT_EQ(o->write_threshold, 69632u);
  EXPECT_EQ(o->fetch_chunk, 69632u);
  EXPECT_EQ(o->fetch_bytes % o->fetch_chunk, 0u);
}

TEST_F(OptionsTest, Environment_KeyNotInUri_IsUsed) {
  setenv("PULSE_OPTIONS", "sync=strict&queue=4M", 1);
  const auto o = ParseOptions("pulse://?queue=8M");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->sync, SyncMode::kStrict);
  EXPECT_EQ(o->queue_bytes, uint64_t{8} << 20);  // the URI's own value wins
  setenv("PULSE_OPTIONS", "engine=threads&mover=vmread", 1);
  EXPECT_TRUE(ParseOptions("pulse://")->engine_given);
  EXPECT_TRUE(ParseOptions("pulse://")->mover_given);
  setenv("PULSE_OPTIONS", "", 1);
  EXPECT_TRUE(ParseOptions("pulse://").ok());
}

TEST_F(OptionsTest, Environment_BadValue_IsRefused) {
  setenv("PULSE_OPTIONS", "sync", 1);
  EXPECT_THAT(ErrorOf("pulse://"), HasSubstr("PULSE_OPTIONS"));
  setenv("PULSE_OPTIONS", "sync=strict&sync=barrier", 1);
  EXPECT_THAT(ErrorOf("pulse://"), HasSubstr("PULSE_OPTIONS"));
  setenv("PULSE_OPTIONS", "sinc=strict", 1);
  EXPECT_THAT(ErrorOf("pulse://"), HasSubstr("\"sinc\""));
  setenv("PULSE_OPTIONS", "queue=1", 1);
  EXPECT_THAT(ErrorOf("pulse://"), HasSubstr("queue=1"));
}

TEST_F(OptionsTest, Parse_Placements_AreRead) {
  const std::pair<const char*, PlacementMode> modes[] = {{"host", PlacementMode::kHost},
                                                         {"split", PlacementMode::kOffloadIo},
                                                         {"whole", PlacementMode::kOffloadAll},
                                                         {"adaptive", PlacementMode::kAdaptive}};
  for (const auto& [name, mode] : modes) {
    const auto o = ParseOptions(std::string("pulse://?placement=") + name);
    ASSERT_TRUE(o.ok()) << o.status();
    EXPECT_EQ(o->placement, mode);
  }
  EXPECT_THAT(ErrorOf("pulse://?placement=dpu"),
              AllOf(HasSubstr("placement"), HasSubstr("host"), HasSubstr("adaptive")));
}

// An option of former versions: accepted, and no more.
TEST_F(OptionsTest, CompactionSched_AnyValue_IsAcceptedAndChangesNothing) {
  const auto o = ParseOptions("pulse://?compaction_sched=idle&compaction_nice=7");
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(o->compaction_nice, 7);
}

}  // namespace
}  // namespace pulse::lsm
