// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The elaborator's state and its parts. Private to src/lang.
#pragma once
#include <map>
#include <set>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include "ir/builder.h"
#include "lang/ast.h"
#include "lang/elaborate.h"
#include "lang/elaborate_promotion.h"

namespace tlx::lang {

struct FileScope;
struct Builtin;
class Elaborator;

/// A function as a value: written by the user, or an operation.
struct FnRef {
  const ast::Fn *fn = nullptr;
  FileScope *file = nullptr;
  const Builtin *builtin = nullptr;
  std::string name() const;
  bool operator==(const FnRef &) const = default;
};

/// What an expression is: a compile-time value, or a value of the IR.
struct Val {
  enum class Kind : uint8_t {
    Poison, ///< an error was reported; whatever uses it says nothing
    Unit,   ///< of a call that returns nothing
    Int,
    Float,
    Bool,
    DType,
    Fn,
    String,
    List,
    Tuple,
    Layout,  ///< a layout literal: its text
    Storage, ///< number i of Elaborator::storages
    Overlap, ///< buffers and groups of them (elems), how they share bytes (s), and how many slots are one (i)
    Runtime
  } kind = Kind::Poison;
  /// Int and Float: the type; nullopt for a literal, which adapts to its partner.
  std::optional<ir::Scalar> type;
  int64_t i = 0; // Int, Bool
  double f = 0;  // Float
  ir::Scalar dtype{};
  std::string s; // String, Layout
  FnRef fn;
  std::vector<Val> elems; // List, Tuple
  Loc loc;                // of an element of a List: where it is written
  ir::Value *v = nullptr;

  static Val poison() { return {}; }
  static Val unit() { return of(Kind::Unit); }
  static Val integer(int64_t i, std::optional<ir::Scalar> type = std::nullopt);
  static Val floating(double f, std::optional<ir::Scalar> type = std::nullopt);
  static Val boolean(bool b);
  static Val data(ir::Scalar s);
  static Val string(std::string s);
  static Val function(FnRef fn);
  static Val runtime(ir::Value *v);
  static Val tuple(std::vector<Val> elems);
  static Val list(std::vector<Val> elems);
  static Val layout(std::string text);
  static Val storage(int64_t number);
  static Val overlap(std::vector<Val> elems, std::string type, int64_t size);

