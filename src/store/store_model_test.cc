// Random operations against a model in memory, with power cuts at any moment. What is found after a
// cut must be the state after some prefix of the operations, no shorter than the last commit; all
// data that it names must be there; no segment may have two owners.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <random>
#include <set>

#include "base/testing.h"
#include "store/recovery.h"
#include "store/sim_device.h"
#include "store/store.h"

namespace pulse::store {
namespace {

constexpr uint64_t kSegment = 4096;
constexpr uint64_t kDeviceBytes = 768 << 10;

struct ModelFile {
  uint64_t size = 0;
  uint64_t valid = 0;
  std::vector<uint64_t> segments;  // device offsets
  bool operator==(const ModelFile&) const = default;
};

struct Model {
  std::map<std::string, std::map<std::string, FileId>> directories;
  std::map<FileId, ModelFile> files;
  bool operator==(const Model&) const = default;

  int Links(FileId file) const {
    int n = 0;
    for (const auto& [name, entries] : directories) {
      for (const auto& [entry, id] : entries) n += id == file;
    }
    return n;
  }
  void ForgetNameless() {
    std::erase_if(files, [this](const auto& f) { return Links(f.first) == 0; });
  }
};

// What a segment of a file holds, in its first bytes.
struct Tag {
  FileId file;
  uint64_t segment;
  bool operator==(const Tag&) const = default;
};

std::vector<uint64_t> SegmentsOf(Store& store, FileId file) {
  std::vector<Extent> extents;
  const auto attributes = store.Stat(file);
  EXPECT_TRUE(attributes.ok());
  EXPECT_TRUE(store.MapWrite(file, 0, attributes->allocated, &extents).ok());
  std::vector<uint64_t> segments;
  for (const Extent& e : extents) {
    for (uint64_t at = 0; at < e.length; at += kSegment) segments.push_back(e.device_offset + at);
  }
  return segments;
}

Model Dump(Store& store) {
  Model m;
  for (const std::string& directory : store.ListDirectories()) {
    auto& entries = m.directories[directory];
    const auto list = store.List(directory);
    for (const auto& e : *list) {
      entries[e.name] = e.attributes.id;
      m.files[e.attributes.id] = {e.attributes.size, e.attributes.valid,
                                  SegmentsOf(store, e.attributes.id)};
    }
  }
  return m;
}

std::string Show(const Model& m) {
  std::string text;
  for (const auto& [directory, entries] : m.directories) {
    text += directory + "\n";
    for (const auto& [name, id] : entries) {
      const ModelFile& f = m.files.at(id);
      text += "  " + name + ": id " + std::to_string(id) + ", size " + std::to_string(f.size) +
              ", valid " + std::to_string(f.valid) + ", segments";
      for (const uint64_t s : f.segments) text += " " + std::to_string(s / kSegment);
      text += "\n";
    }
  }
  return text;
}

class ModelRun {
 public:
  explicit ModelRun(uint64_t seed) : random_(seed), cut_random_(seed + 1) {}

  void Run(int lives, int operations) {
    device_ = std::make_shared<SimDevice>(kDeviceBytes);
    CreateOptions options;
    options.segment_bytes = kSegment;
    options.metadata_bytes = 128 << 10;
    ASSERT_TRUE(Format(*device_, options).ok());
    for (int life = 0; life < lives && !testing::Test::HasFatalFailure(); ++life) {
      Live(operations);
    }
  }

  int cuts() const { return cuts_; }
  int states_between() const { return states_between_; }

 private:
  // A picture of the device after a cut, and which states it may show.
  struct Picture {
    std::vector<uint8_t> image;
    size_t first;
    size_t last;
  };

  uint64_t Below(uint64_t n) { return random_() % n; }

