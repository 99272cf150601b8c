// One request that is being carried out; for the files of FileService only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "services/files/agent_service.h"

namespace pulse::files {

struct FileService::Op : public FileUser {
  explicit Op(FileService* s, uint32_t i) : service(s), index(i) {}
  void OnAdmitted() override { service->Admitted(this); }
  void OnWritten(int64_t result) override { service->Written(this, result); }

  struct Free {
    void operator()(char* p) const { std::free(p); }
  };

  FileService* const service;
  const uint32_t index;
  MessageGroup* group = nullptr;
  Operation kind = Operation::kNone;
  Request request{};
  OpenFile* file = nullptr;  // it is a user of
  uint32_t ios = 0;          // under way
  int64_t error = 0;
  // A read: its place, and how much is read from the device.
  bool reserved = false;
  Reservation place;
  uint64_t room = 0;   // bytes at the place
  uint64_t bytes = 0;  // of the result
  uint64_t data = 0;   // of them, those that are on the device
  // A write: its message.
  bool has_message = false;
  uint64_t ticket = 0;
  const char* payload = nullptr;
  OpenFile::Claim claim;
  uint64_t unit = kBlock;  // of its I/O: FileStore::WriteUnit
  enum class Step { kGapEdgeRead, kGapEdgeWrite, kZeros, kEdges, kData };
  Step step = Step::kData;
  uint64_t zeroed = 0;  // the gap, up to here
  // Of the I/O under way.
  char* buffer = nullptr;
  int buffer_index = -1;
  std::unique_ptr<char, Free> bounce;
  uint64_t bounce_bytes = 0;

  void NewBounce(uint64_t n) {
    if (bounce == nullptr || bounce_bytes < n) {
      bounce.reset(static_cast<char*>(std::aligned_alloc(kBlock, RoundUp(n, kBlock))));
      bounce_bytes = n;
    }
    buffer = bounce.get();
    buffer_index = -1;
  }
};

int ErrnoOfStore(const absl::Status& status, Operation kind);

}  // namespace pulse::files
