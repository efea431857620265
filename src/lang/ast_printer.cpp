// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tree back to text: four spaces of indentation, parentheses only where the tree needs them.
#include <charconv>
#include <cmath>

#include "lang/ast.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

namespace tlx::ast {

using llvm::cast;
using llvm::dyn_cast;
using llvm::isa;

namespace {

/// Above every binary operator.
constexpr int kUnaryPrecedence = 10;
constexpr int kPostfixPrecedence = 11;

class Printer {
public:
  std::string out;

  void file(const File &file);
  void item(const Item &item);
  void stmt(const Stmt &stmt);
  void type(const TypeExpr &type);
  /// In parentheses if it binds looser than `minPrecedence`.
  void expr(const Expr &expr, int minPrecedence = 0);

private:
  void kernel(const Kernel &kernel);
  void params(char open, const std::vector<Param> &params, char close);
  void block(const Block &block);
  void ifStmt(const If &stmt);
  void forStmt(const For &stmt);
  void pattern(const Pattern &pattern);
  void bare(const Expr &expr);
  void binary(const Binary &expr);
  void index(const Index &expr);
  void floating(double value);
  void string(const std::string &value);
  void arg(const Arg &arg);
  void args(const std::vector<Arg> &list);
  void line() { out.append("\n").append(indent * 4, ' '); }

  template <typename List, typename Each> void commas(const List &list, Each each) {
    bool first = true;
    for (const auto &element : list) {
      if (!first) out += ", ";
      first = false;
      each(element);
    }
  }
  void exprs(const std::vector<ExprPtr> &list) {
    commas(list, [&](const ExprPtr &e) { expr(*e); });
  }

