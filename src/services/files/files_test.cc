// The library against an agent in this process: what each operation does, and each error.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "services/files/spec.h"
#include "services/files/test_agent.h"

namespace pulse::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kClosed = absl::StatusCode::kFailedPrecondition;

class FilesTest : public testing::TestWithParam<std::tuple<Transfer, bool>> {
 protected:
  void SetUp() override {
    agent_.copying = std::get<1>(GetParam());
    agent_.Start();
    Connect();
    ASSERT_EQ(client_->CreateDirectory("d"), absl::OkStatus());
  }
  void Connect() {
    client_.reset();
    library_ = agent_.Connect(std::get<0>(GetParam()));
    ASSERT_NE(library_, nullptr);
    client_ = std::make_unique<Client>(library_.get());
  }
  // As after an orderly stop, or a crash of nothing but this agent.
  void Restart() {
    client_.reset();
    library_.reset();
    agent_.Stop();
    agent_.Start();
    Connect();
  }
  File Create(const std::string& name) {
    const Completion c = client_->Create("d", name);
    EXPECT_EQ(c.status, absl::OkStatus());
    return c.file;
  }

  TestAgent agent_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Client> client_;
};

TEST_P(FilesTest, Read_AfterWritesAndOverGaps_GetsWhatWasWritten) {
  const File f = Create("f");
  EXPECT_EQ(client_->Read(f, 0, 10), "");
  EXPECT_EQ(client_->Write(f, 0, "hello").bytes, 5u);
  EXPECT_EQ(client_->Read(f, 0, 100), "hello");
  EXPECT_EQ(client_->Read(f, 1, 3), "ell");
  EXPECT_EQ(client_->Read(f, 5, 3), "");
  EXPECT_EQ(client_->Read(f, 0, 0), "");
  EXPECT_EQ(client_->Write(f, 100, "").bytes, 0u);
  EXPECT_EQ(client_->Stat(f).size, 5u);
  // A gap reads as zeros; whole blocks go past the page cache.
  const std::string block(8192, 'b');
  EXPECT_EQ(client_->Write(f, 3 * kSegment, block).bytes, block.size());
  EXPECT_EQ(client_->Stat(f).size, 3 * kSegment + 8192);
  EXPECT_EQ(client_->Read(f, 0, 8), std::string("hello\0\0\0", 8));
  EXPECT_EQ(client_->Read(f, 3 * kSegment - 4096, 8192),
            std::string(4096, '\0') + std::string(4096, 'b'));
  EXPECT_EQ(client_->Read(f, 3 * kSegment + 4096, 8192), std::string(4096, 'b'));
  // Over the seam of two segments, whole blocks and not.
  EXPECT_EQ(client_->Write(f, kSegment - 4096, block).bytes, block.size());
  EXPECT_EQ(client_->Read(f, kSegment - 4096, 8192), block);
  EXPECT_EQ(client_->Write(f, 2 * kSegment - 3, "seaming").bytes, 7u);
  EXPECT_EQ(client_->Read(f, 2 * kSegment - 4, 9), std::string("\0seaming\0", 9));
  EXPECT_EQ(client_->Sync(f), absl::OkStatus());
  EXPECT_EQ(client_->Close(f), absl::OkStatus());
}

TEST_P(FilesTest, ScatterGather_ManyPieces_MovesThemInOrder) {
  const File f = Create("f");
  const ConstPiece out[] = {{"one,", 4}, {"", 0}, {"two,", 4}, {"three", 5}};
  EXPECT_EQ(client_->Wait(library_->WriteGather(f, 2, out, 4, 0)).bytes, 13u);
  char a[6], b[100];
  const Piece in[] = {{a, 6}, {b, 100}};
  const Completion c = client_->Wait(library_->ReadScatter(f, 0, in, 2, 7));
  EXPECT_EQ(c.bytes, 15u);
  EXPECT_EQ(c.cookie, 7u);
  EXPECT_EQ(std::string(a, 6), std::string("\0\0one,", 6));
  EXPECT_EQ(std::string(b, 9), "two,three");
  EXPECT_EQ(library_->ReadScatter(f, 0, in, Library::kMaxPieces + 1, 0).code(), kInvalid);
}

