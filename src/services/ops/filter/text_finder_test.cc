#include "services/ops/filter/text_finder.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "base/testing.h"

namespace pulse::filter {
namespace {

using Places = std::vector<std::pair<size_t, size_t>>;  // where a text ends, and which

std::string RandomText(size_t size, std::mt19937_64& random) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text.push_back("ab \n"[random() % 4]);
  return text;
}

Places PlacesByHand(const std::vector<std::string>& texts, const std::string& data) {
  Places places;
  for (size_t at = 0; at < data.size(); ++at) {
    for (size_t i = 0; i < texts.size(); ++i) {
      if (data.compare(at, texts[i].size(), texts[i]) == 0) {
        places.emplace_back(at + texts[i].size(), i);
      }
    }
  }
  return places;
}

TEST(TextFinderTest, Find_RandomTexts_FindsEveryPlaceInOrder) {
  std::mt19937_64 random(testing_util::TestSeed());
  size_t found = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> texts(1 + random() % TextFinder::kMostTexts);
    for (std::string& text : texts) text = RandomText(2 + random() % 6, random);
    ASSERT_TRUE(TextFinder::Fits(texts));
    // Its own memory, of exactly this size, for AddressSanitizer.
    const std::string made = RandomText(random() % 200, random);
    const std::vector<char> memory(made.begin(), made.end());
    const TextFinder finder(texts);
    Places places;
    finder.Find({memory.data(), memory.size()}, [&](size_t which, size_t end) {
      places.emplace_back(end, which);
      return TextFinder::kGoOn;
    });
    ASSERT_EQ(places, PlacesByHand(texts, made)) << made;
    found += places.size();
  }
  EXPECT_GT(found, 2000U);
}

TEST(TextFinderTest, Find_CallerStops_AsksNoMore) {
  const TextFinder finder({"ab", "cd"});
  for (const size_t size : {size_t{2}, size_t{40}, size_t{400}}) {
    int asked = 0;
    finder.Find(std::string(size, ' ') + "ab" + std::string(size, ' ') + "cd",
                [&asked](size_t, size_t) {
                  ++asked;
                  return SIZE_MAX;
                });
    EXPECT_EQ(asked, 1) << size;
  }
}

TEST(TextFinderTest, Find_CallerSkips_NothingBeforeIsReported) {
  std::mt19937_64 random(testing_util::TestSeed() + 1);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> texts = {"ab", "b a", "aa"};
    const std::string data = RandomText(random() % 300, random);
    const TextFinder finder(texts);
    size_t allowed = 0;
    size_t lines = 0;
    finder.Find(data, [&](size_t which, size_t end) {
      EXPECT_GE(end - texts[which].size(), allowed);
      ++lines;
      allowed = std::min(data.find('\n', end), data.size() - 1) + 1;
      return allowed;
    });
    // By hand: lines that hold one of them.
    size_t expected = 0;
    for (size_t at = 0; at < data.size();) {
      const size_t newline = std::min(data.find('\n', at), data.size());
      expected += PlacesByHand(texts, data.substr(at, newline - at)).empty() ? 0 : 1;
      at = newline + 1;
    }
    ASSERT_EQ(lines, expected) << data;
  }
}

TEST(TextFinderTest, Fits_ManyOrShortTexts_DoNot) {
  EXPECT_FALSE(TextFinder::Fits({}));
  EXPECT_FALSE(TextFinder::Fits({"ab", "a"}));
  EXPECT_FALSE(TextFinder::Fits(std::vector<std::string>(TextFinder::kMostTexts + 1, "ab")));
}

TEST(TextFinderTest, FindText_AnySize_FindsTheFirst) {
  std::mt19937_64 random(testing_util::TestSeed() + 2);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = RandomText(1 + random() % 4, random);
    const std::string made = RandomText(random() % 60, random);
    const std::vector<char> memory(made.begin(), made.end());
    const size_t readable = memory.size();
    const size_t size = readable - (readable == 0 ? 0 : random() % readable);
    const char* const from = memory.data();
    const char* found = FindText(from, from + size, from + readable, text);
    const size_t expected = made.substr(0, size).find(text);
    ASSERT_EQ(found == nullptr ? std::string::npos : static_cast<size_t>(found - from), expected)
        << made << "|" << text;
  }
}

}  // namespace
}  // namespace pulse::filter
