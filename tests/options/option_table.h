// The options of RocksDB that touch files, each with values off its default.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/table.h"

namespace pulse::options_test {

// A database's options while settings are applied to them.
struct Setup {
  rocksdb::Options options;
  rocksdb::BlockBasedTableOptions table;
  std::shared_ptr<rocksdb::TableFactory> other_table;  // instead of a block-based one
  std::string dir;                                     // of this case; holds the database in "db"
  std::string uri;                                     // options of pulse://, each after an '&'
  bool flush_before_close = false;                     // the logs are not read again
};

// One value of one option. Settings of one option exclude each other.
struct Setting {
  const char* option;
  const char* value;
  void (*apply)(Setup& setup);
};

const std::vector<Setting>& TableSettings();   // BlockBasedTableOptions, other table formats
const std::vector<Setting>& FamilySettings();  // ColumnFamilyOptions
const std::vector<Setting>& DbSettings();      // DBOptions, and options of pulse://

std::vector<const Setting*> AllSettings();

// Whether RocksDB is known to refuse the two together. Others are found out by asking it.
bool KnownConflict(const Setting& a, const Setting& b);

// "option = value; option = value"
std::string NamesOf(const std::vector<const Setting*>& settings);

}  // namespace pulse::options_test

// PULSE_SET(options.use_fsync, true): a setting that is an assignment. SETTING names what it does.
#define PULSE_SET(member, v)                                          \
  pulse::options_test::Setting {                                      \
#member, #v, [](pulse::options_test::Setup & s) { s.member = v; } \
  }
#define PULSE_SETTING(option, value, ...)                             \
  pulse::options_test::Setting {                                      \
    option, value, [](pulse::options_test::Setup& s) { __VA_ARGS__; } \
  }
