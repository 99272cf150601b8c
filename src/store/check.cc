#include "store/check.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "store/aligned_buffer.h"
#include "store/file_device.h"
#include "store/recovery.h"

namespace pulse::store {
namespace {

// No metadata area is larger: this is enough for a hundred million files.
constexpr uint64_t kMostScanned = uint64_t{16} << 30;

class Checker {
 public:
  Checker(Device& device, const CheckOptions& options) : device_(device), options_(options) {}

  absl::StatusOr<CheckReport> Run(bool repair) {
    Tick();
    PULSE_RETURN_IF_ERROR(CheckSuperblocks());
    for (int slot = 0; slot < 2; ++slot) {
      slot_status_[slot] = CheckSlot(device_, superblock_, slot);
      Tick();
    }
    std::vector<Finding> findings;
    PULSE_ASSIGN_OR_RETURN(auto recovered, Recover(device_, superblock_, &findings));
    Tick();
    for (const Finding& f : findings) Problem(f.offset, f.what);
    NoteSlots(recovered);
    CheckState(recovered);
    Tick();
    Describe(recovered);
    if (repair && !report_.problems.empty()) {
      PULSE_RETURN_IF_ERROR(Repair(recovered));
      report_.repaired = true;
    }
    return report_;
  }

 private:
  void Tick() const {
    if (options_.tick) options_.tick();
  }
  void Problem(uint64_t offset, std::string what) {
    report_.problems.push_back({offset, std::move(what)});
  }

  // The superblock, or its copy.
  absl::Status CheckSuperblocks() {
    auto superblock = ReadSuperblock(device_);
    AlignedBuffer block(kBlock);
    if (superblock.ok()) {
      superblock_ = *superblock;
      PULSE_RETURN_IF_ERROR(device_.Read(superblock_.copy_offset(), block.data(), kBlock));
      const auto copy = DecodeSuperblock(block.data());
      if (!copy.ok() || std::memcmp(&*copy, &superblock_, sizeof(superblock_)) != 0) {
        Problem(superblock_.copy_offset(), "the copy of the superblock is damaged");
        repair_superblocks_ = true;
      }
      return absl::OkStatus();
    }
    const auto copy = FindSuperblockCopy(device_, kMostScanned, options_.tick);
    if (!copy.ok()) {
      return absl::IsNotFound(copy.status()) ? NoSuperblock(superblock.status()) : copy.status();
    }
    superblock_ = *copy;
    Problem(0, absl::StrCat("the superblock is damaged; its copy at offset ",
                            superblock_.copy_offset(), " is whole"));
    repair_superblocks_ = true;
    return absl::OkStatus();
  }

  // The first one is as `why` says, where it is not its contents; and there is no copy.
  absl::Status NoSuperblock(const absl::Status& why) {
    if (device_.size() < kBlock) return why;
    AlignedBuffer block(kBlock);
    PULSE_RETURN_IF_ERROR(device_.Read(0, block.data(), kBlock));
    const absl::Status first = DecodeSuperblock(block.data()).status();
    if (absl::IsNotFound(first)) {
      return absl::FailedPreconditionError(absl::StrCat(
          device_.name(), ", offset 0: ", first.message(),
          " here, and no copy of a superblock: none was made or completed, or its beginning is "
          "lost, and nothing can be saved; `pulse pool create` makes one"));
    }
    if (!absl::IsDataLoss(first)) return why;
    return absl::DataLossError(absl::StrCat(
        device_.name(), ", offset 0: ", first.message(),
        ", and there is no whole copy of it: nothing can be saved; `pulse pool create --force` "
        "makes a new store in its place"));
  }

  void NoteSlots(const Recovered& recovered) {
    const int used = static_cast<int>(recovered.checkpoint_generation % 2);
    const uint64_t offset = superblock_.checkpoint_offset[1 - used];
    if (slot_status_[1 - used].ok() || recovered.checkpoint_generation == 1) return;
    report_.notes.push_back(
        {offset, absl::StrCat("not needed: ", slot_status_[1 - used].message(),
                              ", as it is when the power failed while it was written")});
  }