  void Live(int operations) {
    device_->before_write = [this] { MaybeCut(); };
    device_->during_sync = [this] { MaybeCut(); };
    auto store = Store::Open("sim", {.read_only = false, .device = device_});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    model_ = Dump(*store_);
    {
      std::lock_guard lock(mu_);
      history_.assign(1, model_);
      committed_ = 0;
      pictures_.clear();
    }
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      Operate();
      {
        std::lock_guard lock(mu_);
        history_.push_back(model_);
      }
      MaybeCut();
    }
    pins_.clear();
    tokens_.clear();
    const bool orderly = Below(3) == 0;
    std::shared_ptr<SimDevice> next;
    if (orderly) {
      store_.reset();
      next = std::make_shared<SimDevice>(device_->Written());
      CheckPicture({device_->Written(), history_.size() - 1, history_.size() - 1}, &next);
    } else {
      // Killed: what was written is there. The object goes away after the picture was taken.
      const Picture killed{Below(2) == 0 ? device_->Written() : device_->Cut(random_), committed_,
                           history_.size() - 1};
      store_.reset();
      CheckPicture(killed, &next);
    }
    std::vector<Picture> pictures;
    {
      std::lock_guard lock(mu_);
      pictures.swap(pictures_);
    }
    for (const Picture& picture : pictures) {
      if (testing::Test::HasFatalFailure()) return;
      std::shared_ptr<SimDevice> after;
      CheckPicture(picture, &after);
      if (Below(2) == 0) next = after;
    }
    device_ = next;
  }

  // Called at writes and syncs, on whatever thread does them, and between operations.
  void MaybeCut() {
    std::lock_guard lock(mu_);
    if (history_.empty() || pictures_.size() >= 8 || cut_random_() % 40 != 0) return;
    // The operation that is under way may be in it.
    pictures_.push_back({device_->Cut(cut_random_), committed_, history_.size()});
  }

  void CheckPicture(const Picture& picture, std::shared_ptr<SimDevice>* device) {
    ++cuts_;
    *device = std::make_shared<SimDevice>(picture.image);
    std::vector<Finding> findings;
    ASSERT_TRUE(Recover(**device, &findings).ok());
    for (const Finding& f : findings) FAIL() << f.offset << ": " << f.what;
    auto store = Store::Open("sim", {.read_only = false, .device = *device});
    ASSERT_TRUE(store.ok()) << store.status();
    const Model found = Dump(**store);
    size_t state = picture.first;
    const size_t last = std::min(picture.last, history_.size() - 1);
    while (state <= last && !(history_[state] == found)) ++state;
    ASSERT_LE(state, last) << "no state after operations " << picture.first << " to " << last
                           << " is the one that was found:\n"
                           << Show(found) << "the last of them is:\n"
                           << Show(history_[last]);
    states_between_ += state > picture.first && state < last;
    std::set<uint64_t> used;
    for (const auto& [id, file] : found.files) {
      for (size_t i = 0; i < file.segments.size(); ++i) {
        ASSERT_TRUE(used.insert(file.segments[i]).second) << "used twice: " << file.segments[i];
        if (i * kSegment >= file.valid) continue;
        Tag tag;
        std::memcpy(&tag, picture.image.data() + file.segments[i], sizeof(tag));
        ASSERT_EQ(tag, (Tag{id, i}))
            << "file " << id << " has lost segment " << i << " to file " << tag.file;
      }
    }
    const Usage usage = (*store)->usage();
    ASSERT_EQ(usage.free + used.size(), usage.segments) << "a leak";
  }

  std::string AnyDirectory() { return "dir" + std::to_string(Below(4)); }
  std::string AnyName() { return "file" + std::to_string(Below(12)); }
  std::map<std::string, FileId>* Directory(const std::string& name) {
    const auto it = model_.directories.find(name);
    return it == model_.directories.end() ? nullptr : &it->second;
  }
  FileId AnyFile() {
    if (model_.files.empty()) return kNoFile;
    return std::next(model_.files.begin(), static_cast<long>(Below(model_.files.size())))->first;
  }

