// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tlx-opt: passes on IR text, for tests and for work on passes. Not installed.
//
//   tlx-opt --pass simplify --pass assign-layouts --verify kernel.ir
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>

#include "ir/ir.h"
#include "passes/axis_analysis.h"
#include "passes/passes.h"

#include "document.h"

namespace {

using namespace tlx;

const char *kUsage = "usage: tlx-opt [options] [FILE]     (standard input without FILE, or for -)\n"
                     "  --pass NAME     run this pass; may be repeated, in this order\n"
                     "  --list-passes   print the names of all passes\n"
                     "  --verify        verify after reading and after each pass\n"
                     "  --locations     print the location of each operation\n"
                     "  --print-axis    print what axis analysis knows instead of the IR\n"
                     "  --document      print docs/ir.md\n";

struct Arguments {
  std::vector<std::string> passes;
  std::string file = "-";
  bool verify = false, locations = false, axis = false;
};

bool runPasses(ir::Module &module, const Arguments &args, Diagnostics &diagnostics) {
  if (args.verify && !ir::verify(module, diagnostics)) return false;
  for (const std::string &name : args.passes) {
    const passes::PassEntry *found = nullptr;
    for (const passes::PassEntry &entry : passes::allPasses())
      if (name == entry.name) found = &entry;
    if (!found) {
      std::cerr << "tlx-opt: no pass is called '" << name << "'; see --list-passes\n";
      return false;
    }
    const features::Target *target = features::findTarget(module.target);
    if (!target) {
      std::cerr << "tlx-opt: no target is called '" << module.target << "'\n";
      return false;
    }
    if (!found->run(module, *target, diagnostics)) return false;
    if (args.verify && !ir::verify(module, diagnostics)) {
      std::cerr << "tlx-opt: the IR is invalid after pass " << name << "\n";
      return false;
    }
  }
  return true;
}

int run(const Arguments &args) {
  std::string text;
  if (args.file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    std::ifstream in(args.file, std::ios::binary);
    if (!in) {
      std::cerr << "tlx-opt: cannot read '" << args.file << "'\n";
      return 2;
    }
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  ir::Context context;
  SourceManager sources;
  Diagnostics diagnostics;
  // The base name only: messages do not depend on where a test runs.
  const std::string name = args.file == "-" ? "<stdin>" : args.file.substr(args.file.find_last_of('/') + 1);
  const uint32_t file = sources.add(name, std::move(text));
  const std::unique_ptr<ir::Module> module = ir::parse(context, sources, file, diagnostics);
  const bool good = module && runPasses(*module, args, diagnostics) && !diagnostics.hasErrors();
  std::cerr << diagnostics.render(sources);
  if (!good) return 1;
  std::cout << (args.axis ? passes::printAxis(*module) : ir::print(*module, &sources, {.locations = args.locations}));
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments args;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--pass" && i + 1 < argc) {
      args.passes.push_back(argv[++i]);
    } else if (a == "--verify") {
      args.verify = true;
    } else if (a == "--locations") {
      args.locations = true;
    } else if (a == "--print-axis") {
      args.axis = true;
    } else if (a == "--document") {
      std::cout << documentIr();
      return 0;
    } else if (a == "--list-passes") {
      for (const passes::PassEntry &entry : passes::allPasses()) std::printf("%-20s %s\n", entry.name, entry.summary);
      return 0;
    } else if (a.size() > 1 && a[0] == '-') {
      std::cerr << kUsage;
      return a == "--help" ? 0 : 2;
    } else {
      args.file = a;
    }
  }
  return run(args);
}