  bool is(Kind k) const { return kind == k; }
  bool isPoison() const { return kind == Kind::Poison; }
  bool isInt() const { return kind == Kind::Int; }
  bool isFloat() const { return kind == Kind::Float; }
  bool isBool() const { return kind == Kind::Bool; }
  bool isRuntime() const { return kind == Kind::Runtime; }
  /// Int, Float or Bool.
  bool isNumber() const { return isInt() || isFloat() || isBool(); }
  bool isLiteral() const { return (isInt() || isFloat()) && !type; }
  bool isTile() const { return isRuntime() && v->type.isTile(); }
  bool isPointerLike() const { return isRuntime() && !v->type.isBuffer() && v->type.isPointerLike(); }
  bool isBuffer() const { return isRuntime() && v->type.isBuffer(); }
  bool isBarrier() const { return isRuntime() && v->type.kind() == ir::Type::Kind::Barrier; }
  bool isDesc() const { return isRuntime() && v->type.kind() == ir::Type::Kind::TensorDesc; }
  /// A number, at compile time or at run time, scalar or tile.
  bool isArithmetic() const;
  /// The number type; a literal's default.
  ir::Scalar scalar() const;
  llvm::ArrayRef<int64_t> shape() const; // empty for a scalar

private:
  static Val of(Kind k) {
    Val v;
    v.kind = k;
    return v;
  }
};

/// An argument of a call after evaluation.
struct ArgVal {
  std::string name; // empty: positional
  Loc nameLoc;
  Val val;
  Loc loc; // of the value
};

/// The arguments of an operation, in the order of its parameters.
struct CallArgs {
  llvm::StringRef name; // of the operation
  Loc loc;              // of the whole call
  Loc nameLoc;
  llvm::SmallVector<Val, 6> vals; // Poison where not given
  llvm::SmallVector<Loc, 6> locs; // the call's where not given
  llvm::SmallVector<bool, 6> given;
  std::vector<ArgVal> rest; // beyond the named parameters, of "..."
  bool has(unsigned i) const { return given[i]; }
};

/// Bytes that buffers share. How they lie is settled when the kernel has been read.
struct Storage {
  ir::Value *alloc = nullptr;
  std::optional<int64_t> bytes; ///< asked for
  std::vector<ir::Value *> members;
  std::optional<Val> overlap;
  Loc loc;
};

/// An operation: its parameters as "x, axis?, ..., flag?" (optional, variadic, by name only), how it is elaborated.
struct Builtin {
  const char *name;
  const char *params;
  Val (Elaborator::*elaborate)(CallArgs &);
};
const Builtin *findBuiltin(llvm::StringRef name);
llvm::ArrayRef<Builtin> mathBuiltins();
llvm::ArrayRef<Builtin> shapeBuiltins();
llvm::ArrayRef<Builtin> memoryBuiltins();
llvm::ArrayRef<Builtin> reduceBuiltins();
llvm::ArrayRef<Builtin> miscBuiltins();
llvm::ArrayRef<Builtin> localBuiltins();
llvm::ArrayRef<Builtin> asyncBuiltins();
/// What a name that later versions will have can be replaced by today, or null if the name is not one of them.
const char *futureOperation(llvm::StringRef name);

/// How control can leave a statement: a set.
using Flow = unsigned;
constexpr unsigned kMaxResults = 8; ///< of a function that returns under run-time control
constexpr Flow kFalls = 1, kBreaks = 2, kContinues = 4, kReturns = 8;

/// A variable: its value now. An unset one belongs to the elaborator (an exit flag that is false, a result not yet
/// known); at a merge with a set one it counts as zero.
struct Cell {
  ir::Value *value = nullptr;
  ir::Type type; // null while unset
  bool poison = false;
  bool taskCopy = false; ///< tasks assigned to copies of it: it has no value any more
  /// In this iteration of the innermost loop, on every path: it has been assigned. Before that it was read, first here.
  bool assigned = false;
  struct Read {
    Loc loc;
    llvm::StringRef name;
  };
  std::optional<Read> read;
};

struct Binding {
  Val val;       // of a let, parameter or argument
  int cell = -1; // of a var
  Loc loc;
  bool isLoopVar = false;
};

/// A loop at run time, or a static for.
struct LoopState {
  int brokeCell = -1, continuedCell = -1;
  unsigned controlDepth = 0; ///< of the body
};

/// A function being inlined, or the kernel.
struct Frame {
  const ast::Fn *fn = nullptr; // null: the kernel
  FileScope *file = nullptr;
  Loc callLoc;
  std::vector<llvm::StringMap<Binding>> scopes;
  std::vector<LoopState> loops;
  unsigned controlDepth = 0;         ///< run-time branches and loops around the current statement, in this frame
  int returnedCell = -1;             ///< flag
  std::vector<int> resultCells;      ///< made up front, since a return stands deep inside other scopes
  std::vector<ir::Type> resultTypes; ///< of the first return
  bool resultsKnown = false;         ///< a return under run-time control has been seen
  bool resultIsTuple = false;
  Loc firstReturn;
  std::optional<Val> direct; ///< the value of an unconditional return
  bool badReturn = false;    ///< reported; the result is poison
};

/// A file with its names.
struct FileScope {
  std::string path;
  std::unique_ptr<ast::File> ast;
  llvm::StringMap<const ast::Fn *> fns;
  struct ConstState {
    const ast::Const *node = nullptr;
    enum { Fresh, Busy, Done } state = Fresh;
    Val val;
  };
  llvm::StringMap<ConstState> consts;
  std::vector<FileScope *> imports;
  bool loading = false;
  bool hasSyntaxErrors = false;
};

class Elaborator {
public:
  Elaborator(ir::Context &context, SourceManager &sources, const ElaborateOptions &options, Diagnostics &diags);
  std::unique_ptr<ir::Module> run(uint32_t file);

