// History: what a workload did to a database, when, and what it was promised; with it, whether a
// recovered database is one that the workload may find after a crash.
//
// One thread writes. The database's states are then numbered: state n is what the first n steps
// make. Every crash must leave some state, no older than the last promise and no newer than the
// last step that had begun. Times are positions in the disk's OpLog.
//
// A plain value; no threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/db.h"

namespace pulse::powercut {

// A key of the default column family that each step but an ingestion sets to the number of the
// state that it makes.
inline constexpr char kStateKey[] = "~state";

class History {
 public:
  struct Version {
    uint32_t state = 0;  // from this state on ...
    bool exists = false;
    std::string value;

    template <typename Archive>
    void Visit(Archive& a) {
      a(state, exists, value);
    }
  };

  // Begins the next step; `marked` when it sets kStateKey. Returns the number of the state that it
  // makes.
  uint32_t BeginStep(size_t now, bool marked);
  void Put(const std::string& family, const std::string& key, const std::string& value);
  void Delete(const std::string& family, const std::string& key);
  void Merge(const std::string& family, const std::string& key, const std::string& operand);
  void DeleteRange(const std::string& family, const std::string& from, const std::string& to);
  // From now on, all steps so far survive.
  void Promise(size_t now);

  void BeginCreateFamily(const std::string& name, size_t now);
  void EndCreateFamily(const std::string& name, size_t now);
  void BeginDropFamily(const std::string& name, size_t now);
  void EndDropFamily(const std::string& name, size_t now);
  // Column families that exist now.
  std::vector<std::string> families() const;

  // A copy of the database, as of now, is durable in `path`, relative to the disk's root.
  void AddCheckpoint(const std::string& path, size_t now);
  void Opened(size_t now) {
    if (opened_ == kNever) opened_ = now;
  }

  uint32_t states() const { return static_cast<uint32_t>(begun_.size()); }
  // Positions at which something was promised.
  std::vector<size_t> promises() const;
  // The database had been created before `cut`.
  bool OpenedBefore(size_t cut) const { return opened_ <= cut; }
  bool FamilyMustExist(const std::string& name, size_t cut) const;
  bool FamilyMayExist(const std::string& name, size_t cut) const;

  // "" or what is wrong with `db`, recovered from a crash at `cut`. Sets *state to the one found.
  std::string Check(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& handles,
                    size_t cut, uint32_t* state) const;

  struct Checkpoint {
    std::string path;
    size_t done = 0;
    uint32_t state = 0;

    template <typename Archive>
    void Visit(Archive& a) {
      a(path, done, state);
    }
  };
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
  // The same for a checkpoint, which is of one state.
  std::string CheckState(rocksdb::DB* db, const std::vector<rocksdb::ColumnFamilyHandle*>& handles,
                         uint32_t state) const;

  template <typename Archive>
  void Visit(Archive& a) {
    a(begun_, marked_, versions_, families_, checkpoints_, promises_, opened_);
  }

 private:
  static constexpr size_t kNever = ~size_t{0};
  struct Family {
    size_t create_begun = kNever;
    size_t created = kNever;
    size_t drop_begun = kNever;
    size_t dropped = kNever;

    template <typename Archive>
    void Visit(Archive& a) {
      a(create_begun, created, drop_begun, dropped);
    }
  };

  void Add(const std::string& family, const std::string& key, bool exists, std::string value);

  std::vector<size_t> begun_;  // by step
  std::vector<uint8_t> marked_;
  std::map<std::string, std::map<std::string, std::vector<Version>>> versions_;
  std::map<std::string, Family> families_;
  std::vector<Checkpoint> checkpoints_;
  std::vector<std::pair<size_t, uint32_t>> promises_;  // position, state
  size_t opened_ = kNever;
};

}  // namespace pulse::powercut
