// The page server, over both kinds of files: GetPage@LSN, recovery from torn slots and lost ends of
// the log, the agent's loss; and the offload functions.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "examples/pages/client.h"
#include "examples/pages/load.h"
#include "examples/pages/page_server.h"
#include "examples/pages/server.h"
#include "services/files/test_agent.h"
#include "services/offload/program.h"

namespace pulse::pages {
namespace {

using testing_util::Eventually;
using testing_util::TestSeed;

constexpr uint64_t kPages = 64;

class PagesTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    directory_ = "./scratch-pages-" + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    options_.server.pages = kPages;
    options_.server.log_directory = directory_ + "/log";
    options_.server.wait_ms = 5000;
    if (GetParam()) {
      agent_ = std::make_unique<files::TestAgent>();
      agent_->Start();
      options_.files.agent = agent_->socket();
    } else {
      options_.files.directory = directory_;
    }
  }
  void TearDown() override {
    client_.reset();
    host_.reset();
    std::filesystem::remove_all(directory_);
  }
  void Start() {
    auto host = HostProgram::Open(options_);
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    auto client = Client::Connect("127.0.0.1", host_->port());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void Stop() {
    client_.reset();
    host_.reset();
  }
  uint64_t Put(uint64_t page, uint16_t offset, const std::string& data) {
    const Record r{page, offset, data};
    const auto lsn = client_->Append({&r, 1});
    EXPECT_TRUE(lsn.ok()) << lsn.status();
    return lsn.value_or(0);
  }

  HostOptions options_;
  std::unique_ptr<files::TestAgent> agent_;
  std::string directory_;
  std::unique_ptr<HostProgram> host_;
  std::unique_ptr<Client> client_;
};

TEST_P(PagesTest, GetPage_AfterAppends_HasAllUpToItsLsn) {
  options_.server.wait_ms = 3000;  // the one for which no record comes waits for so long
  Start();
  EXPECT_EQ(client_->GetPage(3, 0).value(), std::string(kPayload, '\0'));
  std::mt19937_64 dice(TestSeed());
  std::map<uint64_t, std::string> model;
  for (int i = 0; i < 300; ++i) {
    const uint64_t page = dice() % 8;
    const std::string data(1 + dice() % 200, static_cast<char>('a' + i % 26));
    const auto offset = static_cast<uint16_t>(dice() % (kPayload - data.size()));
    const uint64_t lsn = Put(page, offset, data);
    auto& expected = model.try_emplace(page, kPayload, '\0').first->second;
    expected.replace(offset, data.size(), data);
    uint64_t page_lsn = 0;
    const auto seen = client_->GetPage(page, lsn, &page_lsn);
    ASSERT_TRUE(seen.ok()) << seen.status();
    ASSERT_EQ(*seen, expected);
    EXPECT_EQ(page_lsn, lsn);
  }
  // A page without records up to an LSN counts when all up to it are applied.
  EXPECT_TRUE(client_->GetPage(60, 300).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->GetPage(3, 301).status()));
  EXPECT_TRUE(absl::IsNotFound(client_->GetPage(kPages, 0).status()));
  const Record beyond{kPages, 0, "x"};
  EXPECT_TRUE(absl::IsNotFound(client_->Append({&beyond, 1}).status()));
}

TEST_P(PagesTest, GetPage_LsnNotYetThere_WaitsForTheRecord) {
  options_.server.wait_ms = 60'000;
  Start();
  const uint64_t id = client_->QueueGet(5, 1);
  ASSERT_EQ(client_->Flush(), absl::OkStatus());
  auto other = Client::Connect("127.0.0.1", host_->port());
  const Record r{5, 10, "late"};
  ASSERT_TRUE((*other)->Append({&r, 1}).ok());
  const auto reply = client_->Receive();
  ASSERT_TRUE(reply.ok() && reply->status.ok());
  EXPECT_EQ(reply->id, id);
  EXPECT_EQ(reply->page.substr(sizeof(PageHeader) + 10, 4), "late");
}

