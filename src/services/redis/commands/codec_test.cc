#include "services/redis/commands/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "base/testing.h"
#include "services/redis/commands/commands.h"
#include "services/redis/commands/value.h"

namespace pulse::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(std::string_view bytes) {
  Request request;
  const auto status = request.Parse(bytes);
  EXPECT_TRUE(status.ok()) << status;
  return {request.arguments().begin(), request.arguments().end()};
}

std::string SplitError(std::string_view bytes, const Limits& limits = {}) {
  RequestSplitter splitter(limits);
  const auto size = splitter.Next(bytes);
  return size.ok() ? "no error" : std::string(size.status().message());
}

TEST(RequestTest, Splitter_RequestCutAnywhere_WaitsForTheWhole) {
  const std::string messages[] = {"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n",
                                  "*1\r\n$4\r\nPING\r\n",
                                  "PING\r\n",
                                  "GET  key\n",
                                  "\r\n",
                                  "*0\r\n",
                                  "*-1\r\n",
                                  "*2\r\n$3\r\nGET\r\n$0\r\n\r\n"};
  for (const std::string& message : messages) {
    const std::string bytes = message + "*1\r\n$4\r\nQUIT\r\n";
    RequestSplitter splitter;
    for (size_t have = 0; have < message.size(); ++have) {
      const auto size = splitter.Next(std::string_view(bytes).substr(0, have));
      ASSERT_TRUE(size.ok()) << size.status();
      ASSERT_EQ(*size, 0u) << have << " of " << message;
    }
    for (size_t have : {message.size(), bytes.size()}) {
      const auto size = splitter.Next(std::string_view(bytes).substr(0, have));
      ASSERT_TRUE(size.ok()) << size.status();
      ASSERT_EQ(*size, message.size()) << message;
    }
  }
}

TEST(RequestTest, Parse_ArrayOrInline_GivesItsWordsOrRefuses) {
  EXPECT_THAT(Words("*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"), ElementsAre("GET", "a\r\nb"));
  EXPECT_THAT(Words("  set k  v \r\n"), ElementsAre("set", "k", "v"));
  EXPECT_THAT(Words("set \"a b\\x41\\n\\\"\" 'it\\'s' \"\"\r\n"),
              ElementsAre("set", "a bA\n\"", "it's", ""));
  EXPECT_THAT(Words("*0\r\n"), ElementsAre());
  EXPECT_THAT(Words("\r\n"), ElementsAre());
  Request request;
  for (const char* bad : {"set \"a\r\n", "set 'a\r\n", "set \"a\"b\r\n"}) {
    EXPECT_EQ(request.Parse(bad).message(), "ERR Protocol error: unbalanced quotes in request");
  }
}

TEST(RequestTest, Splitter_MalformedRequest_IsRefusedInRedisWords) {
  EXPECT_EQ(SplitError("*abc\r\n"), "ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(SplitError("*1048577\r\n"), "ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(SplitError("*99999999999999999999\r\n"),
            "ERR Protocol error: invalid multibulk length");
  EXPECT_EQ(SplitError("*1\r\n:1\r\n"), "ERR Protocol error: expected '$', got ':'");
  EXPECT_EQ(SplitError("*1\r\n$-1\r\n"), "ERR Protocol error: invalid bulk length");
  EXPECT_EQ(SplitError("*1\r\n$99999999999\r\n"), "ERR Protocol error: invalid bulk length");
  EXPECT_EQ(SplitError("*1\r\n$01\r\na\r\n"), "ERR Protocol error: invalid bulk length");
  EXPECT_EQ(SplitError("*1\r\n$1\r\nabc"), "ERR Protocol error: expected CRLF after a bulk string");
  EXPECT_EQ(SplitError("*" + std::string(80, '1')),
            "ERR Protocol error: too big mbulk count string");
  EXPECT_EQ(SplitError("*1\r\n$" + std::string(80, '1')),
            "ERR Protocol error: too big bulk count string");
  EXPECT_EQ(SplitError(std::string(70000, 'a')), "ERR Protocol error: too big inline request");
  EXPECT_EQ(SplitError(std::string(70000, 'a') + "\r\n"),
            "ERR Protocol error: too big inline request");
  Limits small;
  small.max_bulk = 4;
  EXPECT_EQ(SplitError("*1\r\n$4\r\nabcd\r\n", small), "no error");
  EXPECT_EQ(SplitError("*1\r\n$5\r\nabcde\r\n", small), "ERR Protocol error: invalid bulk length");
}

TEST(RequestTest, Split_RoundTrip_AndNothingElse) {
  for (const std::vector<std::string_view>& arguments : {std::vector<std::string_view>{},
                                                         {"PING"},
                                                         {""},
                                                         {"SET", "", "value"},
                                                         {"a", "b", "c", "d"}}) {
    std::string split;
    AppendSplit(arguments, &split);
    Request request;
    ASSERT_TRUE(request.ParseSplit(split).ok());
    EXPECT_EQ(request.arguments(), arguments);
    EXPECT_FALSE(request.ParseSplit(split + "x").ok());
    for (size_t cut = 1; cut < split.size(); ++cut) {
      EXPECT_FALSE(request.ParseSplit(std::string_view(split).substr(0, cut)).ok()) << cut;
    }
  }
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 4);
    Request request;
    if (!request.ParseSplit(bytes).ok()) continue;
    std::string again;
    AppendSplit(request.arguments(), &again);
    // Fewer than four bytes say nothing.
    EXPECT_EQ(again, bytes.size() < 4 ? std::string(4, '\0') : bytes);
  }
}

