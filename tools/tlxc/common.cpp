// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files, errors and the compile step of tlxc.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tlxc.h"

namespace tlxc {

int exitCodeOf(tlx_status status) {
  switch (status) {
  case TLX_OK:
    return kRight;
  case TLX_ERROR_FINDINGS:
    return kFindings;
  case TLX_ERROR_INTERNAL:
    return kInternal;
  default:
    return kUserError;
  }
}

void check(tlx_status status, tlx_error *&error) {
  if (status == TLX_OK) return;
  std::string text;
  if (error) {
    text = tlx_error_diagnostics(error);
    if (text.empty()) text = std::string("error: ") + tlx_error_message(error) + "\n";
    tlx_error_release(error);
  } else {
    text = std::string("error: ") + tlx_status_name(status) + "\n";
  }
  throw Failure(exitCodeOf(status), text);
}

std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  if (!in || !(text << in.rdbuf(), in))
    throw Failure(kUserError, "error: cannot read " + path + ": " + std::strerror(errno) + "\n");
  return text.str();
}

void writeFile(const std::string &path, std::string_view bytes) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
      throw Failure(kUserError, "error: cannot write to stdout\n");
    return;
  }
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  if (!out) throw Failure(kUserError, "error: cannot write " + path + ": " + std::strerror(errno) + "\n");
}

Context makeContext(const CompileArgs &args) {
  tlx_context_options options = TLX_CONTEXT_OPTIONS_INIT;
  options.ptxas = args.ptxas.empty() ? nullptr : args.ptxas.c_str();
  if (args.noCache) options.cache_mode = TLX_CACHE_OFF;
  tlx_context *context = nullptr;
  tlx_error *error = nullptr;
  check(tlx_context_create(&options, &context, &error), error);
  return Context(context);
}

namespace {

/// Imports are files: first beside the importing kernel's file, then in the -I directories.
struct Importer {
  std::vector<std::string> directories;
  std::map<std::string, std::string> texts; // the library does not copy before the compile ends

  static tlx_status import(void *user, const char *name, const char **text, size_t *size) {
    auto &self = *static_cast<Importer *>(user);
    auto found = self.texts.find(name);
    for (size_t i = 0; found == self.texts.end() && i < self.directories.size(); ++i) {
      try {
        found = self.texts.emplace(name, readFile(self.directories[i] + "/" + name)).first;
      } catch (const std::exception &) { // not there: try the next
      }
    }
    if (found == self.texts.end()) return TLX_ERROR_NOT_FOUND;
    *text = found->second.data();
    *size = found->second.size();
    return TLX_OK;
  }
};

} // namespace

Kernel compile(tlx_context *context, const CompileArgs &args, const tlx_device *device, uint32_t keep) {
  const std::string source = readFile(args.file);
  Importer importer;
  const size_t slash = args.file.rfind('/');
  importer.directories.push_back(slash == std::string::npos ? "." : args.file.substr(0, slash));
  importer.directories.insert(importer.directories.end(), args.includeDirs.begin(), args.includeDirs.end());

  std::vector<std::pair<std::string, std::string>> split;
  for (const std::string &define : args.defines) {
    const size_t equals = define.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Failure(kUsage, "tlxc: -D " + define + ": write PARAMETER=VALUE\n");
    split.emplace_back(define.substr(0, equals), define.substr(equals + 1));
  }
  std::vector<tlx_param> params;
  for (const auto &[name, value] : split) params.push_back({name.c_str(), value.c_str()});
  std::vector<const char *> facts;
  for (const std::string &fact : args.assumptions) facts.push_back(fact.c_str());
  auto orNull = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };

  tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
  options.file_name = args.file.c_str();
  options.kernel = orNull(args.kernel);
  options.params = params.data();
  options.num_params = params.size();
  options.facts = facts.data();
  options.num_facts = facts.size();
  options.target = orNull(args.target);
  options.device = device;
  options.keep = keep | (args.explainLayouts ? TLX_KEEP_LAYOUTS : 0);
  options.flags = (args.verify ? TLX_COMPILE_VERIFY : 0) | (args.noStaticChecks ? TLX_COMPILE_NO_STATIC_CHECKS : 0);
  options.debug_timeout = args.debugTimeout;
  options.assembler = orNull(args.assembler);
  options.dump_after = orNull(args.dumpAfter);
  options.import = Importer::import;
  options.import_user = &importer;

  tlx_kernel *kernel = nullptr;
  tlx_error *error = nullptr;
  check(tlx_compile(context, source.data(), source.size(), &options, &kernel, &error), error);
  Kernel result(kernel);
  std::fputs(tlx_kernel_diagnostics(kernel), stderr);
  return result;
}

void printReports(const tlx_kernel *kernel, const CompileArgs &args) {
  const void *data = nullptr;
  size_t size = 0;
  for (const auto &[wanted, artifact] :
       {std::pair{!args.dumpAfter.empty(), TLX_ARTIFACT_DUMP}, std::pair{args.explainLayouts, TLX_ARTIFACT_LAYOUTS}}) {
    if (!wanted) continue;
    tlx_error *error = nullptr;
    check(tlx_kernel_artifact(kernel, artifact, &data, &size, &error), error);
    std::fwrite(data, 1, size, stderr);
  }
  if (!args.timePasses) return;
  const auto metadata = nlohmann::json::parse(tlx_kernel_metadata_json(kernel), nullptr, false);
  if (tlx_kernel_from_cache(kernel)) std::fputs("(from the cache: times of the compile that made the entry)\n", stderr);
  double total = 0;
  for (const auto &stage : metadata.value("stages", nlohmann::json::array())) {
    const double ms = stage.value("ms", 0.0);
    const std::string name = stage.value("name", "");
    const bool part = name.rfind("pass ", 0) == 0; // of the stage "passes", which follows
    if (!part) total += ms;
    std::fprintf(stderr, "%10.3f ms  %s%s\n", ms, part ? "  " : "", name.c_str());
  }
  std::fprintf(stderr, "%10.3f ms  total\n", total);
}

} // namespace tlxc
