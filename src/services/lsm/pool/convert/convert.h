// Moves the tables and blob files of a closed RocksDB database into a pool (Import), so that it
// opens with layout=pool, and back into plain files (Export), so that any RocksDB opens it. PulseDB
// III-C.
//
// Safety. Everything is copied, read back, compared and made durable before anything is switched;
// the switch is one rename of CURRENT (lsm/pool_guard.h); and only then the originals go. So at any
// moment, also after a power cut, the database opens in the layout in which it was, or in the new
// one. Whoever calls the same again goes on: what is there in both places is compared, byte by
// byte, and not copied again. docs/internals/lsm-pool.md has the order, and what each place holds
// meanwhile.
//
// Plain files and the guard get the owner and the mode of the database's CURRENT.
//
// Ownership: the pool and the database's LOCK are held while a call lasts. Threads: one call per
// process and pool at a time. Blocks for as long as the copying takes.
//
// Errors: InvalidArgument (no database, a directory that does not fit), FailedPrecondition (in use,
// in another pool), ResourceExhausted (too little room, found before anything is copied), DataLoss
// (files are missing or damaged, or a medium does not give back what was written); those of the
// system; and whatever on_step or verify return. Each names the remedy. After any error the same
// call can be made again.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/lsm/pool/pool_former.h"

namespace pulse::convert {

struct Progress {
  const char* what = "";  // "copying", "comparing", "switching", ...; a literal
  uint64_t done = 0;      // bytes copied or compared, of
  uint64_t total = 0;
  bool switched = false;  // the database is in its new layout
};

struct Report {
  std::string database;  // its directory, as the pool knows it
  std::string pool;      // the pool's path, absolute
  uint64_t files = 0;    // to be moved, and their bytes
  uint64_t bytes = 0;
  uint64_t copied_files = 0;  // of these; the others had been copied before. Dry run: to be copied
  uint64_t copied_bytes = 0;
  // The database was in the new layout when the call began, with all its files.
  bool switched_before = false;
  // ... and nothing of the old one was left: there was nothing to do.
  bool already = false;
  // Export: files of the pool under the database's name that are not this database's.
  uint64_t foreign_files = 0;
  uint64_t room = 0;    // free bytes of where the files go, before the call; the smallest
  uint64_t needed = 0;  // of these
};

struct Options {
  std::string pool;
  std::string database;  // its directory
  // Others in which it has tables. Only files that the MANIFEST names are moved there: a directory
  // that is named by mistake may be another database's, which may be open.
  std::vector<std::string> db_paths;
  // Looks, checks and counts, and changes nothing.
  bool dry_run = false;
  // Goes on where the MANIFEST is not understood, such as by a newer RocksDB, and nobody can say
  // whether all files are there. Not with db_paths, since it says which files there are its own.
  bool unchecked = false;
  // Before each step, and after each piece of a few MiB. An error ends the conversion there.
  std::function<absl::Status(const Progress&)> on_step;
  // Called when the database is in its new layout, and the originals are still there. An error
  // leaves them there.
  std::function<absl::Status(const Report&)> verify;
};

absl::StatusOr<Report> Import(const Options& options);
absl::StatusOr<Report> Export(const Options& options);

using lsm::kMoving;

}  // namespace pulse::convert