TEST(RequestTest, Splitter_Unauthenticated_HasLowerLimits) {
  RequestSplitter splitter;
  splitter.set_authenticated(false);
  EXPECT_THAT(splitter.Next("*11\r\n").status().message(),
              HasSubstr("unauthenticated multibulk length"));
  EXPECT_THAT(splitter.Next("*1\r\n$16385\r\n").status().message(),
              HasSubstr("unauthenticated bulk length"));
  EXPECT_TRUE(splitter.Next("*2\r\n$4\r\nAUTH\r\n$1\r\na\r\n").ok());
}

// What a splitter says does not depend on how the bytes arrived.
TEST(RequestTest, Splitter_RandomBytesInPieces_AgreesWithTheWhole) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::string_view pieces[] = {"*", "$",  "\r\n", "1", "3", "0", "-1",     "abc",        "\"",
                                     "'", "\n", "\r",   " ", ":", "a", "*2\r\n", "$1\r\na\r\n"};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) bytes += pieces[random() % std::size(pieces)];
    RequestSplitter whole;
    const auto expected = whole.Next(bytes);
    RequestSplitter cut;
    absl::StatusOr<size_t> got = 0;
    for (size_t have = 0; have <= bytes.size() && got.ok() && *got == 0; ++have) {
      got = cut.Next(std::string_view(bytes).substr(0, have));
    }
    ASSERT_EQ(expected.ok(), got.ok()) << bytes;
    if (!expected.ok()) continue;
    ASSERT_EQ(*expected, *got) << bytes;
    Request request;
    if (*expected > 0) request.Parse(bytes.substr(0, *expected)).IgnoreError();  // must not crash
  }
}

TEST(ReplyTest, Splitter_EveryTypeCutAnywhere_WaitsForTheWhole) {
  const std::string messages[] = {"+OK\r\n",
                                  "-ERR no\r\n",
                                  ":-5\r\n",
                                  "$3\r\nabc\r\n",
                                  "$-1\r\n",
                                  "*-1\r\n",
                                  "*0\r\n",
                                  "_\r\n",
                                  "#t\r\n",
                                  ",1.5\r\n",
                                  "(123456789012345678901234567890\r\n",
                                  "!5\r\nERR x\r\n",
                                  "=7\r\ntxt:abc\r\n",
                                  "*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
                                  "%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n:1\r\n:2\r\n",
                                  "~2\r\n:1\r\n:2\r\n",
                                  ">2\r\n+message\r\n*0\r\n",
                                  "|1\r\n+ttl\r\n:1\r\n$1\r\na\r\n",
                                  "*?\r\n:1\r\n*?\r\n.\r\n.\r\n",
                                  "%?\r\n+a\r\n:1\r\n.\r\n",
                                  "$?\r\n;2\r\nab\r\n;1\r\nc\r\n;0\r\n",
                                  "*2\r\n$?\r\n;1\r\na\r\n;0\r\n:1\r\n"};
  for (const std::string& message : messages) {
    const std::string bytes = message + ":1\r\n";
    ReplySplitter splitter;
    for (size_t have = 0; have < message.size(); ++have) {
      const auto size = splitter.Next(std::string_view(bytes).substr(0, have));
      ASSERT_TRUE(size.ok()) << size.status() << " " << message;
      ASSERT_EQ(*size, 0u) << have << " of " << message;
    }
    const auto size = splitter.Next(bytes);
    ASSERT_TRUE(size.ok()) << size.status() << " " << message;
    EXPECT_EQ(*size, message.size()) << message;
  }
}

TEST(ReplyTest, Splitter_MalformedReply_IsRefused) {
  std::string deep;
  for (int i = 0; i <= kMaxNesting; ++i) deep += "*1\r\n";
  const std::string bad[] = {"?\r\n",
                             "$-2\r\n",
                             "$x\r\n",
                             "*-2\r\n",
                             ".\r\n",
                             ";1\r\na\r\n",
                             "$1\r\nabc",
                             deep,
                             "%-1\r\n",
                             "$?\r\n:1\r\n",
                             "*1\r\n.\r\n",
                             "+a\rb",
                             "$999999999999\r\n",
                             "*999999999999\r\n",
                             "|?\r\n"};
  for (const std::string& message : bad) {
    ReplySplitter splitter;
    EXPECT_FALSE(splitter.Next(message).ok()) << message;
  }
}