  unsigned indent = 0;
};

//===-- expressions -----------------------------------------------------------------------------------------------===//

int precedenceOf(const Expr &expr) {
  if (auto *b = dyn_cast<Binary>(&expr)) return precedence(b->op);
  return isa<Unary>(expr) ? kUnaryPrecedence : kPostfixPrecedence;
}

void Printer::expr(const Expr &e, int minPrecedence) {
  bool parens = precedenceOf(e) < minPrecedence;
  if (parens) out += '(';
  bare(e);
  if (parens) out += ')';
}

void Printer::bare(const Expr &e) {
  switch (e.kind) {
  case ExprKind::IntLit:
    out += std::to_string(cast<IntLit>(e).value);
    break;
  case ExprKind::FloatLit:
    floating(cast<FloatLit>(e).value);
    break;
  case ExprKind::BoolLit:
    out += cast<BoolLit>(e).value ? "true" : "false";
    break;
  case ExprKind::StringLit:
    string(cast<StringLit>(e).value);
    break;
  case ExprKind::NameRef:
    out += cast<NameRef>(e).name;
    break;
  case ExprKind::Unary: {
    const auto &u = cast<Unary>(e);
    out += spelling(u.op);
    // `--x` is refused by the parser.
    auto *inner = dyn_cast<Unary>(u.operand.get());
    expr(*u.operand,
         inner && inner->op == UnaryOp::Neg && u.op == UnaryOp::Neg ? kPostfixPrecedence : kUnaryPrecedence);
    break;
  }
  case ExprKind::Binary:
    binary(cast<Binary>(e));
    break;
  case ExprKind::Call:
    out += cast<Call>(e).callee.text;
    args(cast<Call>(e).args);
    break;
  case ExprKind::MethodCall: {
    const auto &call = cast<MethodCall>(e);
    expr(*call.object, kPostfixPrecedence);
    out += '.' + call.method.text;
    args(call.args);
    break;
  }
  case ExprKind::Member:
    expr(*cast<Member>(e).object, kPostfixPrecedence);
    out += '.' + cast<Member>(e).member.text;
    break;
  case ExprKind::Index:
    index(cast<Index>(e));
    break;
  case ExprKind::List:
    out += '[';
    exprs(cast<List>(e).elements);
    out += ']';
    break;
  case ExprKind::Tuple:
    out += '(';
    exprs(cast<Tuple>(e).elements);
    out += ')';
    break;
  }
}

void Printer::binary(const Binary &b) {
  int level = precedence(b.op);
  // Left-associative, except comparisons, which do not chain.
  expr(*b.lhs, isComparison(b.op) ? level + 1 : level);
  out.append(" ").append(spelling(b.op)).append(" ");
  expr(*b.rhs, level + 1);
}

void Printer::index(const Index &e) {
  expr(*e.object, kPostfixPrecedence);
  out += '[';
  commas(e.subscripts, [&](const Subscript &s) {
    if (s.kind == Subscript::At)
      expr(*s.value);
    else
      out += s.kind == Subscript::All ? ":" : "None";
  });
  out += ']';
}

/// The shortest digits that read back as the same double, with a point or an exponent.
void Printer::floating(double value) {
  if (std::isnan(value) || std::isinf(value)) {
    out += std::isnan(value) ? "nan" : "inf";
    return;
  }
  char digits[64];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  std::string_view text(digits, end - digits);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void Printer::string(const std::string &value) {
  const auto *start = reinterpret_cast<const llvm::UTF8 *>(value.data());
  bool utf8 = llvm::isLegalUTF8String(&start, start + value.size());
  out += '"';
  for (char c : value) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out.append("\\").push_back(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !utf8))
      out += "\\x" + llvm::utohexstr(byte, /*LowerCase=*/true, 2);
    else
      out += c;
  }
  out += '"';
}

void Printer::arg(const Arg &a) {
  if (!a.isPositional()) out += a.name.text + " = ";
  expr(*a.value);
}

void Printer::args(const std::vector<Arg> &list) {
  out += '(';
  commas(list, [&](const Arg &a) { arg(a); });
  out += ')';
}

void Printer::type(const TypeExpr &t) {
  auto shape = [&] {
    out += '[';
    exprs(t.shape);
    out += ']';
  };
  switch (t.kind) {
  case TypeExpr::Named:
    out += t.name;
    break;
  case TypeExpr::Pointer:
    out += '*';
    type(*t.element);
    break;
  case TypeExpr::Tile:
    type(*t.element);
    shape();
    break;
  case TypeExpr::TensorDesc:
    out += "tensor_desc<";
    type(*t.element);
    out += ", ";
    shape();
    out += '>';
    break;
  }
}

//===-- statements ------------------------------------------------------------------------------------------------===//

void Printer::pattern(const Pattern &p) {
  if (p.isTuple) out += '(';
  commas(p.names, [&](const Name &n) { out += n.text; });
  if (p.isTuple) out += ')';
}

void Printer::block(const Block &b) {
  out += '{';
  ++indent;
  for (const StmtPtr &s : b.stmts) {
    line();
    stmt(*s);
  }
  --indent;
  if (!b.stmts.empty()) line();
  out += '}';
}

void Printer::ifStmt(const If &s) {
  out += "if ";
  expr(*s.cond);
  out += ' ';
  block(*s.thenBlock);
  if (!s.elseBranch) return;
  out += " else ";
  stmt(*s.elseBranch);
}

void Printer::forStmt(const For &s) {
  out += s.isStatic ? "static for " : "for ";
  out += s.var.text + " in range(";
  if (s.lo || s.step) {
    if (s.lo)
      expr(*s.lo);
    else
      out += '0';
    out += ", ";
  }
  expr(*s.hi);
  if (s.step) {
    out += ", ";
    expr(*s.step);
  }
  for (const Arg &a : s.attrs) {
    out += ", ";
    arg(a);
  }
  out += ") ";
  block(*s.body);
}

void Printer::stmt(const Stmt &s) {
  switch (s.kind) {
  case StmtKind::Let: {
    const auto &let = cast<Let>(s);
    out += let.isVar ? "var " : "let ";
    pattern(let.target);
    out += " = ";
    expr(*let.value);
    out += ';';
    break;
  }
  case StmtKind::Assign: {
    const auto &assign = cast<Assign>(s);
    pattern(assign.target);
    out += ' ';
    if (assign.op) out += spelling(*assign.op);
    out += "= ";
    expr(*assign.value);
    out += ';';
    break;
  }
  case StmtKind::ExprStmt:
    expr(*cast<ExprStmt>(s).value);
    out += ';';
    break;
  case StmtKind::If:
    ifStmt(cast<If>(s));
    break;
  case StmtKind::For:
    forStmt(cast<For>(s));
    break;
  case StmtKind::While:
    out += "while ";
    expr(*cast<While>(s).cond);
    out += ' ';
    block(*cast<While>(s).body);
    break;
  case StmtKind::Break:
    out += "break;";
    break;
  case StmtKind::Continue:
    out += "continue;";
    break;
  case StmtKind::Return:
    out += "return";
    if (const ExprPtr &value = cast<Return>(s).value) {
      out += ' ';
      expr(*value);
    }
    out += ';';
    break;
  case StmtKind::Block:
    block(cast<Block>(s));
    break;
  case StmtKind::AsyncTasks: {
    const auto &tasks = cast<AsyncTasks>(s);
    out += "async_tasks";
    if (!tasks.attrs.empty()) args(tasks.attrs);
    out += ' ';
    block(*tasks.body);
    break;
  }
  case StmtKind::AsyncTask: {
    const auto &task = cast<AsyncTask>(s);
    out += "async_task(";
    if (task.isDefault) out += task.attrs.empty() ? "default" : "default, ";
    commas(task.attrs, [&](const Arg &a) { arg(a); });
    out += ") ";
    block(*task.body);
    break;
  }
  }
}

//===-- files -----------------------------------------------------------------------------------------------------===//

/// Whether a < or > of the expression would be read as the end of a parameter list.
bool hasBareAngle(const Expr &e) {
  if (auto *u = dyn_cast<Unary>(&e)) return hasBareAngle(*u->operand);
  auto *b = dyn_cast<Binary>(&e);
  if (!b) return false;
  return b->op == BinaryOp::Lt || b->op == BinaryOp::Gt || b->op == BinaryOp::Shl || b->op == BinaryOp::Shr ||
         hasBareAngle(*b->lhs) || hasBareAngle(*b->rhs);
}

void Printer::params(char open, const std::vector<Param> &list, char close) {
  out += open;
  commas(list, [&](const Param &p) {
    if (p.isConst) out += "const ";
    out += p.name.text;
    if (p.type) {
      out += ": ";
      type(*p.type);
    }
    if (p.defaultValue) {
      out += " = ";
      expr(*p.defaultValue, open == '<' && hasBareAngle(*p.defaultValue) ? kPostfixPrecedence : 0);
    }
  });
  out += close;
}

void Printer::kernel(const Kernel &k) {
  out += "kernel " + k.name.text;
  if (!k.params.empty()) params('<', k.params, '>');
  params('(', k.args, ')');
  if (!k.launch.empty()) {
    out += " launch";
    args(k.launch);
  }
  if (!k.facts.empty()) {
    out += " requires(";
    exprs(k.facts);
    out += ')';
  }
  out += ' ';
  block(*k.body);
}

void Printer::item(const Item &i) {
  switch (i.kind) {
  case ItemKind::Import:
    out += "import ";
    string(cast<Import>(i).path);
    out += ';';
    break;
  case ItemKind::Const:
    out += "const " + cast<Const>(i).name.text + " = ";
    expr(*cast<Const>(i).value);
    out += ';';
    break;
  case ItemKind::Fn:
    out += "fn " + cast<Fn>(i).name.text;
    params('(', cast<Fn>(i).params, ')');
    out += ' ';
    block(*cast<Fn>(i).body);
    break;
  case ItemKind::Kernel:
    kernel(cast<Kernel>(i));
    break;
  }
}

void Printer::file(const File &f) {
  const Item *previous = nullptr;
  for (const Item *i : f.order) {
    bool body = isa<Fn, Kernel>(*i) || (previous && i->kind != previous->kind);
    if (previous && body) out += '\n';
    item(*i);
    out += '\n';
    previous = i;
  }
}

} // namespace

std::string print(const File &f) {
  Printer p;
  p.file(f);
  return std::move(p.out);
}
std::string print(const Item &i) {
  Printer p;
  p.item(i);
  return std::move(p.out);
}
std::string print(const Stmt &s) {
  Printer p;
  p.stmt(s);
  return std::move(p.out);
}
std::string print(const Expr &e) {
  Printer p;
  p.expr(e);
  return std::move(p.out);
}
std::string print(const TypeExpr &t) {
  Printer p;
  p.type(t);
  return std::move(p.out);
}

} // namespace tlx::ast
