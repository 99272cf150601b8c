// What a program tells PulseDB's agent so that the agent answers remote reads of the program's
// files by itself: the four offload functions, and as much of the program's protocol as they need.
// DDS section 6.
//
// A Program is a table of plain functions. It lies in a shared object that exports it under
// kProgramSymbol (PULSE_OFFLOAD_PROGRAM defines that; examples/blocks and examples/pages have two):
//
//   pulse agent --store PATH --offload libmine.so --serve 9000 --serve-host 127.0.0.1:9001
//
// The agent then accepts the program's clients, splits what they send into messages, and gives each
// to `predicate`, which names the requests for the host and those for the agent. For each of the
// latter `read` says which bytes of which file answer it; the agent reads them, past the host, into
// a buffer that `reply` puts a header in front of. Whatever fails, at any step, goes to the host.
//
// Never stale. A range that the host was writing, or began to write, while it was being read is not
// answered by the agent: the request goes to the host instead. So is what reaches past the bytes
// that a sync has made known to the store, and what concerns a file that was removed or is being
// cut. What the cache table says is the program's own: its items are put in after the write that
// they come from is on the device and before the host is told of that, and are erased before the
// host has the result of a read. An item may be missing at any time (the table is bounded, and
// empty after a start), but is never an older one than the last `cache` call put there.
//
// Threads. All functions are called from several threads at once; `cache` and `invalidate` from one
// at a time, which is not one of the others'. What a function is given is valid during the call.
//
// What functions may do: compute. No system calls, no locks, no allocation, no C++ exception out of
// them: one that crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, abort), throws, or takes more than some
// 10 ms of CPU time is abandoned where it is, without unwinding, and the program is switched off
// with one line in the log: from then on the host gets every request. Memory that a function has
// overwritten by mistake stays so: this is no protection against one that means harm, and the
// shared object is trusted as the agent itself is.
//
// Input. Messages come from the network, and the data of a write from memory that the host still
// can write: check sizes before use, and take each byte of `WriteOp::data` once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace pulse::offload {

// Raised when the layout or the meaning of what follows changes.
inline constexpr uint32_t kProgramVersion = 1;
// The name of the Program object in a shared object.
inline constexpr char kProgramSymbol[] = "pulse_offload_program";
// Limits of what a Program may declare.
inline constexpr uint32_t kMaxKeyBytes = 64;
inline constexpr uint32_t kMaxItemBytes = 256;
inline constexpr uint32_t kMaxRequestBytes = 4096;
inline constexpr uint32_t kMaxReplyHeader = 1024;
inline constexpr uint32_t kMaxReplyTrailer = 64;
inline constexpr uint32_t kMaxErrorBytes = 512;

// A file of the store: Attributes::id of pulse/files.h. Never used twice within a store.
using FileId = uint64_t;

struct ReadOp {
  FileId file;
  uint64_t offset;
  uint64_t size;  // more than the agent's buffers hold goes to the host
};

struct WriteOp {
  FileId file;
  uint64_t offset;
  uint64_t size;
  const char* data;
};

// The cache table: keys and items of the sizes that the program declares.
struct Table {
  void* self;
  // Copies the item of `key` and returns 1; or returns 0. Never torn.
  int (*find)(const Table* table, const void* key, void* item);
};

// Where `predicate` puts the requests of a message. All bytes are copied. If it puts none, the
// whole message goes to the host. Where there is no room for more, all of the message does.
struct Requests {
  void* self;
  // For the host, as they are; it answers them with `replies` messages.
  void (*host)(Requests* out, const void* data, size_t size, uint32_t replies);
  // For the agent: what `read`, `reply` and `error` are given; at most max_request bytes. They must
  // make a message of their own, which the host answers with one, as they may be sent there.
  void (*agent)(Requests* out, const void* data, size_t size);
  // Answered as they are, with these bytes: at most kMaxErrorBytes.
  void (*answer)(Requests* out, const void* data, size_t size);
};

// Where `cache` and `invalidate` put what is to change in the table, in order.
struct Changes {
  void* self;
  void (*put)(Changes* out, const void* key, const void* item);
  void (*erase)(Changes* out, const void* key);
};

