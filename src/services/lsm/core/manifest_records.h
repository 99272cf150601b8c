// ManifestRecords: follows the bytes appended to a MANIFEST and tells which table and blob files
// they add, so that only the metadata that names a failed output is held against it
// (docs/internals/lsm.md, "The barrier"). FileEdits: all that one record says of files.
//
// Knows RocksDB's log format (blocks of 32 KiB, records in fragments, each with a checksum) and of
// a record the tags that add and drop files; fields that the format declares ignorable are skipped.
// Everything else is "not understood": the caller then assumes that it could name any file. So are
// the bytes of an encrypting file system, whatever they look like, as their checksums are wrong.
//
// Not thread-safe; never blocks. Memory: the record that is not complete yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace pulse::lsm {

class ManifestRecords {
 public:
  // `offset`: the size of the file before the first Append.
  explicit ManifestRecords(uint64_t offset = 0);

  // The next bytes, cut anywhere. Adds to `added` the numbers of the files that the records
  // completed by them add. False when they are not understood; so is all that follows. False, too,
  // as long as no fragment is complete: nothing says then that this is a log.
  bool Append(absl::string_view bytes, std::vector<uint64_t>* added);
  // The same, with each completed record given to `take`, which returns false for one that it does
  // not understand.
  using TakeRecord = absl::FunctionRef<bool(absl::string_view record)>;
  bool AppendRecords(absl::string_view bytes, TakeRecord take);

 private:
  bool TakeHeader();
  bool TakeFragment(TakeRecord take);

  size_t left_in_block_;
  std::string header_;
  size_t header_size_ = 0;  // 0: the next byte is the first of a header
  size_t skip_ = 0;         // bytes of padding to ignore
  size_t fragment_left_ = 0;
  unsigned type_ = 0;
  uint32_t crc_ = 0;         // of the fragment, as far as it is there
  uint32_t stored_crc_ = 0;  // ... and what it has to become, masked
  bool in_fragment_ = false;
  bool in_record_ = false;  // between the first fragment of a record and the last
  bool understood_ = true;
  bool verified_ = false;  // a fragment had its checksum
  std::string record_;
};

// The changes that one record (a VersionEdit) makes to the files of one column family.
struct FileEdits {
  struct Table {
    uint64_t number = 0;
    uint64_t size = 0;
    uint64_t oldest_blob = 0;  // the lowest number of a blob file that it refers to; 0: none
  };
  struct Blob {
    uint64_t number = 0;
    uint64_t count = 0;  // of blobs
    uint64_t bytes = 0;  // of its records, without header and footer
  };
  uint32_t family = 0;
  bool drops_family = false;
  std::vector<uint64_t> deleted;  // tables; before those that are added
  std::vector<Table> tables;
  std::vector<Blob> blobs;
  std::vector<Blob> garbage;  // added to blob files
  // The record is one of an atomic group, of which `group_left` follow.
  bool in_group = false;
  uint32_t group_left = 0;
};
// False when the record is not understood; `edits` then has what came before.
bool DecodeFileEdits(absl::string_view record, FileEdits* edits);

// Adds to `added` the numbers of the files that one record adds. False when the record is not
// understood.
bool FilesAddedBy(absl::string_view record, std::vector<uint64_t>* added);

}  // namespace pulse::lsm
