// Random operations against a model in memory: several threads and groups, with the agent stopped
// and the store opened anew; and power cuts under the service, on a simulated device.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/wake_event.h"
#include "services/files/test_agent.h"
#include "store/sim_device.h"

namespace pulse::files {
namespace {

using testing_util::TestSeed;

// --- operations against a model

// One thread's files, which no other thread touches.
class Actor {
 public:
  Actor(Library* library, int number, uint64_t seed)
      : library_(library), number_(number), random_(seed) {
    for (int i = 0; i < 2; ++i) {
      polls_.push_back(
          library_
              ->CreatePoll(
                  {.request_bytes = 1 << 17, .response_bytes = 1 << 17, .max_requests = 32})
              .value());
    }
  }

  void Run(int steps) {
    for (int i = 0; i < steps && !testing::Test::HasFatalFailure(); ++i) Step();
    for (auto& [name, f] : files_) {
      if (f.file != File::kNone) Close(&f);
    }
  }
  // All that the model has is in the store, and nothing else.
  void Verify(Library* library) {
    library_ = library;
    polls_ = {library_->CreatePoll().value()};
    for (auto& [name, f] : files_) {
      f.file = File::kNone;
      Open(name, &f);
      ReadAll(&f);
      Close(&f);
    }
  }
  size_t files() const { return files_.size(); }

 private:
  struct ModelFile {
    std::string bytes;
    File file = File::kNone;
    Poll poll{};
  };
  uint64_t Below(uint64_t n) { return random_() % n; }
  Poll AnyPoll() { return polls_[Below(polls_.size())]; }

  Completion One(Poll poll) {
    Completion c;
    const auto n = library_->PollWait(poll, &c, 1, kForever);
    EXPECT_TRUE(n.ok() && *n == 1) << n.status();
    return c;
  }
  Completion Do(Poll poll, const absl::Status& submitted) {
    EXPECT_EQ(submitted, absl::OkStatus());
    return submitted.ok() ? One(poll) : Completion();
  }