TEST_P(PagesTest, Load_AfterARestart_FindsEveryAcknowledgedWrite) {
  options_.server.log_file_bytes = 20'000;
  options_.server.wait_ms = 60'000;  // on the slowest machine, too
  Start();
  LoadOptions load;
  load.port = host_->port();
  load.read_share = 0.5;
  load.seconds = 60;
  load.requests = 1500;
  load.seed = TestSeed();
  const auto result = RunLoad(load);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->errors, 0u) << result->last_error;
  EXPECT_EQ(result->verified, 2 * kPages);
  std::vector<std::string> before;
  const uint64_t lsn = client_->Status()->durable;
  for (uint64_t p = 0; p < kPages; ++p) before.push_back(client_->GetPage(p, lsn).value());
  Stop();
  Start();
  EXPECT_EQ(client_->Status()->durable, lsn);
  for (uint64_t p = 0; p < kPages; ++p) EXPECT_EQ(client_->GetPage(p, lsn).value(), before[p]);
}

TEST_P(PagesTest, MalformedMessage_OneClient_IsRefusedAndHarmsNoOther) {
  Start();
  auto bad = Client::Connect("127.0.0.1", host_->port());
  const Record beyond{1, kPayload - 1, "xx"};
  EXPECT_TRUE(absl::IsInvalidArgument((*bad)->Append({&beyond, 1}).status()));
  EXPECT_TRUE(client_->GetPage(0, 0).ok());
}

// What a crash may leave: the newer slot of pages torn, with the log still there.
TEST_P(PagesTest, TornSlots_LogStillThere_AreMadeAnewFromTheLog) {
  if (GetParam()) GTEST_SKIP() << "its files are not reached from here";
  options_.server.warm = false;
  Start();
  std::vector<uint64_t> lsns;
  for (uint64_t p = 0; p < kPages; ++p) {
    Put(p, 0, "first");
    lsns.push_back(Put(p, 100, "second" + std::to_string(p)));
  }
  EXPECT_TRUE(client_->GetPage(0, lsns.back()).ok());
  Stop();
  // As if the checkpoint had not been written since the beginning.
  ASSERT_EQ(SaveCheckpoint(options_.server.log_directory, {0, kPages}), absl::OkStatus());
  std::mt19937_64 dice(TestSeed());
  {
    std::fstream f(directory_ + "/0", std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t p = 0; p < kPages; ++p) {
      std::string slots(2 * kPageBytes, '\0');
      f.seekg(static_cast<std::streamoff>(SlotOffset(p, 0)));
      f.read(slots.data(), static_cast<std::streamsize>(slots.size()));
      const bool second = HeaderOf(slots.data() + kPageBytes).magic == kPageMagic &&
                          HeaderOf(slots.data() + kPageBytes).lsn > HeaderOf(slots.data()).lsn;
      f.seekp(static_cast<std::streamoff>(SlotOffset(p, second ? 1 : 0) + dice() % 8000));
      f << "torn here";
    }
  }
  Start();
  for (uint64_t p = 0; p < kPages; ++p) {
    const auto page = client_->GetPage(p, lsns[p]);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->substr(0, 5), "first");
    EXPECT_EQ(page->substr(100, 7), "second" + std::to_string(p).substr(0, 1));
  }
}

// With another log, or one that has lost its end, new records would be taken for old ones.
TEST_P(PagesTest, Open_PagesAheadOfTheirLog_IsRefused) {
  Start();
  Put(7, 0, "first");
  const uint64_t lsn = Put(7, 0, "second");
  EXPECT_TRUE(client_->GetPage(7, lsn).ok());
  Stop();
  const std::string log = options_.server.log_directory;
  options_.server.log_directory = log + "-other";
  auto host = HostProgram::Open(options_);
  EXPECT_TRUE(absl::IsDataLoss(host.status())) << host.status();
  EXPECT_NE(std::string(host.status().message()).find("page 7 has LSN 2"), std::string::npos)
      << host.status();
  // It has left nothing behind.
  EXPECT_FALSE(std::filesystem::exists(log + "-other") &&
               !std::filesystem::is_empty(log + "-other"));
  options_.server.log_directory = log;
  Start();
  EXPECT_EQ(client_->GetPage(7, lsn)->substr(0, 6), "second");
}