  //===-- elaborate.cpp: the kernel
  const ast::Kernel *chooseKernel(FileScope &file);
  void bindParams(const ast::Kernel &kernel);
  Val parseParam(const ast::Param &param, const std::string &text, ir::Scalar type, bool isDtype, bool isFn);
  void bindArguments(const ast::Kernel &kernel);
  void launchClause(const ast::Kernel &kernel);
  void finish();

  //===-- elaborate_imports.cpp
  FileScope *loadFile(uint32_t file, const std::string &path);
  FileScope *import(const ast::Import &node);
  void declare(FileScope &scope);

  //===-- elaborate_env.cpp: names, types, messages
  template <typename... Args> Val error(Diag id, Loc loc, Args &&...args) {
    return report(id, loc, llvm::formatv(false, diagText(id), std::forward<Args>(args)...).str());
  }
  Val report(Diag id, Loc loc, std::string message);
  /// Where a number is needed: of a descriptor, with what it has instead.
  Val notNumber(Loc loc, llvm::StringRef what, const Val &v);
  /// Adds a note to the last error, unless that was a repetition.
  void note(Loc loc, std::string message);
  bool step(Loc loc); ///< counts; false once a limit is passed
  Binding *findLocal(llvm::StringRef name);
  bool define(const ast::Name &name, Binding binding);
  Val lookup(llvm::StringRef name, Loc loc);
  std::optional<Val> lookupFile(FileScope &file, llvm::StringRef name, Loc loc);
  Val constValue(FileScope &file, FileScope::ConstState &state);
  std::string nearestName(llvm::StringRef name);
  /// "i32", "f32[128, 64]", "a data type": for messages.
  std::string describe(const Val &v);
  Val readCell(int cell);
  /// Null after an error. `what`: of a message ("an argument").
  ir::Type resolveType(const ast::TypeExpr &type);
  std::optional<ir::Scalar> resolveScalar(const ast::TypeExpr &type);
  std::optional<llvm::SmallVector<int64_t, 4>> resolveShape(llvm::ArrayRef<Val> extents, llvm::ArrayRef<Loc> locs,
                                                            Loc whole);
  std::optional<llvm::SmallVector<int64_t, 4>> shapeOf(const Val &v, Loc loc);

  //===-- elaborate_promotion.cpp
  /// The value as one of the IR, literals in their default type; null after an error.
  ir::Value *materialize(const Val &v, Loc loc);
  /// The same as element type `type`: literals adapt, anything else must have it already (`null` after an error).
  ir::Value *materializeAs(const Val &v, ir::Scalar type, Loc loc, llvm::StringRef what);
  /// Whether a compile-time number can be written in `type`; reports if not.
  bool fits(const Val &v, ir::Scalar type, Loc loc);
  std::optional<ir::Scalar> commonType(const Val &a, const Val &b, Loc loc, llvm::StringRef what);
  std::optional<llvm::SmallVector<int64_t, 4>> commonShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b,
                                                           Loc loc, llvm::StringRef what);
  /// One shape; `v` must fit.
  ir::Value *broadcast(ir::Value *v, llvm::ArrayRef<int64_t> shape);
  /// Both operands in one type and shape. Compile-time numbers become constants.
  std::optional<std::pair<ir::Value *, ir::Value *>> unify(const Val &a, const Val &b, Loc loc, llvm::StringRef what);
  ir::Value *convert(ir::Value *v, ir::Scalar type, llvm::StringRef rounding = {});
  Val convertConst(const Val &v, ir::Scalar type);
  static double roundTo(double value, ir::Scalar type);