TEST_P(FilesTest, ReadInPlace_WithoutABuffer_GivesTheBytes) {
  const File f = Create("f");
  const std::string block(16384, 'z');
  ASSERT_EQ(client_->Write(f, 0, block).status, absl::OkStatus());
  Completion c = client_->Wait(library_->ReadInPlace(f, 8192, 16384, 1));
  ASSERT_EQ(c.bytes, 8192u);
  EXPECT_EQ(std::string(c.data, c.bytes), block.substr(0, 8192));
  library_->Release(client_->poll(), &c);
  EXPECT_EQ(c.data, nullptr);
  c = client_->Wait(library_->ReadInPlace(f, 16384, 10, 1));
  EXPECT_EQ(c.bytes, 0u);
  EXPECT_EQ(c.data, nullptr);
}

TEST_P(FilesTest, SetSize_CutThenGrown_ReadsZeros) {
  const File f = Create("f");
  ASSERT_EQ(client_->Write(f, 0, std::string(10000, 'a')).status, absl::OkStatus());
  EXPECT_EQ(client_->SetSize(f, 5000), absl::OkStatus());
  EXPECT_EQ(client_->Stat(f).size, 5000u);
  // What was cut off does not come back.
  EXPECT_EQ(client_->SetSize(f, 3 * kSegment), absl::OkStatus());
  EXPECT_EQ(client_->Read(f, 4998, 10), std::string("aa\0\0\0\0\0\0\0\0", 10));
  EXPECT_EQ(client_->Write(f, 8192, std::string(4096, 'b')).status, absl::OkStatus());
  EXPECT_EQ(client_->Read(f, 4096, 4096), std::string(904, 'a') + std::string(3192, '\0'));
  EXPECT_EQ(client_->SetSize(f, 0), absl::OkStatus());
  EXPECT_EQ(client_->Read(f, 0, 10), "");
  EXPECT_EQ(client_->Stat(f).allocated, 0u);
  EXPECT_EQ(client_->Wait(library_->Reserve(f, 100'000, 0)).status, absl::OkStatus());
  EXPECT_EQ(client_->Stat(f).allocated, 2 * kSegment);
  EXPECT_EQ(client_->Stat(f).size, 0u);
}

TEST_P(FilesTest, Names_CreatedRenamedAndRemoved_TakeEffectOrFail) {
  Library& l = *library_;
  const Poll p = client_->poll();
  Create("a");
  Create("b");
  EXPECT_THAT(client_->List("d"), ElementsAre("a", "b"));
  EXPECT_EQ(client_->Create("d", "a").status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(client_->Create("e", "a").status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Open("d", "c").status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->CreateDirectory("d").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(client_->CreateDirectory("e"), absl::OkStatus());
  EXPECT_EQ(client_->Wait(l.RenameFile(p, "d", "a", "e", "x", 0)).status, absl::OkStatus());
  EXPECT_EQ(client_->Wait(l.RenameFile(p, "d", "a", "e", "x", 0)).status.code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(client_->List("d"), ElementsAre("b"));
  EXPECT_EQ(client_->Wait(l.RemoveDirectory(p, "e", 0)).status.code(), kClosed);
  EXPECT_EQ(client_->Wait(l.RenameDirectory(p, "d", "e", 0)).status.code(), kClosed);
  EXPECT_EQ(client_->Wait(l.RemoveFile(p, "e", "x", 0)).status, absl::OkStatus());
  EXPECT_EQ(client_->Wait(l.RemoveFile(p, "e", "x", 0)).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(client_->Wait(l.RenameDirectory(p, "e", "g", 0)).status, absl::OkStatus());
  const Completion c = client_->Wait(l.ListDirectories(p, "", 0));
  ASSERT_EQ(c.entries.size(), 2u);
  EXPECT_EQ(c.entries[0].name, "d");
  EXPECT_EQ(c.entries[1].name, "g");
  EXPECT_EQ(client_->Wait(l.RemoveDirectory(p, "g", 0)).status, absl::OkStatus());
}

TEST_P(FilesTest, Name_MalformedOrTooLong_IsInvalid) {
  Library& l = *library_;
  const Poll p = client_->poll();
  const std::string long_file(256, 'x'), long_directory(1024, 'x');
  for (const std::string& name : {std::string(), std::string("a/b"), std::string("."),
                                  std::string(".."), std::string("a\0b", 3), long_file}) {
    EXPECT_EQ(l.CreateFile(p, "d", name, 0).code(), kInvalid) << name;
    EXPECT_EQ(l.RenameFile(p, "d", "f", "d", name, 0).code(), kInvalid) << name;
  }
  EXPECT_EQ(l.CreateDirectory(p, "a/b", 0).code(), kInvalid);
  EXPECT_EQ(l.CreateDirectory(p, long_directory, 0).code(), kInvalid);
  EXPECT_EQ(client_->CreateDirectory(std::string(1023, 'x')), absl::OkStatus());
  EXPECT_EQ(client_->Create("d", std::string(255, 'x')).status, absl::OkStatus());
}

TEST_P(FilesTest, Handle_ClosedOrNone_IsRefused) {
  const File f = Create("f");
  ASSERT_EQ(client_->Close(f), absl::OkStatus());
  char c;
  EXPECT_EQ(library_->ReadFile(f, 0, &c, 1, 0).code(), kClosed);
  EXPECT_EQ(library_->WriteFile(f, 0, &c, 1, 0).code(), kClosed);
  EXPECT_EQ(library_->SyncFile(f, 0).code(), kClosed);
  EXPECT_EQ(library_->CloseFile(f, 0).code(), kClosed);
  EXPECT_EQ(library_->PollAdd(client_->poll(), f).code(), kClosed);
  EXPECT_EQ(library_->ReadFile(File::kNone, 0, &c, 1, 0).code(), kClosed);
  EXPECT_EQ(library_->ReadFile(static_cast<File>(~uint64_t{0}), 0, &c, 1, 0).code(), kClosed);
  // The number is used again; the old handle stays closed.
  const File g = Create("g");
  EXPECT_NE(f, g);
  EXPECT_EQ(library_->ReadFile(f, 0, &c, 1, 0).code(), kClosed);
}

TEST_P(FilesTest, RemovedFile_StillOpen_LivesUntilClosed) {
  const File f = Create("f");
  ASSERT_EQ(client_->Write(f, 0, "data").status, absl::OkStatus());
  ASSERT_EQ(client_->Wait(library_->RemoveFile(client_->poll(), "d", "f", 0)).status,
            absl::OkStatus());
  EXPECT_THAT(client_->List("d"), ElementsAre());
  EXPECT_EQ(client_->Read(f, 0, 10), "data");
  EXPECT_EQ(client_->Write(f, 4, "more").bytes, 4u);
  EXPECT_EQ(client_->Sync(f), absl::OkStatus());
  EXPECT_EQ(client_->Read(f, 0, 10), "datamore");
  EXPECT_EQ(client_->Close(f), absl::OkStatus());
  // Its segments come back.
  const uint64_t all = agent_.files()->store().usage().segments;
  const File g = Create("g");
  EXPECT_EQ(client_->Wait(library_->Reserve(g, all * kSegment, 0)).status, absl::OkStatus());
}

TEST_P(FilesTest, Handles_OfTheSameFile_SeeItsWrites) {
  const File f = Create("f");
  const File g = client_->Open("d", "f").file;
  ASSERT_EQ(client_->Write(f, 0, "abc").status, absl::OkStatus());
  EXPECT_EQ(client_->Read(g, 0, 10), "abc");
  auto other = agent_.Connect(Transfer::kShared);
  Client second(other.get());
  const Completion c = second.Open("d", "f");
  EXPECT_EQ(c.attributes.size, 3u);
  EXPECT_EQ(second.Read(c.file, 0, 10), "abc");
  EXPECT_EQ(client_->Close(f), absl::OkStatus());
  EXPECT_EQ(client_->Read(g, 0, 10), "abc");
}

TEST_P(FilesTest, Growth_BeyondFreeSpace_IsRefusedAndDataKept) {
  const File f = Create("f");
  ASSERT_EQ(client_->Write(f, 0, "kept").status, absl::OkStatus());
  const uint64_t all = agent_.files()->store().usage().segments * kSegment;
  const absl::Status grown = client_->SetSize(f, all + 1);
  EXPECT_EQ(grown.code(), absl::StatusCode::kResourceExhausted) << grown;
  EXPECT_THAT(std::string(grown.message()), HasSubstr("full"));
  EXPECT_EQ(client_->Write(f, all, "x").status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client_->Stat(f).size, 4u);
  EXPECT_EQ(client_->Read(f, 0, 10), "kept");
  // To the last byte, and not one more.
  const std::string mib(1 << 20, 'm');
  uint64_t at = 0;
  for (; at + mib.size() <= all; at += mib.size()) {
    ASSERT_EQ(client_->Write(f, at, mib).status, absl::OkStatus()) << at;
  }
  EXPECT_EQ(client_->Write(f, at, mib).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client_->Stat(f).size, at);
  EXPECT_EQ(client_->Write(f, 0, "over").bytes, 4u);
  EXPECT_EQ(client_->SetSize(f, 0), absl::OkStatus());
  EXPECT_EQ(client_->Write(f, 0, mib).bytes, mib.size());
}

// The store has not heard of their lengths.
TEST_P(FilesTest, Cut_OfWritesThatWereNotSynced_GivesTheirSpaceToOthers) {
  const File f = Create("f");
  const uint64_t all = agent_.files()->store().usage().segments;
  const std::string segment(kSegment, 's');
  for (uint64_t i = 0; i < all; ++i) {
    ASSERT_EQ(client_->Write(f, i * kSegment, segment).status, absl::OkStatus()) << i;
  }
  const File g = Create("g");
  EXPECT_EQ(client_->Write(g, 0, segment).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client_->SetSize(f, kSegment + 1), absl::OkStatus());
  for (uint64_t i = 0; i + 2 < all; ++i) {
    ASSERT_EQ(client_->Write(g, i * kSegment, segment).status, absl::OkStatus()) << i;
  }
  EXPECT_EQ(client_->Read(f, kSegment, 10), "s");
}

TEST_P(FilesTest, Range_TooFarOrTooLong_IsInvalid) {
  const File f = Create("f");
  char c = 0;
  for (const uint64_t offset : {~uint64_t{0}, uint64_t{1} << 63, (uint64_t{1} << 63) - 1}) {
    EXPECT_EQ(library_->ReadFile(f, offset, &c, 1, 0).code(), kInvalid);
    EXPECT_EQ(library_->WriteFile(f, offset, &c, 1, 0).code(), kInvalid);
  }
  EXPECT_EQ(library_->SetSize(f, uint64_t{1} << 63, 0).code(), kInvalid);
  EXPECT_EQ(client_->Read(f, uint64_t{1} << 62, 1), "");
  const uint64_t most = library_->max_read(client_->poll());
  std::string much(most + 1, 'x');
  EXPECT_EQ(library_->ReadFile(f, 0, much.data(), most + 1, 0).code(), kInvalid);
  const uint64_t write = library_->max_write(client_->poll());
  EXPECT_EQ(library_->WriteFile(f, 0, std::string(write + 1, 'x').data(), write + 1, 0).code(),
            kInvalid);
  // The most of each works.
  EXPECT_EQ(client_->Write(f, 0, std::string(write, 'x')).bytes, write);
  EXPECT_EQ(client_->Read(f, 0, most).size(), std::min(most, write));
}

TEST_P(FilesTest, Restart_AfterOrderlyStop_KeepsUnsyncedWrites) {
  const File f = Create("f");
  ASSERT_EQ(client_->Write(f, 0, std::string(100'000, 'q')).status, absl::OkStatus());
  Restart();
  const Completion c = client_->Open("d", "f");
  ASSERT_EQ(c.status, absl::OkStatus());
  EXPECT_EQ(c.attributes.size, 100'000u);
  EXPECT_EQ(client_->Read(c.file, 0, 200'000), std::string(100'000, 'q'));
}

TEST_P(FilesTest, Listing_OfThousandsOfNames_IsWholeAndSorted) {
  constexpr int kFiles = 3000;
  int created = 0;
  std::vector<Completion> done(64);
  for (int i = 0; created < kFiles;) {
    while (i < kFiles) {
      const std::string name = std::to_string(100'000 + i) + std::string(60, 'n');
      const absl::Status st = library_->CreateFile(client_->poll(), "d", name, 0);
      if (IsRetry(st)) break;
      ASSERT_EQ(st, absl::OkStatus());
      ++i;
    }
    const size_t n =
        library_->PollWait(client_->poll(), done.data(), done.size(), kForever).value();
    for (size_t k = 0; k < n; ++k) ASSERT_EQ(done[k].status, absl::OkStatus());
    created += static_cast<int>(n);
  }
  const std::vector<std::string> names = client_->List("d");
  EXPECT_EQ(names.size(), static_cast<size_t>(kFiles));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

INSTANTIATE_TEST_SUITE_P(Forms, FilesTest,
                         testing::Combine(testing::Values(Transfer::kShared, Transfer::kVmRead),
                                          testing::Bool()));

// --- who may and who may not

TEST(FilesSession, Open_AgentWithoutAStore_NamesTheOption) {
  testing_util::ScratchPath socket("no-store.sock");
  AgentOptions options;
  options.socket_path = socket.get();
  options.handshake_ms = 60'000;
  options.known_services = {&kSpec};
  auto server = SocketServer::Open(options, {});
  ASSERT_TRUE(server.ok());
  const absl::Status st = Library::Open({socket.get(), Transfer::kAgents}).status();
  EXPECT_EQ(st.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(st.message()), HasSubstr("--store"));
}

TEST(FilesSession, Close_AllTaken_IsOkAndRefusesTheRest) {
  TestAgent agent;
  agent.Start();
  auto library = agent.Connect();
  Client client(library.get());
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  const File f = client.Create("d", "f").file;
  EXPECT_EQ(library->Close(), absl::OkStatus());
  EXPECT_EQ(library->Close(), absl::OkStatus());
  char byte = 0;
  EXPECT_FALSE(library->ReadFile(f, 0, &byte, 1, 0).ok());
  EXPECT_FALSE(library->CloseFile(f, 0).ok());
  EXPECT_FALSE(library->CreateDirectory(client.poll(), "e", 0).ok());
  EXPECT_FALSE(library->CreatePoll().ok());
  Completion c;
  EXPECT_FALSE(library->PollWait(client.poll(), &c, 1, kForever).ok());
  // The agent goes on without it.
  auto another = agent.Connect();
  EXPECT_EQ(Client(another.get()).Open("d", "f").status, absl::OkStatus());
}

TEST(FilesSession, Close_UntakenCompletions_AreReported) {
  TestAgent agent;
  agent.Start();
  auto library = agent.Connect();
  const Poll poll = library->CreatePoll().value();
  ASSERT_EQ(library->CreateDirectory(poll, "d", 0), absl::OkStatus());
  ASSERT_EQ(library->CreateDirectory(poll, "e", 0), absl::OkStatus());
  const absl::Status st = library->Close();
  EXPECT_EQ(st.code(), absl::StatusCode::kFailedPrecondition) << st;
  EXPECT_THAT(std::string(st.message()), HasSubstr("2 operations"));
}

// The next part of a listing shows what was changed after the first: in its turn, too.
TEST(FilesSession, Listing_ChangedBetweenParts_GoesOnWithCurrentNames) {
  TestAgent agent;
  agent.Start();
  auto library = agent.Connect();
  Client client(library.get());
  const auto name = [](int i) { return std::to_string(1000 + i) + std::string(996, 'n'); };
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.CreateDirectory(name(i)), absl::OkStatus());
  const Poll p = client.poll();
  const Completion first = client.Wait(library->ListDirectories(p, "", 0));
  ASSERT_TRUE(first.more);
  const size_t n = first.entries.size();
  ASSERT_GT(n, 10u);
  const std::string after = first.entries.back().name;
  const std::string fresh = after + "x";
  ASSERT_EQ(client.CreateDirectory(fresh), absl::OkStatus());
  ASSERT_EQ(library->RemoveDirectory(p, name(99), 1), absl::OkStatus());
  ASSERT_EQ(library->ListDirectories(p, after, 2), absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    Completion c;
    ASSERT_EQ(library->PollWait(p, &c, 1, kForever).value(), 1u);
    ASSERT_EQ(c.status, absl::OkStatus());
    if (c.cookie == 1) continue;
    EXPECT_FALSE(c.more);
    ASSERT_EQ(c.entries.size(), 100 - n);
    EXPECT_EQ(c.entries.front().name, fresh);
    EXPECT_EQ(c.entries.back().name, name(98));
  }
}

// Other programs may make such names, as the databases of a pool have them.
TEST(FilesSession, Listing_OfDirectoriesWithSlashes_GoesOnBehindThem) {
  TestAgent agent;
  agent.Start();
  std::vector<std::string> made;
  for (int i = 0; i < 100; ++i) {
    made.push_back("/db/" + std::to_string(1000 + i) + std::string(990, 'n'));
    ASSERT_EQ(agent.files()->store().CreateDirectory(made.back()), absl::OkStatus());
  }
  auto library = agent.Connect();
  Client client(library.get());
  std::vector<std::string> names;
  Completion part;
  int parts = 0;
  do {
    const std::string after = names.empty() ? "" : names.back();
    part = client.Wait(library->ListDirectories(client.poll(), after, 0));
    ASSERT_EQ(part.status, absl::OkStatus());
    for (const DirectoryEntry& e : part.entries) names.push_back(e.name);
    ++parts;
  } while (part.more);
  EXPECT_EQ(names, made);
  EXPECT_GT(parts, 1);
}

TEST(FilesSession, Listing_BegunAnewBehindOneThatWasLeft_HasSizesOfNow) {
  TestAgent agent;
  agent.Start();
  auto library = agent.Connect();
  Client client(library.get());
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  for (int i = 0; i < 400; ++i) {
    const Completion c = client.Create("d", std::to_string(1000 + i) + std::string(240, 'n'));
    ASSERT_EQ(client.Write(c.file, 0, "1").status, absl::OkStatus());
    ASSERT_EQ(client.Sync(c.file), absl::OkStatus());
    ASSERT_EQ(client.Close(c.file), absl::OkStatus());
  }
  const Completion part = client.Wait(library->ListDirectory(client.poll(), "d", "", 0));
  ASSERT_TRUE(part.more);
  const std::string name = part.entries.back().name;
  const File f = client.Open("d", name).file;
  ASSERT_EQ(client.Write(f, 0, "longer").status, absl::OkStatus());
  ASSERT_EQ(client.Sync(f), absl::OkStatus());
  ASSERT_EQ(client.Close(f), absl::OkStatus());
  const Completion anew = client.Wait(library->ListDirectory(client.poll(), "d", "", 0));
  ASSERT_EQ(anew.entries.size(), part.entries.size());
  EXPECT_EQ(part.entries.back().size, 1u);
  EXPECT_EQ(anew.entries.back().size, 6u);
}

TEST(FilesSession, Open_NobodyListens_IsNotFoundAndSaysWhatToStart) {
  const absl::Status st = Library::Open({"./nobody.sock", Transfer::kAgents}).status();
  EXPECT_EQ(st.code(), absl::StatusCode::kNotFound) << st;
  EXPECT_THAT(std::string(st.message()), HasSubstr("pulse agent --socket"));
}

TEST(FilesSession, Limits_Exceeded_RefuseAndLeaveNothingBehind) {
  TestAgent agent;
  agent.agent_options.limits.max_queues = 2;
  agent.agent_options.limits.max_session_files = 3;
  agent.agent_options.limits.max_session_bytes = uint64_t{12} << 20;
  agent.Start();
  auto library = agent.Connect();
  EXPECT_EQ(library->CreatePoll({.request_bytes = 100'000}).status().code(), kInvalid);
  EXPECT_EQ(library->CreatePoll({.max_requests = 1000}).status().code(), kInvalid);
  // Both refusals leave nothing behind.
  EXPECT_FALSE(library->CreatePoll({.request_bytes = uint64_t{16} << 20}).ok());
  Client client(library.get());
  ASSERT_TRUE(library->CreatePoll({.request_bytes = 1 << 16, .response_bytes = 1 << 16}).ok());
  const absl::Status third = library->CreatePoll().status();
  EXPECT_THAT(std::string(third.message()), HasSubstr("--max-queues"));
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  File last = File::kNone;
  for (const char* name : {"a", "b", "c"}) last = client.Create("d", name).file;
  const Completion fourth = client.Open("d", "a");
  EXPECT_EQ(fourth.status.code(), absl::StatusCode::kResourceExhausted) << fourth.status;
  EXPECT_THAT(std::string(fourth.status.message()), HasSubstr("--max-files"));
  // What is refused is not there either.
  EXPECT_EQ(client.Create("d", "e").status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client.List("d"), (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(client.Close(last), absl::OkStatus());
  // One place, for which two ask: the first has it.
  const Poll p = client.poll();
  ASSERT_EQ(library->CreateFile(p, "d", "e", 1), absl::OkStatus());
  ASSERT_EQ(library->CreateFile(p, "d", "g", 2), absl::OkStatus());
  for (int i = 0; i < 2; ++i) {
    Completion c;
    ASSERT_EQ(library->PollWait(p, &c, 1, kForever).value(), 1u);
    EXPECT_EQ(c.status.ok(), c.cookie == 1) << c.status;
    if (c.status.ok()) last = c.file;
  }
  EXPECT_EQ(client.List("d"), (std::vector<std::string>{"a", "b", "c", "e"}));
  // A place that was set aside in vain is free again.
  ASSERT_EQ(client.Close(last), absl::OkStatus());
  EXPECT_EQ(client.Create("d", "e").status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(client.Open("d", "a").status, absl::OkStatus());
}

}  // namespace
}  // namespace pulse::files
