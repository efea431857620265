// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The in-house IR: SSA with regions, at tile level. A Module holds one Kernel (everything is inlined by the elaborator); an Op has an
// opcode, operands, results, attributes, regions and a location. See ops.def for the operations and docs/ir.md for the text form.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include "ir/types.h"
#include "support/diagnostics.h"
#include "support/metadata.h"
#include "support/source.h"

namespace tlx::ir {

enum class Opcode : uint8_t {
#define OP(ENUM, NAME, OPERANDS, RESULTS, REGIONS, TRAITS, DOC) ENUM,
#include "ir/ops.def"
#undef OP
};

enum Trait : uint32_t {
  None = 0,
  Pure = 1,
  Elementwise = 2,
  Reads = 4,
  Writes = 8,
  Collective = 16,
  Async = 32,
  Terminator = 64,
  Cheap = 128,
  Sync = 256,
  Control = 512,
  Assumes = 1024
};

struct OpInfo {
  const char *name;
  unsigned minOperands, maxOperands; // max = ~0u for any number
  unsigned minResults, maxResults;
  unsigned regions;
  uint32_t traits;
  const char *doc;
};
const OpInfo &info(Opcode opcode);
std::optional<Opcode> opcodeByName(llvm::StringRef name);
llvm::ArrayRef<Opcode> allOpcodes();

enum class Attr : uint8_t {
#define ATTR(NAME) NAME,
#include "ir/attrs.def"
#undef ATTR
};
llvm::StringRef attrName(Attr a);
std::optional<Attr> attrByName(llvm::StringRef name);

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

enum class Pred : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };

class Op;
class Block;
class Region;
class Kernel;

/// One use of a value: operand `index` of `op`.
struct Use {
  Op *op;
  unsigned index;
};

/// A result of an op or an argument of a block.
class Value {
public:
  Type type;
  Op *def() const { return def_; }        // null for block arguments
  Block *block() const { return block_; } // of an argument: its block; null for results
  unsigned index() const { return index_; }
  llvm::ArrayRef<Use> uses() const { return uses_; }
  bool unused() const { return uses_.empty(); }
  bool hasOneUse() const { return uses_.size() == 1; }
  void replaceAllUsesWith(Value *other);
  std::string name; // a hint of the source: printed as %name for kernel arguments

private:
  friend class Op;
  friend class Block;
  Op *def_ = nullptr;
  Block *block_ = nullptr;
  unsigned index_ = 0;
  llvm::SmallVector<Use, 4> uses_;
};

class Op {
public:
  const Opcode opcode;
  Loc loc;

  Op(Opcode opcode, Loc loc) : opcode(opcode), loc(loc) {}
  ~Op();
  Op(const Op &) = delete;

  const OpInfo &info() const { return ir::info(opcode); }
  bool is(Opcode o) const { return opcode == o; }
  bool has(Trait t) const { return info().traits & t; }

  unsigned numOperands() const { return operands_.size(); }
  Value *operand(unsigned i) const { return operands_[i]; }
  llvm::ArrayRef<Value *> operands() const { return operands_; }
  void setOperand(unsigned i, Value *v);
  void addOperand(Value *v);
  void eraseOperand(unsigned i);

  unsigned numResults() const { return results_.size(); }
  Value *result(unsigned i = 0) const { return results_[i].get(); }
  Value *addResult(Type type);
  void eraseResult(unsigned i); // must be unused

  unsigned numRegions() const { return regions_.size(); }
  Block &body(unsigned i = 0) const; // every region has exactly one block
  Block &addRegion();

  bool hasAttr(Attr a) const;
  void setAttr(Attr a, AttrValue v);
  void removeAttr(Attr a);
  int64_t intAttr(Attr a, int64_t otherwise = 0) const;
  double floatAttr(Attr a) const;
  llvm::StringRef strAttr(Attr a) const; // empty if absent
  llvm::ArrayRef<int64_t> listAttr(Attr a) const;
  llvm::ArrayRef<std::pair<Attr, AttrValue>> attrs() const { return attrs_; } // sorted by name's order

  Block *parent() const { return parent_; }
  Op *parentOp() const; // the op whose region holds this one; null at the top
  Op *prev() const { return prev_; }
  Op *next() const { return next_; }
  bool isTerminator() const { return has(Terminator); }
  /// Takes the op out of its block and destroys it; results must be unused.
  void erase();
  void moveBefore(Op *other);
  void moveTo(Block &block); // to its end
  /// Calls f for every op of the regions below, parents first.
  void walk(llvm::function_ref<void(Op &)> f);

private:
  friend class Block;
  void dropOperands();
  llvm::SmallVector<Value *, 4> operands_;
  std::vector<std::unique_ptr<Value>> results_;
  llvm::SmallVector<std::pair<Attr, AttrValue>, 2> attrs_;
  std::vector<std::unique_ptr<Block>> regions_;
  Block *parent_ = nullptr;
  Op *prev_ = nullptr, *next_ = nullptr;
};

