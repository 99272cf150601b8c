// FileService: the agent's half of the file library for one session. Takes requests from its poll
// groups, checks them, carries them out on the shared FileStore, and answers. DDS 4.3.
//
// agent_service.cc: groups, handles, what is asked. agent_data.cc: reads and writes.
// agent_names.cc: what goes to the other threads: names, sizes, syncs. See agent/service.h for the
// contract.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/message_service.h"
#include "agent/session.h"
#include "services/files/agent_store.h"
#include "services/files/wire.h"
#include "uring/file_engine.h"

namespace pulse::files {

// As requests are counted for those who watch.
enum class RequestKind : uint8_t { kOpen, kRead, kWrite, kSync, kName, kCount };

class FileService : public MessageService, public FileEngine::Client {
 public:
  FileService(FileStore* store, Session* session, FileEngine* engine, bool copying);
  ~FileService() override;

  void BeginShutdown() override;
  void OnIoComplete(uint64_t cookie, int64_t result) override;

 private:
  struct Op;
  struct Handle {
    OpenFile* file = nullptr;
    uint32_t generation = 1;
  };
  // One listing, cut into responses. It goes on where it stopped as long as no name has changed.
  struct Listing {
    bool directories = false;
    std::string directory;
    std::string from;    // has the names after this one
    uint64_t names = 0;  // FileStore::names() when it was made
    size_t at = 0;
    std::vector<store::DirectoryEntry> entries;  // by name
  };
  using Names = std::array<std::string, 4>;

  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override;
  absl::StatusOr<uint64_t> OnAttach() override;
  void OnPolled() override { SettleIfDue(); }
  void CloseDevice();
  OpenFile* FileOf(uint64_t handle) const;
  uint64_t NewHandle(OpenFile* file);  // 0: too many
  bool HandlesLeft() const;
  void TooManyFiles(Op* op);
  Op* NewOp(MessageGroup* group, Operation kind, const Request& r);
  void FreeOp(Op* op);
  // Of what is answered without being carried out.
  void Refuse(MessageGroup* group, Operation kind, uint64_t id, int error);
  // The end of an operation: answers, and frees it. `result` below 0: `text` says more.
  void Complete(Op* op, int64_t result, std::string data = {});
  void Complete(Op* op, const absl::Status& status, std::string data = {});

  // agent_data.cc
  bool HandleRead(MessageGroup* group, const Request& r);
  void HandleWrite(MessageGroup* group, const Request& r, const RingMessage& m, uint64_t ticket);
  void Admitted(Op* op);
  static uint64_t FirstByte(const Op& op);
  void StartRead(Op* op);
  void FinishRead(Op* op);
  void GetSegments(Op* op);
  void Written(Op* op, int64_t result);
  void StartWrite(Op* op);
  void ContinueWrite(Op* op);
  void StartGap(Op* op);
  void StartZeros(Op* op);
  void StartEdges(Op* op);
  void StartData(Op* op);
  void StartPieces(Op* op, uint64_t offset, uint64_t length, char* buffer, bool read);

  // agent_names.cc
  static bool TakeNames(const Request& r, const RingMessage& m, size_t count, Names* names);
  bool HandleName(MessageGroup* group, Operation kind, const Request& r, const RingMessage& m);
  void HandleFileChange(Op* op);
  void StartSetSize(Op* op);
  void StartReserve(Op* op);
  void SyncNow(Op* op);
  void FinishOpen(Op* op, store::FilePin pin);
  std::string EncodeListing(size_t most);
  WireAttributes AttributesOf(OpenFile* file) const;
  // Runs `work` on the change thread; then `then` here, with its status: after a commit, if
  // `durable` and the status is OK.
  void Change(Op* op, bool durable, std::function<absl::Status()> work,
              std::function<void(const absl::Status&)> then);
  void SettleIfDue();

  FileStore* const files_;
  FileEngine* const engine_;
  const bool copying_;
  FileEngine::File* device_ = nullptr;
  size_t operations_ = 0;
  std::vector<Handle> handles_;
  std::vector<uint32_t> free_handles_;
  size_t open_handles_ = 0;
  size_t promised_handles_ = 0;  // to files that are being created
  std::vector<std::unique_ptr<Op>> ops_;
  std::vector<Op*> free_ops_;
  std::shared_ptr<Listing> listing_;  // the last that was not at its end
};

}  // namespace pulse::files
