#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {

const std::shared_ptr<ThreadWaits>& ThreadWaits::Mine() {
  thread_local const std::shared_ptr<ThreadWaits> mine = std::make_shared<ThreadWaits>();
  return mine;
}

}  // namespace pulse::lsm
