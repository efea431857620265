// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The other operations, the table of all, and names of operations that later versions will have.
#include "lang/elaborate_p.h"

#include "llvm/ADT/StringSwitch.h"

namespace tlx::lang {

using ir::Scalar;

llvm::ArrayRef<Builtin> miscBuiltins() {
  static const Builtin kTable[] = {
      {"program_id", "axis", &Elaborator::opProgramId},
      {"num_programs", "axis", &Elaborator::opNumPrograms},
      {"static_assert", "condition, message?", &Elaborator::opStaticAssert},
      {"assume", "condition", &Elaborator::opAssume},
      {"multiple_of", "x, n", &Elaborator::opMultipleOf},
      {"device_print", "format, ...", &Elaborator::opDevicePrint},
      {"device_assert", "condition, message?", &Elaborator::opDeviceAssert},
      {"bytes_of", "x", &Elaborator::opBytesOf},
      {"dtype_of", "x", &Elaborator::opDtypeOf},
      {"num_warps", "", &Elaborator::opNumWarps},
      {"warp_size", "", &Elaborator::opWarpSize},
      {"aligned", "pointer, bytes", &Elaborator::opFactOnly},
      {"noalias", "pointer", &Elaborator::opFactOnly},
  };
  return kTable;
}

static const llvm::StringMap<const Builtin *> &allBuiltins() {
  static const llvm::StringMap<const Builtin *> kAll = [] {
    llvm::StringMap<const Builtin *> map;
    for (auto table : {mathBuiltins(), shapeBuiltins(), memoryBuiltins(), reduceBuiltins(), miscBuiltins(),
                       localBuiltins(), asyncBuiltins()})
      for (const Builtin &op : table) map[op.name] = &op;
    return map;
  }();
  return kAll;
}

const Builtin *findBuiltin(llvm::StringRef name) {
  return allBuiltins().lookup(name);
}

std::vector<std::string> operationNames() {
  std::vector<std::string> names;
  for (const auto &entry : allBuiltins()) names.push_back(entry.first().str());
  llvm::sort(names);
  return names;
}

const char *futureOperation(llvm::StringRef name) {
  return llvm::StringSwitch<const char *>(name)
      .Case("async_load_commit_group", "write async_load_commit()")
      .Case("async_load_wait_group", "write async_load_wait(n)")
      .Cases({"make_tensor_descriptor", "dot_scaled"}, "pass descriptors as arguments of the kernel; use dot")
      .Cases({"cluster_cta_rank", "cluster_barrier"}, "leave it out")
      .Default(nullptr);
}

//===-- the grid --------------------------------------------------------------------------------------------------===//

static std::optional<unsigned> gridAxis(Elaborator &e, const CallArgs &a) {
  auto axis = e.constInt(a, 0, "the axis");
  if (!axis) return std::nullopt;
  if (*axis >= 0 && *axis <= 2) return unsigned(*axis);
  e.error(Diag::ElAxis, a.locs[0], *axis, 2);
  return std::nullopt;
}

Val Elaborator::opProgramId(CallArgs &a) {
  auto axis = gridAxis(*this, a);
  ++operations;
  return axis ? Val::runtime(b().programId(*axis)) : Val::poison();
}
Val Elaborator::opNumPrograms(CallArgs &a) {
  auto axis = gridAxis(*this, a);
  ++operations;
  return axis ? Val::runtime(b().numPrograms(*axis)) : Val::poison();
}
Val Elaborator::opNumWarps(CallArgs &) {
  return Val::integer(numWarps(), Scalar::I32);
}
unsigned Elaborator::numWarps() const {
  return task ? unsigned(task->intAttr(ir::Attr::warps)) : module->kernel.numWarps;
}
Val Elaborator::opWarpSize(CallArgs &) {
  return Val::integer(options.warpSize, Scalar::I32);
}

//===-- facts and checks ------------------------------------------------------------------------------------------===//

Val Elaborator::opStaticAssert(CallArgs &a) {
  const Val &c = a.vals[0];
  if (a.has(1) && !a.vals[1].is(Val::Kind::String)) return error(Diag::ElMessage, a.locs[1], describe(a.vals[1]));
  if (!c.isBool())
    return error(c.isRuntime() ? Diag::ElAssertRuntime : Diag::ElNotBool, a.locs[0], "static_assert", describe(c));
  if (!c.i) return error(Diag::ElAssertFailed, a.locs[0], a.has(1) ? ": " + a.vals[1].s : "");
  return Val::unit();
}

Val Elaborator::opAssume(CallArgs &a) {
  const Val &c = a.vals[0];
  if (!c.isArithmetic() || c.scalar() != Scalar::I1 || c.isTile())
    return error(Diag::ElNotBool, a.locs[0], a.name, describe(c));
  if (c.isBool()) return c.i ? Val::unit() : error(Diag::ElAssumeFalse, a.locs[0]);
  ++operations;
  b().assume(c.v);
  return Val::unit();
}

Val Elaborator::opMultipleOf(CallArgs &a) {
  const Val &x = a.vals[0];
  auto n = constInt(a, 1, "the divisor");
  if (!n) return Val::poison();
  if (*n < 1) return error(Diag::ElDivisor, a.locs[1], *n);
  bool ok = x.isPointerLike() || (x.isArithmetic() && ir::isInt(x.scalar()) && x.scalar() != Scalar::I1);
  if (!ok) return error(Diag::ElNeedsInt, a.locs[0], a.name, describe(x));
  if (x.isInt()) return x.i % *n == 0 ? x : error(Diag::ElNotMultiple, a.locs[0], x.i, *n);
  ++operations;
  return Val::runtime(b().multipleOf(x.v, *n));
}

Val Elaborator::opFactOnly(CallArgs &a) {
  return error(Diag::ElFactOnly, a.nameLoc, a.name, a.name == "aligned" ? "; in a body use multiple_of(p, bytes)" : "");
}

Val Elaborator::opDeviceAssert(CallArgs &a) {
  const Val &c = a.vals[0];
  if (a.has(1) && !a.vals[1].is(Val::Kind::String)) return error(Diag::ElMessage, a.locs[1], describe(a.vals[1]));
  if (!c.isArithmetic() || c.scalar() != Scalar::I1) return error(Diag::ElAssertType, a.locs[0], describe(c));
  ir::Value *v =
      materialize(c, a.locs[0]); // a false one that is known stops the kernel all the same: it may not be reached
  if (!v) return Val::poison();
  ++operations;
  b().create(ir::Opcode::Assert, v, {})->setAttr(ir::Attr::message, a.has(1) ? a.vals[1].s : std::string());
  return Val::unit();
}

//===-- questions about values ------------------------------------------------------------------------------------===//

Val Elaborator::opBytesOf(CallArgs &a) {
  const Val &x = a.vals[0];
  if (x.is(Val::Kind::DType)) return Val::integer(ir::scalarBytes(x.dtype), Scalar::I32);
  if (x.isNumber()) return Val::integer(ir::scalarBytes(x.scalar()), Scalar::I32);
  if (!x.isRuntime()) return error(Diag::ElBytesOf, a.locs[0], describe(x));
  ir::Type t = x.v->type;
  if (t.isPointerLike()) return Val::integer(8 * (t.isTile() ? t.elements() : 1), Scalar::I32);
  int64_t elements = 1;
  for (int64_t e : t.shape()) elements *= e;
  return Val::integer(elements * ir::scalarBytes(t.isTile() ? t.element().scalar() : t.scalar()), Scalar::I32);
}

Val Elaborator::opDtypeOf(CallArgs &a) {
  const Val &x = a.vals[0];
  if (x.isNumber()) return Val::data(x.scalar());
  if (!x.isRuntime()) return error(Diag::ElBytesOf, a.locs[0], describe(x));
  return Val::data(x.v->type.isTile() ? x.v->type.element().scalar() : x.v->type.scalar());
}

//===-- device_print ----------------------------------------------------------------------------------------------===//

Val Elaborator::opDevicePrint(CallArgs &a) {
  if (!a.vals[0].is(Val::Kind::String)) return error(Diag::ElFormat, a.locs[0], describe(a.vals[0]));
  llvm::StringRef format = a.vals[0].s;
  std::vector<char> holes;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') continue;
    if (++i < format.size() && format[i] == '%') continue;
    while (i < format.size() && llvm::StringRef("0123456789.-+ #").contains(format[i])) ++i;
    char c = i < format.size() ? format[i] : 0;
    if (!c || !llvm::StringRef("dixufegp").contains(c))
      return error(Diag::ElFormatHole, a.locs[0], c ? "'%" + std::string(1, c) + "'" : "'%' at the end");
    holes.push_back(c);
  }
  if (holes.size() != a.rest.size())
    return error(Diag::ElFormatCount, a.locs[0], plural(holes.size(), "hole"), plural(a.rest.size(), "value"));
  llvm::SmallVector<ir::Value *, 4> values;
  for (size_t i = 0; i < holes.size(); ++i) {
    const ArgVal &arg = a.rest[i];
    bool isPointer = arg.val.isPointerLike();
    if (!isPointer && !arg.val.isArithmetic()) return error(Diag::ElNotNumber, arg.loc, a.name, describe(arg.val));
    bool isFloat = !isPointer && ir::isFloat(arg.val.scalar());
    bool fits = isPointer ? holes[i] == 'p' : llvm::StringRef(isFloat ? "feg" : "dixu").contains(holes[i]);
    if (!fits)
      return error(Diag::ElFormatType, arg.loc, std::string(1, holes[i]), describe(arg.val),
                   isPointer ? "%p"
                   : isFloat ? "%f"
                             : "%d");
    ir::Value *v = materialize(arg.val, arg.loc);
    if (!v) return Val::poison();
    values.push_back(v);
  }
  ++operations;
  b().print(format, values);
  return Val::unit();
}

} // namespace tlx::lang
