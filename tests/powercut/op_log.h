// OpLog: what a simulated disk saw, in one linear order. Everything that a crash image needs is in
// it, so that an image can be made for any position, any number of times, also in another process.
//
// A plain value; no threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pulse::powercut {

using NodeId = uint32_t;  // a file or directory; 0 is the root directory
inline constexpr NodeId kRootNode = 0;

enum class OpKind : uint8_t {
  kCreate,     // file `node` appears as dir/name
  kMakeDir,    // directory `node` appears as dir/name
  kLink,       // file `node` appears as dir/name, too
  kUnlink,     // dir/name disappears (file or directory)
  kRename,     // dir/name becomes to_dir/to_name, replacing what was there
  kWrite,      // `data` at `offset` of `node`
  kTruncate,   // `node` has `length` bytes
  kAllocate,   // `node` has at least `length` bytes
  kSyncBegin,  // fsync or fdatasync of `node` begins ...
  kSyncEnd,    // ... and has succeeded; `offset` is the index of its kSyncBegin
};

struct Op {
  OpKind kind;
  NodeId node = 0;
  NodeId dir = 0;
  NodeId to_dir = 0;
  std::string name;
  std::string to_name;
  uint64_t offset = 0;
  uint64_t length = 0;
  std::string data;

  template <typename Archive>
  void Visit(Archive& a) {
    a(kind, node, dir, to_dir, name, to_name, offset, length, data);
  }
};

using OpLog = std::vector<Op>;

}  // namespace pulse::powercut
