// Reads C++ sources just well enough to hold house rules against them: comments and literals
// blanked, functions found by their braces. Not a parser; clang-tidy is one.
#ifndef RECYCLE_TESTS_HOUSE_SOURCE_TEXT_H_
#define RECYCLE_TESTS_HOUSE_SOURCE_TEXT_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace recycle::house {

struct SourceFile {
  std::filesystem::path path;  // relative to the repository's root
  std::string text;            // as it stands
  std::string code;            // same length, comments and the insides of literals blanked
};

// Every .h and .cc below `folder` of the repository at `root`, sorted by path.
std::vector<SourceFile> ReadSources(const std::filesystem::path& root, const std::string& folder);

struct Include {
  std::string header;
  bool quoted = false;
  int line = 0;
};
std::vector<Include> FindIncludes(const SourceFile& file);

struct Function {
  std::string head;  // what stands before the opening brace, on one line
  int first_line = 0;
  int last_line = 0;
  int lines() const { return last_line - first_line + 1; }
};
// Functions defined at namespace or class scope (a lambda counts as part of its function).
std::vector<Function> FindFunctions(const SourceFile& file);

int LineOf(std::string_view text, std::size_t position);
int CountLines(std::string_view text);

}  // namespace recycle::house

#endif  // RECYCLE_TESTS_HOUSE_SOURCE_TEXT_H_
