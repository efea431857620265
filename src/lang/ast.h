// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax tree of a `.tlx` file: what was written, before any name is looked up. It is plain data, owned by
// std::unique_ptr from ast::File down, and knows nothing of the parser or of the IR, so that another front end can
// build the same tree.
//
// Promises of the parser:
//  - no child is null unless its comment says so; a statement that could not be parsed is left out and its function is
//    marked `incomplete`;
//  - parentheses leave no node: the shape of the tree is the grouping;
//  - the height of an expression and the nesting of blocks are bounded (see parser.h), so a recursive walk is safe.
//
// Nodes with several forms derive from Expr, Stmt or Item, carry a kind, and work with llvm::isa / cast / dyn_cast.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llvm/Support/Casting.h"

#include "support/source.h"

namespace tlx::ast {

/// An identifier where it stands in the text. An absent name has empty text.
struct Name {
  std::string text;
  Loc loc;
  bool empty() const { return text.empty(); }
  bool isDiscard() const { return text == "_"; }
};

//===-- expressions -----------------------------------------------------------------------------------------------===//

enum class ExprKind : uint8_t {
  IntLit,
  FloatLit,
  BoolLit,
  StringLit,
  NameRef,
  Unary,
  Binary,
  Call,
  MethodCall,
  Member,
  Index,
  List,
  Tuple
};

/// `loc` is the whole expression, or the part on its first line if it spans several.
struct Expr {
  const ExprKind kind;
  /// 1 for a leaf, else one more than the highest child.
  uint16_t height = 1;
  Loc loc;

  Expr(const Expr &) = delete;
  Expr &operator=(const Expr &) = delete;
  virtual ~Expr() = default;

protected:
  Expr(ExprKind kind, Loc loc) : kind(kind), loc(loc) {}
};
using ExprPtr = std::unique_ptr<Expr>;

/// An argument of a call, a clause or an attribute list: `value` or `name = value`.
struct Arg {
  Name name; ///< empty if positional
  ExprPtr value;
  Loc loc; ///< with the name
  bool isPositional() const { return name.empty(); }
};

/// `42`, `0xff`, `0b10_01`. Never negative: `-1` is Unary(Neg, IntLit 1), so 2^63 is a legal value here.
struct IntLit : Expr {
  uint64_t value;
  IntLit(Loc loc, uint64_t value) : Expr(ExprKind::IntLit, loc), value(value) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::IntLit; }
};

/// `1.5`, `1e-3`, and `inf` and `nan` (a finite literal that overflows f64 is a syntax error).
struct FloatLit : Expr {
  double value;
  FloatLit(Loc loc, double value) : Expr(ExprKind::FloatLit, loc), value(value) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::FloatLit; }
};

struct BoolLit : Expr {
  bool value;
  BoolLit(Loc loc, bool value) : Expr(ExprKind::BoolLit, loc), value(value) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::BoolLit; }
};

/// `value` has its escapes resolved.
struct StringLit : Expr {
  std::string value;
  StringLit(Loc loc, std::string value) : Expr(ExprKind::StringLit, loc), value(std::move(value)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::StringLit; }
};

/// A name used as a value: a variable, parameter, const, function, data type (`f32`), or an option (`default`).
struct NameRef : Expr {
  std::string name;
  NameRef(Loc loc, std::string name) : Expr(ExprKind::NameRef, loc), name(std::move(name)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::NameRef; }
};

enum class UnaryOp : uint8_t { Neg, Not, BitNot };

struct Unary : Expr {
  UnaryOp op;
  Loc opLoc;
  ExprPtr operand;
  Unary(Loc loc, UnaryOp op, Loc opLoc, ExprPtr operand)
      : Expr(ExprKind::Unary, loc), op(op), opLoc(opLoc), operand(std::move(operand)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Unary; }
};

/// In order of precedence, loosest first; each line is one level.
enum class BinaryOp : uint8_t {
  LogicalOr,
  LogicalAnd,
  Eq,
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  BitOr,
  BitXor,
  BitAnd,
  Shl,
  Shr,
  Add,
  Sub,
  Mul,
  Div,
  Mod
};

