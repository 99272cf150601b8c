// Where rejected lines may go: not among the files of a graph database, by whatever path.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "services/graph/load/load.h"
#include "services/graph/load/test_load.h"

namespace pulse::graph {
namespace {

namespace fs = std::filesystem;
using testing_util::Text;

class RejectFileTest : public testing::Test {
 protected:
  RejectFileTest() {
    fs::create_directories(At("db"));
    std::ofstream(At("db/MANIFEST")) << "a manifest";
  }
  ~RejectFileTest() override { fs::remove_all(dir_.get()); }
  std::string At(const std::string& name) const { return dir_.get() + "/" + name; }
  // `target` as the link has it: from where the link is.
  std::string Link(const std::string& name, const fs::path& target) const {
    fs::create_symlink(target, At(name));
    return At(name);
  }
  absl::Status Load(const std::string& rejects) const {
    test::MemoryGraph graph;
    return test::LoadInto({.nodes = {{"N", nodes_.path()}}, .reject_path = rejects}, &graph)
        .status();
  }

  const testing_util::ScratchPath dir_{"reject-file"};
  const test::File nodes_{"id\n1\n"};
};

TEST_F(RejectFileTest, AmongADatabasesFiles_IsRefusedAndNotMade) {
  Link("near", "db/unmade");
  for (const std::string& path :
       {At("db/MANIFEST"), At("db/unmade"), At("db/../db/unmade"), Link("there", "db/MANIFEST"),
        Link("dangling", "db/unmade"), Link("absolute", fs::absolute(At("db/unmade"))),
        Link("chain", "near"), Link("directory", "db") + "/unmade"}) {
    const absl::Status refused = Load(path);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << path << ": " << refused;
    EXPECT_NE(Text(refused).find(path + " lies among the files of a graph database"),
              std::string::npos)
        << refused;
  }
  EXPECT_FALSE(fs::exists(At("db/unmade")));
  EXPECT_EQ(test::Read(At("db/MANIFEST")), "a manifest");
}

TEST_F(RejectFileTest, LinkElsewhere_IsFollowed) {
  const std::string link = Link("out", "rejected");
  const absl::Status loaded = Load(link);
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_TRUE(fs::exists(At("rejected")));
  // Round in a circle.
  Link("a", "b");
  const absl::Status refused = Load(Link("b", "a"));
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(Text(refused).find("creating"), std::string::npos) << refused;
}

}  // namespace
}  // namespace pulse::graph