TEST_P(PagesTest, Open_BothSlotsDamaged_NamesThePage) {
  if (GetParam()) GTEST_SKIP() << "its files are not reached from here";
  Start();
  Stop();
  {
    std::fstream f(directory_ + "/0", std::ios::in | std::ios::out | std::ios::binary);
    for (int slot = 0; slot < 2; ++slot) {
      f.seekp(static_cast<std::streamoff>(SlotOffset(7, slot) + 5000));
      f << "damage";
    }
  }
  const auto host = HostProgram::Open(options_);
  EXPECT_TRUE(absl::IsDataLoss(host.status())) << host.status();
  EXPECT_NE(std::string(host.status().message()).find("page 7"), std::string::npos);
}

TEST_P(PagesTest, AgentLost_UnderLoad_AllThatIsDurableIsApplied) {
  if (!GetParam()) GTEST_SKIP() << "has no agent";
  Start();
  LoadOptions load;
  load.port = host_->port();
  load.read_share = 0.5;
  load.seconds = 60;
  load.requests = 3000;
  load.seed = TestSeed();
  absl::StatusOr<LoadResult> result = absl::UnknownError("");
  {
    std::jthread loading([&] { result = RunLoad(load); });
    for (int i = 0; i < 3; ++i) {
      const uint64_t seen = host_->server()->status().durable;
      Eventually([&] { return host_->server()->status().durable > seen + 50 || result.ok(); });
      agent_->Stop();
      agent_->Start();
    }
    Eventually([&] { return host_->server()->status().applied > 0; });
  }
  // Reads at an LSN that is not applied in time are errors while there is no agent.
  ASSERT_TRUE(result.ok()) << result.status();
  const uint64_t durable = host_->server()->status().durable;
  EXPECT_TRUE(Eventually([&] { return host_->server()->status().applied == durable; }));
}

// Files whose unsynced writes are lost when a sync fails, as with an agent that loses its power.
class LossyFiles : public examples::BlockFiles {
 public:
  struct Device {
    std::mutex mu;
    std::string durable, now;
    bool fails = false;
    int failures = 0;
    bool broken = false;    // no sync succeeds, and that is not the agent's loss
    bool replaced = false;  // at the next sync, by an agent that has none of what was not synced
    uint64_t generation = 1;
    int writes = 0;
  };
  LossyFiles(Device* device, const examples::FilesOptions& files, Sink* sink)
      : device_(device), files_(files), sink_(sink) {
    device->now.resize(files.file_bytes);
    device->durable.resize(files.file_bytes);
  }
  absl::StatusOr<examples::FileInfo> Find(std::string_view) const override {
    return examples::FileInfo{1, files_.file_bytes};
  }
  uint64_t generation() const override {
    const std::lock_guard lock(device_->mu);
    return device_->generation;
  }
  void Submit(examples::Io** ios, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      Do(ios[i]);
      sink_->OnDone(ios[i]);
    }
  }

 private:
  void Do(examples::Io* io) {
    const std::lock_guard lock(device_->mu);
    io->status = absl::OkStatus();
    if (io->op == examples::Op::kRead) {
      device_->now.copy(io->data, io->size, io->offset);
    } else if (io->op == examples::Op::kWrite) {
      device_->now.replace(io->offset, io->size, io->data, io->size);
      ++device_->writes;
    } else if (device_->broken) {
      ++device_->failures;
      io->status = absl::InternalError("broken");
    } else if (std::exchange(device_->replaced, false)) {
      device_->now = device_->durable;
      ++device_->generation;
    } else if (!device_->fails) {
      device_->durable = device_->now;
    } else {
      device_->now = device_->durable;
      ++device_->failures;
      io->status = absl::UnavailableError("lost");
    }
  }
  Device* const device_;
  const examples::FilesOptions files_;
  Sink* const sink_;
};