TEST(ReplyTest, Writer_EitherProtocol_IsReadBySplitter) {
  for (int protocol : {2, 3}) {
    std::string out;
    ReplyWriter w(&out, protocol);
    w.Array(9);
    w.Ok();
    w.Error("ERR a\r\nb");
    w.Integer(std::numeric_limits<int64_t>::min());
    w.Bulk("a\r\nb");
    w.Null();
    w.Map(1);
    w.Bulk("k");
    w.Bulk("1.5");
    w.Set(1);
    w.Integer(1);
    w.Verbatim("text");
    w.NullArray();
    ReplySplitter splitter;
    const auto size = splitter.Next(out);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(*size, out.size());
    EXPECT_THAT(out, HasSubstr("-ERR a  b\r\n"));
    EXPECT_THAT(out, HasSubstr(protocol == 3 ? "%1\r\n$1\r\nk\r\n$3\r\n1.5\r\n"
                                             : "*2\r\n$1\r\nk\r\n$3\r\n1.5\r\n"));
  }
}

TEST(ReplyTest, ErrorLine_AnyStatus_BeginsWithACode) {
  EXPECT_EQ(ErrorLine(absl::InvalidArgumentError("ERR syntax error")), "-ERR syntax error\r\n");
  EXPECT_EQ(ErrorLine(absl::InvalidArgumentError("NOAUTH who")), "-NOAUTH who\r\n");
  EXPECT_EQ(ErrorLine(absl::InternalError("disk\nfull")), "-ERR disk full\r\n");
  EXPECT_EQ(ErrorLine(absl::InternalError("IO error")), "-ERR IO error\r\n");
}

TEST(CodecTest, ParseInteger_CanonicalFormOnly_IsAccepted) {
  int64_t n = 0;
  EXPECT_TRUE(ParseInteger("-9223372036854775808", &n));
  EXPECT_EQ(n, std::numeric_limits<int64_t>::min());
  EXPECT_TRUE(ParseInteger("0", &n));
  for (const char* bad : {"", "-", "+1", "01", "-0", "1 ", " 1", "1.0", "9223372036854775808",
                          "-9223372036854775809", "123456789012345678901"}) {
    EXPECT_FALSE(ParseInteger(bad, &n)) << bad;
  }
}

TEST(CommandsTest, FindCommand_UpperOrLowerCase_FindsKnownNamesOnly) {
  for (const CommandInfo* command : AllCommands()) {
    std::string upper;
    for (const char c : command->name) upper.push_back(static_cast<char>(toupper(c)));
    EXPECT_EQ(FindCommand(command->name), command);
    EXPECT_EQ(FindCommand(upper), command);
  }
  EXPECT_EQ(FindCommand("gett"), nullptr);
  EXPECT_EQ(FindCommand(""), nullptr);
  EXPECT_EQ(FindCommand(std::string(100000, 'x')), nullptr);
}

TEST(CommandsTest, ForEachKey_OneSeveralOrNone_FindsTheKeys) {
  const auto keys = [](std::vector<std::string_view> words) {
    std::vector<std::string> found;
    ForEachKey(*FindCommand(words[0]), words,
               [&](std::string_view key) { found.emplace_back(key); });
    return found;
  };
  EXPECT_THAT(keys({"get", "a"}), ElementsAre("a"));
  EXPECT_THAT(keys({"mset", "a", "1", "b", "2"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys({"del", "a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(keys({"rename", "a", "b"}), ElementsAre("a", "b"));
  EXPECT_THAT(keys({"object", "encoding", "a"}), ElementsAre("a"));
  EXPECT_THAT(keys({"flushall"}), ElementsAre());
}

TEST(ValueTest, DecodeValue_EncodedOrCutShort_IsTheSameOrRefused) {
  std::string stored;
  Value value;
  for (const int64_t expiry : {kNever, int64_t{1}, int64_t{1} << 62}) {
    for (const std::string_view data : {std::string_view(""), std::string_view("a\0b", 3)}) {
      EncodeValue(data, expiry, &stored);
      ASSERT_TRUE(DecodeValue(stored, &value));
      EXPECT_EQ(value.data, data);
      EXPECT_EQ(value.expires_ms, expiry);
    }
  }
  EXPECT_FALSE(value.ExpiredAt(1));
  EncodeValue("x", 1000, &stored);
  ASSERT_TRUE(DecodeValue(stored, &value));
  EXPECT_FALSE(value.ExpiredAt(999));
  EXPECT_TRUE(value.ExpiredAt(1000));
  for (size_t cut = 0; cut < kExpiringHead; ++cut) {
    EXPECT_FALSE(DecodeValue(std::string_view(stored).substr(0, cut), &value));
  }
  EXPECT_FALSE(DecodeValue("text", &value));
}

}  // namespace
}  // namespace pulse::redis
