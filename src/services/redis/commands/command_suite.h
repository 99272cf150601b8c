// What each command answers, whatever holds the keys; tests of each kind of Keyspace run it. A test
// store has operator()(line), which runs a request, operator->, and now_ms, its clock. For tests
// only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "services/redis/commands/keyspace.h"

namespace pulse::redis {

// A reply with "\r\n" as blanks, but for the last.
inline std::string PlainReply(std::string_view reply) {
  std::string text;
  for (size_t i = 0; i < reply.size(); ++i) {
    if (reply[i] == '\r' && i + 1 < reply.size() && reply[i + 1] == '\n') continue;
    text.push_back(reply[i] == '\n' && i > 0 && reply[i - 1] == '\r' ? ' ' : reply[i]);
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// One request, as a line, with its reply.
inline std::string RunLine(Keyspace* keys, std::string_view line, int protocol = 2) {
  Request request;
  if (!request.Parse(std::string(line) + "\r\n").ok()) return "no request";
  const CommandInfo* command = FindCommand(request[0]);
  if (command == nullptr || !command->ArityFits(request.size())) return "no command";
  std::string out;
  ReplyWriter reply(&out, protocol);
  CommandCounts counts;
  if (keys->Run(*command, request.arguments(), true, &reply, &counts) !=
      Keyspace::RunResult::kDone) {
    return "would block";
  }
  return PlainReply(out);
}

// A transaction, with the reply to its EXEC.
inline std::string RunExec(Keyspace* keys, const std::vector<std::string>& lines,
                           const WatchTable::Set* watches = nullptr) {
  std::vector<Request> requests(lines.size());
  std::vector<Keyspace::Queued> queued;
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(requests[i].Parse(lines[i]).ok());
    queued.push_back({FindCommand(requests[i][0]), &requests[i].arguments()});
  }
  WatchTable::Set none(keys->watch_table());
  std::string out;
  ReplyWriter reply(&out, 2);
  CommandCounts counts;
  keys->RunTransaction(
      queued, watches == nullptr ? none : *watches,
      [](const Keyspace::Queued& command, ReplyWriter* r) {
        if (command.command->reads() || command.command->writes()) return false;
        r->Simple("other");
        return true;
      },
      &reply, &counts);
  return PlainReply(out);
}

inline void WatchKey(Keyspace* keys, WatchTable::Set* watches, std::string_view key) {
  std::string error;
  ASSERT_TRUE(keys->Watch(&key, 1, true, watches, &error));
  ASSERT_EQ(error, "");
}

struct Step {
  const char* request;
  const char* reply;
};

// Each request, in turn, with its reply.
template <class TestStoreOf>
void Play(TestStoreOf& store, std::initializer_list<Step> steps) {
  for (const Step& step : steps) EXPECT_EQ(store(step.request), step.reply) << step.request;
}

template <class TestStoreOf>
void PlayStringCommands(TestStoreOf& store) {
  Play(store,
       {{"GET a", "$-1"},
        {"SET a 1", "+OK"},
        {"GET a", "$1 1"},
        {"SET a '' ", "+OK"},
        {"GET a", "$0 "},
        {"SET a x NX", "$-1"},
        {"SET b x XX", "$-1"},
        {"SET b x NX", "+OK"},
        {"SET b y XX GET", "$1 x"},
        {"SET b z NX GET", "$1 y"},
        {"GET b", "$1 y"},
        {"SET c z NX GET", "$-1"},
        {"GET c", "$1 z"},
        {"SET a 1 NX XX", "-ERR syntax error"},
        {"SET a 1 EX", "-ERR syntax error"},
        {"SET a 1 EX 1 PX 1", "-ERR syntax error"},
        {"SET a 1 EX 1 KEEPTTL", "-ERR syntax error"},
        {"SET a 1 EX 0", "-ERR invalid expire time in 'set' command"},
        {"SET a 1 EX x", "-ERR value is not an integer or out of range"},
        {"SET a 1 EX 9223372036854775807", "-ERR invalid expire time in 'set' command"},
        {"SETNX a 1", ":0"},
        {"SETNX d 1", ":1"},
        {"GETSET d 2", "$1 1"},
        {"GETSET e 2", "$-1"},
        {"GETDEL e", "$1 2"},
        {"GETDEL e", "$-1"},
        {"MSET a 1 b 2 a 3", "+OK"},
        {"MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"},
        {"MGET a b nope a", "*4 $1 3 $1 2 $-1 $1 3"},
        {"MSETNX n 1 a 2", ":0"},
        {"MSETNX n 1 m 2 n 3", ":1"},
        {"GET n", "$1 3"},
        {"STRLEN n", ":1"},
        {"STRLEN nope", ":0"},
        {"APPEND n 45", ":3"},
        {"APPEND q 1", ":1"},
        {"GETRANGE n 0 -1", "$3 345"},
        {"GETRANGE n -2 -1", "$2 45"},
        {"GETRANGE n 1 1", "$1 4"},
        {"GETRANGE n 5 9", "$0 "},
        {"GETRANGE n 2 1", "$0 "},
        {"GETRANGE n -100 0", "$1 3"},
        {"GETRANGE n -100 -200", "$0 "},
        {"GETRANGE n -200 -100", "$1 3"},
        {"GETRANGE n -1 -2", "$0 "},
        {"SUBSTR n 0 0", "$1 3"},
        {"MSET l ohmytext m mynewtext", "+OK"},
        {"LCS l m", "$6 mytext"},
        {"LCS l m LEN", ":6"},
        {"LCS l nope", "$0 "},
        {"LCS nope l", "$0 "},
        // Of two ways that are as good, the same whichever value is longer.
        {"MSET la abcde lb bxay", "+OK"},
        {"LCS la lb", "$1 b"},
        {"LCS lb la", "$1 a"},
        {"DEL la lb", ":2"},
        {"LCS l m IDX", "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"},
        {"LCS l m IDX MINMATCHLEN 4 WITHMATCHLEN",
         "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6"},
        {"LCS l m IDX LEN", "-ERR If you want both the length and indexes, please just use IDX."},
        {"LCS l m MINMATCHLEN", "-ERR syntax error"},
        {"LCS l m MINMATCHLEN x", "-ERR value is not an integer or out of range"},
        {"SETRANGE big 99999 x", ":100000"},
        {"LCS big big",
         "-ERR Insufficient memory: values of 100000 and 100000 bytes; their "
         "product may be 33554432"},
        {"SETRANGE n 1 xx", ":3"},
        {"GET n", "$3 3xx"},
        {"SETRANGE w 0 ''", ":0"},
        {"EXISTS w", ":0"},
        {"SETRANGE w -1 a", "-ERR offset is out of range"},
        {"SETRANGE w 99999999999 a",
         "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"}});
  EXPECT_EQ(store("GET nope", 3), "_");
}

template <class TestStoreOf>
void PlayNumberCommands(TestStoreOf& store) {
  Play(store, {{"INCR a", ":1"},
               {"INCRBY a 41", ":42"},
               {"DECR a", ":41"},
               {"DECRBY a 50", ":-9"},
               {"GET a", "$2 -9"},
               {"INCRBY a x", "-ERR value is not an integer or out of range"},
               {"SET a 9223372036854775807", "+OK"},
               {"INCR a", "-ERR increment or decrement would overflow"},
               {"DECRBY a -9223372036854775808", "-ERR decrement would overflow"},
               {"SET a ' 1'", "+OK"},
               {"INCR a", "-ERR value is not an integer or out of range"},
               {"SET f 10.50", "+OK"},
               {"INCRBYFLOAT f 0.1", "$4 10.6"},
               {"INCRBYFLOAT f -5", "$3 5.6"},
               {"SET f 5.0e3", "+OK"},
               {"INCRBYFLOAT f 2.0e2", "$4 5200"},
               {"INCRBYFLOAT f abc", "-ERR value is not a valid float"},
               {"INCRBYFLOAT f 1e-5000", "-ERR value is not a valid float"},
               {"INCRBYFLOAT f 1e-4940", "$4 5200"},
               {"INCRBYFLOAT f nan", "-ERR value is not a valid float"},
               {"INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity"}});
  // What it has written, it reads.
  EXPECT_THAT(store("INCRBYFLOAT long 1e300"), testing::StartsWith("$301 1000000000000000"));
  EXPECT_THAT(store("INCRBYFLOAT long 1"), testing::StartsWith("$301 1000000000000000"));
}

template <class TestStoreOf>
void PlayKeyCommands(TestStoreOf& store) {
  Play(store, {{"MSET a 1 b 2 c 3", "+OK"},
               {"EXISTS a b a nope", ":3"},
               {"TOUCH a nope", ":1"},
               {"DEL a a nope", ":1"},
               {"UNLINK b", ":1"},
               {"UNLINK b", ":0"},
               {"TYPE c", "+string"},
               {"TYPE a", "+none"},
               {"OBJECT ENCODING c", "$3 int"},
               {"OBJECT REFCOUNT c", ":1"},
               {"OBJECT ENCODING a", "$-1"},
               {"RENAME a b", "-ERR no such key"},
               {"RENAME c c", "+OK"},
               {"RENAME c d", "+OK"},
               {"MGET c d", "*2 $-1 $1 3"},
               {"RENAMENX d d", ":0"},
               {"SET e 1", "+OK"},
               {"RENAMENX d e", ":0"},
               {"RENAMENX d f", ":1"},
               {"GET f", "$1 3"},
               {"COPY f f", "-ERR source and destination objects are the same"},
               {"COPY f e", ":0"},
               {"COPY f e REPLACE", ":1"},
               {"COPY f g DB 1", "-ERR DB index is out of range"},
               {"COPY nope g", ":0"},
               {"COPY f g", ":1"},
               {"MGET e f g", "*3 $1 3 $1 3 $1 3"},
               {"DBSIZE", ":3"},
               {"KEYS [e]", "*1 $1 e"},
               {"FLUSHALL SOON", "-ERR syntax error"},
               {"FLUSHALL ASYNC", "+OK"},
               {"DBSIZE", ":0"},
               {"RANDOMKEY", "$-1"},
               {"SET '' empty", "+OK"},
               {"GET ''", "$5 empty"},
               {"RANDOMKEY", "$0 "},
               {"SCAN 0", "*2 $1 0 *1 $0 "},
               {"FLUSHDB", "+OK"},
               {"EXISTS ''", ":0"}});
}

template <class TestStoreOf>
void PlayDumpCommands(TestStoreOf& store) {
  // Of "hello" and of a list, by redis-server 7.0.15.
  const std::string hello = R"("\x00\x05hello\x0A\x00cr\xDFve4 \x0A")";
  const std::string list =
      R"("\x12\x01\x02\x09\x09\x00\x00\x00\x01\x00\x01\x01\xFF\x0A\x00\x10\x82\x8F\x92\x09\xB3\xF4\x46")";
  const auto restore = [&](const std::string& key_and_ttl, const std::string& more = "") {
    return store("RESTORE " + key_and_ttl + " " + hello + more);
  };
  EXPECT_EQ(store("DUMP nope"), "$-1");
  EXPECT_EQ(restore("a 0"), "+OK");
  Play(store, {{"GET a", "$5 hello"}, {"TTL a", ":-1"}});
  EXPECT_EQ(restore("a 0"), "-BUSYKEY Target key name already exists.");
  EXPECT_EQ(restore("a 5000", " REPLACE"), "+OK");
  EXPECT_EQ(store("PTTL a"), ":5000");
  EXPECT_EQ(restore("a 1700000009000", " replace absttl"), "+OK");
  EXPECT_EQ(store("PEXPIRETIME a"), ":1700000009000");
  EXPECT_EQ(restore("b 1", " ABSTTL"), "+OK") << "it has expired already";
  EXPECT_EQ(store("EXISTS b"), ":0");
  EXPECT_EQ(restore("a 1", " ABSTTL REPLACE"), "+OK");
  EXPECT_EQ(store("EXISTS a"), ":0");
  EXPECT_EQ(restore("a 0", " IDLETIME 5"), "+OK");
  EXPECT_EQ(restore("c 0", " FREQ 255"), "+OK");
  EXPECT_EQ(restore("d 0", " FREQ 256"), "-ERR Invalid FREQ value, must be >= 0 and <= 255");
  EXPECT_EQ(restore("d 0", " IDLETIME -1"), "-ERR Invalid IDLETIME value, must be >= 0");
  EXPECT_EQ(restore("d 0", " IDLETIME 1 FREQ 1"), "-ERR syntax error");
  EXPECT_EQ(restore("d 0", " FREQ"), "-ERR syntax error");
  EXPECT_EQ(restore("d -1"), "-ERR Invalid TTL value, must be >= 0");
  EXPECT_EQ(restore("d 9223372036854775807"), "-ERR Invalid TTL value, must be >= 0");
  EXPECT_EQ(restore("d x"), "-ERR value is not an integer or out of range");
  EXPECT_EQ(store("RESTORE d 0 nonsense-of-a-dump"),
            "-ERR DUMP payload version or checksum are wrong");
  EXPECT_EQ(store("RESTORE d 0 " + list),
            "-ERR the payload is of a type that is not served; strings are");
  EXPECT_EQ(store("EXISTS d"), ":0");
}

template <class TestStoreOf>
void PlayExpiryCommands(TestStoreOf& store) {
  const auto after = [&](int64_t ms) { store.now_ms += ms; };
  Play(store, {{"TTL a", ":-2"},
               {"SET a 1", "+OK"},
               {"PTTL a", ":-1"},
               {"EXPIRETIME a", ":-1"},
               {"EXPIRE a 100", ":1"},
               {"TTL a", ":100"},
               {"EXPIRE a 50 GT", ":0"},
               {"EXPIRE a 50 NX", ":0"},
               {"EXPIRE a 50 LT", ":1"},
               {"EXPIRE a 60 XX", ":1"},
               {"EXPIRE a 60 NX GT",
                "-ERR NX and XX, GT or LT options at the same time are not compatible"},
               {"EXPIRE a 60 LT GT", "-ERR GT and LT options at the same time are not compatible"},
               {"EXPIRE a 60 EVER", "-ERR Unsupported option EVER"},
               {"EXPIRE a 9223372036854775807", "-ERR invalid expire time in 'expire' command"},
               {"PEXPIRE a 1500", ":1"},
               {"EXPIRETIME a", ":1700000002"},
               {"PEXPIRETIME a", ":1700000001500"},
               {"PEXPIREAT a 9223372036854775806", ":1"},
               {"EXPIRETIME a", ":9223372036854776"},
               {"PERSIST a", ":1"},
               {"PERSIST a", ":0"},
               {"EXPIREAT a 1700000010", ":1"},
               {"PTTL a", ":10000"},
               {"INCR a", ":2"},
               {"APPEND a 0", ":2"},
               {"TTL a", ":10"},
               {"SET a 1 KEEPTTL", "+OK"},
               {"TTL a", ":10"},
               {"COPY a b", ":1"},
               {"RENAME b c", "+OK"},
               {"TTL c", ":10"}});
  after(9999);
  EXPECT_EQ(store("EXISTS a c"), ":2");
  after(1);
  Play(store, {{"GET a", "$-1"},
               {"MGET a c", "*2 $-1 $-1"},
               {"EXISTS a", ":0"},
               {"TTL a", ":-2"},
               {"EXPIRE a 5", ":0"},
               {"DEL a", ":0"},
               {"KEYS *", "*0"},
               {"DBSIZE", ":0"},
               {"SET a 2 NX", "+OK"},
               {"TTL a", ":-1"},
               {"SETEX a 5 v", "+OK"},
               {"PSETEX b 5000 v", "+OK"},
               {"SETEX a 0 v", "-ERR invalid expire time in 'setex' command"},
               {"GETEX a EX 100", "$1 v"},
               {"TTL a", ":100"},
               {"GETEX a PERSIST", "$1 v"},
               {"TTL a", ":-1"},
               {"GETEX a PERSIST EX 1", "-ERR syntax error"},
               {"GETEX a EX 100 EX 200", "$1 v"},
               {"EXPIRE b x FOO", "-ERR Unsupported option FOO"},
               {"EXPIRE b x NX GT",
                "-ERR NX and XX, GT or LT options at the same time are not compatible"},
               {"GETEX a EX 100 PX 200", "-ERR syntax error"},
               {"SET a 1 PXAT 1", "+OK"},
               {"EXISTS a", ":0"},
               {"PEXPIRE b -1", ":1"},
               {"EXISTS b", ":0"},
               {"SET a 1 EX 5", "+OK"},
               {"SET a 1", "+OK"},
               {"TTL a", ":-1"}});
}

template <class TestStoreOf>
void PlayWatch(TestStoreOf& store) {
  store("SET a 1");
  WatchTable::Set watches(store->watch_table());
  WatchKey(store.get(), &watches, "a");
  EXPECT_EQ(RunExec(store.get(), {"SET a 2"}, &watches), "*1 +OK");
  EXPECT_TRUE(watches.Broken(store.now_ms));  // by its own write; EXEC ends the watch
  watches.Clear();
  WatchKey(store.get(), &watches, "a");
  store("SET other 1");
  store("SET a 3 NX");  // changes nothing
  store("DEL nope");
  EXPECT_EQ(RunExec(store.get(), {"GET a"}, &watches), "*1 $1 2");
  for (const char* change : {"SET a 2", "DEL a", "INCR a", "EXPIRE a 100", "MSET b 1 a 2",
                             "RENAME a b", "COPY other a", "FLUSHALL", "GETSET a 5"}) {
    watches.Clear();
    WatchKey(store.get(), &watches, "a");
    EXPECT_EQ(RunExec(store.get(), {"PING"}, &watches), "*1 +other");
    store(change);
    EXPECT_EQ(RunExec(store.get(), {"SET a bad"}, &watches), "*-1") << change;
  }
  watches.Clear();
  store("SET a 1 PX 100");
  WatchKey(store.get(), &watches, "a");
  EXPECT_EQ(RunExec(store.get(), {"PING"}, &watches), "*1 +other");
  store.now_ms += 100;
  EXPECT_EQ(RunExec(store.get(), {"SET a bad"}, &watches), "*-1");
  watches.Clear();
  EXPECT_EQ(store->watch_table()->watches(), 0u);
}

template <class TestStoreOf>
void PlayWatchedCounters(TestStoreOf& store) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  store("SET n 0");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      WatchTable::Set watches(store->watch_table());
      for (int done = 0; done < kEach;) {
        watches.Clear();
        WatchKey(store.get(), &watches, "n");
        const std::string seen = store("GET n");
        const int next = std::stoi(seen.substr(seen.find(' ') + 1)) + 1;
        done += RunExec(store.get(), {"SET n " + std::to_string(next)}, &watches) == "*1 +OK";
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(store("GET n"), "$3 800");
}

template <class TestStoreOf>
void PlayBitCommands(TestStoreOf& store) {
  Play(store, {{"SETBIT b 7 1", ":0"},
               {"SETBIT b 7 0", ":1"},
               {"SETBIT b 1 1", ":0"},
               {"STRLEN b", ":1"},
               {"GET b", "$1 @"},
               {"SETBIT b 20 1", ":0"},
               {"STRLEN b", ":3"},
               {"GETBIT b 20", ":1"},
               {"GETBIT b 21", ":0"},
               {"GETBIT b 9999", ":0"},
               {"GETBIT nope 0", ":0"},
               {"SETBIT b -1 1", "-ERR bit offset is not an integer or out of range"},
               {"SETBIT b 9999999999 1", "-ERR bit offset is not an integer or out of range"},
               {"SETBIT b 0 2", "-ERR bit is not an integer or out of range"},
               {"SET f foobar", "+OK"},
               {"BITCOUNT f", ":26"},
               {"BITCOUNT f 0 0", ":4"},
               {"BITCOUNT f 1 1", ":6"},
               {"BITCOUNT f 1 1 BYTE", ":6"},
               {"BITCOUNT f 5 30 BIT", ":17"},
               {"BITCOUNT f -2 -1", ":7"},
               {"BITCOUNT f 3 1", ":0"},
               {"BITCOUNT f 1", "-ERR syntax error"},
               {"BITCOUNT f 1 2 NIBBLE", "-ERR syntax error"},
               {"BITCOUNT f a b", "-ERR value is not an integer or out of range"},
               {"BITCOUNT nope", ":0"},
               {"SET l abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", "+OK"},
               {"BITCOUNT l", ":224"},
               {"BITCOUNT l 1 -2", ":216"},
               {"BITPOS f 1", ":1"},
               {"BITPOS f 0", ":0"},
               {"BITPOS f 1 2 -1 BIT", ":2"},
               {"BITPOS f 1 1", ":9"},
               {"BITPOS f 2", "-ERR The bit argument must be 1 or 0."},
               {"BITPOS nope 1", ":-1"},
               {"BITPOS nope 0", ":0"},
               {"BITFIELD ones SET u8 0 255 SET u8 8 255", "*2 :0 :0"},
               {"BITPOS ones 0", ":16"},
               {"BITPOS ones 0 0 -1", ":-1"},
               {"BITPOS ones 0 1", ":16"},
               {"BITPOS ones 1 7 15 BIT", ":7"},
               {"SET x abc", "+OK"},
               {"SET y ab", "+OK"},
               {"BITOP AND d x y", ":3"},
               {"BITCOUNT d", ":6"},
               {"BITOP OR d x y", ":3"},
               {"GET d", "$3 abc"},
               {"BITOP XOR d x x", ":3"},
               {"BITCOUNT d", ":0"},
               {"BITOP NOT d x", ":3"},
               {"BITCOUNT d", ":14"},
               {"BITOP NOT d x y", "-ERR BITOP NOT must be called with a single source key."},
               {"BITOP NAND d x y", "-ERR syntax error"},
               {"BITOP AND d nope none", ":0"},
               {"EXISTS d", ":0"},
               {"BITFIELD n INCRBY i5 100 1 GET u4 0", "*2 :1 :0"},
               {"BITFIELD n SET i8 #0 -100 GET u8 #0 GET i8 0", "*3 :0 :156 :-100"},
               {"BITFIELD w INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1", "*2 :1 :1"},
               {"BITFIELD w INCRBY u2 100 5 OVERFLOW SAT INCRBY u2 102 5", "*2 :2 :3"},
               {"BITFIELD w OVERFLOW FAIL INCRBY u2 102 1", "*1 $-1"},
               {"BITFIELD w SET i64 0 -9223372036854775808 OVERFLOW SAT INCRBY i64 0 -1",
                "*2 :0 :-9223372036854775808"},
               {"BITFIELD w INCRBY i64 0 -1", "*1 :9223372036854775807"},
               {"BITFIELD w GET u64 0",
                "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not "
                "supported but i64 is."},
               {"BITFIELD w OVERFLOW SOME GET u8 0", "-ERR Invalid OVERFLOW type specified"},
               {"BITFIELD w GET u8", "-ERR syntax error"},
               {"BITFIELD_RO n GET i8 0", "*1 :-100"},
               {"BITFIELD_RO n SET i8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand"},
               {"BITFIELD_RO n SET i8 x 1", "-ERR bit offset is not an integer or out of range"},
               {"BITFIELD nope GET u8 0", "*1 :0"},
               {"EXISTS nope", ":0"},
               {"MEMORY USAGE nope", "$-1"},
               {"MEMORY FOO",
                "-ERR unknown subcommand or wrong number of arguments for 'FOO'. Try MEMORY HELP."},
               {"OBJECT IDLETIME nokey", "$-1"},
               {"MEMORY USAGE nope SAMPLES", "-ERR syntax error"},
               {"MEMORY USAGE nope SAMPLES -1", "-ERR syntax error"},
               {"MEMORY USAGE nope SAMPLES x", "-ERR value is not an integer or out of range"}});
}

}  // namespace pulse::redis
