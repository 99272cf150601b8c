// The meta commands of commands.h. Instantiated in commands_test.cc.
#include <string>

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
  // What an item of this store cannot tell.
  for (const char* flag : {"h", "l", "N30", "R30"}) {
    EXPECT_EQ(Line(absl::StrCat("mg a v ", flag)), "CLIENT_ERROR invalid flag") << flag;
  }
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
  EXPECT_EQ(Set("ms a 1 I C1", "x"), "CLIENT_ERROR invalid flag");
  EXPECT_EQ(Set("ms a 1 v v", "x"), "CLIENT_ERROR duplicate flag");
  EXPECT_EQ(Set("ms a 1 O" + std::string(32, 'o'), "x"), "CLIENT_ERROR opaque token too long");
  EXPECT_EQ(Set("ms " + std::string(251, 'k') + " 1", "x"), "CLIENT_ERROR bad command line format");
  EXPECT_EQ((*this)("ms a 1 q\r\nxyzmn\r\n"), "CLIENT_ERROR bad data chunk\r\nMN\r\n");
  EXPECT_EQ(Line("get a"), "END");
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
  EXPECT_EQ(Line("md a I"), "CLIENT_ERROR invalid or duplicate flag");
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
  EXPECT_EQ(Line("me a"), absl::StrCat("ME a exp=100 cas=", CasOf("a"), " size=40"));
  EXPECT_EQ(Line("me YQ== b"), absl::StrCat("ME YQ== exp=100 cas=", CasOf("a"), " size=40"));
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
  EXPECT_EQ(Get("a"), "0");
  for (const char* key : {"YQ", "YQ=", "====", "Y%==", "a"}) {
    EXPECT_EQ(Line(absl::StrCat("mg ", key, " b")), "CLIENT_ERROR error decoding key") << key;
  }
  EXPECT_EQ(Line("mg " + std::string(252, 'Y') + " b"), "CLIENT_ERROR bad command line format");
}

}  // namespace
}  // namespace pulse::kv::memcached
