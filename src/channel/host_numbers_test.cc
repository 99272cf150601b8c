#include "channel/host_numbers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <new>
#include <random>
#include <thread>

#include "base/testing.h"
#include "channel/region.h"

namespace pulse {
namespace {

struct Page {
  Page() : region(Region::CreateShared(wire::kPage).value()) {
    control = new (region.data()) wire::ControlPage();
  }
  Region region;
  wire::ControlPage* control;
};

TEST(HostNumbersTest, Read_BeforeFirstWrite_FindsNothing) {
  const Page page;
  HostNumbersCopy copy;
  EXPECT_FALSE(ReadHostNumbers(page.control, &copy));
}

TEST(HostNumbersTest, Read_AfterWrite_GivesWhatWasWritten) {
  const Page page;
  HostNumbersCopy in;
  for (size_t i = 0; i < in.numbers.size(); ++i) in.numbers[i] = i * 1'000'000'007u;
  in.names = {"/data/one", "/data/two"};
  WriteHostNumbers(page.control, in);
  HostNumbersCopy out;
  ASSERT_TRUE(ReadHostNumbers(page.control, &out));
  EXPECT_EQ(out.numbers, in.numbers);
  EXPECT_EQ(out.names, in.names);
  EXPECT_EQ(page.control->magic, 0u) << "the first half of the page is another's";
  in.names = {"/three"};
  WriteHostNumbers(page.control, in);
  ASSERT_TRUE(ReadHostNumbers(page.control, &out));
  EXPECT_EQ(out.names, in.names);
}

TEST(HostNumbersTest, Write_NamesWithoutRoom_AreCutOrLeftOut) {
  const Page page;
  HostNumbersCopy in;
  in.names = {"/" + std::string(400, 'x') + "/end"};
  for (int i = 0; i < 20; ++i) in.names.push_back("/" + std::string(99, 'y'));
  WriteHostNumbers(page.control, in);
  HostNumbersCopy out;
  ASSERT_TRUE(ReadHostNumbers(page.control, &out));
  ASSERT_EQ(out.names.size(), 8u);
  EXPECT_EQ(out.names[0].substr(0, 4), "...x");
  EXPECT_EQ(out.names[0].substr(out.names[0].size() - 5), "x/end");
  EXPECT_EQ(out.names[7], in.names[7]);
}

// A copy is of one writing: never half of one and half of another.
TEST(HostNumbersTest, Read_WhileHostWrites_GivesOneWholeWriting) {
  const Page page;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint64_t round = 1; !stop; ++round) {
      HostNumbersCopy in;
      in.numbers.fill(round);
      in.names = {std::string(200, static_cast<char>('a' + round % 26))};
      WriteHostNumbers(page.control, in);
      if (round % 16 == 0) std::this_thread::yield();
    }
  });
  uint64_t last = 0;
  for (int taken = 0; taken < 2000;) {
    HostNumbersCopy out;
    if (!ReadHostNumbers(page.control, &out)) {
      std::this_thread::yield();
      continue;
    }
    ++taken;
    const uint64_t round = out.numbers[0];
    for (const uint64_t n : out.numbers) ASSERT_EQ(n, round);
    ASSERT_EQ(out.names.size(), 1u);
    ASSERT_EQ(out.names[0], std::string(200, static_cast<char>('a' + round % 26)));
    ASSERT_GE(round, last);
    last = round;
  }
  stop = true;
  writer.join();
}

TEST(HostNumbersTest, Read_HostStoppedWhileWriting_DoesNotWait) {
  const Page page;
  WriteHostNumbers(page.control, {});
  auto* area = reinterpret_cast<wire::HostNumbers*>(page.region.data() + wire::kHostNumbersOffset);
  area->sequence.store(7);
  HostNumbersCopy copy;
  EXPECT_FALSE(ReadHostNumbers(page.control, &copy));
  // The host itself goes on from there.
  WriteHostNumbers(page.control, {});
  EXPECT_TRUE(ReadHostNumbers(page.control, &copy));
}

TEST(HostNumbersTest, Read_RandomMemory_GivesPrintableNamesThatFit) {
  const Page page;
  std::mt19937_64 rng(testing_util::TestSeed());
  for (int i = 0; i < 5000; ++i) {
    char* area = page.region.data() + wire::kHostNumbersOffset;
    for (size_t at = 0; at < sizeof(wire::HostNumbers); at += 8) {
      const uint64_t word = rng();
      std::memcpy(area + at, &word, sizeof(word));
    }
    area[0] &= ~1;
    // Also without any zero byte.
    if (i % 3 == 0) {
      for (size_t at = sizeof(wire::HostNumbers) - wire::kHostNames; at < sizeof(wire::HostNumbers);
           ++at) {
        area[at] |= 1;
      }
    }
    HostNumbersCopy copy;
    if (!ReadHostNumbers(page.control, &copy)) continue;
    size_t bytes = 0;
    for (const std::string& name : copy.names) {
      ASSERT_FALSE(name.empty());
      for (const char c : name) ASSERT_TRUE(static_cast<uint8_t>(c) >= 0x20 && c != 0x7f);
      bytes += name.size();
    }
    ASSERT_LE(bytes, wire::kHostNames);
  }
}

}  // namespace
}  // namespace pulse
