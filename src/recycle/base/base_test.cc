#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "recycle/base/check.h"
#include "recycle/base/file.h"
#include "recycle/base/ids.h"
#include "recycle/base/prng.h"
#include "recycle/base/sha256.h"
#include "recycle/base/utf8.h"

namespace recycle {
namespace {

TEST(Ids, WorkerTextRoundTripsAndRefusesEverythingElse) {
  const WorkerId worker{PipelineId(12), StageId(3)};
  EXPECT_EQ(ToString(worker), "12:3");
  EXPECT_EQ(ParseWorkerId("12:3").value(), worker);
  for (const char* text : {"", ":", "1:", ":1", "1:2:3", "-1:0", "1.2", "1: 2", "99999999999:0"}) {
    EXPECT_EQ(ParseWorkerId(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Check, FailurePrintsPlaceAndMessageAndExitsWith70) {
  EXPECT_EXIT(RC_CHECK(1 == 2) << "value " << 7, testing::ExitedWithCode(70),
              "RC_CHECK\\(1 == 2\\) failed at .*base_test.cc:[0-9]+: value 7");
}

TEST(Prng, ShuffleIsAPermutationAndTheSameForTheSameSeed) {
  std::vector<int> a{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<int> b = a;
  Prng(42).Shuffle(a);
  Prng(42).Shuffle(b);
  EXPECT_EQ(a, b);
  EXPECT_EQ(std::set<int>(a.begin(), a.end()).size(), 8U);
}

TEST(Utf8, AcceptsTextAndRefusesStrayOverlongAndCutOffBytes) {
  for (const char* text : {"", "job", "\u00fc \u2603 \U0001f600", "\x7f"})
    EXPECT_TRUE(IsUtf8(text)) << text;
  for (const char* bytes : {"\xff", "a\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf5\x80\x80\x80", "\xf4\x90\x80\x80", "\xe2\x98z"}) {
    EXPECT_FALSE(IsUtf8(bytes)) << bytes;
  }
}

// `--out /dev/null` must not leave a regular file where the device was.
TEST(File, WhatIsNoRegularFileIsWrittenInPlace) {
  const std::string folder = testing::TempDir() + "/file-in-place";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(folder + "/target", folder + "/link");
  ASSERT_TRUE(WriteFileAtomically(folder + "/link", "longer than the next").ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/link", "text").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_EQ(*ReadWholeFile(folder + "/target"), "text");
  std::filesystem::create_symlink("/dev/full", folder + "/full");
  EXPECT_TRUE(absl::IsResourceExhausted(WriteFileAtomically(folder + "/full", "text")));
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/full"));
  std::filesystem::remove_all(folder);
}

TEST(Sha256, AgreesWithThePublishedVector) {
  Sha256 hash;
  hash.Update(std::string_view("abc"));  // FIPS 180-2, appendix B.1
  EXPECT_EQ(hash.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace recycle
