// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel: which one, its compile-time parameters, arguments and clauses, its body, and what is tidied at the end.
#include "lang/elaborate_p.h"

#include "llvm/ADT/StringExtras.h"

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

std::unique_ptr<ir::Module> elaborate(ir::Context &context, SourceManager &sources, uint32_t file,
                                      const ElaborateOptions &options, Diagnostics &diagnostics) {
  return Elaborator(context, sources, options, diagnostics).run(file);
}

Elaborator::Elaborator(ir::Context &context, SourceManager &sources, const ElaborateOptions &options,
                       Diagnostics &diags)
    : context(context), sources(sources), options(options), diags(diags), module(std::make_unique<ir::Module>(context)),
      builder(std::make_unique<ir::Builder>(*module)) {}

std::unique_ptr<ir::Module> Elaborator::run(uint32_t file) {
  unsigned errors = diags.errorCount();
  FileScope *main = loadFile(file, std::string(sources.name(file)));
  const Kernel *kernel = chooseKernel(*main);
  if (!kernel || kernel->incomplete) return nullptr;

  module->target = options.target;
  module->kernel.name = kernel->name.text;
  module->kernel.loc = kernel->name.loc;
  module->kernel.warpSize = options.warpSize;
  frames.push_back(std::make_unique<Frame>());
  frame().file = main;
  frame().scopes.emplace_back();
  bindParams(*kernel);
  // With a wrong parameter every shape would be a guess: say only what is known.
  if (diags.errorCount() != errors && !main->hasSyntaxErrors) return nullptr;
  launchClause(*kernel);
  bindArguments(*kernel);
  requiresClause(kernel->facts);
  optionFacts();
  frame().returnedCell = newCell();
  frame().scopes.emplace_back();
  b().atEnd(module->kernel.body);
  stmts(kernel->body->stmts);
  placeStorages();
  if (diags.errorCount() != errors) return nullptr;
  b().atEnd(module->kernel.body);
  b().loc = kernel->body->endLoc.known() ? kernel->body->endLoc : kernel->loc;
  b().ret();
  finish();
  return std::move(module);
}

