// Agents that end at each step of the conversation: the merger says that the agent was lost, in
// whatever way the sockets tell, and how to start it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "link/test_closing_agent.h"
#include "services/graph/engines/test_merges.h"

namespace pulse::graph::engines {
namespace {

using testing_link::ClosingAgent;
using testing_link::EndsAt;

TEST(LostAgent, AtAnyStep_IsSaidToBeLostAndHowToStartIt) {
  std::mt19937_64 random(testing_util::TestSeed());
  const TestInputs inputs = RandomInputs(&random, 2, 100, 100);
  const std::pair<EndsAt, const char*> steps[] = {
      {EndsAt::kHelloUnread, "was lost in the handshake"},
      {EndsAt::kHello, "was lost in the handshake"},
      {EndsAt::kNextSend, "was lost during a compaction"},
      {EndsAt::kQuestionUnread, "was lost during a compaction"},
      {EndsAt::kQuestion, "was lost during a compaction"}};
  for (const auto& [step, why] : steps) {
    ClosingAgent agent(step);
    AgentMerger merger({agent.socket(), /*silence_ms=*/60'000});
    StringSink sink;
    const UniqueFd output = MemoryFile("");
    // The second time over a new connection, which ends as the first did.
    for (int time = 0; time < 2; ++time) {
      const auto merged = merger.Merge(inputs.Job(&sink, output.get(), {}));
      EXPECT_TRUE(absl::IsUnavailable(merged.status())) << merged.status();
      EXPECT_EQ(testing_util::Text(merged.status()),
                "the agent at " + agent.socket() + " " + why +
                    "; if it has ended, start it again with: pulse agent --socket " +
                    agent.socket() + " --graph")
          << static_cast<int>(step) << ", time " << time;
    }
    EXPECT_EQ(agent.conversations(), 2) << static_cast<int>(step);
    EXPECT_EQ(ContentOf(output.get()), "");
  }
}

}  // namespace
}  // namespace pulse::graph::engines
