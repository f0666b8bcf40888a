#include "source_text.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

namespace recycle::house {
namespace {

// Blanks [begin, end) but keeps line ends, so that line numbers stay true.
void Blank(std::string& code, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < std::min(end, code.size()); ++i) {
    if (code[i] != '\n') code[i] = ' ';
  }
}

// The position after the literal that starts with a quote at `at`.
std::size_t EndOfLiteral(const std::string& text, std::size_t at) {
  if (text[at] == '"' && at > 0 && text[at - 1] == 'R') {
    const std::size_t open = text.find('(', at);
    const std::string close = ")" + text.substr(at + 1, open - at - 1) + "\"";
    const std::size_t end = text.find(close, open);
    return end == std::string::npos ? text.size() : end + close.size();
  }
  std::size_t i = at + 1;
  while (i < text.size() && text[i] != text[at] && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
  return i + 1;
}

bool IsDigitSeparator(const std::string& text, std::size_t at) {
  return text[at] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1])) != 0;
}

std::string BlankCommentsAndLiterals(const std::string& text) {
  std::string code = text;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (text.compare(i, 2, "//") == 0) {
      end = std::min(text.find('\n', i), text.size());
      Blank(code, i, end);
    } else if (text.compare(i, 2, "/*") == 0) {
      end = std::min(text.find("*/", i), text.size() - 2) + 2;
      Blank(code, i, end);
    } else if ((text[i] == '"' || text[i] == '\'') && !IsDigitSeparator(text, i)) {
      end = EndOfLiteral(text, i);
      Blank(code, i + 1, end - 1);
    }
    i = end;
  }
  return code;
}

enum class ScopeKind { kNamespaceOrType, kFunction, kOther };

ScopeKind Classify(const std::string& head) {
  static const std::regex type_or_namespace(
      R"((^|[\s>])(namespace|class|struct|union|enum|extern)\b)");
  if (head.find('(') != std::string::npos && head.find('=') > head.find('(')) {
    return ScopeKind::kFunction;
  }
  return std::regex_search(head, type_or_namespace) ? ScopeKind::kNamespaceOrType
                                                    : ScopeKind::kOther;
}

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

// Preprocessor lines have no braces that matter.
std::string BlankDirectives(std::string code) {
  std::size_t begin = 0;
  bool continued = false;
  while (begin < code.size()) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::string_view line(code.data() + begin, end - begin);
    const std::size_t first = line.find_first_not_of(" \t");
    const bool directive = continued || (first != std::string_view::npos && line[first] == '#');
    continued = directive && !line.empty() && line.back() == '\\';
    if (directive) Blank(code, begin, end);
    begin = end + 1;
  }
  return code;
}

}  // namespace

int LineOf(std::string_view text, std::size_t position) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + position, '\n'));
}

int CountLines(std::string_view text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

std::vector<SourceFile> ReadSources(const std::filesystem::path& root, const std::string& folder) {
  std::vector<SourceFile> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cc")) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    files.push_back({entry.path().lexically_relative(root), text.str(), ""});
    files.back().code = BlankCommentsAndLiterals(files.back().text);
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<Include> FindIncludes(const SourceFile& file) {
  static const std::regex pattern(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  std::vector<Include> includes;
  std::istringstream lines(file.text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) {
      includes.push_back({match[2], match[1] == "\"", number});
    }
  }
  return includes;
}

std::vector<Function> FindFunctions(const SourceFile& file) {
  const std::string code = BlankDirectives(file.code);
  std::vector<Function> functions;
  std::vector<ScopeKind> scopes;
  int inside_function = -1;  // depth of the enclosing function's brace
  std::size_t head_begin = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const char c = code[i];
    if (c == '{') {
      const std::string head = OneLine(std::string_view(code).substr(head_begin, i - head_begin));
      const ScopeKind kind = inside_function >= 0 ? ScopeKind::kOther : Classify(head);
      if (kind == ScopeKind::kFunction) {
        inside_function = static_cast<int>(scopes.size());
        const std::size_t first = code.find_first_not_of(" \t\n", head_begin);
        functions.push_back({head, LineOf(code, first), 0});
      }
      scopes.push_back(kind);
    } else if (c == '}' && !scopes.empty()) {
      scopes.pop_back();
      if (static_cast<int>(scopes.size()) == inside_function) {
        functions.back().last_line = LineOf(code, i);
        inside_function = -1;
      }
    }
    if (inside_function < 0 && (c == '{' || c == '}' || c == ';')) head_begin = i + 1;
  }
  return functions;
}

}  // namespace recycle::house
