// The services of an agent process: which are opened, in which order they close, and what they
// see of each other.
#include "agent/service_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pulse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr OptionSpec kNames[] = {{.name = "--a"}, {.name = "--b"}};
constexpr ServiceSpec kSpecA = {.name = "a", .id = 101, .version = 1, .start_hint = "--a"};

std::vector<std::string>& Events() {
  static std::vector<std::string> events;
  return events;
}

class TestModule : public ServiceModule, public NetworkFront {
 public:
  TestModule(std::string name, bool is_front) : name_(std::move(name)), is_front_(is_front) {
    Events().push_back("open " + name_);
  }
  ~TestModule() override { Events().push_back("close " + name_); }
  std::optional<OfferedService> Offer() override {
    if (is_front_) return std::nullopt;
    return OfferedService{&kSpecA, nullptr};
  }
  NetworkFront* front() override { return is_front_ ? this : nullptr; }
  std::string Describe() const override { return ", " + name_; }
  // Another line than the agent's own, in which no port is known yet.
  std::string DescribeFront() const override { return "front of " + name_; }
  absl::Status Listen() override { return absl::OkStatus(); }
  void Stop() override {}
  FrontStatus Status() const override { return {}; }

 private:
  const std::string name_;
  const bool is_front_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> OpenA(const OptionValues& options,
                                                     const AgentFacts& facts) {
  if (options.Text(kNames[0]).empty()) return nullptr;
  EXPECT_THAT(facts.opened, IsEmpty());
  return std::make_unique<TestModule>("a", false);
}
const ServiceEntry kEntryA = {&kSpecA, {&kNames[0], 1}, &OpenA};

// Needs a.
absl::StatusOr<std::unique_ptr<ServiceModule>> OpenB(const OptionValues& options,
                                                     const AgentFacts& facts) {
  if (options.Text(kNames[1]).empty()) return nullptr;
  if (facts.Opened(kEntryA) == nullptr) return absl::InvalidArgumentError("b needs --a");
  return std::make_unique<TestModule>("b", true);
}
const ServiceEntry kEntryB = {nullptr, {&kNames[1], 1}, &OpenB};
const ServiceEntry kOnlyOptions = {nullptr, {}, nullptr};
const ServiceEntry* const kEntries[] = {&kEntryA, &kOnlyOptions, &kEntryB};

OptionValues Given(const std::vector<std::string>& names) {
  Events().clear();
  OptionValues options;
  for (const std::string& name : names) options.Set(name, {"x"});
  return options;
}

TEST(ServiceModulesTest, Open_AllGiven_LaterOneSeesAndOutlivedByEarlier) {
  {
    const auto modules = ServiceModules::Open(kEntries, Given({"--a", "--b"}), {});
    ASSERT_TRUE(modules.ok()) << modules.status();
    EXPECT_EQ((*modules)->Describe(), ", a, b");
    EXPECT_NE((*modules)->front(), nullptr);
    ASSERT_EQ((*modules)->Offered().size(), 1u);
    EXPECT_EQ((*modules)->Offered()[0].spec, &kSpecA);
  }
  EXPECT_THAT(Events(), ElementsAre("open a", "open b", "close b", "close a"));
}

TEST(ServiceModulesTest, Open_NoneGiven_KnowsThemAll) {
  const auto modules = ServiceModules::Open(kEntries, Given({}), {});
  ASSERT_TRUE(modules.ok()) << modules.status();
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_THAT((*modules)->Offered(), IsEmpty());
  EXPECT_EQ((*modules)->front(), nullptr);
  EXPECT_THAT((*modules)->Known(), ElementsAre(&kSpecA));
}

TEST(ServiceModulesTest, Open_OneFails_IsItsErrorAndOthersClose) {
  EXPECT_EQ(ServiceModules::Open(kEntries, Given({"--b"}), {}).status().message(), "b needs --a");

  static const ServiceEntry kFails = {
      nullptr, {}, +[](const OptionValues&, const AgentFacts&) {
        return absl::StatusOr<std::unique_ptr<ServiceModule>>(absl::DataLossError("broken"));
      }};
  const ServiceEntry* const entries[] = {&kEntryA, &kFails};
  EXPECT_EQ(ServiceModules::Open(entries, Given({"--a"}), {}).status().message(), "broken");
  EXPECT_THAT(Events(), ElementsAre("open a", "close a"));
}

}  // namespace
}  // namespace pulse