  void Step() {
    if (files_.size() < 2 || Below(12) == 0) return Create();
    auto it = std::next(files_.begin(), static_cast<ptrdiff_t>(Below(files_.size())));
    ModelFile& f = it->second;
    if (f.file == File::kNone) return Open(it->first, &f);
    switch (Below(12)) {
      case 0:
        return Close(&f);
      case 1: {
        const Poll p = AnyPoll();
        ASSERT_EQ(Do(p, library_->RemoveFile(p, Directory(), it->first, 0)).status,
                  absl::OkStatus());
        ReadAll(&f);
        Close(&f);
        files_.erase(it);
        return;
      }
      case 2: {
        const Poll p = AnyPoll();
        const std::string name = NewName();
        ASSERT_EQ(
            Do(p, library_->RenameFile(p, Directory(), it->first, Directory(), name, 0)).status,
            absl::OkStatus());
        auto node = files_.extract(it);
        node.key() = name;
        files_.insert(std::move(node));
        return;
      }
      case 3: {
        const uint64_t size = Below(3) == 0 ? Below(f.bytes.size() + 1) : Below(150'000);
        ASSERT_EQ(Do(f.poll, library_->SetSize(f.file, size, 0)).status, absl::OkStatus());
        f.bytes.resize(size);
        return;
      }
      case 4:
        ASSERT_EQ(Do(f.poll, library_->SyncFile(f.file, 0)).status, absl::OkStatus());
        return;
      case 5: {
        const Completion c = Do(f.poll, library_->GetAttributes(f.file, 0));
        ASSERT_EQ(c.attributes.size, f.bytes.size());
        f.poll = AnyPoll();
        ASSERT_EQ(library_->PollAdd(f.poll, f.file), absl::OkStatus());
        return;
      }
      case 6:
      case 7:
        return ReadAll(&f);
      default:
        return WriteSeveral(&f);
    }
  }

  std::string Directory() const { return "dir" + std::to_string(number_); }
  std::string NewName() { return "f" + std::to_string(next_name_++); }

  void Create() {
    const std::string name = NewName();
    ModelFile f;
    f.poll = AnyPoll();
    const Completion c = Do(f.poll, library_->CreateFile(f.poll, Directory(), name, 0));
    ASSERT_EQ(c.status, absl::OkStatus());
    f.file = c.file;
    files_[name] = f;
  }
  void Open(const std::string& name, ModelFile* f) {
    f->poll = AnyPoll();
    const Completion c = Do(f->poll, library_->OpenFile(f->poll, Directory(), name, 0));
    ASSERT_EQ(c.status, absl::OkStatus()) << name;
    ASSERT_EQ(c.attributes.size, f->bytes.size()) << name;
    f->file = c.file;
  }
  void Close(ModelFile* f) {
    ASSERT_EQ(Do(f->poll, library_->CloseFile(f->file, 0)).status, absl::OkStatus());
    f->file = File::kNone;
  }

  // Up to eight writes that do not overlap, outstanding together and completing in any order, also
  // beyond the end and over gaps.
  void WriteSeveral(ModelFile* f) {
    const bool blocks = Below(2) == 0;
    const uint64_t unit = blocks ? 4096 : 1 + Below(9000);
    const uint64_t count = 1 + Below(8);
    std::vector<uint64_t> places(12);
    for (uint64_t i = 0; i < places.size(); ++i) places[i] = i;
    std::shuffle(places.begin(), places.end(), random_);
    const uint64_t base = blocks ? Below(20) * 4096 : Below(60'000);
    std::vector<std::string> data;
    for (uint64_t i = 0; i < count; ++i) {
      data.push_back(
          std::string(blocks ? 4096 : 1 + Below(unit), static_cast<char>('a' + Below(26))));
      const uint64_t at = base + places[i] * unit;
      ASSERT_EQ(library_->WriteFile(f->file, at, data[i].data(), data[i].size(), i),
                absl::OkStatus());
      if (f->bytes.size() < at + data[i].size()) f->bytes.resize(at + data[i].size());
      f->bytes.replace(at, data[i].size(), data[i]);
    }
    for (uint64_t i = 0; i < count; ++i) {
      const Completion c = One(f->poll);
      ASSERT_EQ(c.status, absl::OkStatus());
      ASSERT_EQ(c.bytes, data[c.cookie].size());
    }
  }

  void ReadAll(ModelFile* f) {
    const bool blocks = Below(2) == 0;
    const uint64_t unit = blocks ? 4096 * (1 + Below(4)) : 1 + Below(20'000);
    const bool in_place = Below(2) == 0;
    for (uint64_t at = 0;; at += unit) {
      std::string got(unit, '?');
      Completion c = in_place ? Do(f->poll, library_->ReadInPlace(f->file, at, unit, 0))
                              : Do(f->poll, library_->ReadFile(f->file, at, got.data(), unit, 0));
      ASSERT_EQ(c.status, absl::OkStatus());
      if (c.data != nullptr) got.assign(c.data, c.bytes);
      library_->Release(f->poll, &c);
      got.resize(c.bytes);
      ASSERT_EQ(got, at < f->bytes.size() ? f->bytes.substr(at, unit) : "") << at;
      if (c.bytes < unit) break;
    }
  }

  Library* library_;
  const int number_;
  std::mt19937_64 random_;
  std::vector<Poll> polls_;
  std::map<std::string, ModelFile> files_;
  int next_name_ = 0;
};

class FilesModel : public testing::TestWithParam<Transfer> {};

TEST_P(FilesModel, Files_RandomOperationsAndRestarts_MatchTheModel) {
  constexpr int kThreads = 3;
  TestAgent agent(uint64_t{64} << 20);
  std::mt19937_64 random(TestSeed());
  std::vector<std::unique_ptr<Actor>> actors;
  for (int round = 0; round < 3; ++round) {
    agent.Start();
    auto library = agent.Connect(GetParam());
    ASSERT_NE(library, nullptr);
    if (round == 0) {
      Client client(library.get());
      for (int t = 0; t < kThreads; ++t) {
        ASSERT_EQ(client.CreateDirectory("dir" + std::to_string(t)), absl::OkStatus());
      }
    }
    std::vector<std::thread> threads;
    if (actors.empty()) {
      for (int t = 0; t < kThreads; ++t) {
        actors.push_back(std::make_unique<Actor>(library.get(), t, random()));
      }
    }
    for (auto& actor : actors) {
      threads.emplace_back([&actor, &library, round] {
        if (round > 0) actor->Verify(library.get());
        actor->Run(250);
      });
    }
    for (std::thread& t : threads) t.join();
    library.reset();
    agent.Stop();
  }
  // And what it left is sound: nobody's segments are somebody else's.
  agent.Start();
  auto library = agent.Connect(GetParam());
  for (auto& actor : actors) actor->Verify(library.get());
  Client client(library.get());
  for (int t = 0; t < kThreads; ++t) {
    EXPECT_EQ(client.List("dir" + std::to_string(t)).size(),
              actors[static_cast<size_t>(t)]->files());
  }
}

INSTANTIATE_TEST_SUITE_P(Transfers, FilesModel,
                         testing::Values(Transfer::kShared, Transfer::kVmRead));

// --- power cuts

// Writes of whole blocks of this fail.
constexpr char kFails = '!';

// What a test does to the back-end.
struct SimControl {
  std::atomic<bool> hold{false};  // nothing is carried out
  std::atomic<size_t> pending{0};
};

// Carries requests out on a simulated device, in any order.
class SimBackend : public IoBackend {
 public:
  SimBackend(std::shared_ptr<store::SimDevice> device, uint64_t seed, SimControl* control)
      : device_(std::move(device)), random_(seed), control_(control) {
    wake_ = WakeEvent::Create().value();
  }
  bool Enqueue(const IoRequest& r) override {
    if (pending_.size() >= 64) return false;
    pending_.push_back(r);
    control_->pending = pending_.size();
    return true;
  }
  void Submit() override {}
  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    if (control_->hold) return 0;
    for (size_t tries = 1 + random_() % 4; tries > 0 && n < max && !pending_.empty(); --tries) {
      const size_t at = random_() % pending_.size();
      const IoRequest r = pending_[at];
      pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(at));
      out[n++] = {r.tag, Execute(r)};
    }
    control_->pending = pending_.size();
    return n;
  }
  int wait_fd() const override { return wake_.fd(); }
  bool needs_polling() const override { return !pending_.empty(); }
  size_t in_flight() const override { return pending_.size(); }
  EngineKind kind() const override { return EngineKind::kThreads; }

 private:
  int64_t Execute(const IoRequest& r) {
    switch (r.op) {
      case IoOp::kRead:
        return device_->Read(r.offset, r.buffer, r.length).ok() ? static_cast<int64_t>(r.length)
                                                                : -EIO;
      case IoOp::kWrite:
        if (std::string_view(r.buffer, r.length) == std::string(4096, kFails)) return -EIO;
        return device_->Write(r.offset, r.buffer, r.length).ok() ? static_cast<int64_t>(r.length)
                                                                 : -EIO;
      case IoOp::kClose:
        return ExecuteBlocking(r);
      default:
        return -EOPNOTSUPP;
    }
  }
  const std::shared_ptr<store::SimDevice> device_;
  std::mt19937_64 random_;
  SimControl* const control_;
  WakeEvent wake_;
  std::deque<IoRequest> pending_;
};

class CutRig {
 public:
  CutRig(std::shared_ptr<store::SimDevice> sim, uint64_t seed) : device(std::move(sim)) {
    store::OpenOptions open;
    open.device = device;
    auto opened = store::Store::Open("sim", open);
    EXPECT_TRUE(opened.ok()) << opened.status();
    agent_.agent_options.backend_factory = [this, seed](const IoBackendOptions&) {
      return absl::StatusOr<std::unique_ptr<IoBackend>>(
          std::make_unique<SimBackend>(device, seed, &control));
    };
    agent_.Start(FileStore::On(*std::move(opened)).value());
    library = agent_.Connect();
  }

