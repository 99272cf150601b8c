// MessageService: what services have in common whose requests are messages in groups: groups are
// attached, looked at in turn, and given what is finished. A service says what one request means.
// DDS 4.3.
//
// One object per session; worker's thread; never blocks. See agent/service.h for the contract.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/message_group.h"
#include "agent/service.h"
#include "agent/session.h"

namespace pulse {

class MessageService : public Service {
 public:
  // Requests that are taken before they are carried out, and answers that are finished before the
  // host is given them: small, so that host, agent and device work at the same time.
  static constexpr size_t kTogether = 8;

  explicit MessageService(Session* session) : session_(session) {}

  void OnDescriptor(SessionQueue* queue, const wire::Descriptor& d) override;
  void OnFile(uint32_t, UniqueFd) override {}
  // Takes kAttachGroup, whose answer's second argument is what OnAttach returned, and kService, by
  // which the host gives a group back.
  absl::Status OnMessage(const wire::Message& message, std::vector<UniqueFd> fds,
                         wire::Message* ack) override;
  absl::Status Poll(size_t batch, size_t* taken) override;
  bool HasWork() override;
  bool HasDeferred() const override;
  bool ExpectsRequests() const override { return expects_requests_ && !shutting_down_; }
  bool Deliver() override;
  void BeginShutdown() override;
  bool Drained() const override { return in_flight_ == 0; }

 protected:
  // A request, which stays as it is until group->Forget(ticket). True: it was taken, and is
  // answered by exactly one Finish or Answer of the group, now or later. False: there is no room
  // for its answer now, and it comes again.
  virtual bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) = 0;
  // A group is about to be attached: the alignment of memory that the service asks of the host, a
  // power of two from 8 to a page, or why it cannot be.
  virtual absl::StatusOr<uint64_t> OnAttach() { return uint64_t{8}; }
  // Poll has taken what it could.
  virtual void OnPolled() {}
  // The host gave the group back, and nothing of it is under way any more: its last use.
  virtual void OnDetach(MessageGroup* /*group*/) {}

  // Gives the host what the group has finished.
  bool DeliverNow(MessageGroup* group, bool now);
  // The host broke the protocol: the session ends at the next Poll.
  void Break(absl::Status why) { broken_ = std::move(why); }
  // What must come to its end before the session may; those of requests also bound how many there
  // are at a time.
  void BeginWork() { ++in_flight_; }
  void EndWork() { --in_flight_; }

  Session* session() const { return session_; }
  size_t groups() const { return groups_.size(); }  // that are attached
  bool shutting_down() const { return shutting_down_; }

 private:
  absl::Status Detach(uint64_t number);
  // Lets go of the groups that were given back and are idle.
  void DropIdle();

  Session* const session_;
  bool shutting_down_ = false;
  bool closing_ = false;  // some group
  std::vector<std::unique_ptr<MessageGroup>> groups_;
  size_t first_group_ = 0;  // whose turn it is
  absl::Status broken_;
  size_t in_flight_ = 0;
  bool expects_requests_ = false;
};

}  // namespace pulse
