#include "services/redis/commands/dump.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing.h"

namespace pulse::redis {
namespace {

using std::string_literals::operator""s;
constexpr uint64_t kMost = 1 << 20;

// A body with its version and a right sum.
std::string Sealed(std::string body, uint16_t version = 10) {
  for (const int i : {0, 8}) body.push_back(static_cast<char>(version >> i));
  const uint64_t sum = DumpChecksum(body);
  for (int i = 0; i < 64; i += 8) body.push_back(static_cast<char>(sum >> i));
  return body;
}

std::string Restored(std::string_view dump, uint64_t most = kMost) {
  std::string data;
  const DumpError error = DecodeDump(dump, most, &data);
  return error == DumpError::kNone ? data : "error " + std::to_string(static_cast<int>(error));
}

// What redis-server 7.0.15 replies to DUMP.
TEST(DumpTest, DumpsOfRedis_AreUnderstoodAndMade) {
  const std::pair<std::string, std::string> dumps[] = {
      {"hello"s,
       "\x00\x05hello\x0A\x00"
       "cr\xDFve4 \x0A"s},
      {"10"s,
       "\x00\xC0\x0A\x0A\x00n\x9FWE\x0E\xAE"
       "c\xBB"s},
      {"-1"s, "\x00\xC0\xFF\x0A\x00\x0C\x93~$\x85\x08\x9D\xC5"s},
      {"300"s,
       "\x00\xC1,\x01\x0A\x00\x95"
       "Ba\xF2"
       "e\x82\x5C\x10"s},
      {"-70000"s, "\x00\xC2\x90\xEE\xFE\xFF\x0A\x00(u\xDE{\x13\xEB(\x00"s},
      {"aaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbb"s,
       "\x00\xC3\x0D*\x01"
       "aa\xE0\x0A\x00\x00"
       "b\xE0\x0A\x00\x00"
       "b\x0A\x00%\xE7l\x13$9\x17\x02"s},
      {"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"s,
       "\x00\xC3\x0B@x\x03"
       "abca\xE0i\x02\x01"
       "bc\x0A\x00\xC4\x94\xA1p*\xE2>\x06"s},
      {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"s,
       "\x00\xC3\x09@@\x01xx\xE0"
       "3\x00\x01xx\x0A\x00vq\xD5v\xC5yTB"s},
      {""s, "\x00\x00\x0A\x00]\x9B\x5C@\x0F\x7F\xA2\xDA"s},
      {"the quick brown fox jumps over the lazy dog, the quick brown fox"s,
       "\x00\xC3"
       "5@@\x1Fthe quick brown fox jumps over t \x1E\x08lazy dog,`\x0D\xE0\x04,\x01ox\x0A\x00\x18\x0D~\x05\x95\x9A\x1A\xE8"s},
  };
  for (const auto& [value, dump] : dumps) {
    EXPECT_EQ(Restored(dump), value);
    // What Redis has packed, this does not.
    if (dump[1] != '\xC3') {
      EXPECT_EQ(EncodeDump(value), dump);
    }
  }
}

TEST(DumpTest, AnyValue_DumpedAndRestored_IsEqual) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (const size_t size : {0, 1, 5, 63, 64, 65, 16383, 16384, 100'000}) {
    std::string value(size, '\0');
    for (char& c : value) c = static_cast<char>(random());
    EXPECT_EQ(Restored(EncodeDump(value)), value) << size;
  }
  for (int64_t number : {0, -1, 127, 128, -128, -129, 32767, 32768, -32769, 2147483647}) {
    EXPECT_EQ(Restored(EncodeDump(std::to_string(number))), std::to_string(number));
  }
  for (const char* text : {"01", "+1", "-0", " 1", "2147483648", "-2147483649", "1e3"}) {
    EXPECT_EQ(Restored(EncodeDump(text)), text);
  }
}

TEST(DumpTest, Damage_IsRefused) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string dump = EncodeDump("some value");
  for (size_t i = 0; i < dump.size(); ++i) {
    std::string damaged = dump;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (random() % 8)));
    EXPECT_EQ(Restored(damaged), "error 1") << i;
    EXPECT_EQ(Restored(dump.substr(0, i)), "error 1") << i;
  }
}

