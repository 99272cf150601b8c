// Which revision of the source this program was built from. Constant.
#pragma once

namespace pulse {

// As `git describe` names it, "-dirty" when the tree was changed; "unknown" without git.
const char* SourceRevision();

}  // namespace pulse