  void Operate() {
    const std::string dir = AnyDirectory();
    const std::string name = AnyName();
    auto* const entries = Directory(dir);
    switch (Below(20)) {
      case 0: {
        const absl::Status s = store_->CreateDirectory(dir);
        if (absl::IsResourceExhausted(s)) return;
        ASSERT_EQ(s.ok(), entries == nullptr) << s;
        model_.directories[dir];
        return;
      }
      case 1: {
        ASSERT_EQ(store_->RemoveDirectory(dir).ok(), entries != nullptr && entries->empty());
        if (entries != nullptr && entries->empty()) model_.directories.erase(dir);
        return;
      }
      case 2: {
        const std::string to = AnyDirectory();
        const auto* target = Directory(to);
        const bool can = entries != nullptr && (to == dir || target == nullptr || target->empty());
        ASSERT_EQ(store_->RenameDirectory(dir, to).ok(), can);
        if (!can || to == dir) return;
        model_.directories[to] = *entries;
        model_.directories.erase(dir);
        return;
      }
      case 3: {
        if (Below(5) != 0) return Commit();
        ASSERT_EQ(store_->ClearDirectory(dir).ok(), entries != nullptr);
        if (entries == nullptr) return;
        entries->clear();
        model_.ForgetNameless();
        return;
      }
      case 4:
      case 5:
      case 6:
      case 7:
        return CreateFile(dir, name);
      case 8:
      case 9: {
        const bool there = entries != nullptr && entries->count(name) != 0;
        ASSERT_EQ(store_->Unlink(dir, name).ok(), there);
        if (!there) return;
        entries->erase(name);
        model_.ForgetNameless();
        return;
      }
      case 10:
        return RenameOrLink(dir, name, /*link=*/false);
      case 11:
        return RenameOrLink(dir, name, /*link=*/true);
      case 12:
        return SetSize();
      case 13:
      case 14:
      case 15:
        return Append();
      case 16:
        return Relocate();
      case 17:
        return PinOrQuarantine();
      case 18: {
        const FileId file = AnyFile();
        if (file == kNoFile) return;
        ASSERT_TRUE(store_->Trim(file).ok());
        Refresh(file);
        return;
      }
      default:
        return Commit();
    }
  }

  void Commit() {
    size_t now;
    {
      std::lock_guard lock(mu_);
      now = history_.size() - 1;
    }
    ASSERT_TRUE(store_->Commit().ok());
    std::lock_guard lock(mu_);
    committed_ = now;
  }

  void CreateFile(const std::string& dir, const std::string& name) {
    auto* const entries = Directory(dir);
    const bool can = entries != nullptr && entries->count(name) == 0;
    const auto file = store_->CreateFile(dir, name);
    if (absl::IsResourceExhausted(file.status())) return;
    ASSERT_EQ(file.ok(), can) << file.status();
    if (!can) return;
    (*entries)[name] = *file;
    model_.files[*file] = {};
  }

  void RenameOrLink(const std::string& dir, const std::string& name, bool link) {
    const std::string to_dir = AnyDirectory();
    const std::string to_name = AnyName();
    auto* const from = Directory(dir);
    auto* const to = Directory(to_dir);
    const bool there = from != nullptr && from->count(name) != 0 && to != nullptr;
    const bool can = there && (!link || to->count(to_name) == 0);
    const absl::Status s = link ? store_->Link(dir, name, to_dir, to_name)
                                : store_->Rename(dir, name, to_dir, to_name);
    if (absl::IsResourceExhausted(s)) return;
    ASSERT_EQ(s.ok(), can) << s;
    if (!can) return;
    const FileId file = from->at(name);
    if (to->count(to_name) != 0 && to->at(to_name) == file) return;
    if (!link) from->erase(name);
    (*to)[to_name] = file;
    model_.ForgetNameless();
  }

  // Lengths and segments as the store has them now; the rest is the model's.
  void Refresh(FileId file) {
    model_.files[file].segments = SegmentsOf(*store_, file);
    const size_t needed = (model_.files[file].valid + kSegment - 1) / kSegment;
    ASSERT_GE(model_.files[file].segments.size(), needed);
  }

  void SetSize() {
    const FileId file = AnyFile();
    if (file == kNoFile) return;
    ModelFile& m = model_.files[file];
    const uint64_t size = Below(8) == 0 ? 0 : Below(12 * kSegment);
    ASSERT_TRUE(store_->SetSize(file, size).ok());
    m.size = size;
    m.valid = std::min(m.valid, size);
    Refresh(file);
  }