TEST(DumpTest, BytesOfDump_AreAsManyAsItMayMake) {
  EXPECT_EQ(BytesOfDump(EncodeDump(std::string(70'000, 'v'))), 70'005u);
  EXPECT_GE(BytesOfDump(EncodeDump("-2147483648")), 11u);
  const std::string claim = "\x00\xC3\x02\x42\x00"s;  // two bytes become 512
  EXPECT_EQ(BytesOfDump(Sealed(claim + "ab")), 512u);
  EXPECT_EQ(BytesOfDump(Sealed(claim + "a")), 0u) << "too few";
  EXPECT_EQ(BytesOfDump(Sealed("\x00\xC3\x02\x80\xFF\xFF\xFF\xFF"s + "ab")), 0u) << "a bomb";
  EXPECT_EQ(BytesOfDump(Sealed("\x01\x03"s + "abc")), 0u) << "a list";
  EXPECT_EQ(BytesOfDump("short"), 0u);
}

// With a right sum, anything may come.
TEST(DumpTest, HostilePayload_IsRefused) {
  EXPECT_EQ(Restored(Sealed("\x00\x03"s + "abc")), "abc");
  EXPECT_EQ(Restored(Sealed("\x00\x04"s + "abc")), "error 3") << "longer than it is";
  EXPECT_EQ(Restored(Sealed("\x00\x02"s + "abc")), "error 3") << "shorter than it is";
  EXPECT_EQ(Restored(Sealed("\x01\x03"s + "abc")), "error 2") << "a list";
  EXPECT_EQ(Restored(Sealed("\x00"s)), "error 3");
  EXPECT_EQ(Restored(Sealed("")), "error 3");
  EXPECT_EQ(Restored(Sealed("\x00\x81\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s)), "error 3");
  EXPECT_EQ(Restored(Sealed("\x00\xC3\x02\x80\xFF\xFF\xFF\xFF"s + "ab")), "error 4") << "a bomb";
  EXPECT_EQ(Restored(Sealed("\x00\xC3\x02\x80\x00\x0F\x00\x00"s + "ab")), "error 3");
  EXPECT_EQ(Restored(Sealed("\x00\xC3\x02\x03\x20\x00"s)), "error 3") << "copies what is not there";
  EXPECT_EQ(Restored(Sealed("\x00\xC3\x04\x04\x00"s + "a\x20\x00"s)), "aaaa");
  EXPECT_EQ(Restored(Sealed("\x00\xC3\x04\x03\x00"s + "a\x20\x00"s)), "error 3")
      << "makes too much";
  EXPECT_EQ(Restored(Sealed("\x00\x03"s + "abc"), 2), "error 4");
  EXPECT_EQ(Restored(Sealed("\x00\x03"s + "abc", 999)), "error 1") << "of which version?";
  EXPECT_EQ(Restored("\x00\x03"s + "abc\x0A" + std::string(9, '\0')), "error 1") << "no sum";
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes("\0\xC3", 2);
    for (size_t n = random() % 40; n > 0; --n) bytes.push_back(static_cast<char>(random()));
    std::string data;
    if (DecodeDump(Sealed(bytes), kMost, &data) == DumpError::kNone) {
      EXPECT_LE(data.size(), kMost);
      EXPECT_LE(data.size(), BytesOfDump(Sealed(bytes)));
    }
  }
}

TEST(DumpTest, NumberLongerThanAllowed_IsTooLong) {
  const std::string dump = EncodeDump("12345");
  std::string data = "old";
  EXPECT_EQ(DecodeDump(dump, 4, &data), DumpError::kTooLong);
  EXPECT_EQ(data, "old");
  EXPECT_EQ(DecodeDump(dump, 5, &data), DumpError::kNone);
  EXPECT_EQ(data, "12345");
}

}  // namespace
}  // namespace pulse::redis
