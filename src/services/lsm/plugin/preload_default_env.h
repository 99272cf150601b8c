// PULSE_URI and PULSE_MATCH, in the preloaded object only: RocksDB's default Env is put on pulse://
// as the object is loaded, so that a program that knows nothing of PulseDB, and opens its databases
// on the default Env, is on it.
//
// The Env stays the object that it is; its FileSystem becomes a RoutedFileSystem. So no function of
// RocksDB's has to be replaced for this, and a librocksdb that binds calls to itself (-Bsymbolic)
// is served as well. Where DB::Open and its like can be replaced (preload_open.cc), an open fails
// with the reason, and a database that PULSE_MATCH leaves out has nothing of the plug-in.
#pragma once

#include <string>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace pulse::lsm {

// Reads the environment, and does the above. Once, from the object's constructor. What is wrong is
// logged, and refused by whoever opens a database. A program with a RocksDB of its own inside,
// whose opens are out of reach, ends, unless PULSE_FALLBACK=stock, or PULSE_MATCH may leave its
// databases out. A library with one is only told of where the program is served besides.
void InstallDefaultEnv();

// Before `name` is opened with `options`: of a database on the default Env, makes sure that
// pulse:// is there, or takes it off pulse:// when PULSE_MATCH leaves it out. Blocks as
// NewFileSystem. `nested`: within an open that has come here before, and was logged.
// *left_out: PULSE_MATCH leaves it out; else as it was.
rocksdb::Status PrepareDefaultEnv(const std::string& name, rocksdb::DBOptions* options, bool nested,
                                  bool* left_out);

}  // namespace pulse::lsm
