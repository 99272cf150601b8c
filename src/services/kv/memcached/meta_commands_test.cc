// The meta commands of commands.h. Instantiated in commands_test.cc.
#include <string>

#include "gmock/gmock.h"
#include "services/kv/memcached/test_executor.h"

namespace pulse::kv::memcached {
namespace {

TEST_P(MemcachedTest, MetaGet_EachFlag_IsToldInItsOrder) {
  EXPECT_EQ(Line("mg a"), "EN");
  EXPECT_EQ(Line("mg a v k Oabc"), "EN ka Oabc");
  EXPECT_EQ(Line("mg a q k"), "");
  Set("ms a 3 T100 F7", "abc");
  const uint64_t cas = CasOf("a");
  EXPECT_EQ(Line("mg a"), "HD");
  EXPECT_EQ(Line("mg a q"), "HD");
  EXPECT_EQ(Line("mg a s v t f k O9 q c u Ppath Lhint"),
            absl::StrCat("VA 3 s3 t100 f7 ka O9 c", cas, "\r\nabc"));
  EXPECT_EQ(Line("mg a t T50"), "HD t100");
  EXPECT_EQ(Line("mg a T60 t"), "HD t60");
  EXPECT_EQ(Line("mg a T0 t v"), "VA 3 t-1\r\nabc");
  EXPECT_EQ(Line("mg a T-1 v"), "VA 3\r\nabc");
  EXPECT_EQ(Line("mg a"), "EN");
  EXPECT_EQ(counters_.misses.total(), 4u);
}

TEST_P(MemcachedTest, MetaGet_HitAndLastUse_AreThoseBeforeIt) {
  Put("a", "1");
  EXPECT_EQ(Line("mg a h l v"), "VA 1 h0 l0\r\n1");
  now_ms_ += 7'000;
  EXPECT_EQ(Line("mg a l h"), "HD l7 h1");
  now_ms_ += 3'000;
  EXPECT_EQ(Line("mg a h l u"), "HD h1 l3");
  EXPECT_EQ(Line("mg a h l"), "HD h1 l3") << "with u it did not count";
  EXPECT_EQ(Line("mg a h l"), "HD h1 l0");
  for (const char* use : {"get a", "gets a", "gat 100 a", "touch a 0", "mg a"}) {
    now_ms_ += 5'000;
    Line(use);
    now_ms_ += 2'000;
    EXPECT_EQ(Line("mg a h l u"), "HD h1 l2") << use;
  }
  now_ms_ += 5'000;
  EXPECT_EQ(Redis("GET a"), "$1 1");
  EXPECT_EQ(Line("mg a h l u"), "HD h1 l0");
  now_ms_ += 5'000;
  EXPECT_EQ(Line("incr a 1"), "2");
  EXPECT_EQ(Line("mg a h l u"), "HD h1 l0");
  EXPECT_EQ(Line("incr a 10"), "12");
  EXPECT_EQ(Line("mg a h l u"), "HD h0 l0") << "a longer number is a new item";
  EXPECT_EQ(Line("decr a 1"), "11");
  EXPECT_EQ(Line("mg a h l u"), "HD h0 l0") << "to count is no hit";
  now_ms_ -= 5'000;
  EXPECT_EQ(Line("mg a h l u"), "HD h0 l0") << "the clock was put back";
  now_ms_ += 5'000;
  for (const char* store : {"set a 7 0 1", "set a 0 100 1", "append a 0 0 1", "ms a 1"}) {
    now_ms_ += 5'000;
    Set(store, "5");
    now_ms_ += 1'000;
    EXPECT_EQ(Line("mg a l h"), "HD l1 h0") << store;
  }
}

TEST_P(MemcachedTest, MetaGet_HitAndLastUse_OfItemsThatWereNotSet) {
  EXPECT_EQ(Line("mg new h l N30"), "HD h0 l0 W");
  EXPECT_EQ(Line("mg unused u N30"), "HD W");
  EXPECT_EQ(Line("ma number N0 J5 v"), "VA 1\r\n5");
  now_ms_ += 4'000;
  EXPECT_EQ(Line("mg new h l"), "HD h1 l4 Z") << "to make it counts";
  EXPECT_EQ(Line("mg unused h l"), "HD h0 l4 Z");
  EXPECT_EQ(Line("mg number h l"), "HD h0 l4");
  EXPECT_EQ(Redis("SET a 5"), "+OK");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Line("mg a h l"), "HD h0 l-1") << "it does not know";
}

TEST_P(MemcachedTest, MetaGet_Wrong_IsRefused) {
  EXPECT_EQ(Line("mg"), "ERROR");
  EXPECT_EQ(Line("mg " + std::string(251, 'k')), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Line("mg a v v"), "CLIENT_ERROR duplicate flag");
  EXPECT_EQ(Line("mg a Tx"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(Line("mg a S1"), "CLIENT_ERROR invalid flag");
  EXPECT_EQ(Line("mg a O" + std::string(31, 'o')), "EN O" + std::string(31, 'o'));
  EXPECT_EQ(Line("mg a O" + std::string(32, 'o')), "CLIENT_ERROR opaque token too long");
  std::string line = "mg a";
  for (char flag = 'a'; flag < 'a' + 18; ++flag) line += absl::StrCat(" ", std::string(1, flag));
  EXPECT_EQ(Line(line), "CLIENT_ERROR options flags are too long");
  EXPECT_EQ(Line("mg a v E5"), "CLIENT_ERROR invalid flag");
  EXPECT_EQ(Line("get a"), "END");
}

TEST_P(MemcachedTest, MetaSet_EachMode_Stores) {
  EXPECT_EQ(Set("ms a 1 MR", "x"), "NS");
  EXPECT_EQ(Set("ms a 1 MA", "x"), "NS");
  EXPECT_EQ(Set("ms a 1 MP k", "x"), "NS ka");
  EXPECT_EQ(Set("ms a 1 C5 O7", "x"), "NF O7");
  EXPECT_EQ(Set("ms a 1 ME q", "x"), "");
  EXPECT_EQ(Set("ms a 1 ME q k", "y"), "NS ka");
  EXPECT_EQ(Set("ms a 2 MA F9", "bc"), "HD");
  EXPECT_EQ(Set("ms a 2 MP T50", "yz"), "HD");
  EXPECT_EQ(Line("mg a v f t"), "VA 5 f0 t-1\r\nyzxbc");
  EXPECT_EQ(Set("ms a 1 MR F4294967295 T100", "r"), "HD");
  EXPECT_EQ(Line("mg a v f t"), "VA 1 f4294967295 t100\r\nr");
  const std::string stored = Set("ms a 1 MS c k Oq", "s");
  EXPECT_EQ(stored, absl::StrCat("HD c", CasOf("a"), " ka Oq"));
  EXPECT_EQ(Set(absl::StrCat("ms a 1 C", CasOf("a") + 1, " c"), "t"), "EX c0");
  EXPECT_EQ(Set("ms a 1 C0", "t"), "EX");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 MA C", CasOf("a") + 1), "t"), "EX");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 MA C", CasOf("a")), "t"), "HD");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 q C", CasOf("a")), "u"), "");
  EXPECT_EQ(Set("ms a 1 E12345 c", "v"), "HD c12345");
  EXPECT_EQ(CasOf("a"), 12345u);
  EXPECT_EQ(Get("a"), "v");
  EXPECT_EQ(Set("ms a 0 T-1", ""), "HD");
  EXPECT_EQ(Line("mg a"), "EN");
}

