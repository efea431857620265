// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// device_print: scalars by thread 0 of the CTA, a tile an element a line, with its index, by the first thread that
// holds it.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
/// The length modifier and conversion of C's varargs for a type; keeps flags, width and precision, and a conversion of
/// the right kind.
std::string conversion(char wanted, ir::Type type) {
  if (type.isPointer()) return "p";
  const ir::Scalar s = type.scalar();
  if (ir::isFloat(s)) return std::string(1, StringRef("eEfFgGaA").contains(wanted) ? wanted : 'g');
  char c = StringRef("xXo").contains(wanted) ? wanted : ir::isSignedInt(s) ? 'd' : 'u';
  return (ir::scalarBits(s) == 64 ? "ll" : "") + std::string(1, c);
}

std::string formatFor(StringRef text, ArrayRef<ir::Type> types) {
  std::string result;
  unsigned next = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] != '%') continue;
    if (i + 1 < text.size() && text[i + 1] == '%') {
      result += text[++i];
      continue;
    }
    while (i + 1 < text.size() && StringRef("-+ #0123456789.").contains(text[i + 1])) result += text[++i];
    while (i + 1 < text.size() && StringRef("hlLqjzt").contains(text[i + 1])) ++i;
    char wanted = i + 1 < text.size() ? text[++i] : 'd';
    result += next < types.size() ? conversion(wanted, types[next++]) : std::string("%");
  }
  for (; next < types.size(); ++next)
    result += (result.empty() ? "%" : " %") + conversion('g', types[next]); // values without a hole
  if (!StringRef(result).ends_with("\n")) result += '\n';
  return result;
}
} // namespace

void Generator::printLine(StringRef format, ArrayRef<std::pair<Value *, ir::Type>> arguments) {
  SmallVector<llvm::Type *, 8> fields;
  RegList promoted;
  for (auto [v, type] : arguments) {
    if (type.isScalar()) {
      const ir::Scalar s = type.scalar();
      if (ir::isFloat(s))
        v = castScalar(v, s, ir::Scalar::F64);
      else if (ir::scalarBits(s) < 32)
        v = b.CreateIntCast(v, b.getInt32Ty(), ir::isSignedInt(s));
    }
    promoted.push_back(v);
    fields.push_back(v->getType()->isPointerTy() ? b.getInt64Ty() : v->getType());
  }
  Value *text = b.CreateGlobalString(format);
  if (fields.empty()) {
    device("tlx.print", {text, ConstantPointerNull::get(b.getPtrTy()), b.getInt32(0)});
    return;
  }
  uint32_t bytes = 0;
  SmallVector<uint32_t, 8> offsets;
  for (llvm::Type *t : fields) {
    const uint32_t size = t->getPrimitiveSizeInBits() / 8;
    offsets.push_back(uint32_t(alignTo(bytes, size)));
    bytes = offsets.back() + size;
  }
  Value *memory = atEntry([&]() -> Value * {
    AllocaInst *a = b.CreateAlloca(ArrayType::get(b.getInt8Ty(), bytes));
    a->setAlignment(Align(8));
    return a;
  });
  for (unsigned i = 0; i < promoted.size(); ++i) {
    Value *v = promoted[i]->getType()->isPointerTy() ? b.CreatePtrToInt(promoted[i], b.getInt64Ty()) : promoted[i];
    b.CreateAlignedStore(v, b.CreateConstGEP1_32(b.getInt8Ty(), memory, offsets[i]),
                         Align(fields[i]->getPrimitiveSizeInBits() / 8));
  }
  device("tlx.print", {text, memory, b.getInt32(bytes)});
}

void Generator::emitPrint(const ir::Op &op) {
  StringRef text = op.strAttr(ir::Attr::format);
  const layout::TileLayout *layout = nullptr;
  SmallVector<ir::Type, 8> types;
  for (const ir::Value *v : op.operands())
    if (v->type.isTile()) {
      if (layout && !(*v->type.layout() == *layout)) return fail(op, "tiles of one print differ in layout");
      layout = v->type.layout();
    }
  ir::Type i32 = module.context.scalar(ir::Scalar::I32);
  if (layout) types.append(layout->rank(), i32);
  for (const ir::Value *v : op.operands()) types.push_back(v->type.element());
  std::string index;
  for (unsigned d = 0; layout && d < layout->rank(); ++d) index += d ? ", %d" : "[%d";
  if (layout) index += "] ";
  const std::string format = formatFor(index + text.str(), types);
  emitIf(isFirstHolder(layout), [&] {
    for (unsigned r = 0; r < (layout ? layout->registers() : 1); ++r) {
      if (layout && canonicalRegisters(*layout)[r] != r) continue;
      SmallVector<std::pair<Value *, ir::Type>, 8> arguments;
      for (unsigned d = 0; layout && d < layout->rank(); ++d) arguments.push_back({coordinate(*layout, r, d), i32});
      for (const ir::Value *v : op.operands()) {
        Regs regs = get(v);
        arguments.push_back({regs.size() == 1 ? regs[0] : regs[r], v->type.element()});
      }
      printLine(format, arguments);
    }
  });
}

// A thread that holds a false element stops the kernel. The text is a format: what it holds of % stands twice.
void Generator::emitAssert(const ir::Op &op) {
  Regs conditions = operand(op, 0);
  Value *good = conditions[0];
  for (Value *c : conditions.drop_front())
    if (c != good) good = b.CreateAnd(good, c);
  std::string text;
  if (op.loc.known())
    text = std::string(sources.name(op.loc.file)) + ":" + std::to_string(op.loc.line) + ":" +
           std::to_string(op.loc.col) + ": ";
  text += "assertion failed";
  if (!op.strAttr(ir::Attr::message).empty()) text += ": " + op.strAttr(ir::Attr::message).str();
  for (size_t at = 0; (at = text.find('%', at)) != std::string::npos; at += 2) text.insert(at, "%");
  emitIf(b.CreateNot(good), [&] { device("tlx.assert.fail", {b.CreateGlobalString(text + "\n")}); });
}

} // namespace tlx::codegen