// A reply in the making. Header and trailer go around data[begin, begin + size).
struct Reply {
  const char* data;  // what was read: the bytes of the ReadOp
  uint64_t begin;    // 0
  uint64_t size;     // the ReadOp's
  char* header;      // room for max_reply_header bytes
  uint32_t header_size;
  uint32_t trailer_size;
  char* trailer;  // room for max_reply_trailer bytes
};

enum class Order : uint32_t {
  // Replies leave in the order of the requests, and requests of a connection take effect in it: a
  // read behind a request that the host has not answered yet goes to the host, too.
  kRequest = 0,
  // Replies name their request and leave as they come; requests that are outstanding together have
  // no order.
  kAny = 1,
};

enum class Error : uint32_t {
  kMalformed = 1,     // the client's message; its connection ends behind the reply
  kTooLarge = 2,      // the same: a message beyond the agent's limit
  kHostLost = 3,      // not answered; may have been carried out
  kHostDown = 4,      // not carried out
  kOverloaded = 5,    // the agent's limits; the connection ends
  kShuttingDown = 6,  // the connection ends
};

struct Program {
  // Leave version and size to these initialisers.
  uint32_t version = kProgramVersion;
  uint32_t size = sizeof(Program);
  const char* name = nullptr;  // for messages
  // First argument of all functions. The program's own; not touched.
  void* context = nullptr;

  // --- Declared sizes, in bytes. Without a table (key_size 0), `cache` and `invalidate` are not
  // called.
  uint32_t key_size = 0;
  uint32_t item_size = 0;
  uint32_t max_request = 64;  // of one for the agent
  uint32_t max_reply_header = 64;
  uint32_t max_reply_trailer = 0;
  Order order = Order::kRequest;

  // --- The protocol. These three must be right for any bytes: a fault in them ends the connection,
  // as nobody can tell then where its messages end.
  // The size of the first whole message in `data`: 0 when it is not whole yet, -1 when it is none.
  // Called again with more bytes at each arrival.
  int64_t (*split_request)(void* context, const char* data, size_t size) = nullptr;
  int64_t (*split_reply)(void* context, const char* data, size_t size) = nullptr;
  // How many messages the host answers a whole message with. Null: one.
  uint32_t (*replies)(void* context, const char* message, size_t size) = nullptr;
  // What the client gets instead of an answer. `request`: one that was for the agent, or a message
  // that was forwarded; null where there is none. For a message of more than kMaxRequestBytes it is
  // called when that is forwarded, with kHostLost and kHostDown. Writes at most `room`
  // (kMaxErrorBytes) bytes and returns how many. Null: the connection just ends.
  size_t (*error)(void* context, const char* request, size_t size, Error error, char* out,
                  size_t room) = nullptr;

  // --- The four functions.
  // OffPred. Null: all goes to the host.
  void (*predicate)(void* context, const char* message, size_t size, const Table* table,
                    Requests* out) = nullptr;
  // OffFunc: where the answer lies. 1: `op` is filled in; 0: let the host answer.
  int (*read)(void* context, const char* request, size_t size, const Table* table,
              ReadOp* op) = nullptr;
  // Cache: a host's write is on the device. May be null.
  void (*cache)(void* context, const WriteOp* op, Changes* out) = nullptr;
  // Invalidate: the host is about to be given these bytes; or its write there has failed, and it is
  // not known what they are. May be null.
  void (*invalidate)(void* context, const ReadOp* op, Changes* out) = nullptr;

  // The reply around what was read. 1: send it; 0: let the host answer (a checksum is wrong, the
  // bytes are not what the table had said). Null: the data alone.
  int (*reply)(void* context, const char* request, size_t size, const ReadOp* op,
               Reply* reply) = nullptr;
};

// As functions of other compilers and languages may see them.
static_assert(std::is_standard_layout_v<Program> && std::is_trivially_copyable_v<Program>);
static_assert(std::is_trivial_v<ReadOp> && std::is_trivial_v<WriteOp> && std::is_trivial_v<Reply>);
static_assert(sizeof(ReadOp) == 24 && sizeof(WriteOp) == 32 && sizeof(Reply) == 48);

}  // namespace pulse::offload

// In a shared object: PULSE_OFFLOAD_PROGRAM = {.name = "mine", …};
#define PULSE_OFFLOAD_PROGRAM                            \
  extern "C" __attribute__((visibility("default")))      \
  const ::pulse::offload::Program pulse_offload_program; \
  const ::pulse::offload::Program pulse_offload_program