struct Binary : Expr {
  BinaryOp op;
  Loc opLoc;
  ExprPtr lhs, rhs;
  Binary(Loc loc, BinaryOp op, Loc opLoc, ExprPtr lhs, ExprPtr rhs)
      : Expr(ExprKind::Binary, loc), op(op), opLoc(opLoc), lhs(std::move(lhs)), rhs(std::move(rhs)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Binary; }
};

/// `callee(args)`. Only a name can be called: an operation, a function, or a parameter of type `fn`. Positional
/// arguments come first and no name occurs twice.
struct Call : Expr {
  Name callee;
  std::vector<Arg> args;
  Call(Loc loc, Name callee, std::vector<Arg> args)
      : Expr(ExprKind::Call, loc), callee(std::move(callee)), args(std::move(args)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Call; }
};

/// `object.method(args)`: `x.to(f16)`, `desc.load([m, k])`. The parser does not check which methods exist.
struct MethodCall : Expr {
  ExprPtr object;
  Name method;
  std::vector<Arg> args;
  MethodCall(Loc loc, ExprPtr object, Name method, std::vector<Arg> args)
      : Expr(ExprKind::MethodCall, loc), object(std::move(object)), method(std::move(method)), args(std::move(args)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::MethodCall; }
};

/// `object.member` without a call: `x.T`.
struct Member : Expr {
  ExprPtr object;
  Name member;
  Member(Loc loc, ExprPtr object, Name member)
      : Expr(ExprKind::Member, loc), object(std::move(object)), member(std::move(member)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Member; }
};

/// One position inside `[ ]`.
struct Subscript {
  enum Kind : uint8_t {
    At,     ///< an expression
    All,    ///< `:`, the whole dimension
    NewAxis ///< `None`, a new dimension of extent 1
  } kind = At;
  Loc loc;
  ExprPtr value; ///< null unless At
};

/// `x[:, None]`, `ring[slot]`. At least one subscript.
struct Index : Expr {
  ExprPtr object;
  std::vector<Subscript> subscripts;
  Index(Loc loc, ExprPtr object, std::vector<Subscript> subscripts)
      : Expr(ExprKind::Index, loc), object(std::move(object)), subscripts(std::move(subscripts)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Index; }
};

/// `[a, b]`; may be empty.
struct List : Expr {
  std::vector<ExprPtr> elements;
  List(Loc loc, std::vector<ExprPtr> elements) : Expr(ExprKind::List, loc), elements(std::move(elements)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::List; }
};

/// `(a, b)`; at least two elements.
struct Tuple : Expr {
  std::vector<ExprPtr> elements;
  Tuple(Loc loc, std::vector<ExprPtr> elements) : Expr(ExprKind::Tuple, loc), elements(std::move(elements)) {}
  static bool classof(const Expr *e) { return e->kind == ExprKind::Tuple; }
};

//===-- types -----------------------------------------------------------------------------------------------------===//

/// A type as written. The parser does not know which names are types.
struct TypeExpr {
  enum Kind : uint8_t {
    Named,     ///< `name`: a data type, a `dtype` parameter, or `dtype` / `fn` for a compile-time parameter
    Tile,      ///< `element[shape]`: f32[128, 64]; the element is Named
    Pointer,   ///< `*element`
    TensorDesc ///< tensor_desc<element, [shape]>
  } kind = Named;
  Loc loc;
  std::string name;                  ///< Named only
  std::unique_ptr<TypeExpr> element; ///< null for Named
  std::vector<ExprPtr> shape;        ///< Tile and TensorDesc: at least one extent
};
using TypePtr = std::unique_ptr<TypeExpr>;

//===-- statements ------------------------------------------------------------------------------------------------===//

enum class StmtKind : uint8_t {
  Let,
  Assign,
  ExprStmt,
  If,
  For,
  While,
  Break,
  Continue,
  Return,
  Block,
  AsyncTasks,
  AsyncTask
};

/// `loc` of a compound statement is its header, or the part on its first line.
struct Stmt {
  const StmtKind kind;
  Loc loc;

  Stmt(const Stmt &) = delete;
  Stmt &operator=(const Stmt &) = delete;
  virtual ~Stmt() = default;

protected:
  Stmt(StmtKind kind, Loc loc) : kind(kind), loc(loc) {}
};
using StmtPtr = std::unique_ptr<Stmt>;

