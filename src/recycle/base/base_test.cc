#include <gtest/gtest.h>

#include <set>

#include "recycle/base/check.h"
#include "recycle/base/ids.h"
#include "recycle/base/prng.h"
#include "recycle/base/sha256.h"

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

TEST(Sha256, AgreesWithThePublishedVector) {
  Sha256 hash;
  hash.Update(std::string_view("abc"));  // FIPS 180-2, appendix B.1
  EXPECT_EQ(hash.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace recycle