  //===-- elaborate_exprs.cpp
  /// An expression whose value is used: a call that returns nothing is an error.
  Val value(const ast::Expr &e);
  Val eval(const ast::Expr &e);
  Val evalUnary(const ast::Unary &e);
  Val evalBinary(const ast::Binary &e);
  Val evalLogical(const ast::Binary &e);
  Val evalIndex(const ast::Index &e);
  Val evalMember(const ast::Member &e);
  Val evalMethod(const ast::MethodCall &e);
  Val evalCall(const ast::Call &e);
  Val binary(ast::BinaryOp op, const Val &a, const Val &b, Loc opLoc, Loc aLoc, Loc bLoc);
  Val foldBinary(ast::BinaryOp op, const Val &a, const Val &b, Loc opLoc);
  Val pointerArith(ast::BinaryOp op, const Val &a, const Val &b, Loc opLoc);
  Val compare(ast::BinaryOp op, const Val &a, const Val &b, Loc opLoc);
  std::optional<std::vector<ArgVal>> evalArgs(llvm::ArrayRef<ast::Arg> args);
  Val callFn(const FnRef &fn, std::vector<ArgVal> args, Loc loc, Loc nameLoc);
  Val callBuiltin(const Builtin &op, std::vector<ArgVal> args, Loc loc, Loc nameLoc, llvm::StringRef name = {});
  Val inlineFn(const FnRef &fn, std::vector<ArgVal> args, Loc loc, Loc nameLoc);
  Val checkParam(const ast::Param &param, Val val, Loc loc);

  //===-- elaborate_stmts.cpp
  Flow block(const ast::Block &b);
  Flow stmts(llvm::ArrayRef<ast::StmtPtr> list);
  Flow stmt(const ast::Stmt &s);
  Flow thenRest(Flow flow, llvm::ArrayRef<ast::StmtPtr> rest);
  Flow ifStmt(const ast::If &s, llvm::ArrayRef<ast::StmtPtr> rest, bool &consumedRest);
  void let(const ast::Let &s);
  void assign(const ast::Assign &s);
  void bindPattern(const ast::Pattern &target, Val val, Loc loc, bool isVar);
  void assignTo(const ast::Name &name, Val val, Loc loc);
  Flow ret(const ast::Return &s);
  /// A run-time branch: elaborates both sides, merges the variables.
  Flow branch(ir::Value *cond, llvm::function_ref<Flow()> onTrue, llvm::function_ref<Flow()> onFalse);
  /// The i1 that is true if none of the exits in `flow` was taken; null if none can have been.
  ir::Value *notExited(Flow flow);
  Flow guarded(ir::Value *go, Flow flow, llvm::function_ref<Flow()> body);
  void setFlag(int cell);
  int newCell(ir::Value *value = nullptr);
  std::optional<bool> condition(const ast::Expr &e, ir::Value *&runtime, llvm::StringRef what);
  ir::Value *zeroOf(ir::Type type);

  //===-- elaborate_loops.cpp
  Flow forLoop(const ast::For &s);
  Flow staticFor(const ast::For &s);
  Flow whileLoop(const ast::While &s);
  /// Around what a loop repeats; `before`: the cells outside.
  void beginIteration();
  void endIteration(llvm::ArrayRef<Cell> before, llvm::ArrayRef<Cell> after);
  std::vector<int> assignedCells(const ast::Block &body);
  struct Carried;
  void checkLoopAttrs(const ast::For &s, std::optional<int64_t> &stages, std::optional<int64_t> &unroll);
  Flow unrolled(const ast::For &s, int64_t lo, int64_t step, int64_t trip, int64_t trips, ir::Scalar type);

  //===-- elaborate_tasks.cpp
  void asyncTasks(const ast::AsyncTasks &s);
  void oneTask(const ast::AsyncTask &s, ir::Op &op, int64_t replica, std::vector<int> &assigned);
  bool collectTasks(const ast::Block &body, std::vector<const ast::AsyncTask *> &tasks);

  //===-- elaborate_facts.cpp
  void requiresClause(llvm::ArrayRef<ast::ExprPtr> facts);
  void optionFacts();
  void addFact(const ast::Expr &e);
  /// Appends the program of `e`; nullopt after an error. The result says whether it is a truth value.
  std::optional<bool> factProgram(const ast::Expr &e, std::vector<Fact::Step> &program);