/// What a `let`, `var` or assignment writes: one name, or a flat tuple of at least two. `_` discards.
struct Pattern {
  Loc loc;
  bool isTuple = false;
  std::vector<Name> names;
};

/// `let target = value;` or, with isVar, `var target = value;`.
struct Let : Stmt {
  bool isVar;
  Pattern target;
  ExprPtr value;
  Let(Loc loc, bool isVar, Pattern target, ExprPtr value)
      : Stmt(StmtKind::Let, loc), isVar(isVar), target(std::move(target)), value(std::move(value)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Let; }
};

/// `target = value;` or `target op= value;` (then the target is one name and not `_`).
struct Assign : Stmt {
  Pattern target;
  std::optional<BinaryOp> op; ///< set for a compound assignment
  Loc opLoc;
  ExprPtr value;
  Assign(Loc loc, Pattern target, std::optional<BinaryOp> op, Loc opLoc, ExprPtr value)
      : Stmt(StmtKind::Assign, loc), target(std::move(target)), op(op), opLoc(opLoc), value(std::move(value)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Assign; }
};

/// A Call or a MethodCall; anything else would have no effect and is a syntax error. `static_assert` is such a call.
struct ExprStmt : Stmt {
  ExprPtr value;
  ExprStmt(Loc loc, ExprPtr value) : Stmt(StmtKind::ExprStmt, loc), value(std::move(value)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::ExprStmt; }
};

/// `{ … }`: a scope of its own.
struct Block : Stmt {
  std::vector<StmtPtr> stmts;
  Loc endLoc; ///< the closing brace
  explicit Block(Loc loc) : Stmt(StmtKind::Block, loc) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Block; }
};
using BlockPtr = std::unique_ptr<Block>;

struct If : Stmt {
  ExprPtr cond;
  BlockPtr thenBlock;
  StmtPtr elseBranch; ///< null, a Block, or an If (`else if`)
  If(Loc loc, ExprPtr cond, BlockPtr thenBlock, StmtPtr elseBranch)
      : Stmt(StmtKind::If, loc), cond(std::move(cond)), thenBlock(std::move(thenBlock)),
        elseBranch(std::move(elseBranch)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::If; }
};

/// `for var in range(lo, hi, step, attrs) body`, or with isStatic `static for …`. `range(hi)` has no lo, and the step
/// may be absent.
struct For : Stmt {
  bool isStatic = false;
  Name var;   ///< may be `_`
  ExprPtr lo; ///< null: 0
  ExprPtr hi;
  ExprPtr step;           ///< null: 1
  std::vector<Arg> attrs; ///< named, each name once: num_stages = 3
  BlockPtr body;
  explicit For(Loc loc) : Stmt(StmtKind::For, loc) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::For; }
};

struct While : Stmt {
  ExprPtr cond;
  BlockPtr body;
  While(Loc loc, ExprPtr cond, BlockPtr body)
      : Stmt(StmtKind::While, loc), cond(std::move(cond)), body(std::move(body)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::While; }
};

/// Stands inside a loop, and inside a loop of its own task.
struct Break : Stmt {
  explicit Break(Loc loc) : Stmt(StmtKind::Break, loc) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Break; }
};

/// As Break.
struct Continue : Stmt {
  explicit Continue(Loc loc) : Stmt(StmtKind::Continue, loc) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Continue; }
};

/// Never inside a task.
struct Return : Stmt {
  ExprPtr value; ///< null for `return;`; a Tuple returns several values
  Return(Loc loc, ExprPtr value) : Stmt(StmtKind::Return, loc), value(std::move(value)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::Return; }
};

/// `async_tasks(attrs) { … }`. The body holds only AsyncTask, and If whose blocks hold the same.
struct AsyncTasks : Stmt {
  std::vector<Arg> attrs; ///< named, each name once
  BlockPtr body;
  AsyncTasks(Loc loc, std::vector<Arg> attrs, BlockPtr body)
      : Stmt(StmtKind::AsyncTasks, loc), attrs(std::move(attrs)), body(std::move(body)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::AsyncTasks; }
};

