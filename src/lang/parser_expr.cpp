// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions: precedence climbing over unary, postfix and primary expressions.
#include "lang/parser_p.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

namespace tlx::lang {

using namespace ast;
using llvm::dyn_cast;
using llvm::isa;

static std::optional<BinaryOp> binaryOp(Tok kind) {
  switch (kind) {
  case Tok::OrOr:
    return BinaryOp::LogicalOr;
  case Tok::AndAnd:
    return BinaryOp::LogicalAnd;
  case Tok::EqEq:
    return BinaryOp::Eq;
  case Tok::NotEq:
    return BinaryOp::Ne;
  case Tok::Less:
    return BinaryOp::Lt;
  case Tok::LessEq:
    return BinaryOp::Le;
  case Tok::Greater:
    return BinaryOp::Gt;
  case Tok::GreaterEq:
    return BinaryOp::Ge;
  case Tok::Or:
    return BinaryOp::BitOr;
  case Tok::Xor:
    return BinaryOp::BitXor;
  case Tok::And:
    return BinaryOp::BitAnd;
  case Tok::Shl:
    return BinaryOp::Shl;
  case Tok::Shr:
    return BinaryOp::Shr;
  case Tok::Plus:
    return BinaryOp::Add;
  case Tok::Minus:
    return BinaryOp::Sub;
  case Tok::Star:
    return BinaryOp::Mul;
  case Tok::Slash:
    return BinaryOp::Div;
  case Tok::Percent:
    return BinaryOp::Mod;
  default:
    return std::nullopt;
  }
}

static bool isAngle(Tok kind) {
  return kind == Tok::Less || kind == Tok::Greater || kind == Tok::Shl || kind == Tok::Shr;
}

ExprPtr Parser::grown(ExprPtr expr, unsigned childHeight) {
  if (childHeight + 1 > kMaxExprHeight) {
    failAt(expr->loc, Diag::SynExprHeight, kMaxExprHeight);
    return nullptr;
  }
  expr->height = static_cast<uint16_t>(childHeight + 1);
  return expr;
}

static unsigned highest(const std::vector<ExprPtr> &exprs) {
  unsigned height = 0;
  for (const ExprPtr &e : exprs) height = std::max<unsigned>(height, e->height);
  return height;
}

static unsigned highest(const std::vector<Arg> &args) {
  unsigned height = 0;
  for (const Arg &a : args) height = std::max<unsigned>(height, a.value->height);
  return height;
}

bool Parser::parseName(Name &name, std::string_view what) {
  if (!at(Tok::Ident)) {
    if (isKeyword(tok().kind) && what == "a name")
      failHere(Diag::SynKeywordName, textOf(tok()));
    else
      failExpected(what);
    return false;
  }
  name = {std::string(textOf(tok())), here()};
  advance();
  return true;
}

//===-- operators -------------------------------------------------------------------------------------------------===//

ExprPtr Parser::parseExpr() {
  Nested level(*this);
  if (!level.ok()) return nullptr;
  return parseBinary(1);
}

ExprPtr Parser::parseBinary(int minPrecedence) {
  uint32_t start = pos;
  ExprPtr lhs = parseUnary();
  bool compared = false;
  while (lhs) {
    std::optional<BinaryOp> op = binaryOp(tok().kind);
    if (!op || precedence(*op) < minPrecedence) return lhs;
    if (noAngles && isAngle(tok().kind)) {
      if (at(Tok::Greater)) return lhs; // closes the list
      failHere(Diag::SynBareAngle, textOf(tok()));
      return nullptr;
    }
    if (isComparison(*op) && compared) {
      failHere(Diag::SynChainedComparison);
      return nullptr;
    }
    compared = isComparison(*op);
    Loc opLoc = here();
    advance();
    ExprPtr rhs = parseBinary(precedence(*op) + 1);
    if (!rhs) return nullptr;
    unsigned height = std::max(lhs->height, rhs->height);
    lhs = grown(std::make_unique<Binary>(since(start), *op, opLoc, std::move(lhs), std::move(rhs)), height);
  }
  return nullptr;
}

ExprPtr Parser::parseUnary() {
  uint32_t start = pos;
  UnaryOp op;
  if (at(Tok::Minus))
    op = UnaryOp::Neg;
  else if (at(Tok::Not))
    op = UnaryOp::Not;
  else if (at(Tok::Tilde))
    op = UnaryOp::BitNot;
  else
    return parsePostfix();
  // `--x` would be a double negation, which nobody writes on purpose.
  if (at(Tok::Minus) && joined(Tok::Minus) && failWithJoinedOperator()) return nullptr;
  Nested level(*this);
  if (!level.ok()) return nullptr;
  Loc opLoc = here();
  advance();
  ExprPtr operand = parseUnary();
  if (!operand) return nullptr;
  unsigned height = operand->height;
  return grown(std::make_unique<Unary>(since(start), op, opLoc, std::move(operand)), height);
}

//===-- postfix ---------------------------------------------------------------------------------------------------===//

ExprPtr Parser::parsePostfix() {
  uint32_t start = pos;
  ExprPtr e = parsePrimary();
  while (e) {
    if (at(Tok::LParen))
      e = parseCall(std::move(e), start);
    else if (at(Tok::LBracket))
      e = parseIndex(std::move(e), start);
    else if (at(Tok::Dot))
      e = parseMember(std::move(e), start);
    else
      break;
  }
  return e;
}

ExprPtr Parser::parseCall(ExprPtr callee, uint32_t start) {
  auto *ref = dyn_cast<NameRef>(callee.get());
  if (!ref || prev().kind != Tok::Ident) {
    failHere(Diag::SynCallee);
    return nullptr;
  }
  Name name{ref->name, ref->loc};
  std::vector<Arg> args;
  if (!parseArgs(args)) return nullptr;
  unsigned height = highest(args);
  return grown(std::make_unique<Call>(since(start), std::move(name), std::move(args)), height);
}

/// `tl.dot(…)`, as the Triton languages write it. A descriptor may have such a name, so the methods stay methods.
static bool isForeignPrefix(const Expr &object, const std::string &member) {
  auto *ref = dyn_cast<NameRef>(&object);
  if (!ref || (ref->name != "tl" && ref->name != "tlx" && ref->name != "triton")) return false;
  return member != "to" && member != "T" && member != "load" && member != "store";
}

ExprPtr Parser::parseMember(ExprPtr object, uint32_t start) {
  advance();
  Name name;
  if (!parseName(name, "the name of a method after '.'")) return nullptr;
  if (isForeignPrefix(*object, name.text)) {
    std::string_view dtype = dtypeSuggestion(name.text);
    failAt(since(start), Diag::SynPrefix, llvm::cast<NameRef>(*object).name + "." + name.text,
           dtype.empty() ? name.text : dtype);
    return nullptr;
  }
  if (!at(Tok::LParen)) {
    unsigned height = object->height;
    return grown(std::make_unique<Member>(since(start), std::move(object), std::move(name)), height);
  }
  std::vector<Arg> args;
  if (!parseArgs(args)) return nullptr;
  unsigned height = std::max<unsigned>(object->height, highest(args));
  return grown(std::make_unique<MethodCall>(since(start), std::move(object), std::move(name), std::move(args)), height);
}

ExprPtr Parser::parseIndex(ExprPtr object, uint32_t start) {
  uint32_t open = pos;
  advance();
  Scoped<bool> angles(noAngles, false);
  std::vector<Subscript> subscripts;
  unsigned height = object->height;
  do {
    if (!subscripts.empty() && at(Tok::RBracket)) break; // a trailing comma
    Subscript subscript;
    if (!parseSubscript(subscript)) return nullptr;
    if (subscript.value) height = std::max<unsigned>(height, subscript.value->height);
    subscripts.push_back(std::move(subscript));
  } while (accept(Tok::Comma));
  if (at(Tok::Colon) || (prev().kind == Tok::Colon && !at(Tok::RBracket) && !at(Tok::Eof))) {
    failHere(Diag::SynSlice);
    return nullptr;
  }
  if (!expectClose(Tok::RBracket, open, "',' or ']'")) return nullptr;
  return grown(std::make_unique<Index>(since(start), std::move(object), std::move(subscripts)), height);
}

bool Parser::parseSubscript(Subscript &subscript) {
  uint32_t start = pos;
  if (accept(Tok::Colon)) {
    subscript.kind = Subscript::All;
  } else if (atWord("None")) {
    advance();
    subscript.kind = Subscript::NewAxis;
  } else {
    subscript.value = parseExpr();
    if (!subscript.value) return false;
  }
  subscript.loc = since(start);
  return true;
}

//===-- lists -----------------------------------------------------------------------------------------------------===//

bool Parser::parseArgs(std::vector<Arg> &args, std::string_view onlyNamed) {
  uint32_t open = pos;
  if (!expect(Tok::LParen)) return false;
  Scoped<bool> angles(noAngles, false);
  while (!at(Tok::RParen)) {
    uint32_t start = pos;
    Arg arg;
    if (at(Tok::Ident) && peek(1).kind == Tok::Assign) {
      parseName(arg.name);
      advance();
    }
    arg.value = parseExpr();
    if (!arg.value) return false;
    arg.loc = since(start);
    args.push_back(std::move(arg));
    if (!accept(Tok::Comma)) break;
  }
  if (!expectClose(Tok::RParen, open, "',' or ')'")) return false;
  checkArgs(args, onlyNamed);
  return true;
}

/// These leave a usable tree, so parsing goes on.
void Parser::checkArgs(const std::vector<Arg> &args, std::string_view onlyNamed) {
  llvm::StringSet<> names;
  bool named = false;
  for (const Arg &arg : args) {
    if (!arg.isPositional()) {
      named = true;
      if (!names.insert(arg.name.text).second) diags.report(Diag::SynDuplicateName, arg.name.loc, arg.name.text);
    } else if (!onlyNamed.empty()) {
      diags.report(Diag::SynNamedOnly, arg.loc, onlyNamed);
    } else if (named) {
      diags.report(Diag::SynPositionalAfterNamed, arg.loc);
    }
  }
}

bool Parser::parseElements(std::vector<ExprPtr> &elements, Tok close, uint32_t open) {
  Scoped<bool> angles(noAngles, false);
  while (!at(close)) {
    ExprPtr e = parseExpr();
    if (!e) return false;
    elements.push_back(std::move(e));
    if (!accept(Tok::Comma)) break;
  }
  return expectClose(close, open, close == Tok::RParen ? "',' or ')'" : "',' or ']'");
}

ExprPtr Parser::parseParens() {
  uint32_t open = pos;
  advance();
  std::vector<ExprPtr> elements;
  if (!parseElements(elements, Tok::RParen, open)) return nullptr;
  bool comma = list.tokens[pos - 2].kind == Tok::Comma;
  if (elements.size() == 1 && !comma) return std::move(elements[0]);
  if (elements.size() < 2) {
    diags.report(Diag::SynTupleSize, since(open));
    errorToken = pos;
    return nullptr;
  }
  unsigned height = highest(elements);
  return grown(std::make_unique<Tuple>(since(open), std::move(elements)), height);
}

ExprPtr Parser::parseList() {
  uint32_t open = pos;
  advance();
  std::vector<ExprPtr> elements;
  if (!parseElements(elements, Tok::RBracket, open)) return nullptr;
  unsigned height = highest(elements);
  return grown(std::make_unique<List>(since(open), std::move(elements)), height);
}

//===-- primary ---------------------------------------------------------------------------------------------------===//

/// What follows `not` if it is meant as an operator and not as the name of a function.
static bool startsOperand(Tok kind) {
  return kind == Tok::Ident || kind == Tok::Int || kind == Tok::True || kind == Tok::False || kind == Tok::Not;
}

ExprPtr Parser::parsePrimary() {
  const Token &token = tok();
  Loc loc = here();
  switch (token.kind) {
  case Tok::Int:
    return advance(), std::make_unique<IntLit>(loc, token.intValue);
  case Tok::Float:
    return advance(), std::make_unique<FloatLit>(loc, token.floatValue);
  case Tok::Inf:
    return advance(), std::make_unique<FloatLit>(loc, std::numeric_limits<double>::infinity());
  case Tok::Nan:
    return advance(), std::make_unique<FloatLit>(loc, std::numeric_limits<double>::quiet_NaN());
  case Tok::True:
  case Tok::False:
    return advance(), std::make_unique<BoolLit>(loc, token.kind == Tok::True);
  case Tok::String:
    return advance(), std::make_unique<StringLit>(loc, unescapeString(textOf(token)));
  case Tok::LParen:
    return parseParens();
  case Tok::LBracket:
    return parseList();
  case Tok::Ident:
    break;
  case Tok::Star:
    if (!joined(Tok::Star) && (pos == 0 || !endsOperand(prev().kind))) {
      failHere(Diag::SynDeref);
      return nullptr;
    }
    failExpected("an expression");
    return nullptr;
  case Tok::And:
    failHere(Diag::SynAddressOf);
    return nullptr;
  case Tok::Assign:
    if (failWithHabit()) return nullptr;
    [[fallthrough]];
  default:
    failExpected("an expression");
    return nullptr;
  }
  std::string_view name = textOf(token);
  if (name == "_") {
    failHere(Diag::SynDiscardValue);
    return nullptr;
  }
  std::string_view ours =
      llvm::StringSwitch<std::string_view>(name).Case("True", "true").Case("False", "false").Default("");
  if (name == "not" && startsOperand(peek(1).kind)) ours = "!";
  if (!ours.empty()) {
    failHere(Diag::SynWord, name, ours);
    return nullptr;
  }
  advance();
  return std::make_unique<NameRef>(loc, std::string(name));
}

} // namespace tlx::lang
