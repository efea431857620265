// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Diagnostics are data: an id of diagnostics.def, a severity, a location, and text whose holes were filled. They are
// collected, never printed or thrown by the code that finds them; the caller renders them as text or JSON.
#pragma once
#include <string>
#include <vector>

#include "llvm/Support/FormatVariadic.h"

#include "support/source.h"

namespace tlx {

enum class Severity : uint8_t { Error, Warning, Note };

enum class Diag : uint16_t {
#define DIAG(ID, SEVERITY, TEXT) ID,
#include "support/diagnostics.def"
#undef DIAG
};

const char *diagName(Diag id);
Severity diagSeverity(Diag id);
const char *diagText(Diag id);

struct Diagnostic {
  Diag id;
  Severity severity;
  Loc loc;
  std::string message;
  /// Context: "declared here", "in a call of 'f' from here".
  struct Note {
    Loc loc;
    std::string message;
  };
  std::vector<Note> notes;
};

class Diagnostics {
public:
  /// Adds a diagnostic; `args` fill the holes {0}, {1}, … of its text (llvm::formatv). The reference is good until the
  /// next report.
  template <typename... Args> Diagnostic &report(Diag id, Loc loc, Args &&...args) {
    return add(id, loc, llvm::formatv(false, diagText(id), std::forward<Args>(args)...).str());
  }
  /// One that was reported elsewhere, perhaps with another severity.
  void take(Diagnostic diagnostic);
  bool hasErrors() const { return errors != 0; }
  unsigned errorCount() const { return errors; }
  const std::vector<Diagnostic> &all() const { return list; }
  void clear();

  /// "file:line:col: error: message", the source line, a caret range, and the notes in the same form.
  std::string render(const SourceManager &sources) const;
  /// [{"id", "severity", "file", "line", "column", "end_column", "message", "notes": […]}, …]
  std::string renderJson(const SourceManager &sources) const;

private:
  Diagnostic &add(Diag id, Loc loc, std::string message);
  std::vector<Diagnostic> list;
  unsigned errors = 0;
};

} // namespace tlx