  void WriteTags(FileId file, const std::vector<uint64_t>& segments, size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      std::vector<uint8_t> bytes(kSegment);
      const Tag tag{file, i};
      std::memcpy(bytes.data(), &tag, sizeof(tag));
      ASSERT_TRUE(device_->Write(segments[i], bytes.data(), bytes.size()).ok());
    }
    ASSERT_TRUE(store_->SyncData().ok());
  }

  void Append() {
    const FileId file = AnyFile();
    if (file == kNoFile) return;
    ModelFile& m = model_.files[file];
    const uint64_t length = 1 + Below(6 * kSegment);
    const absl::Status s = store_->Reserve(file, m.valid + length + Below(2) * 4 * kSegment);
    if (absl::IsResourceExhausted(s)) return;
    ASSERT_TRUE(s.ok()) << s;
    Refresh(file);
    {
      std::lock_guard lock(mu_);
      history_.push_back(model_);
    }
    const uint64_t end = m.valid + length;
    WriteTags(file, m.segments, m.valid / kSegment, (end + kSegment - 1) / kSegment);
    ASSERT_TRUE(store_->Wrote(file, m.valid, length).ok());
    m.valid = end;
    m.size = std::max(m.size, end);
  }

  void Relocate() {
    const FileId file = AnyFile();
    if (file == kNoFile) return;
    const bool fail = Below(4) == 0;
    const absl::Status s =
        store_->Relocate(file, [&](const auto&, const std::vector<Extent>& to) -> absl::Status {
          if (fail) return absl::CancelledError("no");
          std::vector<uint64_t> segments;
          for (const Extent& e : to) {
            for (uint64_t at = 0; at < e.length; at += kSegment) {
              segments.push_back(e.device_offset + at);
            }
          }
          WriteTags(file, segments, 0, segments.size());
          return absl::OkStatus();
        });
    if (absl::IsResourceExhausted(s)) return;
    ASSERT_EQ(s.ok(), !fail) << s;
    Refresh(file);
  }

  void PinOrQuarantine() {
    const FileId file = AnyFile();
    switch (Below(4)) {
      case 0:
        if (file != kNoFile) pins_.push_back(*store_->Pin(file));
        return;
      case 1:
        if (file != kNoFile) tokens_.push_back(*store_->Quarantine(file));
        return;
      case 2:
        if (!pins_.empty()) pins_.erase(pins_.begin());
        return;
      default:
        if (tokens_.empty()) return;
        store_->ReleaseQuarantine(tokens_.front());
        tokens_.erase(tokens_.begin());
        return;
    }
  }

  std::mt19937_64 random_;
  std::shared_ptr<SimDevice> device_;
  std::shared_ptr<Store> store_;
  Model model_;
  std::vector<FilePin> pins_;
  std::vector<uint64_t> tokens_;

  std::mutex mu_;  // below, which other threads' cuts use
  std::mt19937_64 cut_random_;
  std::vector<Model> history_;
  size_t committed_ = 0;
  std::vector<Picture> pictures_;

  int cuts_ = 0;
  int states_between_ = 0;
};

TEST(StoreModelTest, EveryCut_ShowsAPrefixOfTheOperations) {
  const uint64_t seed = testing_util::TestSeed();
  int cuts = 0;
  int between = 0;
  for (uint64_t i = 0; i < 12; ++i) {
    ModelRun run(seed + i * 1000);
    run.Run(/*lives=*/12, /*operations=*/150);
    if (HasFatalFailure()) {
      FAIL() << "run " << i << " of seed " << seed;
    }
    cuts += run.cuts();
    between += run.states_between();
  }
  // The test would prove little if cuts showed only the ends.
  EXPECT_GT(cuts, 200);
  EXPECT_GT(between, 10);
}

// A small journal goes round often: cuts fall into checkpoints and switches, too.
TEST(StoreModelTest, LongLives_SmallJournal_EveryCutShowsAPrefix) {
  ModelRun run(testing_util::TestSeed() + 77);
  run.Run(/*lives=*/4, /*operations=*/1500);
}

}  // namespace
}  // namespace pulse::store
