// What files hold, read back: operations, properties, manifest, checkpoint. Damaged and random
// bytes are refused, and never read past their end (the sanitizers' builds see it).
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "base/testing.h"
#include "services/graph/core/checkpoint.h"
#include "services/graph/core/manifest.h"
#include "services/graph/core/names.h"
#include "services/graph/core/operations.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/core/view.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using testing_util::TestSeed;

std::string SomeOperations() {
  OperationWriter out;
  const Token labels[2] = {3, 900};
  out.Name(NameKind::kType, 7, "KNOWS");
  out.CreateNode(100, labels, EncodeProperties({{2, Value::Int(5)}, {1, Value::String("x")}}));
  out.CreateEdge({50, 100, 99, 7}, EncodeProperties({{4, Value::Float(0.5)}}));
  out.SetNode(99, EncodeProperties({{2, Value()}}, true));
  out.SetEdge({50, 100, 99, 7}, EncodeProperties({{9, Value::Int(-1)}}, true));
  out.AddLabel(100, 5);
  out.RemoveLabel(100, 3);
  out.DeleteEdge({50, 100, 99, 7});
  out.DeleteNode(100);
  out.CreateIndex({"i", "L", {"a", "b"}, true, true, false});
  out.DropIndex("i");
  out.Counters(1000, 2000);
  return out.Take();
}