  const std::shared_ptr<store::SimDevice> device;
  SimControl control;

 private:
  TestAgent agent_;

 public:
  std::unique_ptr<Library> library;  // goes before the agent
};

std::shared_ptr<store::SimDevice> FormattedDevice() {
  auto device = std::make_shared<store::SimDevice>(size_t{4} << 20);
  store::CreateOptions create;
  create.size = device->size();
  create.segment_bytes = 16384;
  create.metadata_bytes = 512 << 10;
  EXPECT_EQ(store::Format(*device, create), absl::OkStatus());
  return device;
}

// A file of words; each write fills its words with the file's tag and a version of its own.
struct CutFile {
  uint32_t tag = 0;
  File file = File::kNone;
  std::map<uint64_t, std::set<uint64_t>> maybe;  // by word: what may be found besides `synced`
  std::map<uint64_t, uint64_t> synced;           // by word
  std::map<uint64_t, uint64_t> written;          // completed, by word
};

TEST(FilesCut, PowerCut_RandomWrites_KeepsSyncedDataAndNothingForeign) {
  std::mt19937_64 random(TestSeed());
  uint64_t checked = 0;
  for (int round = 0; round < 24; ++round) {
    const auto device = FormattedDevice();
    std::map<std::string, CutFile> files;
    std::vector<uint8_t> image;
    {
      CutRig rig(device, random());
      Client client(rig.library.get(),
                    {.request_bytes = 1 << 18, .response_bytes = 1 << 17, .max_requests = 64});
      Library& l = *rig.library;
      ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
      uint64_t version = 1;
      uint32_t next_tag = 1;
      const int steps = 20 + static_cast<int>(random() % 80);
      for (int step = 0; step < steps; ++step) {
        if (files.size() < 4) {
          const std::string name = "f" + std::to_string(next_tag);
          CutFile f;
          f.tag = next_tag++;
          f.file = client.Create("d", name).file;
          ASSERT_NE(f.file, File::kNone);
          files[name] = f;
        }
        auto it = std::next(files.begin(), static_cast<ptrdiff_t>(random() % files.size()));
        CutFile& f = it->second;
        const uint64_t what = random() % 8;
        if (what == 0) {
          ASSERT_EQ(client.Sync(f.file), absl::OkStatus());
          for (const auto& [word, v] : f.written) {
            f.synced[word] = v;
            f.maybe[word].clear();
          }
        } else if (what == 1 && files.size() > 2) {
          ASSERT_EQ(client.Wait(l.RemoveFile(client.poll(), "d", it->first, 0)).status,
                    absl::OkStatus());
          ASSERT_EQ(client.Close(f.file), absl::OkStatus());
          files.erase(it);
        } else {
          const bool blocks = random() % 2 == 0;
          const uint64_t words = blocks ? 512 * (1 + random() % 4) : 1 + random() % 2000;
          const uint64_t at = blocks ? random() % 16 * 512 : random() % 8000;
          const uint64_t value = uint64_t{f.tag} << 32 | version++;
          const std::vector<uint64_t> data(words, value);
          for (uint64_t w = at; w < at + words; ++w) f.maybe[w].insert(value);
          ASSERT_EQ(client.Wait(l.WriteFile(f.file, at * 8, data.data(), words * 8, 0)).status,
                    absl::OkStatus());
          for (uint64_t w = at; w < at + words; ++w) f.written[w] = value;
        }
      }
      // A few that nobody waits for, and the cut among them.
      for (auto& [name, f] : files) {
        const uint64_t value = uint64_t{f.tag} << 32 | version++;
        const std::vector<uint64_t> data(1024, value);
        for (uint64_t w = 0; w < 1024; ++w) f.maybe[w].insert(value);
        ASSERT_EQ(l.WriteFile(f.file, 0, data.data(), data.size() * 8, 0), absl::OkStatus());
        ASSERT_EQ(l.SyncFile(f.file, 0), absl::OkStatus());
      }
      image = device->Cut(random);
    }
    CutRig after(std::make_shared<store::SimDevice>(std::move(image)), random());
    Client client(after.library.get());
    std::vector<std::string> names;
    for (const auto& [name, f] : files) names.push_back(name);
    EXPECT_EQ(client.List("d"), names);
    for (const auto& [name, f] : files) {
      const Completion opened = client.Open("d", name);
      ASSERT_EQ(opened.status, absl::OkStatus());
      const std::string bytes = client.Read(opened.file, 0, 1 << 20);
      const uint64_t need = f.synced.empty() ? 0 : f.synced.rbegin()->first + 1;
      ASSERT_GE(bytes.size() / 8, need) << name;
      for (uint64_t w = 0; w < bytes.size() / 8; ++w) {
        uint64_t found;
        std::memcpy(&found, bytes.data() + w * 8, 8);
        const auto synced = f.synced.find(w);
        const uint64_t base = synced == f.synced.end() ? 0 : synced->second;
        if (found == base) continue;
        const auto maybe = f.maybe.find(w);
        ASSERT_TRUE(maybe != f.maybe.end() && maybe->second.count(found) != 0)
            << name << " word " << w << ": " << std::hex << found << " where " << base
            << " was synced";
        ++checked;
      }
      checked += need;
    }
  }
  EXPECT_GT(checked, 0u);
}

TEST(FilesDevice, FailedWrite_AmongAppends_FailsOnlyWhatIsBehindIt) {
  CutRig rig(FormattedDevice(), TestSeed());
  Client client(rig.library.get());
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  const File f = client.Create("d", "f").file;
  ASSERT_EQ(client.Write(f, 0, std::string(4096, 'a')).status, absl::OkStatus());
  // Eight that make it longer, together; the fourth fails.
  std::string expected(4096, 'a');
  ASSERT_EQ(client.Wait(rig.library->Reserve(f, 65536, 0)).status, absl::OkStatus());
  rig.control.hold = true;
  for (uint64_t i = 1; i <= 8; ++i) {
    const std::string data(4096, i == 4 ? kFails : static_cast<char>('a' + i));
    if (i < 4) expected += data;
    ASSERT_EQ(rig.library->WriteFile(f, i * 4096, data.data(), data.size(), i), absl::OkStatus());
  }
  ASSERT_TRUE(testing_util::Eventually([&] { return rig.control.pending == 8; }));
  rig.control.hold = false;
  for (int n = 0; n < 8; ++n) {
    const Completion c = client.Wait(absl::OkStatus());
    EXPECT_EQ(c.status.code(), c.cookie < 4 ? absl::StatusCode::kOk : absl::StatusCode::kInternal)
        << c.cookie;
  }
  EXPECT_EQ(client.Stat(f).size, expected.size());
  EXPECT_EQ(client.Read(f, 0, 100'000), expected);
  // It goes on behind what is there, and a gap is filled.
  ASSERT_EQ(client.Write(f, 6 * 4096 + 10, "on").status, absl::OkStatus());
  expected.resize(6 * 4096 + 10);
  expected += "on";
  EXPECT_EQ(client.Read(f, 0, 100'000), expected);
  // A failed overwrite leaves the length alone.
  EXPECT_EQ(client.Write(f, 4096, std::string(4096, kFails)).status.code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(client.Read(f, 0, 100'000), expected);
  EXPECT_EQ(client.Sync(f), absl::OkStatus());
}

// The store takes no more changes then; what it has is read all the same.
TEST(FilesDevice, FailedCommit_FilesOpenedBeforeAndAfter_AreRead) {
  CutRig rig(FormattedDevice(), TestSeed());
  Client client(rig.library.get());
  ASSERT_EQ(client.CreateDirectory("d"), absl::OkStatus());
  const File held = client.Create("d", "held").file;
  const File closed = client.Create("d", "closed").file;
  const std::string data = std::string(16384, 'a') + std::string(16384, 'b') + "end";
  for (const File f : {held, closed}) {
    ASSERT_EQ(client.Write(f, 0, data).status, absl::OkStatus());
    ASSERT_EQ(client.Sync(f), absl::OkStatus());
  }
  ASSERT_EQ(client.Close(closed), absl::OkStatus());
  rig.device->fail_syncs = true;
  EXPECT_FALSE(client.SetSize(held, 5).ok());
  EXPECT_EQ(client.Read(held, 0, 100'000), data);
  EXPECT_FALSE(client.Write(held, 100'000, "more").status.ok());
  EXPECT_EQ(client.Read(held, 0, 100'000), data);
  const Completion again = client.Open("d", "closed");
  ASSERT_EQ(again.status, absl::OkStatus());
  EXPECT_EQ(client.Read(again.file, 0, 100'000), data);
  EXPECT_FALSE(client.SetSize(again.file, 5).ok());
  EXPECT_EQ(client.Read(again.file, 0, 100'000), data);
}

}  // namespace
}  // namespace pulse::files
