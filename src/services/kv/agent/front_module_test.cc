// The numbers of an agent's module that serves clients of a store.
#include "services/kv/agent/front_module.h"

#include <string>

#include "services/kv/agent/test_agent.h"

namespace pulse::kv {
namespace {

// The port in what the module says of itself.
uint16_t PortOf(const std::string& described) {
  const size_t at = described.find("(port ");
  EXPECT_NE(at, std::string::npos) << described;
  return static_cast<uint16_t>(std::stoi(described.substr(at + 6)));
}

TEST_F(AgentTest, FrontStatus_OfAModule_HasRequests_AndCpuTimeByComponent) {
  OpenHost();
  OptionValues options;
  options.Set("--serve-kv", {socket_.get()});
  options.Set("--serve", {"0"});
  const auto module = kEntry.open(options, AgentFacts());
  ASSERT_TRUE(module.ok()) << module.status();
  NetworkFront* const front = (*module)->front();
  ASSERT_TRUE(front->Listen().ok());

  const auto nanos = [&](CpuComponent component) {
    return front->Status().component_nanos[static_cast<size_t>(component)];
  };
  // A turn in some sixty is measured.
  Client client(PortOf(front->DescribeFront()));
  ASSERT_TRUE(testing_util::Eventually([&] {
    EXPECT_EQ(client.Ask("SET k v"), "+OK\r\n");
    return nanos(CpuComponent::kReceive) > 0 && nanos(CpuComponent::kParse) > 0 &&
           nanos(CpuComponent::kRespond) > 0;
  }));
  EXPECT_GT(front->Status().requests, 0u);
  EXPECT_EQ(nanos(CpuComponent::kStore), 0u) << "the store is the host's";
  front->Stop();
}

}  // namespace
}  // namespace pulse::kv
