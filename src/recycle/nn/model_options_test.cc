#include "recycle/nn/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace recycle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelOptionsTest, MessagesNameKeyValueRuleAndNearestChoice) {
  const ModelOptions valid{.num_blocks = 4, .hidden = 256, .heads = 8};
  EXPECT_TRUE(valid.Validate().ok());
  const auto message = [&](auto change) {
    ModelOptions options = valid;
    change(options);
    const Status status = options.Validate();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(message([](ModelOptions& o) { o.heads = 5; }),
            "model.heads is 5: it must divide model.hidden (256); the nearest valid choices are 4 "
            "and 8");
  EXPECT_THAT(message([](ModelOptions& o) { o.heads = 0; }), HasSubstr("choice is 1"));
  EXPECT_THAT(message([](ModelOptions& o) { o.heads = 300; }), HasSubstr("choice is 256"));
  EXPECT_EQ(message([](ModelOptions& o) { o.num_blocks = 0; }),
            "model.layers is 0: it must be at least 1; the nearest valid choice is 1");
  EXPECT_THAT(message([](ModelOptions& o) { o.sequence = -3; }), HasSubstr("model.sequence is -3"));
  EXPECT_THAT(message([](ModelOptions& o) { o.vocabulary = 1; }),
              HasSubstr("data.vocabulary is 1"));
  EXPECT_THAT(message([](ModelOptions& o) { o.dropout = 1.0; }), HasSubstr("model.dropout is 1"));
  EXPECT_THAT(message([](ModelOptions& o) { o.dropout = std::stod("nan"); }),
              HasSubstr("model.dropout is nan"));
}

TEST(ModelOptionsTest, CanonicalNamesHaveEveryParameterOnce) {
  ModelOptions options{.num_blocks = 1};
  EXPECT_THAT(CanonicalParameterNames(options),
              ElementsAre("wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias",
                          "h.0.attn.qkv.weight", "h.0.attn.qkv.bias", "h.0.attn.proj.weight",
                          "h.0.attn.proj.bias", "h.0.ln_2.weight", "h.0.ln_2.bias",
                          "h.0.mlp.fc.weight", "h.0.mlp.fc.bias", "h.0.mlp.proj.weight",
                          "h.0.mlp.proj.bias", "ln_f.weight", "ln_f.bias", "head.weight"));
  options.tied = true;
  EXPECT_EQ(CanonicalParameterNames(options).back(), "ln_f.bias");
}

}  // namespace
}  // namespace recycle
