// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files and their imports. A name of a file is what the import says; the callback knows what it stands for. Imports are
// not passed on: a file sees what it imports itself.
#include "lang/elaborate_p.h"
#include "lang/parser.h"

namespace tlx::lang {

FileScope *Elaborator::loadFile(uint32_t file, const std::string &path) {
  auto &slot = files[path];
  slot = std::make_unique<FileScope>();
  FileScope &scope = *slot;
  scope.path = path;
  scope.loading = true;
  unsigned errors = diags.errorCount();
  scope.ast = parseFile(sources, file, diags);
  scope.hasSyntaxErrors = diags.errorCount() != errors;
  importStack.push_back(path);
  for (const auto &node : scope.ast->imports) {
    importLocs.push_back(node->pathLoc);
    FileScope *imported = node->incomplete ? nullptr : import(*node);
    importLocs.pop_back();
    if (imported)
      scope.imports.push_back(imported);
    else
      scope.hasSyntaxErrors = true; // its names are missing: unknown ones are no news
  }
  importStack.pop_back();
  declare(scope);
  scope.loading = false;
  return &scope;
}

FileScope *Elaborator::import(const ast::Import &node) {
  if (auto it = files.find(node.path); it != files.end()) {
    if (!it->second->loading) return it->second.get();
    std::string cycle;
    auto first = llvm::find(importStack, node.path);
    for (; first != importStack.end(); ++first) cycle += *first + " → ";
    error(Diag::ElImportCycle, node.pathLoc, cycle + node.path);
    for (size_t i = 0; i + 1 < importLocs.size(); ++i) note(importLocs[i], "imported from here");
    return nullptr;
  }
  std::optional<std::string> text = options.import ? options.import(node.path) : std::nullopt;
  if (!text) {
    error(Diag::ElImportMissing, node.pathLoc, node.path);
    return nullptr;
  }
  return loadFile(sources.add(node.path, std::move(*text)), node.path);
}

void Elaborator::declare(FileScope &scope) {
  auto check = [&](const ast::Name &name) {
    if (findBuiltin(name.text) || ir::scalarByName(name.text)) {
      error(Diag::ElNameTaken, name.loc, name.text, findBuiltin(name.text) ? "an operation" : "a data type");
      return false;
    }
    const ast::Name *old = nullptr;
    if (auto it = scope.fns.find(name.text); it != scope.fns.end()) old = &it->second->name;
    if (auto it = scope.consts.find(name.text); it != scope.consts.end()) old = &it->second.node->name;
    if (!old) return true;
    error(Diag::ElDefinedTwice, name.loc, name.text);
    note(old->loc, "'" + name.text + "' is defined here");
    return false;
  };
  for (const ast::Item *item : scope.ast->order) {
    if (auto *fn = llvm::dyn_cast<ast::Fn>(item); fn && !fn->name.empty() && check(fn->name))
      scope.fns[fn->name.text] = fn;
    if (auto *c = llvm::dyn_cast<ast::Const>(item); c && !c->name.empty() && check(c->name))
      scope.consts[c->name.text].node = c;
  }
}

std::optional<std::vector<std::pair<std::string, std::string>>> importsOf(const std::string &source,
                                                                          const ImportFn &import) {
  std::vector<std::pair<std::string, std::string>> out;
  std::set<std::string> seen;
  SourceManager sources;
  Diagnostics ignored;
  std::vector<uint32_t> work{sources.add("", source)};
  while (!work.empty()) {
    uint32_t file = work.back();
    work.pop_back();
    std::unique_ptr<ast::File> parsed = parseFile(sources, file, ignored);
    for (const auto &node : parsed->imports) {
      if (!seen.insert(node->path).second) continue;
      std::optional<std::string> text = import ? import(node->path) : std::nullopt;
      if (!text) return std::nullopt;
      out.emplace_back(node->path, *text);
      work.push_back(sources.add(node->path, std::move(*text)));
    }
  }
  return out;
}

} // namespace tlx::lang