class PagesLossTest : public ::testing::Test {
 protected:
  PagesLossTest() {
    std::filesystem::remove_all(log_);
    options.pages = 4;
    options.log_directory = log_;
    options.wait_ms = 60'000;
    options.open_files = [this](const examples::FilesOptions& files,
                                examples::BlockFiles::Sink* sink) {
      return std::make_unique<LossyFiles>(&device, files, sink);
    };
  }
  ~PagesLossTest() override {
    server.reset();
    std::filesystem::remove_all(log_);
  }
  void Open() {
    auto opened = PageServer::Open(options);
    ASSERT_TRUE(opened.ok()) << opened.status();
    server = *std::move(opened);
  }
  // To page 2.
  absl::Status Append(const std::string& data) {
    std::promise<absl::Status> told;
    std::string records;
    AppendRecord({2, 0, data}, &records);
    server->Append(records, 1, [&](absl::StatusOr<uint64_t> lsn) { told.set_value(lsn.status()); });
    return told.get_future().get();
  }

  LossyFiles::Device device;
  PageServerOptions options;
  std::unique_ptr<PageServer> server;

 private:
  const std::string log_ = "./scratch-pages-loss-" + std::to_string(getpid());
};

TEST_F(PagesLossTest, Get_SyncFails_WaitsForWhatIsNotDurable) {
  options.warm = false;
  ASSERT_NO_FATAL_FAILURE(Open());
  std::string page(kPageBytes, '\0');
  const auto start = [&](uint64_t lsn) {
    auto told = std::make_shared<std::promise<absl::Status>>();
    server->Get(2, lsn, page.data(), [told](absl::Status st) { told->set_value(st); });
    return told->get_future();
  };
  ASSERT_TRUE(Append("one").ok());
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(device.mu);
    return device.durable.find("one") != std::string::npos;
  }));
  {
    const std::lock_guard lock(device.mu);
    device.fails = true;
  }
  ASSERT_TRUE(Append("two").ok());
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard lock(device.mu);
    return device.failures >= 2;  // the first one is known by then
  }));
  ASSERT_TRUE(start(1).get().ok());
  EXPECT_EQ(page.substr(sizeof(PageHeader), 3), "one");
  auto second = start(2);
  {
    const std::lock_guard lock(device.mu);
    EXPECT_EQ(device.durable.find("two"), std::string::npos);
    device.fails = false;
  }
  ASSERT_TRUE(second.get().ok());
  EXPECT_EQ(page.substr(sizeof(PageHeader), 3), "two");
}

// A sync by an agent that has come since says nothing of what the one before had written.
TEST_F(PagesLossTest, AgentReplaced_UnsyncedPages_AreWrittenAnew) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::string page(kPageBytes, '\0');
  for (uint64_t i = 1; i <= 20; ++i) {
    {
      const std::lock_guard lock(device.mu);
      device.replaced = true;
    }
    const std::string data = "version " + std::to_string(i);
    ASSERT_TRUE(Append(data).ok());
    ASSERT_TRUE(Eventually([&] {
      const std::lock_guard lock(device.mu);
      return !device.replaced && device.durable.find(data) != std::string::npos;
    })) << data;
    std::promise<absl::Status> got;
    server->Get(2, i, page.data(), [&](absl::Status st) { got.set_value(st); });
    const absl::Status st = got.get_future().get();
    if (!st.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(st)) << st;  // read while it was lost
      continue;
    }
    EXPECT_EQ(page.substr(sizeof(PageHeader), data.size()), data);
  }
}