TEST(Operations, Encoded_DecodeInTheSameOrder) {
  const std::string bytes = SomeOperations();
  OperationReader reader(bytes);
  Operation op;
  std::vector<Operation> all;
  while (*reader.Next(&op)) all.push_back(op);
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(all[0].text, "KNOWS");
  EXPECT_EQ(all[1].node, 100u);
  EXPECT_EQ(all[1].labels, (std::vector<Token>{3, 900}));
  EXPECT_EQ(PropertyValue(all[1].properties, 1).as_string(), "x");
  EXPECT_EQ(all[2].edge.id, 50u);
  EXPECT_EQ(all[2].edge.source, 100u);
  EXPECT_EQ(all[2].edge.target, 99u);
  EXPECT_EQ(all[3].node, 99u);
  EXPECT_EQ(all[7].edge.type, 7u);
  // Nothing stays of what was read into it before: that may be gone.
  EXPECT_TRUE(all[7].properties.empty() && all[7].text.empty() && all[7].labels.empty());
  EXPECT_EQ(all[9].index.keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(all[9].index.unique && all[9].index.constraint && !all[9].index.required);
  EXPECT_EQ(all[11].edge.id, 2000u);
}

// What reads one after the other has nothing left of the first.
TEST(Operations, ConstraintsOfRelationshipsAndTypes_AreOfAKindThatFormat2DoesNotKnow) {
  const cypher::IndexDefinition all[] = {{.name = "r",
                                          .label = "KNOWS",
                                          .keys = {"a", "b"},
                                          .constraint = true,
                                          .required = true,
                                          .of_edges = true},
                                         {.name = "t",
                                          .label = "L",
                                          .keys = {"a"},
                                          .constraint = true,
                                          .type = "LIST<STRING NOT NULL>"},
                                         {"i", "L", {"a"}}};
  OperationWriter out;
  for (const auto& one : all) out.CreateIndex(one);
  EXPECT_EQ(out.bytes()[0], 13);
  OperationReader reader(out.bytes());
  Operation op;
  for (const auto& one : all) {
    ASSERT_TRUE(*reader.Next(&op));
    EXPECT_EQ(op.kind, Operation::Kind::kCreateIndex);
    EXPECT_EQ(op.index, one);
  }
  OperationWriter unknown;
  unknown.CreateIndex({.name = "t", .label = "L", .keys = {"a"}, .type = "NUMBER"});
  EXPECT_EQ(OperationReader(unknown.bytes()).Next(&op).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(Operations, CutOrRandomBytes_AreRefusedOrRead) {
  std::mt19937_64 random(TestSeed());
  OperationWriter extended;
  extended.CreateIndex({.name = "t", .label = "L", .keys = {"a"}, .type = "DATE"});
  const std::string whole = SomeOperations() + extended.bytes();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole.substr(0, random() % (whole.size() + 1));
    for (uint64_t n = random() % 4; n > 0 && !bytes.empty(); --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    OperationReader reader(bytes);
    Operation op;
    size_t steps = 0;
    while (true) {
      const auto more = reader.Next(&op);
      if (!more.ok()) {
        EXPECT_EQ(more.status().code(), absl::StatusCode::kDataLoss);
        break;
      }
      if (!*more) break;
      ASSERT_LT(++steps, bytes.size() + 1);
      Properties ignored;
      DecodeProperties(op.properties, &ignored);
      std::string changed;
      ChangeProperties(op.properties, op.properties, &changed);
    }
  }
}

TEST(Properties, Changes_AreMergedByKey) {
  const std::string old = EncodeProperties({{1, Value::Int(1)}, {3, Value::Int(3)}});
  const std::string changes =
      EncodeProperties({{0, Value::Int(0)}, {1, Value()}, {3, Value::Int(4)}, {9, Value()}}, true);
  std::string out;
  ASSERT_TRUE(ChangeProperties(old, changes, &out));
  EXPECT_EQ(out, EncodeProperties({{0, Value::Int(0)}, {3, Value::Int(4)}}));
  EXPECT_TRUE(PropertyValue(out, 1).is_null());
}

TEST(Manifest, DamagedAnywhere_IsRefused) {
  Manifest manifest;
  manifest.checkpoint = "00000004.ckpt";
  manifest.flushed = 77;
  manifest.next_file = 9;
  manifest.runs = {{"00000002.run", Side::kOut, 1}, {"00000003.run", Side::kIn, 2}};
  manifest.edge_counts = {{4, 1000}};
  const std::string bytes = manifest.Encode();
  const auto back = Manifest::Decode(bytes, "M");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Encode(), bytes);
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= at == 8 ? 4 : 1;  // of formats 2 and 3 either may be read as the other
    EXPECT_FALSE(Manifest::Decode(damaged, "M").ok()) << at;
    EXPECT_FALSE(Manifest::Decode(bytes.substr(0, at), "M").ok()) << at;
  }
}

// The format's number, at byte 8, is in no checksum.
TEST(Manifest, NewerFormat_IsRefusedAsSuch_AndDamageIsNot) {
  std::string bytes = Manifest().Encode();
  bytes[8] = static_cast<char>(kStoreFormat + 1);
  const absl::Status newer = Manifest::Decode(bytes, "M").status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  const std::string said = testing_util::Text(newer);
  EXPECT_NE(said.find(cypher::Concat("newer PulseDB (format ", kStoreFormat + 1,
                                     "; this one knows up to ", kStoreFormat, ")")),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("pulse graph export"), std::string::npos) << said;
  bytes.back() ^= 1;
  EXPECT_EQ(Manifest::Decode(bytes, "M").status().code(), absl::StatusCode::kDataLoss);
  bytes = Manifest().Encode();
  bytes[8] = 0;
  EXPECT_EQ(Manifest::Decode(bytes, "M").status().code(), absl::StatusCode::kDataLoss);
}

TEST(Store, DatabaseOfANewerFormat_IsRefusedAndLeftAsItIs) {
  SimFiles files;
  StoreOptions options;
  options.files = &files;
  options.background = false;
  {
    auto store = *GraphStore::Open("db", options);
    ASSERT_TRUE((*store->Begin())->Commit().ok());
    ASSERT_TRUE(store->Close().ok());
  }
  Manifest manifest = *Manifest::Decode(files.Content("db/MANIFEST"), "M");
  files.Content("db/MANIFEST")[8] = static_cast<char>(kStoreFormat + 1);
  // Of files that only that version knows.
  files.Put("db/00000099.run", "what a newer version wrote");
  const std::string manifest_bytes = files.Content("db/MANIFEST");
  for (const bool read_only : {true, false}) {
    options.read_only = read_only;
    const absl::Status refused = GraphStore::Open("db", options).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    EXPECT_NE(testing_util::Text(refused).find(
                  cypher::Concat("newer PulseDB (format ", kStoreFormat + 1)),
              std::string::npos)
        << refused;
  }
  EXPECT_EQ(files.Content("db/MANIFEST"), manifest_bytes);
  EXPECT_TRUE(files.Read("db/00000099.run").ok());
  EXPECT_TRUE(files.Read("db/" + manifest.checkpoint).ok());
}

TEST(Store, DatabaseOfFormat1_BecomesTheNewestBeforeItIsWritten_AndNotByReaders) {
  SimFiles files;
  StoreOptions options;
  options.files = &files;
  options.background = false;
  ASSERT_TRUE(GraphStore::Open("db", options).ok());
  const std::string newest = files.Content("db/MANIFEST");
  files.Content("db/MANIFEST")[8] = 1;
  const std::string old = files.Content("db/MANIFEST");
  EXPECT_EQ(Manifest::Decode(old, "M")->format, 1u);
  options.read_only = true;
  ASSERT_TRUE(GraphStore::Open("db", options).ok());
  EXPECT_EQ(files.Content("db/MANIFEST"), old);
  options.read_only = false;
  ASSERT_TRUE(GraphStore::Open("db", options).ok());
  EXPECT_EQ(files.Content("db/MANIFEST"), newest);
}

TEST(Log, SegmentOfANewerFormat_IsRefusedAsSuch) {
  std::string head = WalSegmentHead(1, 0);
  head[8] = 3;
  const std::string summed = head.substr(0, 12) + head.substr(16);
  const uint32_t crc = Crc32c(summed.data(), summed.size());
  std::memcpy(head.data() + 12, &crc, sizeof(crc));
  SimFiles files;
  files.Put(WalPath("db", 1), head);
  WalSegmentReader reader(&files, "db", 1);
  const absl::Status newer = reader.ReadHead().status();
  EXPECT_EQ(newer.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(testing_util::Text(newer).find("format 3; this one knows up to 1"), std::string::npos)
      << newer;
}

TEST(Checkpoint, DamagedOrCutAnywhere_IsRefused) {
  SimFiles files;
  {
    const auto file = *files.Create("c");
    CheckpointWriter writer(file.get());
    writer.operations().Counters(1, 2);
    ASSERT_TRUE(writer.AppendFrame(SomeOperations()).ok());
    ASSERT_TRUE(writer.Finish().ok());
  }
  const std::string bytes = files.Content("c");
  std::vector<std::string> frames;
  const auto collect = [&frames](std::string_view frame) {
    frames.emplace_back(frame);
    return absl::OkStatus();
  };
  ASSERT_TRUE(ReadCheckpoint(bytes, "c", collect).ok());
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1], SomeOperations());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    EXPECT_FALSE(ReadCheckpoint(damaged, "c", collect).ok()) << at;
    EXPECT_FALSE(ReadCheckpoint(bytes.substr(0, at), "c", collect).ok()) << at;
  }
}

// Those between belong to transactions that were rolled back.
TEST(NameTable, TokensFarBehindTheOthers_AreTaken) {
  NameTable names;
  constexpr Token kFar = Tables::kMaxTokens - 1;
  EXPECT_TRUE(names.SetDurable(NameKind::kKey, kFar, "far"));
  EXPECT_EQ(names.NameOf(NameKind::kKey, kFar), "far");
  EXPECT_EQ(names.Durable(NameKind::kKey).size(), 1u);
  EXPECT_FALSE(names.SetDurable(NameKind::kKey, kFar, "other"));
}

}  // namespace
}  // namespace pulse::graph