/// A straight list of ops that ends in a terminator, with arguments.
class Block {
public:
  explicit Block(Op *parent) : parentOp_(parent) {}
  ~Block();
  Block(const Block &) = delete;

  unsigned numArgs() const { return args_.size(); }
  Value *arg(unsigned i) const { return args_[i].get(); }
  Value *addArg(Type type, std::string name = {});
  void eraseArg(unsigned i); // must be unused

  Op *front() const { return first_; }
  Op *back() const { return last_; }
  Op *terminator() const { return last_ && last_->isTerminator() ? last_ : nullptr; }
  bool empty() const { return !first_; }
  Op *parentOp() const { return parentOp_; }

  /// Inserts before `before` (null: at the end) and takes ownership.
  Op *insert(std::unique_ptr<Op> op, Op *before);
  std::unique_ptr<Op> remove(Op *op);
  void walk(llvm::function_ref<void(Op &)> f);

  class iterator {
  public:
    explicit iterator(Op *op) : op(op) {}
    Op &operator*() const { return *op; }
    iterator &operator++() {
      op = op->next();
      return *this;
    }
    bool operator!=(const iterator &o) const { return op != o.op; }

  private:
    Op *op;
  };
  iterator begin() const { return iterator(first_); }
  iterator end() const { return iterator(nullptr); }
  /// The ops as they are now: safe while ops are erased or inserted.
  std::vector<Op *> ops() const;

private:
  Op *parentOp_;
  std::vector<std::unique_ptr<Value>> args_;
  Op *first_ = nullptr, *last_ = nullptr;
};

/// What may still be present: the verifier checks it, passes set it.
struct Properties {
  bool layouts = false;            // every tile has a layout, and operands agree with the rules of their op
  bool loweredConversions = false; // no convert_layout needs shared memory
  bool plannedMemory = false;      // every local_alloc has an offset
  bool synchronized = false;       // barriers stand where shared memory needs them
  bool operator==(const Properties &) const = default;
};

/// A tensor descriptor that was lowered to arguments of its own: a pointer, an i64 stride in elements for each dimension but the last, an
/// i32 extent for each dimension.
struct DescriptorArgument {
  std::string name;
  Type type;      // the tensor_desc
  unsigned first; // argument that is the pointer; the others follow it
};

class Kernel {
public:
  Kernel() : body(nullptr) {}
  std::string name;
  Loc loc;
  unsigned numWarps = 4; // of what stands outside of tasks, and of default tasks
  unsigned warpSize = 32;
  unsigned sharedBytes = 0;                    // set by memory planning
  Block body;                                  // its arguments are the kernel's
  std::vector<Fact> facts;                     // about arguments, by index
  std::vector<DescriptorArgument> descriptors; // in the order of their arguments
};

class Module {
public:
  explicit Module(Context &context) : context(context) {}
  Context &context;
  std::string target; // "sm_80"; features::findTarget knows it
  Properties properties;
  Kernel kernel;
};

/// The task that `op` is part of; null outside of tasks.
Op *taskOf(const Op &op);
/// It stands in the kernel's own block and so runs once: in no loop, branch or task.
bool isTopLevel(const Op &op);
/// Something comes after these async_tasks that needs the end of all their tasks.
bool isFollowed(const Op &tasks);
/// How many warps run `op`: those of its task, or the kernel's own.
unsigned warpsOf(const Module &module, const Op &op);
/// Tasks that `op`, a task or in one, stands for: 1 outside.
unsigned replicasOf(const Op &op);
/// Of a launch: the kernel's own and those of tasks.
unsigned launchWarps(const Kernel &kernel);

/// Text form. `locations` prints each op's location, so that the text round-trips completely.
struct PrintOptions {
  bool locations = false;
};
std::string print(const Module &module, const SourceManager *sources = nullptr, PrintOptions options = {});
std::string print(const Op &op);

/// Parses what print wrote; null after errors were reported.
std::unique_ptr<Module> parse(Context &context, SourceManager &sources, uint32_t file, Diagnostics &diagnostics);

/// Checks every rule; reports each breach with op, rule and location. True if there is none.
bool verify(const Module &module, Diagnostics &diagnostics);

} // namespace tlx::ir
