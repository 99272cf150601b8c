#include "base/trace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "nlohmann/json.hpp"

namespace pulse::trace {
namespace {

using nlohmann::json;

std::string Content(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class TraceTest : public testing::Test {
 protected:
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + "2");
  }
  std::shared_ptr<Timeline> MustOpen(const std::string& path) {
    auto timeline = Timeline::Open(path);
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    return timeline.ok() ? *timeline : nullptr;
  }
  std::vector<json> Events(const std::string& phase) {
    std::vector<json> found;
    for (const json& event : json::parse(Content(path_))) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }
  const std::string path_ =
      std::filesystem::current_path() / ("trace_test-" + std::to_string(getpid()) + ".json");
};

TEST_F(TraceTest, Timeline_EventsOfSeveralThreads_AreAllInTheFile) {
  auto timeline = MustOpen(path_);
  ASSERT_TRUE(On());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      pthread_setname_np(pthread_self(), ("worker-" + std::to_string(i)).c_str());
      for (int n = 0; n < 100; ++n) Slice("work", 1'000'500 + n * 1000, 1'000'900 + n * 1000);
    });
  }
  for (auto& t : threads) t.join();
  Flight("agent: fetch", "read", 5'000, 7'250, {"#7", 4096, 8192, -5});
  Instant("agent lost", "it \"hung\"\n");
  timeline.reset();
  EXPECT_FALSE(On());

  const auto slices = Events("X");
  ASSERT_EQ(slices.size(), 400U);
  EXPECT_EQ(slices[0]["ts"], 1000.5);
  EXPECT_EQ(slices[0]["dur"], 0.4);
  std::map<int, int> per_thread;
  for (const json& s : slices) ++per_thread[s["tid"]];
  std::map<int, std::string> names;
  for (const json& m : Events("M")) {
    if (m["name"] == "thread_name") names[m["tid"]] = m["args"]["name"];
  }
  EXPECT_EQ(per_thread.size(), 4U);
  for (const auto& [thread, count] : per_thread) {
    EXPECT_EQ(count, 100);
    EXPECT_EQ(names[thread].substr(0, 7), "worker-");
  }
  const auto begins = Events("b");
  const auto ends = Events("e");
  ASSERT_EQ(begins.size(), 1U);
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_EQ(begins[0]["cat"], "agent: fetch");
  EXPECT_EQ(begins[0]["ts"], 5.0);
  EXPECT_EQ(ends[0]["ts"], 7.25);
  EXPECT_EQ(begins[0]["args"],
            json::parse(R"({"file":"#7","offset":4096,"bytes":8192,"result":-5})"));
  EXPECT_EQ(Events("i")[0]["args"]["what"], "it \"hung\"\n");
}

TEST_F(TraceTest, Events_WhileNoTimelineIsOpen_AreNotWritten) {
  EXPECT_FALSE(On());
  Slice("before", 1, 2);
  MustOpen(path_).reset();
  Slice("after", 1, 2);
  { const Scope scope("after"); }
  MustOpen(path_ + "2").reset();
  EXPECT_EQ(Content(path_).find("after"), std::string::npos);
  EXPECT_EQ(Content(path_ + "2").find("after"), std::string::npos);
  EXPECT_EQ(Content(path_ + "2").find("before"), std::string::npos);
}

TEST_F(TraceTest, Open_SecondTime_SharesTheFileOrIsRefused) {
  auto first = MustOpen(path_);
  auto again = MustOpen(path_);
  EXPECT_EQ(first, again);
  const auto other = Timeline::Open(path_ + "2");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(other.status().message().find(path_), std::string::npos) << other.status();
  first.reset();
  EXPECT_TRUE(On()) << "the second still writes";
  again.reset();
  EXPECT_FALSE(On());
  EXPECT_FALSE(std::filesystem::exists(path_ + "2"));
}

TEST_F(TraceTest, Open_SamePathAgain_ReplacesTheFormerFile) {
  for (int round = 0; round < 20; ++round) {
    auto timeline = MustOpen(path_);
    { const Scope scope("work", {"file with \"quotes\" and \\"}); }
    timeline.reset();
    ASSERT_EQ(Events("X").size(), 1U) << "the former file was replaced";
    EXPECT_EQ(Events("X")[0]["args"]["file"], "file with \"quotes\" and \\");
    int named = 0;
    for (const json& m : Events("M")) named += m["name"] == "thread_name" ? 1 : 0;
    EXPECT_EQ(named, 1);
  }
}

TEST_F(TraceTest, Timelines_ComeAndGoUnderThreads_LeaveValidJson) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stop] {
      while (!stop) {
        const Scope scope("work");
      }
    });
  }
  std::vector<std::thread> owners;
  for (int i = 0; i < 3; ++i) {
    // One of them wants another file: it is refused, or refuses the others.
    owners.emplace_back([this, i] {
      for (int round = 0; round < 50; ++round) {
        const auto timeline = Timeline::Open(i == 0 ? path_ + "2" : path_);
        if (!timeline.ok()) {
          EXPECT_EQ(timeline.status().code(), absl::StatusCode::kFailedPrecondition);
        }
      }
    });
  }
  for (auto& t : owners) t.join();
  MustOpen(path_).reset();  // one that nobody refuses
  stop = true;
  for (auto& t : threads) t.join();
  EXPECT_NO_THROW(json::parse(Content(path_)));
}

TEST_F(TraceTest, File_StillGrowing_ParsesWithBracketAdded) {
  auto timeline = MustOpen(path_);
  Slice("early", 1, 2);
  ASSERT_TRUE(
      testing_util::Eventually([&] { return Content(path_).find("early") != std::string::npos; }));
  // What viewers do with a file that was not ended.
  std::string text = Content(path_);
  ASSERT_EQ(text.substr(text.size() - 2), ",\n");
  text.replace(text.size() - 2, 2, "]");
  EXPECT_NO_THROW(json::parse(text));
}

TEST_F(TraceTest, Open_FileLockedByAnother_IsRefusedAndKeepsContent) {
  const UniqueFd other(open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(write(other.get(), "theirs", 6), 6);
  ASSERT_EQ(flock(other.get(), LOCK_EX), 0);
  const auto timeline = Timeline::Open(path_);
  EXPECT_EQ(timeline.status().code(), absl::StatusCode::kFailedPrecondition) << timeline.status();
  EXPECT_EQ(Content(path_), "theirs");
}

TEST_F(TraceTest, Open_PathWithPercentP_NamesTheProcess) {
  const std::string given = path_.substr(0, path_.rfind('/')) + "/trace_test-%p.json";
  MustOpen(given).reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(TraceTest, Open_MissingDirectory_IsErrorThatNamesThePath) {
  const auto timeline = Timeline::Open("/nonexistent/dir/trace.json");
  ASSERT_FALSE(timeline.ok());
  EXPECT_NE(timeline.status().message().find("/nonexistent/dir/trace.json"), std::string::npos);
  EXPECT_FALSE(On());
}

}  // namespace
}  // namespace pulse::trace