  //===-- operations: elaborate_ops_*.cpp
  std::optional<int64_t> constInt(const CallArgs &a, unsigned i, llvm::StringRef what);
  std::optional<unsigned> axisOf(const CallArgs &a, unsigned i, unsigned rank);
  std::optional<ir::Scalar> dtypeOf(const CallArgs &a, unsigned i);
  /// A tile or pointer tile operand; reports if it is not a tile.
  ir::Value *tileOf(const CallArgs &a, unsigned i);
  bool arithmetic(const CallArgs &a, unsigned i);
  Val mathUnary(CallArgs &a, ir::Opcode op);
  Val mathBinary(CallArgs &a, ir::Opcode op);
  Val opExp(CallArgs &);
  Val opExp2(CallArgs &);
  Val opLog(CallArgs &);
  Val opLog2(CallArgs &);
  Val opSqrt(CallArgs &);
  Val opRsqrt(CallArgs &);
  Val opAbs(CallArgs &);
  Val opFloor(CallArgs &);
  Val opCeil(CallArgs &);
  Val opMinimum(CallArgs &);
  Val opMaximum(CallArgs &);
  Val opMinimumNan(CallArgs &);
  Val opMaximumNan(CallArgs &);
  Val opCdiv(CallArgs &);
  Val opFma(CallArgs &);
  Val opMulhi(CallArgs &);
  Val opWhere(CallArgs &);
  Val opTo(CallArgs &);
  Val opBitcast(CallArgs &);
  Val opArange(CallArgs &);
  Val opFull(CallArgs &);
  Val opZeros(CallArgs &);
  Val opExpandDims(CallArgs &);
  Val opBroadcastTo(CallArgs &);
  Val opReshape(CallArgs &);
  Val opTrans(CallArgs &);
  Val opJoin(CallArgs &);
  Val opSplit(CallArgs &);
  Val opDot(CallArgs &);
  Val opRequireLayout(CallArgs &);
  Val opBlocked(CallArgs &);
  Val opLinear(CallArgs &);
  Val opAsyncLoad(CallArgs &);
  Val opAsyncLoadGroup(CallArgs &);
  Val opLoad(CallArgs &);
  Val opStore(CallArgs &);
  Val opAtomic(CallArgs &);
  Val opDescLoad(CallArgs &);
  Val opDescStore(CallArgs &);
  /// A mask or other operand grown to the pointer's shape; null after an error.
  ir::Value *accessOperand(ir::Value *v, ir::Value *pointer, Loc loc, llvm::StringRef what);
  ir::Value *maskOperand(const CallArgs &a, unsigned i, ir::Value *pointer);
  Val opSum(CallArgs &);
  Val opMax(CallArgs &);
  Val opMin(CallArgs &);
  Val opArgmax(CallArgs &);
  Val opArgmin(CallArgs &);
  Val opReduce(CallArgs &);
  Val opAssociativeScan(CallArgs &);
  Val opCumsum(CallArgs &);
  Val opCumprod(CallArgs &);
  /// reduce and associative_scan: the operands, the axis, the function.
  Val combineAlong(CallArgs &a, bool isScan);
  Val cumulative(CallArgs &a, ir::Opcode op);
  std::optional<bool> constBool(const CallArgs &a, unsigned i); // false where not given
  Val minMax(CallArgs &, ir::Opcode op);
  Val argMinMax(CallArgs &, bool max, bool both, unsigned keep);
  Val keepDims(const CallArgs &a, unsigned i, Val reduced, unsigned axis);
  std::optional<unsigned> reductionAxis(const CallArgs &a, ir::Value *x);
  Val opProgramId(CallArgs &);
  Val opNumPrograms(CallArgs &);
  Val opStaticAssert(CallArgs &);
  Val opAssume(CallArgs &);
  Val opMultipleOf(CallArgs &);
  Val opDevicePrint(CallArgs &);
  Val opDeviceAssert(CallArgs &);
  Val opBytesOf(CallArgs &);
  Val opDtypeOf(CallArgs &);
  Val opNumWarps(CallArgs &);
  Val opWarpSize(CallArgs &);
  Val opFactOnly(CallArgs &);
  // elaborate_ops_local.cpp: buffers in shared memory
  Val opLocalAlloc(CallArgs &);
  Val opLocalView(CallArgs &);
  Val opLocalSlice(CallArgs &);
  Val opLocalTrans(CallArgs &);
  Val opLocalReshape(CallArgs &);
  Val opLocalReinterpret(CallArgs &);
  Val opLocalLoad(CallArgs &);
  Val opLocalStore(CallArgs &);
  Val opLocalGather(CallArgs &);
  Val opLocalScatter(CallArgs &);
  /// Indices of the buffer's elements along an axis, and the axis; false after an error.
  bool localIndices(const CallArgs &a, ir::Value *buffer, unsigned at, unsigned axisAt, unsigned &axis);
  /// buf[slot], bar[slot]
  Val slotOf(const Val &ring, const Val &slot, Loc loc, Loc slotLoc);
  ir::Value *bufferOf(const CallArgs &a, unsigned i); ///< one buffer; null after an error
  // elaborate_storage.cpp: bytes that buffers share
  Val opStorage(CallArgs &);
  Val opReuseGroup(CallArgs &);
  Val opSetOverlap(CallArgs &);
  void placeStorages();
  void placeStorage(Storage &storage);
  // elaborate_ops_async.cpp: barriers, TMA, wgmma
  Val opAllocBarriers(CallArgs &);
  Val opBarrierWait(CallArgs &);
  Val opBarrierArrive(CallArgs &);
  Val opBarrierExpect(CallArgs &);
  Val opNamedBarrier(CallArgs &);
  Val opFence(CallArgs &);
  Val opAsyncDescLoad(CallArgs &);
  Val opAsyncDescStore(CallArgs &);
  Val opAsyncDescStoreWait(CallArgs &);
  Val opAsyncDescPrefetch(CallArgs &);
  Val opAsyncBulk(CallArgs &);
  Val opAsyncDot(CallArgs &);
  Val opAsyncDotWait(CallArgs &);
  Val opTaskReplicaId(CallArgs &);
  Val opWarpAny(CallArgs &);
  ir::Value *barrierOf(const CallArgs &a, unsigned i);                 ///< one barrier
  std::optional<ir::Value *> predicate(const CallArgs &a, unsigned i); ///< null: always; nullopt after an error
  /// The offsets [m, k] of a block of the descriptor `desc`; nullopt after an error.
  std::optional<llvm::SmallVector<ir::Value *, 5>> blockOffsets(const CallArgs &a, const Val &desc, unsigned i);
  /// reduce = of a store to `desc`; nullopt after an error.
  std::optional<std::string> descReduce(const CallArgs &a, unsigned i, ir::Type desc);
  /// eviction = of an access by TMA: "" if absent; nullopt after an error.
  std::optional<std::string> bulkEviction(const CallArgs &a, unsigned i);
  /// A string argument that is one of a few words; reports what they are.
  std::optional<std::string> oneOf(const CallArgs &a, unsigned i, llvm::StringRef what,
                                   std::initializer_list<const char *> words);
  unsigned numWarps() const; ///< of the task, or the kernel's

