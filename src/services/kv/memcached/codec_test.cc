#include "services/kv/memcached/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/testing.h"

namespace pulse::kv::memcached {
namespace {

using ::testing::ElementsAre;
using testing_util::TestSeed;
using testing_util::Text;

constexpr uint64_t kMaxData = 1000;

// What the requests of a stream are that arrives in pieces of `piece` bytes; what is thrown away is
// "-", an error is its text.
std::vector<std::string> SplitAll(const std::string& stream, size_t piece) {
  RequestSplitter splitter(kMaxData);
  std::vector<std::string> found;
  size_t begin = 0;
  size_t arrived = 0;
  while (true) {
    const auto size = splitter.Next(std::string_view(stream).substr(begin, arrived - begin));
    if (!size.ok()) {
      found.push_back(Text(size.status()));
      return found;
    }
    if (*size == 0) {
      if (arrived == stream.size()) return found;
      arrived = std::min(arrived + piece, stream.size());
    } else if (splitter.skipped()) {
      if (found.back() != "-") found.push_back("-");
      begin += *size;
    } else {
      found.push_back(stream.substr(begin, *size));
      begin += *size;
    }
  }
}

Request Parsed(std::string_view bytes) {
  Request request;
  request.Parse(bytes);
  return request;
}

TEST(MemcachedSplitter, Lines_EndAtNewline) {
  for (const size_t piece : {1, 3, 1000}) {
    EXPECT_THAT(SplitAll("get a\r\nmn\nincr a 1\r\n\r\nget b", piece),
                ElementsAre("get a\r\n", "mn\n", "incr a 1\r\n", "\r\n"));
  }
}

TEST(MemcachedSplitter, DataBlock_BelongsToItsLine) {
  const std::string binary("get\r\n\0x", 7);
  const std::vector<std::string> requests = {
      "set a 0 0 7\r\n" + binary + "\r\n",
      "add a 0 0 0\n\r\n",
      "  replace  a  1  2  1  noreply \r\nx\r\n",
      "append a 0 0 1\r\nx\r\n",
      "prepend a 0 0 1\r\nx\r\n",
      "cas a 0 0 1 99\r\nx\r\n",
      "cas a 0 0 1 99 noreply\r\nx\r\n",
      "ms a 2\r\nhi\r\n",
      "ms a 2 T0 c b k q Oabc F1 I MS C1 E5 x y z v w\r\nhi\r\n",
      "set a 4294967296 0 3\r\nabc\r\n",                     // flags that do not fit
      "set a x y 3\r\nabc\r\n",                              // a line that is wrong
      "set " + std::string(251, 'k') + " 0 0 3\r\nabc\r\n",  // so is this
      "ms a 2 Fx Z\r\nhi\r\n",                               // and that make no sense
      "mn\r\n",
  };
  std::string stream;
  for (const std::string& request : requests) stream += request;
  for (const size_t piece : {1, 2, 7, 10'000}) EXPECT_EQ(SplitAll(stream, piece), requests);
}

TEST(MemcachedSplitter, NoLengthOfData_IsALineAlone) {
  for (const std::string line :
       {"set a 0 0\r\n", "set a 0 0 -1\r\n", "set a 0 0 x\r\n", "set a 0 0 1 2 3\r\n",
        "set a 0 0 2147483646\r\n", "set a 0 0 99999999999999999999\r\n", "cas a 0 0 1\r\n",
        "cas a 0 0 1 2 3 4\r\n", "ms a\r\n", "ms a S3\r\n", "ms a -1\r\n", "SET a 0 0 1\r\n",
        "set\r\n", "setx a 0 0 1\r\n"}) {
    EXPECT_THAT(SplitAll(line + "mn\r\n", 1000), ElementsAre(line, "mn\r\n"));
  }
  // What is behind a zero byte does not count.
  const std::string zero("set a\0 0 0 1\r\n", 14);
  EXPECT_THAT(SplitAll(zero + "mn\r\n", 1000), ElementsAre(zero, "mn\r\n"));
}

TEST(MemcachedSplitter, LargestData_IsWaitedFor) {
  const std::string request = "set a 0 0 1000\r\n" + std::string(1000, 'x') + "\r\n";
  for (const size_t piece : {1, 100, 5000}) {
    EXPECT_THAT(SplitAll(request + "mn\r\n", piece), ElementsAre(request, "mn\r\n"));
  }
}

TEST(MemcachedSplitter, TooMuchData_IsThrownAwayAsItComes) {
  for (const std::string line : {"set a 0 0 1001\r\n", "ms a 1001 T0\r\n"}) {
    const std::string stream = line + std::string(1001, 'x') + "\r\nmn\r\n";
    for (const size_t piece : {1, 100, 5000}) {
      EXPECT_THAT(SplitAll(stream, piece), ElementsAre(line, "-", "mn\r\n"));
    }
  }
  EXPECT_TRUE(Parsed("set a 0 0 1001\r\n").too_large);
  // Gigabytes need no memory.
  RequestSplitter splitter(kMaxData);
  EXPECT_EQ(*splitter.Next("set a 0 0 2147483645\r\nxy"), 22u);
  EXPECT_FALSE(splitter.skipped());
  EXPECT_EQ(*splitter.Next(""), 0u);
  const std::string piece(1 << 20, 'x');
  for (int i = 0; i < 2047; ++i) {
    ASSERT_EQ(*splitter.Next(piece), piece.size());
    ASSERT_TRUE(splitter.skipped());
  }
  EXPECT_EQ(*splitter.Next(piece), piece.size() - 1);
  EXPECT_EQ(*splitter.Next("mn\r\n"), 4u);
  EXPECT_FALSE(splitter.skipped());
}

TEST(MemcachedSplitter, LimitThatIsSetAnew_CountsFromTheNextRequestOn) {
  RequestSplitter splitter(100);
  const std::string request = "set a 0 0 5\r\n12345\r\n";
  EXPECT_EQ(*splitter.Next(request.substr(0, 15)), 0u);
  splitter.set_max_data(4);
  EXPECT_EQ(*splitter.Next(request), request.size());
  EXPECT_EQ(*splitter.Next(request), 13u);
  EXPECT_EQ(*splitter.Next(request.substr(13)), 7u);
  EXPECT_TRUE(splitter.skipped());
}

TEST(MemcachedSplitter, LongLine_IsRefused) {
  const std::string word(kMaxWord, 'x');
  EXPECT_THAT(SplitAll(word + "\n", 100), ElementsAre(word + "\n"));
  for (const size_t piece : {100, 1'000'000}) {
    EXPECT_THAT(SplitAll(word + "x", piece), ElementsAre("line too long"));
    EXPECT_THAT(SplitAll(word + "x \n", piece), ElementsAre("line too long"));
  }
  std::string line = "get";
  while (line.size() < kMaxLine) line += " key1234";
  line.resize(kMaxLine);
  for (const std::string end : {"\n", "\r\n"}) {
    for (const size_t piece : {1000, 1'000'000}) {
      EXPECT_THAT(SplitAll(line + end, piece), ElementsAre(line + end));
      EXPECT_THAT(SplitAll(line + "x" + end, piece), ElementsAre("line too long"));
    }
  }
}

TEST(MemcachedSplitter, BinaryRequest_IsRefusedAtItsFirstByte) {
  bool undecided = true;
  EXPECT_TRUE(LooksLikeMemcached("\x80", &undecided));
  EXPECT_FALSE(undecided);
  EXPECT_THAT(SplitAll("\x80", 1),
              ElementsAre("the binary protocol is not served; use the text protocol"));
  EXPECT_THAT(SplitAll("mn\r\n\x80\r\n", 1), ElementsAre("mn\r\n", "\x80\r\n"));
}

TEST(MemcachedSplitter, RandomStreams_SplitTheSameHoweverTheyArrive) {
  std::mt19937_64 random(TestSeed());
  const std::vector<std::string> parts = {"set a 0 0 3",
                                          "ms b 2 ",
                                          "get x",
                                          "\r\n",
                                          "\n",
                                          "abc",
                                          "1002",
                                          "set a 0 0 1001",
                                          " ",
                                          "cas",
                                          std::string(900, 'z')};
  for (int i = 0; i < 2000; ++i) {
    std::string stream;
    for (uint64_t n = random() % 30; n > 0; --n) stream += parts[random() % parts.size()];
    const auto whole = SplitAll(stream, stream.size() + 1);
    ASSERT_EQ(SplitAll(stream, 1), whole) << stream;
    ASSERT_EQ(SplitAll(stream, 1 + random() % 50), whole) << stream;
  }
}

TEST(MemcachedRequest, Storage_HasWordsAndData) {
  const Request request = Parsed("set  key 1 2 5 noreply\r\na\r\nbc\r\n");
  EXPECT_EQ(request.command, Command::kSet);
  EXPECT_THAT(request.words, ElementsAre("set", "key", "1", "2", "5", "noreply"));
  EXPECT_EQ(request.data, "a\r\nbc");
  EXPECT_TRUE(request.noreply);
  EXPECT_FALSE(request.bad_chunk);
  EXPECT_FALSE(request.too_large);
}

TEST(MemcachedRequest, NoEndBehindData_IsABadChunk) {
  EXPECT_TRUE(Parsed("set a 0 0 3\r\nabcde").bad_chunk);
  EXPECT_TRUE(Parsed("set a 0 0 3\r\nabcd\n").bad_chunk);
  EXPECT_FALSE(Parsed("set a 0 0 3\r\nabc\r\n").bad_chunk);
}

TEST(MemcachedRequest, Anything_CanBeRead) {
  EXPECT_EQ(Parsed("").command, Command::kUnknown);
  EXPECT_EQ(Parsed("\r\n").command, Command::kUnknown);
  EXPECT_EQ(Parsed("   \r\n").words.size(), 0u);
  EXPECT_EQ(Parsed("GET a\r\n").command, Command::kUnknown);
  EXPECT_TRUE(Parsed("set a 0 0 3").too_large);
  EXPECT_THAT(Parsed("get\ta b\r\n").words, ElementsAre("get\ta", "b"));
}

TEST(MemcachedRequest, QuitAndHttp_Close) {
  EXPECT_TRUE(Parsed("quit\r\n").closes());
  EXPECT_TRUE(Parsed("POST / HTTP/1.1\r\n").closes());
  EXPECT_FALSE(Parsed("get HTTP/1.1\r\n").closes());
  EXPECT_FALSE(Parsed("foo\r\n").closes());
}

TEST(MemcachedNumber, EachForm_AsMemcached) {
  uint64_t number = 0;
  EXPECT_TRUE(ParseUnsigned("18446744073709551615", &number));
  EXPECT_EQ(number, UINT64_MAX);
  EXPECT_TRUE(ParseUnsigned("+7", &number));
  EXPECT_EQ(number, 7u);
  EXPECT_TRUE(ParseUnsigned("007", &number));
  for (const char* text :
       {"", "+", "-1", "+-1", "++1", "1x", " 1", "18446744073709551616", "0x1"}) {
    EXPECT_FALSE(ParseUnsigned(text, &number)) << text;
  }
  int64_t time = 0;
  EXPECT_TRUE(ParseSigned("-1", &time));
  EXPECT_EQ(time, -1);
  for (const char* text : {"", "-", "--1", "+-1", "1.0", "9223372036854775808"}) {
    EXPECT_FALSE(ParseSigned(text, &time)) << text;
  }
}

TEST(FirstBytes, FirstWord_Decides) {
  bool undecided = true;
  for (const char* bytes :
       {"get a", "gets ", "set a 0 0 1\r\n", "set a 0 -1 1 noreply\n", "incr a 1\r\n",
        "touch a 60\r\n", "append a 0 0 3\r\n", "mg x\r\n", "mn\r\n", "mn\n", "stats\r",
        "version\r\n", "flush_all\n", "quit\r\n", "ms a 1", "gat 1"}) {
    EXPECT_TRUE(LooksLikeMemcached(bytes, &undecided)) << bytes;
    EXPECT_FALSE(undecided) << bytes;
  }
  for (const char* bytes : {"*1\r\n",
                            "PING",
                            "GET a",
                            "Get a",
                            "ping\r\n",
                            "hello 3",
                            "getx",
                            "gets4 ",
                            "set a b\r\n",
                            "set a b ex 10\r\n",
                            "set a 1 ex 60\r\n",
                            "set a 1 px 100 nx\r\n",
                            "set \"a b\" c d e\r\n",
                            "incr a\r\n",
                            "append a b\r\n",
                            "touch a b\r\n",
                            " get a",
                            "\r\n",
                            "mget a",
                            "setex ",
                            "mn\t",
                            "m g"}) {
    EXPECT_FALSE(LooksLikeMemcached(bytes, &undecided)) << bytes;
    EXPECT_FALSE(undecided) << bytes;
  }
  EXPECT_FALSE(LooksLikeMemcached(std::string_view("get\0 a", 6), &undecided));
  EXPECT_FALSE(undecided);
  for (const char* bytes :
       {"", "g", "get", "gets", "m", "mg", "flush_", "v", "set a 0 0", "incr a 1"}) {
    EXPECT_FALSE(LooksLikeMemcached(bytes, &undecided)) << bytes;
    EXPECT_TRUE(undecided) << bytes;
  }
}

TEST(FirstBytes, LineThatIsTooLong_DecidedTheSame_WhenMoreArrives) {
  const std::string line = "set " + std::string(2100, 'a') + " 1 0 1\r\n";
  for (const size_t arrived : {size_t{2048}, size_t{2049}, line.size()}) {
    bool undecided = true;
    EXPECT_FALSE(LooksLikeMemcached(std::string_view(line).substr(0, arrived), &undecided));
    EXPECT_FALSE(undecided) << arrived;
  }
}

}  // namespace
}  // namespace pulse::kv::memcached
