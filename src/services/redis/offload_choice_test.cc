#include "services/redis/offload_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;

OffloadFacts OwnCpus() {
  OffloadFacts facts;
  facts.server_cpus = {0, 1};
  facts.agent_cpus = {2, 3};
  facts.process_cpus = {0, 1, 2, 3};
  return facts;
}

void ExpectChoice(const OffloadFacts& facts, bool on, const char* reason) {
  const auto choice = ChooseOffload(facts);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->on, on) << choice->reason;
  EXPECT_THAT(choice->reason, HasSubstr(reason));
}

TEST(OffloadChoiceTest, Auto_AgentHasOwnCpus_On) {
  ExpectChoice(OwnCpus(), true, "CPUs of its own: 2,3");
}

TEST(OffloadChoiceTest, Auto_NoAgentCpusGiven_Off) {
  OffloadFacts facts = OwnCpus();
  facts.agent_cpus.clear();
  ExpectChoice(facts, false, "--agent-cpus is not given");
  facts.server_cpus.clear();
  ExpectChoice(facts, false, "--agent-cpus is not given");
}

TEST(OffloadChoiceTest, Auto_OneCpuInCommon_Off) {
  OffloadFacts facts = OwnCpus();
  facts.agent_cpus = {3, 1};  // in any order
  ExpectChoice(facts, false, "the server may use 1, too (--cpus)");
}

TEST(OffloadChoiceTest, Auto_NoServerCpusGiven_ServerHasThoseOfTheProcess) {
  OffloadFacts facts = OwnCpus();
  facts.server_cpus.clear();
  ExpectChoice(facts, false, "the server may use 2,3, too (--cpus is not given)");
  facts.process_cpus = {0, 1};  // as taskset leaves them
  ExpectChoice(facts, true, "2,3");
  facts.process_cpus.clear();
  ExpectChoice(facts, false, "not known");
}

TEST(OffloadChoiceTest, OnAndOff_AnyCpus_AsTheySay) {
  OffloadFacts facts;
  facts.process_cpus = {0};
  facts.mode = OffloadMode::kOn;
  ExpectChoice(facts, true, "--offload on");
  facts = OwnCpus();
  facts.mode = OffloadMode::kOff;
  ExpectChoice(facts, false, "--offload off");
}

TEST(OffloadChoiceTest, TablesInAPool_AutoIsOffAndOnIsAnError) {
  OffloadFacts facts = OwnCpus();
  facts.uri = "pulse://?layout=pool&pool=/x";
  ExpectChoice(facts, false, "pool");
  facts.mode = OffloadMode::kOn;
  EXPECT_THAT(std::string(ChooseOffload(facts).status().message()), HasSubstr("layout=pool"));
}

TEST(OffloadChoiceTest, SeparateAgent_AutoIsOffAndOnIsAnError) {
  OffloadFacts facts = OwnCpus();
  facts.separate_agent = true;
  ExpectChoice(facts, false, "--host-socket");
  facts.mode = OffloadMode::kOn;
  EXPECT_THAT(std::string(ChooseOffload(facts).status().message()), HasSubstr("one of the two"));
}

TEST(OffloadChoiceTest, Description_NamesCpusThatTurnItOn) {
  EXPECT_THAT(DescribeDefaultOffload({0}), HasSubstr("no second CPU"));
  EXPECT_THAT(DescribeDefaultOffload({0, 1, 2}), HasSubstr("--cpus 0,1 --agent-cpus 2"));
}

}  // namespace
}  // namespace pulse::redis