const Kernel *Elaborator::chooseKernel(FileScope &file) {
  auto &kernels = file.ast->kernels;
  Loc start{file.ast->file, 1, 1, 2};
  std::string names;
  for (auto &k : kernels) names += (names.empty() ? "'" : ", '") + k->name.text + "'";
  for (size_t i = 0; i < kernels.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (kernels[i]->name.text == kernels[j]->name.text && !kernels[i]->name.empty()) {
        error(Diag::ElDefinedTwice, kernels[i]->name.loc, kernels[i]->name.text);
        note(kernels[j]->name.loc, "'" + kernels[j]->name.text + "' is defined here");
        return nullptr;
      }
  if (options.kernel.empty()) {
    if (kernels.size() == 1) return kernels[0].get();
    if (kernels.empty() && file.hasSyntaxErrors) return nullptr;
    if (kernels.empty())
      error(Diag::ElNoKernel, start);
    else
      error(Diag::ElWhichKernel, start, kernels.size(), names);
    return nullptr;
  }
  for (auto &k : kernels)
    if (k->name.text == options.kernel) return k.get();
  if (!file.hasSyntaxErrors)
    error(Diag::ElUnknownKernel, start, options.kernel, names.empty() ? "the file holds none" : "there is " + names);
  return nullptr;
}

//===-- compile-time parameters -----------------------------------------------------------------------------------===//

Val Elaborator::parseParam(const Param &param, const std::string &text, ir::Scalar type, bool isDtype, bool isFn) {
  const std::string &name = param.name.text;
  llvm::StringRef s = llvm::StringRef(text).trim();
  if (isDtype) {
    if (auto t = ir::scalarByName(s)) return Val::data(*t);
    return error(Diag::ElParamValue, param.name.loc, name, text, "dtype");
  }
  if (isFn) {
    if (auto v = lookupFile(*frame().file, s, param.name.loc); v && (v->is(Val::Kind::Fn) || v->isPoison())) return *v;
    if (const Builtin *op = findBuiltin(s)) return Val::function({nullptr, nullptr, op});
    return error(Diag::ElParamFn, param.name.loc, name, text);
  }
  if (type == ir::Scalar::I1) {
    if (s == "true" || s == "1") return Val::boolean(true);
    if (s == "false" || s == "0") return Val::boolean(false);
    return error(Diag::ElParamValue, param.name.loc, name, text, "i1 (true or false)");
  }
  if (ir::isFloat(type)) {
    double d;
    if (s.getAsDouble(d)) return error(Diag::ElParamValue, param.name.loc, name, text, ir::scalarName(type));
    Val v = Val::floating(d);
    return fits(v, type, param.name.loc) ? convertConst(v, type) : Val::poison();
  }
  int64_t i;
  if (s.getAsInteger(0, i)) return error(Diag::ElParamValue, param.name.loc, name, text, ir::scalarName(type));
  return fits(Val::integer(i), type, param.name.loc) ? Val::integer(i, type) : Val::poison();
}

void Elaborator::bindParams(const Kernel &kernel) {
  std::string names;
  for (const Param &p : kernel.params) names += (names.empty() ? "" : ", ") + p.name.text;
  std::set<std::string> given;
  for (const auto &[name, text] : options.params) {
    if (llvm::none_of(kernel.params, [&, &n = name](const Param &p) { return p.name.text == n; }))
      error(Diag::ElUnknownParam, kernel.name.loc, kernel.name.text, name,
            names.empty() ? "it has none" : "it has " + names);
    if (!given.insert(name).second) error(Diag::ElParamTwice, kernel.name.loc, name);
  }
  for (const Param &p : kernel.params) {
    const TypeExpr &type = *p.type;
    bool named = type.kind == TypeExpr::Named;
    bool isDtype = named && type.name == "dtype", isFn = named && type.name == "fn";
    ir::Scalar scalar{};
    Val v;
    bool ok = isDtype || isFn;
    if (!ok) {
      if (!named) {
        error(Diag::ElParamKind, type.loc, p.name.text);
      } else if (auto s = resolveScalar(type)) {
        scalar = *s;
        ok = true;
      }
    }
    auto text = llvm::find_if(options.params, [&](const auto &x) { return x.first == p.name.text; });
    if (ok && text != options.params.end()) {
      v = parseParam(p, text->second, scalar, isDtype, isFn);
    } else if (ok && p.defaultValue) {
      v = value(*p.defaultValue);
      if (v.isRuntime()) v = error(Diag::ElConstRuntime, p.defaultValue->loc, p.name.text);
      v = checkParam(p, std::move(v), p.defaultValue->loc);
    } else if (ok) {
      error(Diag::ElMissingParam, p.name.loc, p.name.text,
            isDtype                    ? "f16"
            : isFn                     ? "name"
            : scalar == ir::Scalar::I1 ? "true"
                                       : "128");
    }
    define(p.name, {.val = std::move(v)});
  }
}

//===-- arguments and launch --------------------------------------------------------------------------------------===//

void Elaborator::bindArguments(const Kernel &kernel) {
  for (const Param &p : kernel.args) {
    Val v;
    bool word = p.type->kind == TypeExpr::Named && (p.type->name == "dtype" || p.type->name == "fn");
    if (word) {
      error(Diag::ElArgCompileTime, p.type->loc, p.name.text, p.type->name);
    } else if (ir::Type type = resolveType(*p.type)) {
      if (type.isTile()) {
        error(Diag::ElArgTile, p.type->loc, type.str());
      } else {
        v = Val::runtime(module->kernel.body.addArg(type, p.name.text));
      }
    }
    define(p.name, {.val = std::move(v)});
  }
}

void Elaborator::launchClause(const Kernel &kernel) {
  for (const Arg &a : kernel.launch) {
    Val v = value(*a.value);
    if (a.name.text == "cluster") {
      bool one = v.is(Val::Kind::List) && llvm::all_of(v.elems, [](const Val &x) { return x.isInt() && x.i == 1; });
      if (!v.isPoison() && !one) error(Diag::ElCluster, a.value->loc);
    } else if (a.name.text != "num_warps") {
      error(Diag::ElLaunchOption, a.name.loc, a.name.text);
    } else if (!v.isPoison()) {
      if (!v.isInt() || v.i < 1 || v.i > 32 || (v.i & (v.i - 1)))
        error(Diag::ElNumWarps, a.value->loc, v.isInt() ? std::to_string(v.i) : describe(v));
      else
        module->kernel.numWarps = unsigned(v.i);
    }
  }
}

//===-- tidying ---------------------------------------------------------------------------------------------------===//

/// Removes what structured control flow leaves behind: results of branches and constants that nobody reads.
static void tidy(ir::Block &block) {
  std::vector<ir::Op *> ops = block.ops();
  for (size_t i = ops.size(); i-- > 0;) {
    ir::Op *op = ops[i];
    bool unused = true;
    for (unsigned r = 0; r < op->numResults(); ++r) unused &= op->result(r)->unused();
    if (unused && op->has(ir::Pure) && !op->numRegions()) {
      op->erase();
      continue;
    }
    if (op->is(ir::Opcode::If))
      for (unsigned r = op->numResults(); r-- > 0;)
        if (op->result(r)->unused()) {
          for (unsigned side = 0; side < 2; ++side) op->body(side).back()->eraseOperand(r);
          op->eraseResult(r);
        }
    for (unsigned r = 0; r < op->numRegions(); ++r) tidy(op->body(r));
    if (op->is(ir::Opcode::If) && op->numResults() == 0 && op->body(0).front() == op->body(0).back() &&
        op->body(1).front() == op->body(1).back())
      op->erase();
  }
}

void Elaborator::finish() {
  tidy(module->kernel.body);
}

} // namespace tlx::lang
