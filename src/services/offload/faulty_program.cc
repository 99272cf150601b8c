// A shared object whose functions misbehave as requests ask them to. Loaded by the tests.
#include <cstdlib>

#include "services/offload/test_protocol.h"

namespace pulse::offload::test {
namespace {

volatile int zero = 0;
volatile int much = 1000;
volatile int* volatile nowhere = nullptr;

int Deeper(volatile char* last) {
  volatile char frame[4096];
  frame[0] = last != nullptr ? *last : 1;
  return zero != 0 ? 0 : Deeper(frame) + frame[0];
}

// What a function does at fault `n`; even ones end.
void Misbehave(uint64_t n) {
  switch (n) {
    case 1:
      *nowhere = 1;
      break;
    case 2:
      zero = much / zero;
      break;
    case 3:
      abort();
    case 4:
      while (zero == 0) {
      }
      break;
    case 5:
      throw 1;
    case 6:
      zero = Deeper(nullptr);
      break;
    default:
      break;
  }
}

int FaultyRead(void* c, const char* request, size_t size, const Table* table, ReadOp* op) {
  const Request r = RequestAt(request, 0);
  if (r.op != Op::kFault) return Read(c, request, size, table, op);
  Misbehave(r.offset);
  const uint64_t most = ~uint64_t{0};
  *op = {r.file, 0, 4096};
  switch (r.offset) {
    case 20:
      op->offset = most;
      break;
    case 21:
      op->size = most;
      break;
    case 22:
      *op = {r.file, uint64_t{1} << 40, 4096};
      break;
    case 23:
      op->file = 0;
      break;
    case 24:
      op->file = most;
      break;
    case 25:
      op->size = 0;
      break;
    case 26:
      *op = {r.file, most - 4096, 4097};
      break;
    case 27:
      return 7;
    case 28:
      op->size = uint64_t{64} << 20;
      break;
    case 29:
      return table->find(table, nullptr, op);  // no such key to copy: a crash
    default:
      break;
  }
  return 1;
}

int FaultyReply(void* c, const char* request, size_t size, const ReadOp* op, Reply* reply) {
  const int made = MakeReply(c, request, size, op, reply);
  const Request r = RequestAt(request, 0);
  if (r.op != Op::kFault) return made;
  switch (r.offset) {
    case 40:
      reply->begin = ~uint64_t{0};
      break;
    case 41:
      reply->size = reply->size + 1;
      break;
    case 42:
      reply->header_size = 4096;
      break;
    case 43:
      reply->trailer_size = 1;
      break;
    case 44:
      return 0;
    case 45:
      *nowhere = 1;
      break;
    default:
      break;
  }
  return made;
}

void FaultyPredicate(void* c, const char* message, size_t size, const Table* table, Requests* out) {
  const Request r = RequestAt(message, 0);
  if (r.op == Op::kFault && r.offset == 60) *nowhere = 1;
  Predicate(c, message, size, table, out);
  if (r.op == Op::kFault && r.offset == 61) *nowhere = 1;
  if (r.op == Op::kFault && r.offset == 62) {
    for (int i = 0; i < 100000; ++i) out->host(out, message, size, 1);
  }
  if (r.op == Op::kFault && r.offset == 63) out->agent(out, message, 1 << 20);
  if (r.op == Op::kFault && r.offset == 64) out->host(out, nullptr, 64, 1);
}

int64_t FaultySplit(void* c, const char* data, size_t size) {
  if (size >= sizeof(OneRequest)) {
    const Request r = RequestAt(data, 0);
    if (r.op == Op::kFault && r.offset == 80) *nowhere = 1;
    if (r.op == Op::kFault && r.offset == 81) return static_cast<int64_t>(size) + 1;
    if (r.op == Op::kFault && r.offset == 82) return -12345;
  }
  return SplitRequest(c, data, size);
}

void FaultyCache(void* c, const WriteOp* op, Changes* out) {
  Cache(c, op, out);
  if (op->offset == 100 * 4096) *nowhere = 1;
  if (op->offset == 101 * 4096) out->put(out, nullptr, op);
}

Program Make() {
  Program p = MakeProgram(Order::kAny);
  p.name = "faulty";
  p.read = &FaultyRead;
  p.reply = &FaultyReply;
  p.predicate = &FaultyPredicate;
  p.split_request = &FaultySplit;
  p.cache = &FaultyCache;
  return p;
}

}  // namespace

PULSE_OFFLOAD_PROGRAM = Make();

}  // namespace pulse::offload::test
