// pulse/ops.h with an agent process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "agent/socket_server.h"
#include "base/cpu_list.h"
#include "base/testing.h"
#include "pulse/ops.h"
#include "services/ops/remote/spec.h"
#include "services/ops/test_data.h"

namespace pulse::ops {
namespace {

using operators::Operators;
using operators::Request;
using operators::Result;
using testing_util::TestSeed;

TEST(OpsLibraryAgentTest, Open_OldStruct_HasNoAgent) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.struct_size = offsetof(pulse_ops_options, agent);
  options.agent = "/tmp/pulse-no-such.sock";  // beyond what the program knows
  EXPECT_TRUE(Operators::Open(&options, nullptr));
  options.struct_size -= sizeof(size_t);
  EXPECT_FALSE(Operators::Open(&options, nullptr));
}

TEST(OpsLibraryAgentTest, Open_AgentThatIsNotThere_SaysSo) {
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  options.agent = "/tmp/pulse-no-such.sock";
  pulse_ops* ops = nullptr;
  char why[256];
  EXPECT_EQ(pulse_ops_open(&options, &ops, why, sizeof why), PULSE_OPS_IO);
  EXPECT_THAT(why, testing::HasSubstr("--ops"));
  const std::string cpu = std::to_string(MyCpus().front());
  options.agent_cpus = cpu.c_str();
  EXPECT_EQ(pulse_ops_open(&options, &ops, why, sizeof why), PULSE_OPS_INVALID);
}

TEST(OpsLibraryAgentTest, Run_ByAnAgent_AsByTheHostUntilItIsLost) {
  const testing_util::ScratchPath socket("ops-library.sock");
  remote::OpsAgent agent({1, {}, false});
  AgentOptions agent_options;
  agent_options.socket_path = socket.get();
  auto server = SocketServer::Open(agent_options, {remote::Offered(&agent)}).value();
  pulse_ops_options options;
  pulse_ops_options_init(&options);
  const std::string& path = socket.get();
  options.agent = path.c_str();
  options.placement = "agent";
  std::string why;
  const Operators operators = Operators::Open(&options, &why);
  ASSERT_TRUE(operators) << why;
  const std::string data = MakeData(Kind::kMixed, 5'000'000, TestSeed());
  Request request(PULSE_OPS_COMPRESS);
  request.From(data);
  Result packed = operators.Run(request);
  ASSERT_TRUE(packed.ok()) << packed.message();
  EXPECT_TRUE(packed.data() == Operators::Open(nullptr, nullptr).Run(request).data());
  EXPECT_GT(agent.counters().tasks[0].chunks, 0u);
  server.reset();
  const Result lost = operators.Run(request);
  EXPECT_EQ(lost.code(), PULSE_OPS_IO) << lost.message();
  // Small ones are the host's in any case.
  ASSERT_EQ(pulse_ops_submit(operators.get(), &request), PULSE_OPS_OK);
  Result batch;
  ASSERT_EQ(pulse_ops_wait(operators.get(), batch.get(), 60000), PULSE_OPS_OK);
  EXPECT_TRUE(batch.ok()) << batch.message();
}

}  // namespace
}  // namespace pulse::ops
