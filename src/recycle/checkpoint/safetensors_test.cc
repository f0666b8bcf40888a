// The format's rules, one file that breaks each, and every cut-off or flipped byte of a good one.
#include "recycle/checkpoint/safetensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

StatusOr<SafetensorsHeader> Decode(const std::string& file) {
  const StatusOr<std::uint64_t> length = DecodeSafetensorsLength(file, file.size());
  if (!length.ok()) return length.status();
  return DecodeSafetensorsHeader(std::string_view(file).substr(kSafetensorsLengthBytes, *length),
                                 file.size());
}

std::string FileOf(const std::string& json, std::size_t data_bytes) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
  return file + json + std::string(data_bytes, 'x');
}

SafetensorsHeader Example() {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}, {"note", "quotes \" and \\ and \u00fc"}};
  header.tensors = {{"a", "F32", {2, 3}, 0, 24},
                    {"none", "F32", {0, 7}, 24, 24},
                    {"scalar", "F64", {}, 24, 32},
                    {"b.weight", "BF16", {5}, 32, 42}};
  return header;
}

TEST(Safetensors, WhatIsWrittenReadsBackAndIsAligned) {
  const std::string head = EncodeSafetensorsHeader(Example());
  EXPECT_EQ(head.size() % 64, 0U);
  const auto header = Decode(head + std::string(42, 'x'));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors, Example().tensors);
  EXPECT_EQ(header->metadata, Example().metadata);
  EXPECT_EQ(header->data_begin, head.size());
}

// Bytes as the reference implementation writes them (huggingface/safetensors, README.md).
TEST(Safetensors, ReadsAFileOfTheReferenceImplementation) {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}})"
      "   ";
  const auto header = Decode(FileOf(json, 16));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->tensors[0], (SafetensorsEntry{"test", "I32", {2, 2}, 0, 16}));
}

struct Bad {
  const char* name;
  std::string json;
  std::size_t data_bytes;
  const char* says;
};

class Refused : public testing::TestWithParam<Bad> {};

TEST_P(Refused, WithTheRule) {
  const auto header = Decode(FileOf(GetParam().json, GetParam().data_bytes));
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.status().code(), StatusCode::kDataLoss);
  EXPECT_NE(std::string(header.status().message()).find(GetParam().says), std::string::npos)
      << header.status();
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Refused,
    testing::Values(
        Bad{"list", "[1]", 0, "does not begin with '{'"},
        Bad{"broken", R"({"a":)", 0, "not a JSON object"},
        Bad{"twice",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
            1, "there twice"},
        Bad{"hole", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "begins at"},
        Bad{"overlap",
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
            R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
            3, "begins at"},
        Bad{"rest", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "holds 2"},
        Bad{"cut", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 3, "cut off"},
        Bad{"shape", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "needs 8"},
        Bad{"dtype", R"({"a":{"dtype":"Q5","shape":[2],"data_offsets":[0,4]}})", 4, "'Q5'"},
        Bad{"negative", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", 0, "shape"},
        Bad{"overflow",
            R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
            "too many"},
        Bad{"metadata", R"({"__metadata__":{"a":1}})", 0, "no text"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Safetensors, ALengthBeyondTheFileOrTheFormatIsRefused) {
  EXPECT_FALSE(Decode("").ok());
  EXPECT_FALSE(Decode("1234567").ok());
  EXPECT_FALSE(Decode(std::string(8, '\xff') + "{}").ok());
  std::string file = FileOf("{}", 0);
  EXPECT_TRUE(Decode(file).ok());
  file[0] = 3;
  EXPECT_FALSE(Decode(file).ok());
}

TEST(Safetensors, AnyCutOffFileIsRefusedAndNoFlippedByteCrashes) {
  const std::string file = EncodeSafetensorsHeader(Example()) + std::string(42, 'x');
  for (std::size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(Decode(file.substr(0, length)).ok()) << length;
  }
  const std::uint64_t seed = 5;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Prng prng(seed);
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string bad = file;
    bad[prng.Below(file.size())] = static_cast<char>(prng.Below(256));
    const auto header = Decode(bad);
    EXPECT_TRUE(header.ok() || header.status().code() == StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace recycle