  Frame &frame() { return *frames.back(); }

  ir::Context &context;
  SourceManager &sources;
  const ElaborateOptions &options;
  Diagnostics &diags;
  std::unique_ptr<ir::Module> module;
  std::unique_ptr<ir::Builder> builder;
  ir::Builder &b() { return *builder; }

  std::map<std::string, std::unique_ptr<FileScope>> files;
  std::vector<std::string> importStack;
  std::vector<Loc> importLocs; ///< the imports that lead to the file being read
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<Cell> cells;
  std::vector<Storage> storages;
  std::set<std::tuple<uint16_t, uint32_t, uint32_t, uint32_t, std::string>> reported;
  bool lastWasNew = false;
  bool aborted = false;   ///< a limit was passed: nothing more is said
  ir::Op *task = nullptr; ///< being elaborated
  int64_t taskReplica = 0;
  unsigned steps = 0, depth = 0, operations = 0;
};

/// Sets the location of new operations for a scope.
class At {
public:
  At(Elaborator &e, Loc loc) : builder(e.b()), saved(builder.loc) { builder.loc = loc; }
  ~At() { builder.loc = saved; }

private:
  ir::Builder &builder;
  Loc saved;
};

std::string shapeText(llvm::ArrayRef<int64_t> shape);
/// "1 argument", "2 arguments".
std::string plural(uint64_t n, llvm::StringRef noun);
bool alwaysExits(const ast::Block &block);
/// Whether a return stands inside another statement.
bool returnsEarly(const ast::Block &body);
bool containsLoopExit(const ast::Block &body);

} // namespace tlx::lang
