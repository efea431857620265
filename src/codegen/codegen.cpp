// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel function, its arguments and debug info, and the dispatch of operations.
#include "codegen/codegen_p.h"
#include "device_ops/device_ops.h"
#include "llvm/BinaryFormat/Dwarf.h"

using namespace llvm;

namespace tlx::codegen {

std::unique_ptr<llvm::Module> generate(LLVMContext &context, const ir::Module &module, const features::Target &target,
                                       const SourceManager &sources, const Options &options, KernelMetadata &metadata,
                                       Diagnostics &diagnostics) {
  return Generator(context, module, target, sources, options, metadata, diagnostics).run();
}

Generator::Generator(LLVMContext &context, const ir::Module &module, const features::Target &target,
                     const SourceManager &sources, const Options &options, KernelMetadata &metadata,
                     Diagnostics &diagnostics)
    : context(context), module(module), target(target), sources(sources), options(options), metadata(metadata),
      diagnostics(diagnostics), b(context) {}

std::unique_ptr<llvm::Module> Generator::run() {
  const unsigned errors = diagnostics.errorCount();
  out = std::make_unique<llvm::Module>(module.kernel.name, context);
  if (!makeKernel()) return nullptr;
  findAccumulators();
  emitBlock(module.kernel.body);
  if (!b.GetInsertBlock()->getTerminator()) b.CreateRetVoid();
  emitWorkers();
  describeForReports();
  metadata.sharedBytes = module.kernel.sharedBytes;
  function->addFnAttr("tlx.shared-bytes", std::to_string(metadata.sharedBytes));
  if (debug) debug->finalize();
  return diagnostics.errorCount() == errors ? std::move(out) : nullptr;
}

// --- kernel
// -------------------------------------------------------------------------------------------------------------------------

static std::string symbolOf(StringRef name) {
  std::string symbol = name.str();
  for (char &c : symbol)
    if (!isAlnum(c) && c != '_') c = '_';
  // A leading digit is no PTX identifier, and tlx. is the prefix of device operations.
  if (symbol.empty() || isDigit(symbol[0])) symbol.insert(0, "k_");
  return symbol;
}

constexpr uint32_t kTensorMapBytes = 128, kTensorMapAlign = 64;

bool Generator::makeKernel() {
  const ir::Kernel &kernel = module.kernel;
  metadata.name = kernel.name;
  metadata.symbol = symbolOf(kernel.name);
  metadata.target = target.name;
  metadata.warpSize = kernel.warpSize;
  metadata.numWarps = ir::launchWarps(kernel);
  metadata.facts = kernel.facts;
  metadata.args.clear();
  metadata.hidden.clear();
  metadata.tasks.clear();
  metadata.shared.clear();
  metadata.waits.clear();

  SmallVector<llvm::Type *, 16> types;
  SmallVector<unsigned, 4> firstParam, mapParams; // of the function, by argument
  uint32_t offset = 0;
  auto place = [&](uint32_t size) {
    offset = alignTo(offset, size);
    uint32_t at = offset;
    offset += size;
    return at;
  };
  for (unsigned i = 0; i < kernel.body.numArgs(); ++i) {
    const ir::Value &arg = *kernel.body.arg(i);
    if (arg.type.kind() == ir::Type::Kind::TensorDesc && target.tma) {
      ArgInfo info{arg.name,        ArgInfo::Kind::TensorDesc, arg.type.str(), place(kTensorMapAlign),
                   kTensorMapBytes, DescriptorInfo()};
      offset = info.offset + kTensorMapBytes;
      if (!describe(arg, *info.descriptor)) return false;
      mapParams.push_back(types.size());
      types.push_back(b.getPtrTy());
      if (!arg.unused()) tensorMaps.push_back(&arg);
      if (llvm::any_of(arg.uses(), [](const ir::Use &u) { return u.op->is(ir::Opcode::EdgeStore); })) {
        const unsigned rank = arg.type.rank();
        info.descriptor->pointerOffset = place(8);
        types.push_back(b.getPtrTy(1));
        for (unsigned d = 0; d + 1 < rank; ++d)
          info.descriptor->strideOffsets.push_back(place(8)), types.push_back(b.getInt64Ty());
        for (unsigned d = 0; d < rank; ++d)
          info.descriptor->shapeOffsets.push_back(place(4)), types.push_back(b.getInt32Ty());
        info.size = offset - info.offset;
      }
      firstParam.push_back(mapParams.back());
      metadata.args.push_back(std::move(info));
      continue;
    }
    if (!arg.type.isScalar() && !arg.type.isPointer()) {
      diagnostics.report(Diag::CgArgument, kernel.loc, arg.name, arg.type.str());
      return false;
    }
    firstParam.push_back(types.size());
    types.push_back(memoryType(arg.type));
    ArgInfo info;
    info.name = arg.name;
    info.kind = arg.type.isPointer() ? ArgInfo::Kind::Pointer : ArgInfo::Kind::Scalar;
    info.type = arg.type.str();
    info.size = arg.type.isPointer() ? 8 : ir::scalarBytes(arg.type.scalar());
    info.offset = place(info.size);
    metadata.args.push_back(std::move(info));
  }
  std::array<bool, 3> axes{};
  if (target.scalarGridArgs)
    const_cast<ir::Block &>(kernel.body).walk([&](ir::Op &op) {
      if (op.is(ir::Opcode::NumPrograms)) axes[op.intAttr(ir::Attr::axis)] = true;
    });
  for (unsigned axis = 0; axis < 3; ++axis)
    if (axes[axis]) {
      types.push_back(b.getInt32Ty());
      metadata.hidden.push_back({HiddenArg::Kind(axis), place(4), 4});
    }
  bool waits = false;
  const_cast<ir::Block &>(kernel.body).walk([&](ir::Op &op) { waits |= op.is(ir::Opcode::BarrierWait); });
  if (waits && options.debugTimeout) {
    types.push_back(b.getPtrTy(1));
    metadata.hidden.push_back({HiddenArg::Kind::WaitRecord, place(8), 8});
    metadata.debugTimeout = options.debugTimeout;
  }
  metadata.paramBytes = offset;
  if (!kernel.descriptors.empty()) foldDescriptors(kernel, metadata);

  function = Function::Create(FunctionType::get(b.getVoidTy(), types, false), GlobalValue::ExternalLinkage,
                              metadata.symbol, *out);
  for (unsigned i : mapParams) {
    function->addParamAttr(i, Attribute::getWithByValType(context, ArrayType::get(b.getInt8Ty(), kTensorMapBytes)));
    function->addParamAttr(i, Attribute::getWithAlignment(context, Align(kTensorMapAlign)));
  }
  function->addFnAttr("tlx.kernel");
  function->addFnAttr("tlx.threads", std::to_string(metadata.numWarps * metadata.warpSize));
  function->setDoesNotThrow();
  if (options.lineInfo) makeDebugInfo();

  BasicBlock *entry = BasicBlock::Create(context, "entry", function), *body = newBlock("body");
  const_cast<ir::Block &>(kernel.body).walk([&](ir::Op &op) {
    if (op.is(ir::Opcode::AsyncTasks)) taskRegions.push_back(&op);
    if (!op.is(ir::Opcode::NamedBarrier)) return;
    if (!op.hasAttr(ir::Attr::ids)) usedBarriers |= 1u << op.intAttr(ir::Attr::id);
    for (int64_t id : op.listAttr(ir::Attr::ids)) usedBarriers |= 1u << id;
  });
  scope.warps = kernel.numWarps;
  scope.prologue = taskRegions.empty() ? entry : newBlock("own");
  b.SetInsertPoint(entry);
  b.SetCurrentDebugLocation(debugLoc(kernel.loc));
  for (unsigned i = 0; i < kernel.body.numArgs(); ++i) {
    const ir::Value *arg = kernel.body.arg(i);
    Argument *a = function->getArg(firstParam[i]);
    a->setName(arg->name);
    const unsigned next =
        i + 1 < firstParam.size() ? firstParam[i + 1] : unsigned(types.size() - metadata.hidden.size());
    for (unsigned k = firstParam[i] + 1; k < next; ++k) descriptorFields[arg].push_back(function->getArg(k));
    set(arg, arg->type.isScalar() && arg->type.scalar() == ir::Scalar::I1 ? b.CreateICmpNE(a, b.getInt8(0)) : a);
  }
  unsigned hidden = unsigned(types.size() - metadata.hidden.size());
  for (unsigned axis = 0; axis < 3; ++axis)
    if (axes[axis]) gridArgs[axis] = function->getArg(hidden++);
  if (hidden < types.size()) waitRecords = function->getArg(hidden);
  for (const Fact &fact : kernel.facts)
    if (fact.noalias && fact.program.size() == 1 && fact.program[0].op == Fact::Op::Arg)
      function->addParamAttr(firstParam[size_t(fact.program[0].value)], Attribute::NoAlias);
  if (scope.prologue != entry) { // emitWorkers makes it a branch
    b.CreateBr(scope.prologue);
    b.SetInsertPoint(scope.prologue);
    allBarrier = freeBarrier();
  }
  b.CreateBr(body);
  b.SetInsertPoint(body);
  return true;
}

// --- debug info
// -----------------------------------------------------------------------------------------------------------------------

static DIFile *makeFile(DIBuilder &debug, StringRef name) {
  auto [directory, base] = name.rsplit('/');
  return base.empty() ? debug.createFile(name, ".") : debug.createFile(base, directory.empty() ? "/" : directory);
}

void Generator::makeDebugInfo() {
  out->addModuleFlag(llvm::Module::Warning, "Debug Info Version", DEBUG_METADATA_VERSION);
  debug = std::make_unique<DIBuilder>(*out);
  const Loc loc = module.kernel.loc;
  DIFile *file = makeFile(*debug, loc.known() ? StringRef(sources.name(loc.file)) : StringRef("unknown.tlx"));
  DICompileUnit *unit =
      debug->createCompileUnit(dwarf::DW_LANG_C99, file, "tlxjit", true, "", 0, "", DICompileUnit::LineTablesOnly);
  DISubroutineType *type = debug->createSubroutineType(debug->getOrCreateTypeArray({}));
  subprogram = debug->createFunction(unit, module.kernel.name, metadata.symbol, file, loc.line, type, loc.line,
                                     DINode::FlagZero, DISubprogram::SPFlagDefinition | DISubprogram::SPFlagOptimized);
  function->setSubprogram(subprogram);
  fileScopes[{loc.file, 0}] = subprogram;
}

DebugLoc Generator::debugLoc(Loc loc) {
  if (!subprogram) return DebugLoc();
  if (!loc.known()) return DILocation::get(context, 0, 0, subprogram);
  // Code of another file (an imported function, inlined by the elaborator) stands in a scope that names the file. The discriminator says in
  // which async_tasks the code stands; with the warp it names the task (sim/instrument.cpp).
  DIScope *&scope = fileScopes[{loc.file, region}];
  if (!scope)
    scope = debug->createLexicalBlockFile(subprogram, makeFile(*debug, StringRef(sources.name(loc.file))), region);
  return DILocation::get(context, loc.line, loc.col, scope);
}

// --- values
// ---------------------------------------------------------------------------------------------------------------------------

Regs Generator::get(const ir::Value *v) const {
  auto it = values.find(v);
  assert(it != values.end() && "a value is used before it is emitted");
  return it->second;
}

void Generator::set(const ir::Value *v, Regs regs) {
  values[v] = regs.copy(arena);
}

void Generator::fail(const ir::Op &op, StringRef what) {
  diagnostics.report(Diag::Internal, op.loc, ("code generation of '" + Twine(op.info().name) + "': " + what).str());
  poison(op);
}

void Generator::unsupported(const ir::Op &op, ir::Type type) {
  // Once an operation, however many registers it has.
  if (lastUnsupported != &op) diagnostics.report(Diag::CgUnsupported, op.loc, op.info().name, type.str(), target.name);
  lastUnsupported = &op;
  poison(op);
}

void Generator::poison(const ir::Op &op) {
  for (unsigned i = 0; i < op.numResults(); ++i) {
    const ir::Value *v = op.result(i);
    if (values.contains(v)) continue;
    const unsigned n = v->type.isTile() && v->type.layout() ? v->type.layout()->registers() : 1;
    ir::Type element = v->type.element();
    set(v, RegList(n, PoisonValue::get(element.isScalar() || element.isPointer() ? registerType(element)
                                                                                 : b.getInt32Ty())));
  }
}

llvm::Type *Generator::registerType(ir::Type element) {
  if (element.isPointer()) return b.getPtrTy(1);
  switch (element.scalar()) {
  case ir::Scalar::F16:
    return b.getHalfTy();
  case ir::Scalar::BF16:
    return b.getBFloatTy();
  case ir::Scalar::F32:
    return b.getFloatTy();
  case ir::Scalar::F64:
    return b.getDoubleTy();
  default:
    return b.getIntNTy(ir::scalarBits(element.scalar()));
  }
}

llvm::Type *Generator::memoryType(ir::Type element) {
  llvm::Type *type = registerType(element);
  return type->isIntegerTy(1) ? b.getInt8Ty() : type;
}

Value *Generator::device(StringRef name, ArrayRef<Value *> args) {
  return b.CreateCall(device_ops::getDeviceOp(*out, name), args);
}

Value *Generator::intrinsic(Intrinsic::ID id, ArrayRef<Value *> args) {
  return b.CreateIntrinsic(id, {args[0]->getType()}, args);
}

BasicBlock *Generator::newBlock(const char *name) {
  return BasicBlock::Create(context, name, function);
}

void Generator::emitIf(Value *condition, function_ref<void()> emit) {
  if (!condition) return emit();
  if (auto *c = dyn_cast<ConstantInt>(condition)) {
    if (c->isOne()) emit();
    return;
  }
  BasicBlock *then = newBlock("then"), *after = newBlock("after");
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  emit();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

Value *Generator::inPrologue(function_ref<Value *()> emit) {
  IRBuilderBase::InsertPointGuard guard(b);
  b.SetInsertPoint(scope.prologue->getTerminator());
  b.SetCurrentDebugLocation(debugLoc(module.kernel.loc));
  return emit();
}

Value *Generator::atEntry(function_ref<Value *()> emit) {
  IRBuilderBase::InsertPointGuard guard(b);
  b.SetInsertPoint(function->getEntryBlock().getTerminator());
  b.SetCurrentDebugLocation(debugLoc(module.kernel.loc));
  return emit();
}

// --- dispatch
// -------------------------------------------------------------------------------------------------------------------------

void Generator::emitBlock(const ir::Block &block) {
  for (ir::Op &op : block) {
    b.SetCurrentDebugLocation(debugLoc(op.loc));
    emitOp(op);
    leaveCommands(op);
  }
}

void Generator::emitOp(const ir::Op &op) {
  using ir::Opcode;
  switch (op.opcode) {
  case Opcode::Constant:
    return emitConstant(op);
  case Opcode::ProgramId:
    return emitProgramId(op);
  case Opcode::NumPrograms:
    return emitNumPrograms(op);
  case Opcode::Arange:
    return emitArange(op);
  case Opcode::Splat:
    return emitSplat(op);
  case Opcode::ExpandDims:
  case Opcode::Broadcast:
  case Opcode::Reshape:
  case Opcode::Trans:
    return emitShape(op);
  case Opcode::Join:
    return emitJoin(op);
  case Opcode::Split:
    return emitSplit(op);
  case Opcode::ConvertLayout:
    return emitConvertLayout(op);
  case Opcode::RequireLayout:
  case Opcode::MultipleOf:
    return set(op.result(), operand(op, 0));
  case Opcode::Assume:
    return;
  case Opcode::Cast:
    return emitCast(op);
  case Opcode::Load:
    return emitLoad(op);
  case Opcode::Store:
    return emitStore(op);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas:
    return emitAtomic(op);
  case Opcode::LocalAlloc:
    return emitLocalAlloc(op);
  case Opcode::SubView:
    return emitSubView(op);
  case Opcode::LocalLoad:
    return emitLocalLoad(op);
  case Opcode::LocalStore:
    return emitLocalStore(op);
  case Opcode::LocalTrans:
  case Opcode::LocalReshape:
  case Opcode::LocalReinterpret:
    return set(op.result(), operand(op, 0)); // the layout of the type says it all
  case Opcode::StorageView:
    return emitStorageView(op);
  case Opcode::LocalGather:
  case Opcode::LocalScatter:
    return emitIndexed(op);
  case Opcode::LocalSlice:
    return emitLocalSlice(op);
  case Opcode::AsyncCopy:
    return emitAsyncCopy(op);
  case Opcode::AsyncCommit:
  case Opcode::AsyncWait:
    return emitAsync(op);
  case Opcode::Barrier:
    return emitBarrier(&op);
  case Opcode::Single:
    return emitSingle(op);
  case Opcode::AllocBarriers:
    return emitAllocBarriers(op);
  case Opcode::BarrierExpect:
  case Opcode::BarrierArrive:
  case Opcode::BarrierWait:
    return emitBarrierOp(op);
  case Opcode::AsyncDescLoad:
  case Opcode::AsyncDescStore:
    return emitAsyncDesc(op);
  case Opcode::AsyncDescPrefetch:
    return emitPrefetch(op);
  case Opcode::AsyncBulkLoad:
  case Opcode::AsyncBulkStore:
    return emitBulkCopy(op);
  case Opcode::EdgeStore:
    return emitEdgeStore(op);
  case Opcode::AsyncStoreCommit:
  case Opcode::AsyncStoreWait:
    return emitAsyncStore(op);
  case Opcode::AsyncTasks:
    return emitAsyncTasks(op);
  case Opcode::NamedBarrier:
    return emitNamedBarrier(op);
  case Opcode::PerReplica:
    return set(op.result(), perReplica(op.listAttr(ir::Attr::values), registerType(op.result()->type)));
  case Opcode::WarpAny:
    return emitWarpAny(op);
  case Opcode::Fence:
    return emitFence(op);
  case Opcode::FenceProxy:
    device("tlx.nv.fence.proxy.async", {});
    return;
  case Opcode::AsyncDot:
    set(op.result(), accumulatorOf(op.result()));
    return emitAsyncDot(op);
  case Opcode::AsyncDotWait:
    return emitAsyncDotWait(op);
  case Opcode::Uninit:
    return set(op.result(), RegList(op.result()->type.layout()->registers(),
                                    UndefValue::get(registerType(op.result()->type.element()))));
  case Opcode::Dot:
    return emitDot(op);
  case Opcode::Reduce:
    return emitReduce(op);
  case Opcode::Scan:
    return emitScan(op);
  case Opcode::For:
    return emitFor(op);
  case Opcode::While:
    return emitWhile(op);
  case Opcode::If:
    return emitIfOp(op);
  case Opcode::Yield:
  case Opcode::Condition:
    return; // the op that holds the region reads their operands
  case Opcode::Return:
    b.CreateRetVoid();
    return;
  case Opcode::Print:
    return emitPrint(op);
  case Opcode::Assert:
    return emitAssert(op);
  default:
    return emitElementwise(op);
  }
}

} // namespace tlx::codegen