// After a failure the slots stay as they are, and nobody is promised anything.
TEST_F(PagesLossTest, Append_DeviceBroken_FailsAndWritesNothingMore) {
  options.pages = 512;  // more than are warmed at a time
  ASSERT_NO_FATAL_FAILURE(Open());
  {
    const std::lock_guard lock(device.mu);
    device.broken = true;
  }
  ASSERT_TRUE(Eventually([&] { return absl::IsInternal(Append("data")); }));
  int writes = 0;
  {
    const std::lock_guard lock(device.mu);
    writes = device.writes;
  }
  // sleep: it looks again each second, and tells nobody
  std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  {
    const std::lock_guard lock(device.mu);
    EXPECT_EQ(device.writes, writes);
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PagesTest, ::testing::Bool(),
                         [](const auto& i) { return i.param ? "Store" : "Os"; });

// --- The offload functions, with a table of their own.
const offload::Program& OffloadProgram() {
  return *offload::LoadProgram(PULSE_TEST_PAGES_OFFLOAD).value();
}

struct TestTable {
  std::map<uint64_t, std::string> items;
  offload::Table table;
  offload::Changes changes;
  TestTable() {
    table = {this, [](const offload::Table* t, const void* key, void* item) {
               const auto& all = static_cast<const TestTable*>(t->self)->items;
               uint64_t page;
               memcpy(&page, key, sizeof(page));
               const auto it = all.find(page);
               if (it == all.end()) return 0;
               memcpy(item, it->second.data(), it->second.size());
               return 1;
             }};
    changes = {this,
               [](offload::Changes* c, const void* key, const void* item) {
                 uint64_t page;
                 memcpy(&page, key, sizeof(page));
                 static_cast<TestTable*>(c->self)->items[page] =
                     std::string(static_cast<const char*>(item), OffloadProgram().item_size);
               },
               nullptr};
  }
};

std::string GetRequest(uint64_t id, uint64_t page, uint64_t lsn) {
  return MakeMessage(kRequestMagic, {0, 0, id, Kind::kGet, Code::kOk, 0},
                     examples::BytesOf(GetBody{page, lsn}));
}

TEST(PagesOffloadTest, Read_CachedPage_IsAnsweredUpToItsLsn) {
  const offload::Program& p = OffloadProgram();
  TestTable t;
  std::string page(kPageBytes, 'x');
  Seal(page.data(), 9, 50);
  const offload::WriteOp write{4, SlotOffset(9, 1), kPageBytes, page.data()};
  p.cache(nullptr, &write, &t.changes);
  // Not where it belongs; not a whole one.
  const offload::WriteOp elsewhere{4, SlotOffset(10, 0), kPageBytes, page.data()};
  p.cache(nullptr, &elsewhere, &t.changes);
  const offload::WriteOp part{4, SlotOffset(9, 0), 100, page.data()};
  p.cache(nullptr, &part, &t.changes);
  ASSERT_EQ(t.items.size(), 1u);
  const auto op = [&](uint64_t number, uint64_t lsn) {
    const std::string m = GetRequest(1, number, lsn);
    offload::ReadOp read{0, 0, 0};
    return p.read(nullptr, m.data(), m.size(), &t.table, &read) == 1 ? read.offset : 0;
  };
  EXPECT_EQ(op(9, 0), SlotOffset(9, 1));
  EXPECT_EQ(op(9, 50), SlotOffset(9, 1));
  EXPECT_EQ(op(9, 51), 0u);
  EXPECT_EQ(op(8, 0), 0u);
  const std::string m = GetRequest(77, 9, 50);
  char header[64];
  const offload::ReadOp read{4, SlotOffset(9, 1), kPageBytes};
  offload::Reply reply{page.data(), 0, kPageBytes, header, 0, 0, nullptr};
  ASSERT_EQ(p.reply(nullptr, m.data(), m.size(), &read, &reply), 1);
  const auto decoded = DecodeReply(std::string(header, reply.header_size) + page);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->header.id, 77u);
  // Of another page, or too old: the host's.
  Seal(page.data(), 9, 49);
  EXPECT_EQ(p.reply(nullptr, m.data(), m.size(), &read, &reply), 0);
  Seal(page.data(), 8, 60);
  EXPECT_EQ(p.reply(nullptr, m.data(), m.size(), &read, &reply), 0);
}

}  // namespace
}  // namespace pulse::pages