TEST_P(MemcachedTest, MetaSet_Wrong_IsRefusedWithItsData) {
  EXPECT_EQ(Line("ms"), "ERROR");
  EXPECT_EQ(Line("ms a"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Line("ms a x"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Line("ms a -1"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Set("ms a 1 MX", "x"), "CLIENT_ERROR invalid mode for ms M token");
  EXPECT_EQ(Set("ms a 1 M", "x"), "CLIENT_ERROR incorrect length for M token");
  EXPECT_EQ(Set("ms a 1 Fx", "x"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Set("ms a 1 Cx", "x"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(Set("ms a 1 E0", "x"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(Set("ms a 1 Tx", "x"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(Set("ms a 1 Z", "x"), "CLIENT_ERROR invalid flag");
  EXPECT_EQ(Set("ms a 1 v v", "x"), "CLIENT_ERROR duplicate flag");
  EXPECT_EQ(Set("ms a 1 O" + std::string(32, 'o'), "x"), "CLIENT_ERROR opaque token too long");
  EXPECT_EQ(Set("ms " + std::string(251, 'k') + " 1", "x"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ((*this)("ms a 1 q\r\nxyzmn\r\n"), "CLIENT_ERROR bad data chunk\r\nMN\r\n");
  EXPECT_EQ(Line("get a"), "END");
}

TEST_P(MemcachedTest, MetaSet_NoRoomForTheData_DropsTheItemInAnyMode) {
  const std::string large(kMaxValue + 1, 'x');
  for (const char* mode : {"MS", "ME", "MR", "MA", "MP", "C1"}) {
    Put("a", "old");
    EXPECT_EQ(Set(absl::StrCat("ms a 2001 ", mode), large),
              "SERVER_ERROR object too large for cache");
    EXPECT_EQ(Line("get a"), "END") << mode;
  }
  // What would get too long stays.
  Put("a", large.substr(1));
  EXPECT_EQ(Set("ms a 1 MA", "x"), "SERVER_ERROR object too large for cache");
  EXPECT_EQ(Get("a").size(), kMaxValue);
  // So it is with memory.
  Open(Policy::kNoEviction, 16 * static_cast<uint64_t>(GetParam()));
  Put("a", "old");
  Put("b", "old");
  for (const size_t size : {size_t{2000}, size_t{500}}) {
    int refused = 0;  // until no partition takes more
    for (int i = 0; refused < 1000; ++i) {
      refused += Put(absl::StrCat("key", size, "-", i), large.substr(0, size)) == "STORED" ? 0 : 1;
    }
  }
  EXPECT_EQ(Set("ms a 1990 MA", large.substr(11)), "SERVER_ERROR out of memory storing object");
  EXPECT_EQ(Get("a"), "old");
  EXPECT_EQ(Set("ms b 2000 MR", large.substr(1)), "SERVER_ERROR out of memory storing object");
  EXPECT_EQ(Line("get b"), "END");
}

TEST_P(MemcachedTest, MetaGet_WithoutTheValue_NeedsNoRoomForIt) {
  Put("a", std::string(1000, 'x'));
  const auto room = [&](const std::string& line) {
    Request request;
    request.Parse(line);
    uint64_t bytes = 0;
    EXPECT_TRUE(executor_->SizeOfReply(request, true, &bytes));
    return bytes;
  };
  EXPECT_EQ(room("mg a s t c\r\n"), 0u);
  EXPECT_EQ(room("mg a s v\r\n"), 1000u);
  EXPECT_EQ(room("mg YQ== b v\r\n"), 1000u);
  EXPECT_EQ(room("mg a\r\n") + room("mg\r\n"), 0u);
}

// It is made beside the store's memory.
TEST_P(MemcachedTest, Append_InAnyForm_NeedsRoomForTheValueThatItMakes) {
  Put("a", std::string(1000, 'x'));
  const auto room = [&](const std::string& line) {
    const std::string bytes = line + "\r\nabc\r\n";
    Request request;
    request.Parse(bytes);
    uint64_t needed = 0;
    EXPECT_TRUE(executor_->SizeOfReply(request, true, &needed));
    return needed;
  };
  for (const char* line :
       {"append a 0 0 3", "prepend a 0 0 3 noreply", "ms a 3 MA", "ms YQ== 3 b MP"}) {
    EXPECT_EQ(room(line), 1003u) << line;
  }
  for (const char* line : {"set a 0 0 3", "ms a 3", "ms a 3 MS", "ms MA 3"}) {
    EXPECT_EQ(room(line), 0u) << line;
  }
  const std::string data = "70000\r\n" + std::string(70'000, 'd') + "\r\n";
  const auto may_be_large = [&](const std::string& line) {
    const std::string bytes = line + data;
    Request request;
    request.Parse(bytes);
    return executor_->MayBeLarge(request);
  };
  EXPECT_TRUE(may_be_large("append a 0 0 "));
  EXPECT_FALSE(may_be_large("set a 0 0 "));
}

TEST_P(MemcachedTest, Get_OfValuesThatMayBeMoreThanASmallReply_SaysSo) {
  Put("a", std::string(1000, 'x'));
  const auto may_be_large = [&](int keys) {
    std::string line = "get";
    for (int i = 0; i < keys; ++i) line += " a";
    Request request;
    request.Parse(line + "\r\n");
    return executor_->MayBeLarge(request);
  };
  EXPECT_FALSE(may_be_large(1));
  EXPECT_FALSE(may_be_large(50));
  EXPECT_TRUE(may_be_large(70));
}

TEST_P(MemcachedTest, MetaDelete_EachForm_Deletes) {
  EXPECT_EQ(Line("md a k O5 q"), "NF ka O5");
  Put("a", "x");
  EXPECT_EQ(Line(absl::StrCat("md a k O5 C", CasOf("a") + 1)), "EX ka O5");
  EXPECT_EQ(Line("md a C0"), "EX");
  EXPECT_EQ(Line(absl::StrCat("md a k O5 C", CasOf("a"))), "HD ka O5");
  EXPECT_EQ(Line("get a"), "END");
  Put("a", "x");
  EXPECT_EQ(Line("md a q"), "");
  EXPECT_EQ(Line("get a"), "END");
  Put("a", "x");
  EXPECT_EQ(Line("md a q q"), "CLIENT_ERROR invalid or duplicate flag");
  EXPECT_EQ(Line("md a Cx"), "CLIENT_ERROR invalid or duplicate flag");
  EXPECT_EQ(Line("md a O" + std::string(32, 'o')), "CLIENT_ERROR opaque token too long");
  EXPECT_EQ(Line("md"), "ERROR");
  EXPECT_EQ(Get("a"), "x");
}

TEST_P(MemcachedTest, MetaArithmetic_EachFlag_Counts) {
  EXPECT_EQ(Line("ma n k O1 q"), "NF kn O1");
  EXPECT_EQ(Line("ma n t N100 J13 v q"), "VA 2 t-1\r\n13");
  EXPECT_EQ(Line("ma n t"), "HD t100");
  EXPECT_EQ(Line("ma n q v"), "");
  EXPECT_EQ(Line("ma n v D5 N5 J9"), "VA 2\r\n20");
  EXPECT_EQ(Line("ma n v MD D6"), "VA 2\r\n14");
  EXPECT_EQ(Line("ma n v M- D100"), "VA 1\r\n0");
  EXPECT_EQ(Line("ma n v M+ D18446744073709551615"), "VA 20\r\n18446744073709551615");
  EXPECT_EQ(Line("ma n v MI"), "VA 1\r\n0");
  EXPECT_EQ(Line("ma n t T50"), "HD t100");
  EXPECT_EQ(Line("ma n T0 t"), "HD t-1");
  const uint64_t cas = CasOf("n");
  EXPECT_EQ(Line(absl::StrCat("ma n v C", cas + 1)), "EX");
  const std::string reply = Line(absl::StrCat("ma n k c Oxy C", cas));
  EXPECT_EQ(reply, absl::StrCat("HD kn c", CasOf("n"), " Oxy"));
  EXPECT_EQ(Line("ma n C0 E77 c"), "HD c77");
  EXPECT_EQ(Line("ma n T-1 v"), "VA 1\r\n5");
  EXPECT_EQ(Line("ma n N-1 v"), "VA 1\r\n0");
  EXPECT_EQ(Line("mg n"), "EN");
  EXPECT_EQ(Line("ma n N0 T70"), "HD");
  EXPECT_EQ(Line("mg n t v"), "VA 1 t70\r\n0");
  Put("n", "x");
  EXPECT_EQ(Line("ma n q"), "CLIENT_ERROR cannot increment or decrement non-numeric value");
  EXPECT_EQ(Line("ma n MX"), "CLIENT_ERROR invalid mode for ma M token");
  for (const char* flags : {"D-1", "Jx", "Nx", "v v", "Z", "M"}) {
    EXPECT_EQ(Line(absl::StrCat("ma n ", flags)), "CLIENT_ERROR invalid or duplicate flag");
  }
  EXPECT_EQ(Line("ma"), "ERROR");
}

TEST_P(MemcachedTest, MetaDebug_EachForm_Tells) {
  EXPECT_EQ(Line("me a"), "EN");
  Set("set a 5 100 3", "abc");
  EXPECT_THAT(Line("me a"), testing::HasSubstr("ME a exp=100 la=0 cas="));
  EXPECT_THAT(Line("me a"), testing::HasSubstr(" fetch=no size=40"));
  const uint64_t cas = CasOf("a");
  now_ms_ += 5'000;
  EXPECT_EQ(Line("me a"), absl::StrCat("ME a exp=95 la=5 cas=", cas, " fetch=yes size=40"));
  EXPECT_EQ(Redis("MEMORY USAGE a"), ":48") << "with its slot";
  EXPECT_EQ(Line("me YQ== b"), absl::StrCat("ME YQ== exp=95 la=5 cas=", cas, " fetch=yes size=40"));
  EXPECT_EQ(Line("me"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ(Line("me %% b"), "CLIENT_ERROR bad command line format");
}

TEST_P(MemcachedTest, Base64Keys_AreDecoded) {
  const std::string binary("\x00\xff\r\n \x01", 6);  // AP8NCiAB
  EXPECT_EQ(Set("ms AP8NCiAB 2 b k c", "hi"), "HD kAP8NCiAB b c1");
  EXPECT_EQ(Line("mg AP8NCiAB v k b"), "VA 2 kAP8NCiAB b\r\nhi");
  EXPECT_EQ(Line("mg AP8NCiAB v"), "EN");
  EXPECT_EQ(store_->numbers().items, 1u);
  store_->WithPartition(binary, true, [&](Partition& partition, uint64_t hash) {
    EXPECT_NE(partition.Peek(binary, hash), nullptr);
  });
  Put("a", "x");
  EXPECT_EQ(Line("mg YQ== b v k"), "VA 1 kYQ== b\r\nx");
  EXPECT_EQ(Line("md YQ== b k"), "HD kYQ== b");
  EXPECT_EQ(Line("md YQ== k b"), "NF kYQ== b");
  EXPECT_EQ(Line("ma YQ== b N0 k"), "HD kYQ== b");
  EXPECT_EQ(Line("mg Yg== b N30 k"), "HD kYg== b W");
  EXPECT_EQ(Line("mg Yg== b N30 k"), "HD kYg== b Z");
  EXPECT_EQ(Get("a"), "0");
  for (const char* key : {"YQ", "YQ=", "====", "Y%==", "a"}) {
    EXPECT_EQ(Line(absl::StrCat("mg ", key, " b")), "CLIENT_ERROR error decoding key") << key;
  }
  EXPECT_EQ(Line("mg " + std::string(252, 'Y') + " b"), "CLIENT_ERROR bad command line format");
}

// The first client that asks for a key that is not there makes it; the others are told so.
TEST_P(MemcachedTest, MetaGet_N_MakesAnItem_ForOneClient) {
  EXPECT_EQ(Line("mg a N30 v t f"), "VA 0 t30 f0 W\r\n");
  EXPECT_EQ(Line("mg a N30 v t k O1"), "VA 0 t30 ka O1 Z\r\n");
  EXPECT_EQ(Line("mg a q"), "HD Z");
  EXPECT_EQ(Line("get a"), "VALUE a 0 0\r\n\r\nEND");
  EXPECT_EQ(Set("ms a 1", "x"), "HD");
  EXPECT_EQ(Line("mg a N30 v"), "VA 1\r\nx") << "made";
  EXPECT_EQ(Line("mg b N30 T50 t"), "HD t50 W");
  EXPECT_EQ(Line("mg c N-1 v"), "VA 0 W\r\n");
  EXPECT_EQ(Line("mg c v"), "EN");
  EXPECT_EQ(Line("mg d N0 q t"), "HD t-1 W");
  EXPECT_EQ(Line("mg f t N30"), "HD t-1 W");
  EXPECT_EQ(Line("mg f t"), "HD t30 Z");
  EXPECT_EQ(Line("mg e R30 q"), "");
  EXPECT_EQ(Line("mg e Nx"), "CLIENT_ERROR bad token in command line format");
  EXPECT_EQ(Line("incr b 1"), "CLIENT_ERROR cannot increment or decrement non-numeric value");
  now_ms_ += 60'000;
  EXPECT_EQ(Line("mg b N30"), "HD W") << "what has expired is not there";
}

TEST_P(MemcachedTest, MetaGet_R_TellsOneClient_WhenTheTimeIsShort) {
  Set("set a 0 30 1", "x");
  EXPECT_EQ(Line("mg a R30"), "HD");
  EXPECT_EQ(Line("mg a R0"), "HD");
  EXPECT_EQ(Line("mg a R-1"), "HD");
  EXPECT_EQ(Line("mg a R31 t"), "HD t30 W");
  EXPECT_EQ(Line("mg a R31 t"), "HD t30 Z");
  EXPECT_EQ(Line("touch a 100"), "TOUCHED");
  EXPECT_EQ(Line("mg a v"), "VA 1 Z\r\nx");
  Put("b", "x");
  EXPECT_EQ(Line("mg b R2592000"), "HD") << "it never expires";
  Set("set c 0 30 1", "x");
  EXPECT_EQ(Line("mg c R20 T10 t"), "HD t10");
  EXPECT_EQ(Line("mg c T10 R20 t"), "HD t10 W");
}

TEST_P(MemcachedTest, MetaDelete_I_MarksAsStale_AndOneClientMakesItAnew) {
  EXPECT_EQ(Line("md a I"), "NF");
  Set("set a 7 100 1", "x");
  const uint64_t cas = CasOf("a");
  EXPECT_EQ(Line(absl::StrCat("md a I C", cas + 1)), "EX");
  EXPECT_EQ(Line("md a I C0"), "EX");
  EXPECT_EQ(Line(absl::StrCat("md a I k C", cas)), "HD ka");
  EXPECT_EQ(Line("mg a v f t"), "VA 1 f7 t100 X W\r\nx");
  EXPECT_EQ(Line("mg a v"), "VA 1 Z X\r\nx");
  EXPECT_EQ(Line("get a"), "VALUE a 7 1\r\nx\r\nEND");
  EXPECT_EQ(Line("md a I q T5"), "");
  EXPECT_EQ(Line("mg a t"), "HD t5 X W") << "told again";
  EXPECT_GT(std::stoull(Line("mg a c").substr(4)), cas);
  EXPECT_EQ(Line("md a I E77777"), "HD");
  EXPECT_EQ(Line("mg a c"), "HD c77777 X W");
  // A new value is not stale; one that was counted up is.
  Put("a", "5");
  EXPECT_EQ(Line("mg a v"), "VA 1\r\n5");
  EXPECT_EQ(Line("md a I"), "HD");
  EXPECT_EQ(Line("incr a 1"), "6");
  EXPECT_EQ(Line("mg a v"), "VA 1 X W\r\n6");
  EXPECT_EQ(Line("ma a v"), "VA 1\r\n7");
  EXPECT_EQ(Line("mg a v"), "VA 1 Z X\r\n7");
  EXPECT_EQ(Set("append a 0 0 1", "8"), "STORED");
  EXPECT_EQ(Line("mg a v"), "VA 2\r\n78");
  EXPECT_EQ(Line("md a I T-1"), "HD");
  EXPECT_EQ(Line("mg a"), "EN");
}

TEST_P(MemcachedTest, MetaSet_I_OfAnOlderVersion_StoresAStaleItem) {
  EXPECT_EQ(Set("ms a 1 I T100", "x"), "HD");
  EXPECT_EQ(Line("mg a v"), "VA 1\r\nx");
  Put("a", "y");
  Set("ms a 1 T100", "z");
  const uint64_t cas = CasOf("a");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 I C", cas + 5), "u"), "EX");
  EXPECT_EQ(Set("ms a 1 I C0", "u"), "EX");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 MA I C", cas - 1), "u"), "EX");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 C", cas - 1), "u"), "EX");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 I T9 C", cas - 1), "u"), "HD");
  EXPECT_EQ(Line("mg a v t"), "VA 1 t100 X W\r\nu");
  EXPECT_EQ(Set(absl::StrCat("ms a 1 MR I C", cas), "v"), "HD");
  EXPECT_EQ(Line("mg a v"), "VA 1 Z X\r\nv");
  const std::string told = Line("mg a c");
  const uint64_t now = std::stoull(told.substr(4));
  EXPECT_EQ(Set(absl::StrCat("ms a 1 I C", now), "w"), "HD");
  EXPECT_EQ(Line("mg a v"), "VA 1\r\nw");
}

// What an item is marked with takes no bytes, and no room: the value is not moved.
TEST_P(MemcachedTest, Marks_TakeNoBytes) {
  Set("set a 0 100 1", "x");
  // Others in its segment, which would else be given back, with its dead bytes.
  for (int i = 0; i < 20; ++i) Set(absl::StrCat("set b", i, " 0 100 1"), "x");
  CasOf("a");
  const PartitionNumbers before = store_->numbers();
  EXPECT_EQ(Line("mg a R1000"), "HD W");
  EXPECT_EQ(Line("md a I"), "HD");
  EXPECT_EQ(Line("mg a"), "HD X W");
  // Nor later, when items that end then are put into other segments.
  now_ms_ += 70'000;
  EXPECT_EQ(Line("md a I"), "HD");
  EXPECT_EQ(Line("mg a t"), "HD t30 X W");
  const PartitionNumbers after = store_->numbers();
  EXPECT_EQ(after.item_bytes, before.item_bytes);
  EXPECT_EQ(after.dead_bytes, before.dead_bytes);
}

}  // namespace
}  // namespace pulse::kv::memcached
