// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names and scopes, types as written, compile-time values, and how errors are reported.
#include "lang/elaborate_p.h"
#include "lang/parser.h"

namespace tlx::lang {

using namespace ast;
using llvm::dyn_cast;
using llvm::isa;

//===-- values ----------------------------------------------------------------------------------------------------===//

std::string FnRef::name() const {
  return fn ? fn->name.text : builtin ? builtin->name : "";
}

Val Val::integer(int64_t i, std::optional<ir::Scalar> type) {
  Val v = of(Kind::Int);
  v.i = i, v.type = type;
  return v;
}
Val Val::floating(double f, std::optional<ir::Scalar> type) {
  Val v = of(Kind::Float);
  v.f = f, v.type = type;
  return v;
}
Val Val::boolean(bool b) {
  Val v = of(Kind::Bool);
  v.i = b;
  return v;
}
Val Val::data(ir::Scalar s) {
  Val v = of(Kind::DType);
  v.dtype = s;
  return v;
}
Val Val::string(std::string s) {
  Val v = of(Kind::String);
  v.s = std::move(s);
  return v;
}
Val Val::function(FnRef fn) {
  Val v = of(Kind::Fn);
  v.fn = fn;
  return v;
}
Val Val::runtime(ir::Value *value) {
  if (!value) return poison();
  Val v = of(Kind::Runtime);
  v.v = value;
  return v;
}
Val Val::tuple(std::vector<Val> elems) {
  Val v = of(Kind::Tuple);
  v.elems = std::move(elems);
  return v;
}
Val Val::list(std::vector<Val> elems) {
  Val v = of(Kind::List);
  v.elems = std::move(elems);
  return v;
}
Val Val::layout(std::string text) {
  Val v = of(Kind::Layout);
  v.s = std::move(text);
  return v;
}

Val Val::storage(int64_t number) {
  Val v = of(Kind::Storage);
  v.i = number;
  return v;
}
Val Val::overlap(std::vector<Val> elems, std::string type, int64_t size) {
  Val v = of(Kind::Overlap);
  v.elems = std::move(elems), v.s = std::move(type), v.i = size;
  return v;
}

bool Val::isArithmetic() const {
  if (isNumber()) return true;
  if (!isRuntime()) return false;
  ir::Type::Kind k = v->type.kind();
  return (k == ir::Type::Kind::Scalar || k == ir::Type::Kind::Tile) && v->type.element().isScalar();
}
ir::Scalar Val::scalar() const {
  if (isInt()) return type.value_or(ir::Scalar::I32);
  if (isFloat()) return type.value_or(ir::Scalar::F32);
  if (isBool()) return ir::Scalar::I1;
  return v->type.element().scalar();
}
llvm::ArrayRef<int64_t> Val::shape() const {
  return isTile() ? v->type.shape() : llvm::ArrayRef<int64_t>();
}

std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::string plural(uint64_t n, llvm::StringRef noun) {
  return std::to_string(n) + " " + noun.str() + (n == 1 ? "" : "s");
}

std::string Elaborator::describe(const Val &v) {
  using K = Val::Kind;
  switch (v.kind) {
  case K::Poison:
    return "an error";
  case K::Unit:
    return "nothing";
  case K::Int:
    return v.type ? ir::scalarName(*v.type).str() : "an integer literal";
  case K::Float:
    return v.type ? ir::scalarName(*v.type).str() : "a float literal";
  case K::Bool:
    return "i1";
  case K::DType:
    return "a data type";
  case K::Fn:
    return "a function";
  case K::String:
    return "a string";
  case K::List:
    return "a list";
  case K::Tuple:
    return "a tuple of " + std::to_string(v.elems.size());
  case K::Layout:
    return "a layout";
  case K::Storage:
    return "a storage";
  case K::Overlap:
    return "a group of buffers";
  case K::Runtime:
    return v.v->type.str();
  }
  return "";
}

//===-- messages --------------------------------------------------------------------------------------------------===//

Val Elaborator::report(Diag id, Loc loc, std::string message) {
  lastWasNew = false;
  if (aborted) return Val::poison();
  // A function that is called twice, or a loop that is unrolled, repeats its mistakes: say each once.
  if (!reported.insert({uint16_t(id), loc.file, loc.line, loc.col, message}).second) return Val::poison();
  Diagnostic &d = diags.report(id, loc);
  d.message = std::move(message);
  for (size_t i = frames.size(); i-- > 0;)
    if (frames[i]->fn && frames[i]->callLoc.known())
      d.notes.push_back({frames[i]->callLoc, "in a call of '" + frames[i]->fn->name.text + "' from here"});
  lastWasNew = true;
  return Val::poison();
}

Val Elaborator::notNumber(Loc loc, llvm::StringRef what, const Val &v) {
  return error(v.isDesc() ? Diag::ElDescUse : Diag::ElNotNumber, loc, what, describe(v));
}

void Elaborator::note(Loc loc, std::string message) {
  if (!lastWasNew || !loc.known()) return;
  auto &notes = const_cast<Diagnostic &>(diags.all().back()).notes;
  notes.insert(notes.begin(), {loc, std::move(message)});
}

bool Elaborator::step(Loc loc) {
  if (aborted) return false;
  if (++steps > options.limits.steps) {
    error(Diag::ElSteps, loc, options.limits.steps);
    aborted = true;
  } else if (operations > options.limits.operations) {
    error(Diag::ElOperations, loc, options.limits.operations);
    aborted = true;
  } else if (depth > options.limits.nesting) {
    error(Diag::ElNesting, loc, options.limits.nesting);
    aborted = true;
  }
  return !aborted;
}

//===-- names -----------------------------------------------------------------------------------------------------===//

Binding *Elaborator::findLocal(llvm::StringRef name) {
  if (frames.empty()) return nullptr;
  auto &scopes = frame().scopes;
  for (size_t i = scopes.size(); i-- > 0;) {
    auto it = scopes[i].find(name);
    if (it != scopes[i].end()) return &it->second;
  }
  return nullptr;
}

bool Elaborator::define(const Name &name, Binding binding) {
  if (name.isDiscard()) return true;
  if (ir::scalarByName(name.text)) {
    error(Diag::ElDefineDtype, name.loc, name.text);
    return false;
  }
  if (Binding *old = findLocal(name.text)) {
    bool sameScope = frame().scopes.back().count(name.text);
    error(sameScope ? Diag::ElRedefined : Diag::ElShadows, name.loc, name.text);
    note(old->loc, "'" + name.text + "' is defined here");
    return false;
  }
  binding.loc = name.loc;
  frame().scopes.back()[name.text] = std::move(binding);
  return true;
}

Val Elaborator::readCell(int cell) {
  const Cell &c = cells[cell];
  return c.poison || !c.value ? Val::poison() : Val::runtime(c.value);
}

Val Elaborator::lookup(llvm::StringRef name, Loc loc) {
  if (Binding *b = findLocal(name)) {
    if (b->cell < 0) return b->val;
    Cell &cell = cells[b->cell];
    if (cell.taskCopy) return error(Diag::ElTaskVar, loc, name);
    if (!cell.assigned && !cell.read) cell.read = {loc, name};
    return readCell(b->cell);
  }
  if (auto s = ir::scalarByName(name)) return Val::data(*s);
  if (!frames.empty() && frame().file)
    if (auto v = lookupFile(*frame().file, name, loc)) return *v;
  if (const Builtin *op = findBuiltin(name)) return Val::function({nullptr, nullptr, op});
  if (const char *instead = futureOperation(name)) return error(Diag::ElFuture, loc, name, instead);
  // What the parser could not read may have defined it.
  if (!frames.empty() && frame().file && frame().file->hasSyntaxErrors) return Val::poison();
  std::string_view dtype = dtypeSuggestion({name.data(), name.size()});
  if (!dtype.empty()) return error(Diag::ElUnknownName, loc, name, "; write '" + std::string(dtype) + "'");
  std::string near = nearestName(name);
  return error(Diag::ElUnknownName, loc, name, near.empty() ? "" : "; did you mean '" + near + "'?");
}

std::optional<Val> Elaborator::lookupFile(FileScope &file, llvm::StringRef name, Loc loc) {
  auto own = [&](FileScope &f) -> std::optional<Val> {
    if (auto it = f.fns.find(name); it != f.fns.end()) return Val::function({it->second, &f, nullptr});
    if (auto it = f.consts.find(name); it != f.consts.end()) return constValue(f, it->second);
    return std::nullopt;
  };
  if (auto v = own(file)) return v;
  FileScope *found = nullptr;
  for (FileScope *f : file.imports) {
    if (!f->fns.count(name) && !f->consts.count(name)) continue;
    if (found && found != f) return error(Diag::ElAmbiguous, loc, name, found->path, f->path);
    found = f;
  }
  return found ? own(*found) : std::nullopt;
}

Val Elaborator::constValue(FileScope &file, FileScope::ConstState &state) {
  using S = FileScope::ConstState;
  if (state.state == S::Done) return state.val;
  if (state.state == S::Busy) return error(Diag::ElConstCycle, state.node->name.loc, state.node->name.text);
  if (state.node->incomplete) return Val::poison();
  state.state = S::Busy;
  // A frame of its own: the constant sees the file and nothing of the place that reads it.
  auto saved = std::move(frames);
  frames.clear();
  frames.push_back(std::make_unique<Frame>());
  frame().file = &file;
  frame().scopes.emplace_back();
  Val v = value(*state.node->value);
  frames = std::move(saved);
  if (v.isRuntime()) v = error(Diag::ElConstRuntime, state.node->value->loc, state.node->name.text);
  if (v.isLiteral()) {
    ir::Scalar type = v.scalar();
    if (!fits(v, type, state.node->value->loc)) v = Val::poison();
    v.type = type;
  }
  state.state = S::Done;
  return state.val = v;
}

std::string Elaborator::nearestName(llvm::StringRef name) {
  std::string best;
  if (name.size() < 3) return best;
  unsigned limit = name.size() == 3 ? 1 : 2, bestDistance = limit + 1;
  auto offer = [&](llvm::StringRef candidate) {
    unsigned d = name.edit_distance(candidate, true, limit);
    if (d < bestDistance) bestDistance = d, best = candidate.str();
  };
  if (!frames.empty()) {
    for (auto &scope : frame().scopes)
      for (auto &entry : scope) offer(entry.first());
    if (FileScope *f = frame().file) {
      for (auto &entry : f->fns) offer(entry.first());
      for (auto &entry : f->consts) offer(entry.first());
      for (FileScope *i : f->imports) {
        for (auto &entry : i->fns) offer(entry.first());
        for (auto &entry : i->consts) offer(entry.first());
      }
    }
  }
  for (const std::string &op : operationNames()) offer(op);
  return best;
}

//===-- types -----------------------------------------------------------------------------------------------------===//

std::optional<ir::Scalar> Elaborator::resolveScalar(const TypeExpr &type) {
  if (type.kind != TypeExpr::Named) {
    error(Diag::ElElementType, type.loc);
    return std::nullopt;
  }
  if (auto s = ir::scalarByName(type.name)) return s;
  if (Binding *b = findLocal(type.name)) {
    if (b->val.is(Val::Kind::DType)) return b->val.dtype;
    if (b->cell < 0 && b->val.isPoison()) return std::nullopt;
    error(Diag::ElNotType, type.loc, type.name);
    return std::nullopt;
  }
  if (frame().file)
    if (auto v = lookupFile(*frame().file, type.name, type.loc)) {
      if (v->is(Val::Kind::DType)) return v->dtype;
      if (!v->isPoison()) error(Diag::ElNotType, type.loc, type.name);
      return std::nullopt;
    }
  std::string_view dtype = dtypeSuggestion(type.name);
  error(Diag::ElUnknownType, type.loc, type.name, dtype.empty() ? "" : "; write '" + std::string(dtype) + "'");
  return std::nullopt;
}

std::optional<llvm::SmallVector<int64_t, 4>> Elaborator::resolveShape(llvm::ArrayRef<Val> extents,
                                                                      llvm::ArrayRef<Loc> locs, Loc whole) {
  llvm::SmallVector<int64_t, 4> shape;
  int64_t elements = 1;
  bool ok = true;
  if (extents.empty()) return error(Diag::ElEmptyShape, whole), std::nullopt;
  if (extents.size() > 8) return error(Diag::ElRank, whole, extents.size()), std::nullopt;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Val &v = extents[i];
    if (v.isPoison()) {
      ok = false;
      continue;
    }
    if (!v.isInt()) {
      error(v.isRuntime() ? Diag::ElShapeRuntime : Diag::ElShapeInt, locs[i], describe(v));
      ok = false;
      continue;
    }
    if (!layout::splitExtent(v.i)) {
      error(Diag::ElExtent, locs[i], v.i);
      ok = false;
      continue;
    }
    elements = v.i > options.limits.tileElements ? options.limits.tileElements + 1
                                                 : std::min(elements * v.i, options.limits.tileElements + 1);
    shape.push_back(v.i);
  }
  if (!ok) return std::nullopt;
  if (elements > options.limits.tileElements) {
    error(Diag::ElTileSize, whole, shapeText(shape), options.limits.tileElements);
    return std::nullopt;
  }
  return shape;
}

