#include "services/lsm/plugin/preload_path_match.h"

#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pulse::lsm {
namespace {

using ::testing::HasSubstr;

PathMatch Parsed(absl::string_view list) {
  absl::StatusOr<PathMatch> match = PathMatch::Parse(list);
  EXPECT_TRUE(match.ok()) << match.status();
  return match.ok() ? *match : PathMatch();
}

TEST(PathMatch, WithoutAList_MeansEveryPath) {
  EXPECT_TRUE(PathMatch().everything());
  EXPECT_TRUE(PathMatch().Matches("/data/db"));
  EXPECT_TRUE(PathMatch().Matches(""));
}

TEST(PathMatch, Directory_MeansItselfAndWhatIsBelow) {
  const PathMatch match = Parsed("/data/db:/var/lib/app/");
  EXPECT_FALSE(match.everything());
  EXPECT_TRUE(match.Matches("/data/db"));
  EXPECT_TRUE(match.Matches("/data/db/"));
  EXPECT_TRUE(match.Matches("/data/db/000012.sst"));
  EXPECT_TRUE(match.Matches("/var/lib/app/a/b/c"));
  EXPECT_FALSE(match.Matches("/data"));
  EXPECT_FALSE(match.Matches("/data/db2"));
  EXPECT_FALSE(match.Matches("/data/dbs/000012.sst"));
  EXPECT_FALSE(match.Matches("/var/lib/application"));
  EXPECT_FALSE(match.Matches("/"));
}

TEST(PathMatch, Pattern_StaysWithinOneName) {
  const PathMatch match = Parsed("/data/*/db:/srv/node[0-9]");
  EXPECT_TRUE(match.Matches("/data/a/db"));
  EXPECT_TRUE(match.Matches("/data/a/db/CURRENT"));
  EXPECT_TRUE(match.Matches("/srv/node7/x"));
  EXPECT_FALSE(match.Matches("/data/a/b/db"));
  EXPECT_FALSE(match.Matches("/data/db"));
  EXPECT_FALSE(match.Matches("/srv/node77"));
}

TEST(PathMatch, Backslash_TakesThePatternFromACharacter) {
  EXPECT_TRUE(Parsed("/data/\\[1\\]").Matches("/data/[1]/CURRENT"));
  EXPECT_FALSE(Parsed("/data/[1]").Matches("/data/[1]/CURRENT"));
}

TEST(PathMatch, SpellingsOfOnePath_AreOne) {
  const PathMatch match = Parsed("/data//x/../db");
  EXPECT_TRUE(match.Matches("//data/db"));
  EXPECT_TRUE(match.Matches("///data/./db/y/../z"));
  EXPECT_FALSE(match.Matches("/data/db/../other"));
  const std::string here = std::filesystem::current_path().string();
  EXPECT_TRUE(Parsed(here).Matches("db"));
  EXPECT_TRUE(Parsed(here).Matches("./db/CURRENT"));
  EXPECT_FALSE(Parsed(absl::StrCat(here, "/elsewhere")).Matches("db"));
}

TEST(PathMatch, Root_MeansAllButNames) {
  EXPECT_TRUE(Parsed("/").Matches("/anything/below"));
  EXPECT_TRUE(Parsed("/").Matches("/"));
}

TEST(PathMatch, BadList_IsRefusedByName) {
  const absl::Status relative = PathMatch::Parse("/data:here/db").status();
  EXPECT_TRUE(absl::IsInvalidArgument(relative));
  EXPECT_THAT(relative.message(), HasSubstr("here/db"));
  EXPECT_TRUE(absl::IsInvalidArgument(PathMatch::Parse("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(PathMatch::Parse(":::").status()));
}

}  // namespace
}  // namespace pulse::lsm
