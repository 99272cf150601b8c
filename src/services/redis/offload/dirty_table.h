// DirtyTable: which keys the secondary may not answer for. The director, through which all writes
// pass, marks a command's keys before it forwards it, and settles them when the host has answered;
// a key stays dirty until the secondary has caught up with that. DDS section 6.1 (the cache table's
// job, for a store that the host updates by itself).
//
// A fixed array of words, chosen by a keyed hash of the key: keys that share a word only cause
// forwards. One more word, the last, is for commands whose keys are not known. A word holds the
// number of commands at the host that may write its keys, and the number of the catch-up that has
// to have finished. Catch-ups are numbered from 1.
//
//   mark    in flight + 1                                     before the command is sent
//   settle  in flight - 1, dirty until max(dirty until, begun + 1)   after the host's last reply
//   clean   in flight = 0 and dirty until <= finished
//   refuse  in flight - 1                                     after an answer that says that it
//                                                             was not carried out
//
// The proof that reads rest on. Check() returns the word of a clean key, the value is read from the
// secondary, and Unchanged() finds the same word: count 0, dirty until d. Let F be the moment
// within Check when `finished` was seen to be d or more. Consider a command that may write the key.
// If it was marked before Unchanged looked, it was settled, too, since the count is 0, and with a
// number of d at most, since the number only grows: its answer had come before that catch-up began,
// so before F, and what was read has its effect. If it was not marked by then, it was not sent
// either, and what was read cannot have its effect. So no such command was at the host between F
// and Unchanged: the state of the key there was one and the same, and is what was read. The read
// takes effect at F, after all that was acknowledged before it was received. It neither misses one
// of those, nor shows a write that a later read at the host could still miss (the primary's log is
// written before its memtable is, and long before when it is synced).
//
// The same holds for several keys at once when all are checked before the first is read and
// compared after the last: they have one F in common, and nobody sees half of an MSET.
//
// Versions, for what is remembered of a key (value_cache.h). A word's version is the number of its
// marks ever; Mark raises it after the count, and before the command is sent. Whatever holds of a
// key when VersionOf() has been read, and when no command that may write the key is under way then,
// or was settled since without a read that comes later having seen its effect, holds for as long as
// the version is the same: a command that is sent has raised it. (A word alone would not do:
// between two catch-ups, a mark and a settle bring back what was there.)
// - A value that was read as above, VersionOf() before Check(): a command that is in that version
//   was in the count before, so that Check() and Unchanged() have seen it.
// - What a command has written that Mark() found to be alone: none was under way when it was
//   counted, and none was marked between the look at the version and its own mark. One that is
//   counted later raises the version to another one before it is sent. Those that may write any key
//   are looked for once more after its own mark.
// Commands that may write any key raise that word's version when they are settled, before their
// count goes; while one is counted, there is no version to compare with. So what the host refuses
// ends nothing. VersionOf() looks at the count first: what was carried out before that has raised
// the version that is read next, and what is counted later had not been sent.
//
// Threads: any; nothing blocks. Memory: 16 bytes a word, whatever clients do.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace pulse::redis {

// Numbers catch-ups. Owned by what catches up; the table reads it.
class CatchUpClock {
 public:
  // Around a catch-up, on its thread. Nothing may be read of the primary before Begin returns.
  uint64_t Begin() { return begun_.fetch_add(1) + 1; }
  // Only of one that has seen all that was written before it began. One that has not is never
  // finished: the next that is stands for it.
  void Finish(uint64_t number) { finished_.store(number); }

  uint64_t begun() const { return begun_.load(); }
  uint64_t finished() const { return finished_.load(); }

 private:
  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> finished_{0};
};

class DirtyTable {
 public:
  using Slot = uint32_t;

  // Of a key: of its word, and of that of commands that may write any key.
  struct Version {
    static constexpr uint64_t kUnknown = ~uint64_t{0};
    uint64_t slot = kUnknown;
    uint64_t everything = kUnknown;
    uint64_t generation = 0;  // of the primary's files, for its caller to set

    bool known() const { return slot != kUnknown; }
    bool operator==(const Version&) const = default;
    bool NewerThan(const Version& other) const {
      if (!known()) return false;
      return slot > other.slot || everything > other.everything || generation > other.generation;
    }
  };

  // `words` is rounded up to a power of two. `seed` should be random: who can choose keys that
  // collide can make others' reads slow. With `broken`, everything is always clean: for the test
  // that proves that tests would notice.
  DirtyTable(const CatchUpClock* clock, size_t words, uint64_t seed, bool broken = false);

  uint64_t Hash(std::string_view key) const;
  Slot SlotOfHash(uint64_t hash) const { return static_cast<Slot>(hash & mask_); }
  Slot SlotOf(std::string_view key) const { return SlotOfHash(Hash(key)); }
  // Of commands that may write any key; all reads look at it, too.
  Slot everything() const { return static_cast<Slot>(mask_ + 1); }

  // False, and nothing is done, when as many commands as can be counted are in flight. `alone`, if
  // asked for, becomes the version as of which a key of the slot holds what this command has
  // written, once it is carried out; it is left as it is if others may write the key at the same
  // time.
  [[nodiscard]] bool Mark(Slot slot, Version* alone = nullptr);
  // One of these, once for each mark. The host has answered, or it is certain that the command will
  // not run any more.
  void Settle(Slot slot);
  // It was not carried out, and will not be.
  void Refuse(Slot slot);

  // What to compare with after the read; none while the key is dirty.
  std::optional<uint64_t> Check(Slot slot) const;
  bool Unchanged(Slot slot, uint64_t word) const;

  // Unknown while something that may write any key is under way.
  Version VersionOf(Slot slot) const {
    Version version;
    if ((words_[everything()].load() & kCountMask) != 0) return version;
    version.slot = versions_[slot].load();
    version.everything = versions_[everything()].load();
    return version;
  }

  // The number of the catch-up that all that is settled waits for. Above clock.finished(), there is
  // something to catch up with.
  uint64_t wanted() const { return wanted_.load(); }
  uint64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  // The low bits count; 2^44 catch-ups last for centuries.
  static constexpr int kCountBits = 20;
  static constexpr uint64_t kCountMask = (uint64_t{1} << kCountBits) - 1;

  // The word as it was; none, and nothing is done, when it is full.
  std::optional<uint64_t> Count(Slot slot);

  const CatchUpClock* const clock_;
  const uint64_t seed_;
  const bool broken_;
  size_t mask_ = 0;
  std::unique_ptr<std::atomic<uint64_t>[]> words_;
  std::unique_ptr<std::atomic<uint64_t>[]> versions_;
  std::atomic<uint64_t> wanted_{0};
  std::atomic<uint64_t> in_flight_{0};
};

}  // namespace pulse::redis
