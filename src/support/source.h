// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Source files and locations. A location is 16 bytes, copied freely, and stays with an IR operation down to debug info.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tlx {

/// A range on one line of one file. `file` is 0 for "unknown", else an index of SourceManager plus one. Lines and columns
/// count from 1; columns count bytes. `endCol` is one past the last byte.
struct Loc {
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t col = 0;
  uint32_t endCol = 0;
  bool known() const { return file != 0; }
  bool operator==(const Loc &) const = default;
};

/// Owns the text of every file of one compile.
class SourceManager {
public:
  /// Adds a file and returns its number for Loc::file.
  uint32_t add(std::string name, std::string text);
  std::string_view name(uint32_t file) const;
  std::string_view text(uint32_t file) const;
  /// The text of a line without its end; empty if there is none.
  std::string_view line(uint32_t file, uint32_t line) const;
  /// The number of a file that was added under this name, or 0.
  uint32_t find(std::string_view name) const;
  size_t size() const { return files.size(); }

private:
  struct File {
    std::string name, text;
    std::vector<size_t> lineStarts;
  };
  std::vector<File> files;
};

} // namespace tlx