  // Everything once more, from the files' and the directories' point of view.
  void CheckState(const Recovered& recovered) {
    const State& state = *recovered.state;
    const uint64_t offset = superblock_.checkpoint_offset[recovered.checkpoint_generation % 2];
    std::unordered_map<uint64_t, uint32_t> names;
    state.ForEachDirectory([&](const Directory& d) {
      d.entries.ForEach([&](const Entry& e) {
        ++names[e.file->id];
        if (state.FindFile(e.file->id) != e.file) {
          Problem(offset, absl::StrCat("name ", e.name, " in ", d.name, " has no file"));
        }
      });
    });
    std::vector<bool> used(superblock_.segments);
    state.ForEachFile([&](const File& f) {
      const auto name = names.find(f.id);
      if (name == names.end() || name->second != f.links) {
        Problem(offset,
                absl::StrCat("file ", f.id, " has ", f.links, " names, and others are found"));
      }
      if (f.valid > f.size || f.valid > f.segments * superblock_.segment_bytes ||
          f.id >= state.next_id()) {
        Problem(offset, absl::StrCat("file ", f.id, " has lengths or an id that make no sense"));
      }
      for (const FileRun& run : f.runs) {
        for (uint64_t s = run.first; s < uint64_t{run.first} + run.count; ++s) {
          if (s < superblock_.metadata_segments || s >= superblock_.segments || used[s] ||
              state.free_segments().IsFree(s)) {
            Problem(s * superblock_.segment_bytes,
                    absl::StrCat("segment ", s, " of file ", f.id, " has another owner"));
            continue;
          }
          used[s] = true;
          ++report_.used;
        }
      }
    });
    for (uint64_t s = superblock_.metadata_segments; s < superblock_.segments; ++s) {
      if (used[s] || state.free_segments().IsFree(s)) continue;
      Problem(s * superblock_.segment_bytes,
              absl::StrCat("segment ", s, " is neither free nor a file's"));
    }
  }

  void Describe(const Recovered& recovered) {
    report_.geometry = GeometryOf(superblock_);
    report_.closed = recovered.clean;
    report_.batches = recovered.batches;
    report_.directories = recovered.state->directories();
    report_.files = recovered.state->files();
    report_.segments = superblock_.segments - superblock_.metadata_segments;
  }

  absl::Status Repair(const Recovered& recovered) {
    // A generation that nothing on the device has or goes on from, in the slot that is not the one
    // that was used.
    uint64_t generation = recovered.highest_generation + 1;
    if (generation % 2 == recovered.checkpoint_generation % 2) ++generation;
    const CheckpointImage image =
        MakeCheckpoint(*recovered.state, generation, recovered.last_sequence);
    PULSE_RETURN_IF_ERROR(WriteCheckpoint(device_, superblock_, image));
    if (!repair_superblocks_) return absl::OkStatus();
    AlignedBuffer block(kBlock);
    EncodeSuperblock(superblock_, block.data());
    PULSE_RETURN_IF_ERROR(device_.Write(superblock_.copy_offset(), block.data(), kBlock));
    PULSE_RETURN_IF_ERROR(device_.Write(0, block.data(), kBlock));
    return device_.Sync();
  }

  Device& device_;
  const CheckOptions& options_;
  Superblock superblock_;
  absl::Status slot_status_[2];
  bool repair_superblocks_ = false;
  CheckReport report_;
};

}  // namespace

absl::StatusOr<CheckReport> Check(Device& device, const CheckOptions& options) {
  auto report = Checker(device, options).Run(options.repair);
  if (!report.ok() || !report->repaired) return report;
  // What was repaired must now be sound.
  auto again = Checker(device, options).Run(/*repair=*/false);
  if (!again.ok()) return again;
  if (!again->problems.empty()) {
    return DamagedAt(device, again->problems[0].offset,
                     absl::StrCat("the repair did not help: ", again->problems[0].what));
  }
  again->problems = report->problems;
  again->repaired = true;
  return again;
}

absl::StatusOr<CheckReport> Check(const std::string& path, const CheckOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto device, FileDevice::Open(path, /*read_only=*/!options.repair));
  return Check(*device, options);
}

}  // namespace pulse::store
