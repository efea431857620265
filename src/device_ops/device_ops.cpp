// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signatures are "result(argument,…)" with i1 i8 i16 i32 i64 f16 bf16 f32 f64, vN + one of these for vectors, p and pN for
// pointers of address space 0 and N, void, and T for the suffix of a family.
#include "device_ops/device_ops.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace llvm;

namespace tlx::device_ops {

namespace {
const DeviceOp kTable[] = {
#define DEVICE_OP(NAME, SIGNATURE, EFFECT, DOC) {NAME, SIGNATURE, Effect::EFFECT, Vendor::Common, DOC},
#include "device_ops/common.def"
#undef DEVICE_OP
#define DEVICE_OP(NAME, SIGNATURE, EFFECT, DOC) {NAME, SIGNATURE, Effect::EFFECT, Vendor::Nvidia, DOC},
#include "device_ops/nvidia.def"
#undef DEVICE_OP
#define DEVICE_OP(NAME, SIGNATURE, EFFECT, DOC) {NAME, SIGNATURE, Effect::EFFECT, Vendor::Amd, DOC},
#include "device_ops/amd.def"
#undef DEVICE_OP
};

const StringMap<const DeviceOp *> &index() {
  static const StringMap<const DeviceOp *> map = [] {
    StringMap<const DeviceOp *> m;
    for (const DeviceOp &op : kTable) m[op.name] = &op;
    return m;
  }();
  return map;
}

FunctionType *parseSignature(LLVMContext &context, StringRef text, StringRef suffix) {
  auto typeOf = [&](StringRef name) { return typeByName(context, name == "T" ? suffix : name); };
  auto [result, rest] = text.split('(');
  SmallVector<StringRef, 8> parts;
  rest.drop_back().split(parts, ',', -1, false);
  SmallVector<Type *, 8> arguments;
  for (StringRef part : parts) arguments.push_back(typeOf(part));
  return FunctionType::get(typeOf(result), arguments, false);
}

void addAttributes(Function &f, Effect effect) {
  f.setDoesNotThrow();
  f.addFnAttr(Attribute::NoCallback);
  if (effect == Effect::Pure || effect == Effect::Collective) {
    f.setDoesNotAccessMemory();
    f.addFnAttr(Attribute::WillReturn);
  }
  if (effect == Effect::Pure) f.addFnAttr(Attribute::Speculatable);
  if (effect == Effect::Memory) f.addFnAttr(Attribute::WillReturn);
  if (effect == Effect::Collective || effect == Effect::Sync) f.setConvergent();
}
} // namespace

ArrayRef<DeviceOp> allDeviceOps() {
  return kTable;
}

const DeviceOp *findDeviceOp(StringRef name) {
  if (auto it = index().find(name); it != index().end()) return it->second;
  auto it = index().find((name.rsplit('.').first + ".*").str());
  return it == index().end() ? nullptr : it->second;
}

FunctionCallee getDeviceOp(Module &module, StringRef name) {
  if (Function *f = module.getFunction(name)) return f;
  const DeviceOp *op = findDeviceOp(name);
  assert(op && "a device operation without a row in the tables");
  StringRef suffix = StringRef(op->name).ends_with(".*") ? name.rsplit('.').second : StringRef();
  FunctionType *type = parseSignature(module.getContext(), op->signature, suffix);
  Function *f = Function::Create(type, GlobalValue::ExternalLinkage, name, module);
  addAttributes(*f, op->effect);
  return f;
}

Type *typeByName(LLVMContext &context, StringRef name) {
  if (name.consume_front("v") && name != "oid") {
    unsigned count = 0;
    if (name.consumeInteger(10, count) || count == 0) return nullptr;
    Type *element = typeByName(context, name);
    return element ? FixedVectorType::get(element, count) : nullptr;
  }
  if (name == "oid") return Type::getVoidTy(context);
  if (name.consume_front("p")) {
    unsigned space = 0;
    if (!name.empty() && name.getAsInteger(10, space)) return nullptr;
    return PointerType::get(context, space);
  }
  return StringSwitch<Type *>(name)
      .Case("i1", Type::getInt1Ty(context))
      .Case("i8", Type::getInt8Ty(context))
      .Case("i16", Type::getInt16Ty(context))
      .Case("i32", Type::getInt32Ty(context))
      .Case("i64", Type::getInt64Ty(context))
      .Case("f16", Type::getHalfTy(context))
      .Case("bf16", Type::getBFloatTy(context))
      .Case("f32", Type::getFloatTy(context))
      .Case("f64", Type::getDoubleTy(context))
      .Default(nullptr);
}

std::string nameOfType(Type *type) {
  if (auto *v = dyn_cast<FixedVectorType>(type))
    return "v" + std::to_string(v->getNumElements()) + nameOfType(v->getElementType());
  if (type->isIntegerTy()) return "i" + std::to_string(type->getIntegerBitWidth());
  if (type->isHalfTy()) return "f16";
  if (type->isBFloatTy()) return "bf16";
  if (type->isFloatTy()) return "f32";
  if (type->isDoubleTy()) return "f64";
  if (type->isVoidTy()) return "void";
  if (auto *p = dyn_cast<PointerType>(type))
    return p->getAddressSpace() ? "p" + std::to_string(p->getAddressSpace()) : "p";
  return "?";
}

} // namespace tlx::device_ops