std::optional<llvm::SmallVector<int64_t, 4>> Elaborator::shapeOf(const Val &v, Loc loc) {
  if (v.is(Val::Kind::List)) {
    std::vector<Loc> locs;
    for (const Val &e : v.elems) locs.push_back(e.loc);
    return resolveShape(v.elems, locs, loc);
  }
  if (v.isInt()) return resolveShape(v, loc, loc);
  if (v.isPoison()) return std::nullopt;
  error(Diag::ElShapeList, loc, describe(v));
  return std::nullopt;
}

ir::Type Elaborator::resolveType(const TypeExpr &type) {
  if (type.kind == TypeExpr::Named) {
    auto s = resolveScalar(type);
    return s ? context.scalar(*s) : ir::Type();
  }
  if (type.kind == TypeExpr::Pointer) {
    auto s = resolveScalar(*type.element);
    return s ? context.pointer(*s) : ir::Type();
  }
  ir::Type element;
  if (type.kind == TypeExpr::Tile && type.element->kind == TypeExpr::Pointer) {
    element = resolveType(*type.element);
  } else if (auto s = resolveScalar(*type.element)) {
    element = context.scalar(*s);
  }
  std::vector<Val> extents;
  std::vector<Loc> locs;
  for (const ExprPtr &e : type.shape) {
    extents.push_back(value(*e));
    locs.push_back(e->loc);
  }
  auto shape = resolveShape(extents, locs, type.loc);
  if (!element || !shape) return {};
  if (type.kind == TypeExpr::Tile) return context.tile(element, *shape);
  if (shape->size() > 5) {
    error(Diag::ElDescRank, type.loc, shape->size());
    return {};
  }
  return context.tensorDesc(element.scalar(), *shape);
}

} // namespace tlx::lang
