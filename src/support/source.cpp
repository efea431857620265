// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/source.h"

namespace tlx {

uint32_t SourceManager::add(std::string name, std::string text) {
  File file{std::move(name), std::move(text), {0}};
  for (size_t i = 0; i < file.text.size(); ++i)
    if (file.text[i] == '\n') file.lineStarts.push_back(i + 1);
  files.push_back(std::move(file));
  return static_cast<uint32_t>(files.size());
}

std::string_view SourceManager::name(uint32_t file) const {
  return file == 0 || file > files.size() ? std::string_view("<unknown>") : std::string_view(files[file - 1].name);
}

std::string_view SourceManager::text(uint32_t file) const {
  return file == 0 || file > files.size() ? std::string_view() : std::string_view(files[file - 1].text);
}

std::string_view SourceManager::line(uint32_t file, uint32_t line) const {
  if (file == 0 || file > files.size() || line == 0 || line > files[file - 1].lineStarts.size()) return {};
  const File &f = files[file - 1];
  size_t start = f.lineStarts[line - 1];
  size_t end = f.text.find('\n', start);
  if (end == std::string::npos) end = f.text.size();
  if (end > start && f.text[end - 1] == '\r') --end;
  return std::string_view(f.text).substr(start, end - start);
}

uint32_t SourceManager::find(std::string_view name) const {
  for (size_t i = 0; i < files.size(); ++i)
    if (files[i].name == name) return static_cast<uint32_t>(i + 1);
  return 0;
}

} // namespace tlx
