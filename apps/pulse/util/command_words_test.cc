#include "apps/pulse/util/command_words.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace pulse {
namespace {

std::string ErrorOf(std::vector<const char*> words) {
  CLI::App app;
  app.name("pulse");
  app.require_subcommand(1);
  app.set_version_flag("--version", "1");
  app.add_subcommand("doctor")->add_flag("--json");
  CLI::App* pool = app.add_subcommand("pool");
  pool->require_subcommand(1);
  pool->add_subcommand("create");
  pool->add_subcommand("ls");
  words.insert(words.begin(), "pulse");
  return CommandError(app, static_cast<int>(words.size()), words.data());
}

TEST(CommandWordsTest, KnownCommands_NoError) {
  EXPECT_EQ(ErrorOf({"doctor"}), "");
  EXPECT_EQ(ErrorOf({"doctor", "surplus"}), "");  // CLI11 says it
  EXPECT_EQ(ErrorOf({"pool", "ls", "x"}), "");
  EXPECT_EQ(ErrorOf({"--help"}), "");
  EXPECT_EQ(ErrorOf({"--version"}), "");
  EXPECT_EQ(ErrorOf({"pool", "--help"}), "");
}

TEST(CommandWordsTest, UnknownCommand_IsNamedWithWhatThereIs) {
  EXPECT_EQ(ErrorOf({"frobnicate", "--x"}),
            "pulse: there is no command 'frobnicate'; there are: doctor, pool");
  EXPECT_EQ(ErrorOf({"docter"}),
            "pulse: there is no command 'docter'; did you mean doctor? there are: doctor, pool");
  EXPECT_EQ(ErrorOf({"pool", "list"}),
            "pulse pool: there is no command 'list'; did you mean ls? there are: create, ls");
  EXPECT_EQ(ErrorOf({"x"}), "pulse: there is no command 'x'; there are: doctor, pool");
}

TEST(CommandWordsTest, NoCommand_SaysWhatThereIs) {
  EXPECT_EQ(ErrorOf({}), "pulse: expected a command; there are: doctor, pool");
  EXPECT_EQ(ErrorOf({"pool"}), "pulse pool: expected a command; there are: create, ls");
}

TEST(CommandWordsTest, UnknownOption_IsNamed) {
  EXPECT_EQ(ErrorOf({"--wrong"}), "pulse: there is no option '--wrong'; see pulse --help");
}

}  // namespace
}  // namespace pulse
