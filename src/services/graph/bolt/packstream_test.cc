#include "services/graph/bolt/packstream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing.h"
#include "services/graph/bolt/framing.h"
#include "services/graph/bolt/values.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::bolt {
namespace {

// A message of one field.
std::string Packed(const Value& value) {
  std::string bytes;
  PackWriter out(&bytes);
  out.StructHeader(0x10, 1);
  EXPECT_TRUE(PackValue(value, nullptr, &out).ok());
  return bytes;
}

Value RoundTrip(const Value& value) {
  const auto message = ReadMessage(Packed(value));
  EXPECT_TRUE(message.ok()) << message.status();
  if (!message.ok() || message->fields.size() != 1) return Value();
  EXPECT_EQ(message->tag, 0x10);
  return message->fields[0];
}

bool Same(const Value& a, const Value& b) { return a.type() == b.type() && Order(a, b) == 0; }

Value RandomValue(std::mt19937_64* random, int depth) {
  const auto pick = [&](uint64_t n) { return (*random)() % n; };
  switch (pick(depth < 4 ? 15 : 13)) {
    case 0:
      return Value();
    case 1:
      return Value::Bool(pick(2) == 0);
    case 2:
      return Value::Int(static_cast<int64_t>((*random)()) >> pick(64));
    case 3:
      return Value::Float(static_cast<double>((*random)()) / 3);
    case 4:
      return Value::String(std::string(pick(400), static_cast<char>('a' + pick(26))));
    case 5:
      return Value::Date(static_cast<int64_t>(pick(1'000'000)) - 500'000);
    case 6:
      return Value::LocalTime(static_cast<int64_t>(pick(cypher::kNanosPerDay)));
    case 7:
      return Value::Time(static_cast<int64_t>(pick(cypher::kNanosPerDay)),
                         static_cast<int32_t>(pick(36'000)) - 18'000);
    case 8:
      return Value::LocalDateTime(static_cast<int64_t>(pick(1ull << 40)) - (1ll << 39),
                                  static_cast<int32_t>(pick(cypher::kNanosPerSecond)));
    case 9: {
      cypher::DateTime time;
      time.seconds = static_cast<int64_t>(pick(1ull << 32));
      time.nanos = static_cast<int32_t>(pick(cypher::kNanosPerSecond));
      if (pick(2) == 0) {
        time.zone = "Europe/Berlin";
        time.offset = cypher::OffsetAt(time.seconds, {0, time.zone});
      } else {
        time.offset = static_cast<int32_t>(pick(36'000)) - 18'000;
      }
      return Value::MakeDateTime(time);
    }
    case 10:
      return Value::MakeDuration({static_cast<int64_t>(pick(99)), -static_cast<int64_t>(pick(99)),
                                  -static_cast<int64_t>(pick(9999)),
                                  static_cast<int32_t>(pick(cypher::kNanosPerSecond))});
    case 11: {
      std::string bytes(pick(400), '\0');
      for (char& c : bytes) c = static_cast<char>((*random)());
      return Value::MakeBytes(bytes);
    }
    case 12: {
      const auto crs = static_cast<cypher::Crs>(pick(4));
      const auto part = [&] { return static_cast<double>(pick(90'000)) / 1000; };
      const bool flat = cypher::DimensionsOf(crs) == 2;
      return Value::MakePoint({crs, part(), -part(), flat ? 0 : part()});
    }
    case 13: {
      ValueList list;
      for (uint64_t i = pick(20); i > 0; --i) list.push_back(RandomValue(random, depth + 1));
      return Value::List(std::move(list));
    }
    default: {
      ValueMap map;
      for (uint64_t i = pick(20); i > 0; --i) {
        map.emplace_back(cypher::Concat("k", i), RandomValue(random, depth + 1));
      }
      return Value::Map(std::move(map));
    }
  }
}

TEST(PackStreamTest, RoundTrip_RandomValues_AreTheSame) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 2000; ++i) {
    const Value value = RandomValue(&random, 0);
    ASSERT_TRUE(Same(RoundTrip(value), value)) << i;
  }
}

TEST(PackStreamTest, Int_AtEachWidth_TakesTheShortestForm) {
  const std::pair<int64_t, size_t> cases[] = {
      {0, 1},         {127, 1},      {-16, 1},   {-17, 2},    {-128, 2},      {128, 3},
      {-129, 3},      {32767, 3},    {32768, 5}, {-32769, 5}, {1ll << 31, 9}, {(1ll << 31) - 1, 5},
      {INT64_MAX, 9}, {INT64_MIN, 9}};
  for (const auto& [value, size] : cases) {
    EXPECT_EQ(Packed(Value::Int(value)).size(), size + 2) << value;
    EXPECT_EQ(RoundTrip(Value::Int(value)).as_int(), value);
  }
}

TEST(PackStreamTest, Sizes_AtEachWidth_AreRead) {
  for (const size_t size : {size_t{0}, size_t{15}, size_t{16}, size_t{255}, size_t{256},
                            size_t{65535}, size_t{65536}}) {
    EXPECT_EQ(RoundTrip(Value::String(std::string(size, 'x'))).as_string().size(), size);
    const Value bytes = Value::MakeBytes(std::string(size, '\xff'));
    EXPECT_TRUE(Same(RoundTrip(bytes), bytes)) << size;
    EXPECT_EQ(RoundTrip(Value::List(ValueList(size, Value::Int(1)))).as_list().size(), size);
    ValueMap map;
    for (size_t i = 0; i < size; ++i) map.emplace_back(std::to_string(i), Value());
    EXPECT_EQ(RoundTrip(Value::Map(map)).as_map().size(), size);
  }
}

TEST(PackStreamTest, Bytes_AtEachWidth_HaveTheirMarker) {
  EXPECT_EQ(Packed(Value::MakeBytes("ab")),
            "\xB1\x10\xCC\x02"
            "ab");
  const std::pair<size_t, std::string_view> headers[] = {
      {256, {"\xB1\x10\xCD\x01\x00", 5}}, {65536, {"\xB1\x10\xCE\x00\x01\x00\x00", 7}}};
  for (const auto& [size, header] : headers) {
    EXPECT_TRUE(Packed(Value::MakeBytes(std::string(size, 'x'))).starts_with(header)) << size;
  }
}

TEST(PackStreamTest, Points_AreStructuresOfTheirSystem) {
  const std::string flat = Packed(Value::MakePoint({cypher::Crs::kCartesian, 1, 2, 0}));
  EXPECT_EQ(flat.substr(2, 5), "\xB3X\xC9\x1C\x23");
  EXPECT_EQ(flat.size(), 2 + 5 + 2 * 9u);
  const std::string high = Packed(Value::MakePoint({cypher::Crs::kWgs84In3d, 1, 2, 3}));
  EXPECT_EQ(high.substr(2, 5), "\xB4Y\xC9\x13\x73");
  EXPECT_EQ(high.size(), 2 + 5 + 3 * 9u);
  // Coordinates that are integers, which some clients send.
  const auto message = ReadMessage({"\xB1\x10\xB3X\xC9\x1C\x23\x01\x02", 9});
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(Same(message->fields[0], Value::MakePoint({cypher::Crs::kCartesian, 1, 2, 0})));
}

TEST(PackStreamTest, Duration_WithNegativeNanoseconds_IsNormal) {
  std::string bytes;
  PackWriter out(&bytes);
  out.StructHeader(0x10, 1);
  out.StructHeader(static_cast<uint8_t>(Tag::kDuration), 4);
  for (const int64_t field : {1, 2, -3, -1}) out.Int(field);
  const auto message = ReadMessage(bytes);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->fields[0].as_duration(), (cypher::Duration{1, 2, -4, 999'999'999}));
}

TEST(PackStreamTest, Read_CutAnywhere_IsAnError) {
  std::mt19937_64 random(testing_util::TestSeed());
  ValueList list;
  for (int i = 0; i < 10; ++i) list.push_back(RandomValue(&random, 2));
  const std::string whole = Packed(Value::List(std::move(list)));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadMessage(whole.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(ReadMessage(whole + "x").ok());
}

TEST(PackStreamTest, Read_ChangedBytes_NeverCrashes) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = Packed(RandomValue(&random, 1));
    for (int change = 0; change < 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    ReadMessage(bytes).status().IgnoreError();  // only that it comes back
  }
}

TEST(PackStreamTest, Read_HugeSizes_TakeNoMemory) {
  for (const std::string_view bytes : {std::string_view("\xB1\x10\xD6\xFF\xFF\xFF\xFF\x01", 8),
                                       std::string_view("\xB1\x10\xDA\xFF\xFF\xFF\xFF\x81"
                                                        "a",
                                                        9),
                                       std::string_view("\xB1\x10\xCE\xFF\xFF\xFF\xFF"
                                                        "a",
                                                        8),
                                       std::string_view("\xB1\x10\xD2\xFF\xFF\xFF\xFF"
                                                        "a",
                                                        8)}) {
    EXPECT_EQ(ReadMessage(bytes).status().code(), absl::StatusCode::kInvalidArgument);
  }
  ReadLimits limits;
  limits.values = 100;
  EXPECT_FALSE(ReadMessage(Packed(Value::List(ValueList(101, Value()))), limits).ok());
}

TEST(PackStreamTest, Read_DeepNesting_IsRefused) {
  std::string bytes = "\xB1\x10";
  bytes += std::string(100'000, '\x91');
  bytes += '\x01';
  EXPECT_EQ(ReadMessage(bytes).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PackStreamTest, Read_WhatHasNoType_IsUnimplemented) {
  const std::string_view bad[] = {
      std::string_view("\xB1\x10\xB3X\xC9\x1C\x24\x01\x01", 9),           // a point of no system
      std::string_view("\xB1\x10\xB3X\xC9\x23\xC5\x01\x01", 9),           // of three dimensions
      std::string_view("\xB1\x10\xB3X\xC9\x10\xE6\x01\x5B", 9),           // beyond a pole
      std::string_view("\xB1\x10\xB2X\xC9\x1C\x23\x01", 8),               // without y
      std::string_view("\xB1\x10\xB1t\xFF", 5),                           // a time before 0
      std::string_view("\xB1\x10\xB3I\x01\xCA\x3B\x9A\xCA\x00\x01", 11),  // 1e9 nanoseconds
      std::string_view("\xB1\x10\xB3i\x01\x01\x83"
                       "A/B",
                       10)};  // no such zone
  for (const std::string_view bytes : bad) {
    EXPECT_EQ(ReadMessage(bytes).status().code(), absl::StatusCode::kUnimplemented)
        << ReadMessage(bytes).status();
  }
  // A node is no parameter, and bytes that are not UTF-8 are no string.
  EXPECT_FALSE(ReadMessage("\xB1\x10\xB3N\x01\x90\xA0").ok());
  EXPECT_FALSE(ReadMessage("\xB1\x10\x81\xFF").ok());
}

std::string Handshake(std::string_view proposals) {
  return std::string(kMagic) + std::string(proposals) + std::string(16 - proposals.size(), '\0');
}

TEST(FramingTest, Handshake_Proposals_GetTheFirstThatIsSpoken) {
  const auto choose = [](std::string_view proposals) {
    const auto answer = AnswerHandshake(Handshake(proposals));
    EXPECT_TRUE(answer.ok());
    return answer->version;
  };
  EXPECT_EQ(choose({"\0\x08\x08\x05", 4}), (Version{5, 8}));
  EXPECT_EQ(choose({"\0\x04\x04\x05", 4}), (Version{5, 4}));
  EXPECT_EQ(choose({"\0\0\0\x05", 4}), (Version{5, 0}));
  EXPECT_EQ(choose({"\0\x05\x0A\x05", 4}), (Version{5, 8}));
  EXPECT_EQ(choose({"\0\0\x04\x04\0\0\x03\x05", 8}), (Version{5, 3}));
  // Newer than what is spoken, and older.
  EXPECT_EQ(choose({"\0\0\x09\x05", 4}), (Version{0, 0}));
  EXPECT_EQ(choose({"\0\x02\x04\x04\0\0\0\x03", 8}), (Version{0, 0}));
  EXPECT_FALSE(AnswerHandshake("GET / HTTP/1.1\r\nHost: a\r\n\r\n").ok());
}

TEST(FramingTest, Handshake_Manifest_LeavesTheChoiceToTheClient) {
  const auto answer = AnswerHandshake(Handshake({"\0\0\x01\xFF\0\x08\x08\x05", 8}));
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->manifest);
  EXPECT_EQ(answer->bytes, std::string_view("\0\0\x01\xFF\x01\0\x08\x08\x05\0", 10));
  Version version;
  EXPECT_EQ(*ReadChoice({"\0\0\x07\x05", 4}, &version), 0u);
  EXPECT_EQ(*ReadChoice({"\0\0\x07\x05\0", 5}, &version), 5u);
  EXPECT_EQ(version, (Version{5, 7}));
  EXPECT_FALSE(ReadChoice({"\0\0\x09\x05\0", 5}, &version).ok());
  EXPECT_FALSE(ReadChoice({"\0\0\0\x06\0", 5}, &version).ok());
  EXPECT_FALSE(ReadChoice({"\0\0\x07\x05\x81\x01", 6}, &version).ok());
}

TEST(FramingTest, Chunks_CutAnywhere_GiveTheMessages) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string messages[] = {"a", std::string(200'000, 'x'), "second",
                                  std::string(65535, 'y')};
  std::string bytes = std::string(4, '\0');  // keep-alive
  for (const std::string& message : messages) AppendChunks(message, &bytes);
  for (int round = 0; round < 20; ++round) {
    ChunkSplitter splitter;
    std::string in;
    std::vector<std::string> out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t part = std::min<size_t>(1 + random() % 40'000, bytes.size() - at);
      in += bytes.substr(at, part);
      at += part;
      while (const size_t size = splitter.Next(in)) {
        const std::string message = JoinChunks(std::string_view(in).substr(0, size));
        if (!message.empty()) out.push_back(message);
        in.erase(0, size);
      }
      // Nothing of what keeps a connection alive is left as the beginning of a message.
      EXPECT_FALSE(in.size() >= 2 && in.starts_with(std::string(2, '\0')));
    }
    EXPECT_EQ(out, std::vector<std::string>(std::begin(messages), std::end(messages)));
    EXPECT_TRUE(in.empty());
  }
}

}  // namespace
}  // namespace pulse::bolt
