// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support/diagnostics.h"

#include <nlohmann/json.hpp>

namespace tlx {

namespace {
struct Info {
  const char *name;
  Severity severity;
  const char *text;
};
const Info kInfos[] = {
#define DIAG(ID, SEVERITY, TEXT) {#ID, Severity::SEVERITY, TEXT},
#include "support/diagnostics.def"
#undef DIAG
};

const char *severityName(Severity s) {
  switch (s) {
  case Severity::Error:
    return "error";
  case Severity::Warning:
    return "warning";
  case Severity::Note:
    return "note";
  }
  return "error";
}

void renderOne(std::string &out, const SourceManager &sources, Loc loc, const char *kind, const std::string &message) {
  if (loc.known()) {
    out += sources.name(loc.file);
    out += ':' + std::to_string(loc.line) + ':' + std::to_string(loc.col) + ": ";
  }
  out += kind;
  out += ": " + message + '\n';
  if (!loc.known()) return;
  std::string_view line = sources.line(loc.file, loc.line);
  if (line.empty()) return;
  out += "  ";
  out += line;
  out += "\n  ";
  for (uint32_t i = 1; i < loc.col && i <= line.size(); ++i) out += line[i - 1] == '\t' ? '\t' : ' ';
  out += '^';
  for (uint32_t i = loc.col + 1; i < loc.endCol && i <= line.size(); ++i) out += '~';
  out += '\n';
}
} // namespace

const char *diagName(Diag id) {
  return kInfos[static_cast<unsigned>(id)].name;
}
Severity diagSeverity(Diag id) {
  return kInfos[static_cast<unsigned>(id)].severity;
}
const char *diagText(Diag id) {
  return kInfos[static_cast<unsigned>(id)].text;
}

Diagnostic &Diagnostics::add(Diag id, Loc loc, std::string message) {
  Severity severity = diagSeverity(id);
  if (severity == Severity::Error) ++errors;
  list.push_back({id, severity, loc, std::move(message), {}});
  return list.back();
}

void Diagnostics::take(Diagnostic diagnostic) {
  if (diagnostic.severity == Severity::Error) ++errors;
  list.push_back(std::move(diagnostic));
}

void Diagnostics::clear() {
  list.clear();
  errors = 0;
}

std::string Diagnostics::render(const SourceManager &sources) const {
  std::string out;
  for (const Diagnostic &d : list) {
    renderOne(out, sources, d.loc, severityName(d.severity), d.message);
    for (const auto &note : d.notes) renderOne(out, sources, note.loc, "note", note.message);
  }
  return out;
}

std::string Diagnostics::renderJson(const SourceManager &sources) const {
  auto place = [&](nlohmann::ordered_json &j, Loc loc) {
    if (!loc.known()) return;
    j["file"] = sources.name(loc.file);
    j["line"] = loc.line;
    j["column"] = loc.col;
    j["end_column"] = loc.endCol;
  };
  auto out = nlohmann::ordered_json::array();
  for (const Diagnostic &d : list) {
    nlohmann::ordered_json j;
    j["id"] = diagName(d.id);
    j["severity"] = severityName(d.severity);
    place(j, d.loc);
    j["message"] = d.message;
    j["notes"] = nlohmann::ordered_json::array();
    for (const auto &note : d.notes) {
      nlohmann::ordered_json n;
      place(n, note.loc);
      n["message"] = note.message;
      j["notes"].push_back(n);
    }
    out.push_back(j);
  }
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace tlx