/// `async_task(default, attrs) { … }` or `async_task(num_warps = 4, …) { … }`; only directly inside AsyncTasks.
struct AsyncTask : Stmt {
  bool isDefault;
  std::vector<Arg> attrs; ///< named, each name once
  BlockPtr body;
  AsyncTask(Loc loc, bool isDefault, std::vector<Arg> attrs, BlockPtr body)
      : Stmt(StmtKind::AsyncTask, loc), isDefault(isDefault), attrs(std::move(attrs)), body(std::move(body)) {}
  static bool classof(const Stmt *s) { return s->kind == StmtKind::AsyncTask; }
};

//===-- files -----------------------------------------------------------------------------------------------------===//

enum class ItemKind : uint8_t { Import, Const, Fn, Kernel };

/// Something at the top of a file. `loc` is the header, or the part on its first line.
struct Item {
  const ItemKind kind;
  Loc loc;
  /// Part of it could not be parsed and was reported: what follows from the missing part is not worth a report.
  bool incomplete = false;

  Item(const Item &) = delete;
  Item &operator=(const Item &) = delete;
  virtual ~Item() = default;

protected:
  Item(ItemKind kind, Loc loc) : kind(kind), loc(loc) {}
};

/// `import "std/schedule.tlx";`
struct Import : Item {
  std::string path;
  Loc pathLoc;
  explicit Import(Loc loc) : Item(ItemKind::Import, loc) {}
  static bool classof(const Item *i) { return i->kind == ItemKind::Import; }
};

/// `const NAME = value;`
struct Const : Item {
  Name name;
  ExprPtr value;
  explicit Const(Loc loc) : Item(ItemKind::Const, loc) {}
  static bool classof(const Item *i) { return i->kind == ItemKind::Const; }
};

/// A parameter of a kernel in `< >`, an argument of a kernel in `( )`, or a parameter of a function.
struct Param {
  Name name;
  Loc loc;
  bool isConst = false; ///< function parameters: `const N`, a compile-time value
  TypePtr type;         ///< null if a function leaves it open
  ExprPtr defaultValue; ///< null if none; never for a kernel's argument in ( )
};

/// `fn name(x, const N: i32, y: *f16) { … }`
struct Fn : Item {
  Name name;
  std::vector<Param> params;
  BlockPtr body;
  explicit Fn(Loc loc) : Item(ItemKind::Fn, loc) {}
  static bool classof(const Item *i) { return i->kind == ItemKind::Fn; }
};

/// `kernel name<params>(args) launch(…) requires(…) { … }`. Each clause at most once, in either order.
struct Kernel : Item {
  Name name;
  std::vector<Param> params;  ///< compile-time, in < >; each has a type
  std::vector<Param> args;    ///< each has a type
  std::vector<Arg> launch;    ///< named, each name once
  std::vector<ExprPtr> facts; ///< of requires(…)
  BlockPtr body;
  explicit Kernel(Loc loc) : Item(ItemKind::Kernel, loc) {}
  static bool classof(const Item *i) { return i->kind == ItemKind::Kernel; }
};

struct File {
  uint32_t file = 0; ///< its number in the SourceManager
  std::vector<std::unique_ptr<Import>> imports;
  std::vector<std::unique_ptr<Const>> consts;
  std::vector<std::unique_ptr<Fn>> fns;
  std::vector<std::unique_ptr<Kernel>> kernels;
  /// All of them, as they stand in the text.
  std::vector<const Item *> order;
};

//===-- text ------------------------------------------------------------------------------------------------------===//

/// "+", "<<", "&&".
std::string_view spelling(BinaryOp op);
/// "-", "!", "~".
std::string_view spelling(UnaryOp op);
/// 1 (||) to 9 (* / %); a higher number binds tighter.
int precedence(BinaryOp op);
bool isComparison(BinaryOp op);

/// Canonical source text: parsing it gives the same tree, and printing that gives the same text. Comments are not kept.
std::string print(const File &file);
std::string print(const Item &item);
std::string print(const Stmt &stmt);
std::string print(const Expr &expr);
std::string print(const TypeExpr &type);

} // namespace tlx::ast
