// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements and blocks.
#include "lang/parser_p.h"
#include "llvm/ADT/StringSet.h"

namespace tlx::lang {

using namespace ast;
using llvm::dyn_cast;
using llvm::isa;

//===-- blocks ----------------------------------------------------------------------------------------------------===//

/// From its '{'. Null only if it is nested too deep; broken statements are left out.
BlockPtr Parser::parseBlock() {
  uint32_t open = pos;
  Nested level(*this);
  if (!level.ok()) return nullptr;
  auto block = std::make_unique<Block>(here());
  advance();
  openBraces.push_back(open);
  while (!at(Tok::RBrace) && !at(Tok::Eof) && !leavingBlocks && !tooManyErrors()) {
    uint32_t start = pos;
    if (StmtPtr stmt = parseStmt()) {
      block->stmts.push_back(std::move(stmt));
    } else if (!recovered && !leavingBlocks) {
      if (pos == start && !at(Tok::LBrace)) advance();
      skipStatement();
    }
    recovered = false;
  }
  openBraces.pop_back();
  block->endLoc = here();
  if (leavingBlocks || tooManyErrors() || accept(Tok::RBrace)) return block;
  // Only the innermost block that the end of the file leaves open: its '}' may have been taken by one further in, but
  // more cannot be known.
  failAt(locOf(list.tokens[open]), Diag::SynUnclosed, "{");
  return block;
}

/// The block after the header of `of`. If something else stands there, that is reported, and what was meant as the body
/// is parsed for the errors in it; then `recovered` says whether it was found.
BlockPtr Parser::parseBody(std::string_view of) {
  recovered = false;
  if (at(Tok::LBrace)) return parseBlock();
  bool isItem = of == "fn";
  bool single = false; // a body of one statement without braces
  if (at(Tok::Colon)) {
    failHere(Diag::SynColonBlock);
    advance();
    single = true;
  } else if (at(Tok::Assign) && !isItem) {
    if (!failWithJoinedOperator()) failHere(Diag::SynAssignInExpr);
  } else if (prev().kind == Tok::RParen || prev().kind == Tok::Else) {
    if (!failWithHabit()) failHere(Diag::SynNeedsBraces, of, describe(tok()));
    single = true;
  } else {
    failExpected("'{'");
  }
  uint32_t line = tok().line, here = pos;
  bool block = skipToBlock() && (!single || tok().line == line);
  if (block) {
    parseBlock();
    recovered = true;
  } else if (single && !openBraces.empty()) {
    pos = here;
    Nested level(*this);
    if (level.ok()) parseAndDropStmt();
  }
  return nullptr;
}

bool Parser::endStatement() {
  if (accept(Tok::Semicolon)) return true;
  // If the next line could be a statement, this one is whole. Otherwise the token belongs to a broken expression.
  bool nextStatement = prev().line != tok().line && (at(Tok::Ident) || at(Tok::LBrace) || isKeyword(tok().kind)) &&
                       !atWord("and") && !atWord("or");
  if (!nextStatement && !at(Tok::RBrace) && !at(Tok::Eof)) {
    if (at(Tok::Comma))
      failHere(Diag::SynTupleParens);
    else if (at(Tok::Assign) && !failWithJoinedOperator())
      failHere(Diag::SynAssignInExpr);
    else
      failExpected("';'");
    return false;
  }
  uint32_t end = prev().endCol();
  failAt({file, prev().line, end, end + 1}, Diag::SynMissingSemicolon);
  // A remark after a statement is no mistaken division: that one has the statement's ';' inside it.
  std::string_view rest = text.substr(prev().end);
  if (rest.substr(0, rest.find('\n')).find(';') != std::string_view::npos) explainComment();
  if (!at(Tok::Eof)) errorToken = UINT32_MAX; // the next statement may report at this token
  return true;
}

//===-- statements ------------------------------------------------------------------------------------------------===//

/// A statement that is in the wrong place or follows a broken header: only for the errors in it.
void Parser::parseAndDropStmt() {
  uint32_t start = pos;
  if (!parseStmt() && !recovered && !leavingBlocks) {
    if (pos == start && !at(Tok::LBrace)) advance();
    skipStatement();
  }
  recovered = true;
}

/// A function inside a block. Its header is skipped; its block is parsed for the errors in it.
void Parser::failNested() {
  failHere(Diag::SynNestedFn, textOf(tok()));
  advance();
  Scoped<Context> inner(context, {});
  if (skipToBlock()) {
    parseBlock();
    recovered = true;
  }
}

/// Items, which show where a block really ends, and what may not stand here.
bool Parser::failMisplaced() {
  if (startsItem(pos)) {
    if (at(Tok::Const)) {
      failHere(Diag::SynConstInBlock, textOf(peek(1)));
    } else if (tok().col > 1 && !at(Tok::Import)) {
      failNested();
    } else {
      failHere(Diag::SynItemInBlock, textOf(tok()));
      noteHere(locOf(list.tokens[openBraces.back()]), "this block is still open");
      leavingBlocks = balanceLost = true;
    }
    return true;
  }
  if (context.tasks && !at(Tok::AsyncTask) && !at(Tok::If)) {
    failHere(Diag::SynInTasks);
    Scoped<bool> elsewhere(context.tasks, false);
    parseAndDropStmt();
    return true;
  }
  return false;
}

StmtPtr Parser::parseStmt() {
  if (failMisplaced()) return nullptr;
  switch (tok().kind) {
  case Tok::LBrace:
    return parseBlock();
  case Tok::Let:
  case Tok::Var:
    return parseLet();
  case Tok::If:
    return parseIf();
  case Tok::Static:
  case Tok::For:
    return parseFor();
  case Tok::While:
    return parseWhile();
  case Tok::Break:
  case Tok::Continue:
    return parseJump();
  case Tok::Return:
    return parseReturn();
  case Tok::AsyncTasks:
    return parseTasks();
  case Tok::AsyncTask:
    return parseTask();
  case Tok::Else:
    failHere(Diag::SynElse);
    advance();
    if (at(Tok::If)) return parseIf(), dropped();
    if (at(Tok::LBrace)) return parseBlock(), dropped();
    return nullptr;
  default:
    return parseSimple();
  }
}

/// `let` and `var`.
StmtPtr Parser::parseLet() {
  uint32_t start = pos;
  bool isVar = at(Tok::Var);
  advance();
  if (atWord("mut") && peek(1).kind == Tok::Ident) {
    failHere(Diag::SynWord, "let mut", "var");
    return nullptr;
  }
  Pattern target;
  if (!parsePattern(target)) return nullptr;
  if (at(Tok::Colon) && !(peek(1).kind == Tok::Assign && peek(1).begin == tok().end)) {
    Loc colon = here();
    advance();
    Scoped<bool> quiet(quietTypes, true);
    TypePtr type = parseType();
    if (!type) return nullptr;
    diags.report(Diag::SynLetType, colon, print(*type));
  }
  if (at(Tok::Semicolon)) {
    failHere(Diag::SynNeedsValue, isVar ? "var" : "let", target.isTuple ? "(…)" : target.names[0].text);
    return nullptr;
  }
  if (at(Tok::Comma)) {
    failHere(Diag::SynTupleParens);
    return nullptr;
  }
  if (!expect(Tok::Assign)) return nullptr;
  ExprPtr value = parseExpr();
  if (!value) return nullptr;
  Loc loc = since(start);
  if (!endStatement()) return nullptr;
  return std::make_unique<Let>(loc, isVar, std::move(target), std::move(value));
}

/// The rest of an `if` that is nested too deep, from anywhere in its header, with what else belongs to it.
void Parser::skipIfChain() {
  accept(Tok::If);
  while (skipToBlock()) {
    advance();
    skipBraces();
    if (!accept(Tok::Else)) break;
    accept(Tok::If);
  }
  recovered = true;
}

StmtPtr Parser::parseIf() {
  uint32_t start = pos;
  Nested level(*this); // `else if` recurses
  if (!level.ok()) return skipIfChain(), nullptr;
  advance();
  ExprPtr cond = parseExpr();
  Loc loc = since(start);
  if (!cond && !skipToBlock()) return nullptr;
  BlockPtr thenBlock = parseBody("if");
  if (!thenBlock && !recovered && tooDeep) skipIfChain();
  if (leavingBlocks || (!thenBlock && !recovered)) return nullptr;
  StmtPtr elseBranch;
  bool hasElse = at(Tok::Else) || atWord("elif");
  if (hasElse) {
    elseBranch = parseElse();
    if (!elseBranch && !recovered) return nullptr;
  }
  if (!cond || !thenBlock || (hasElse && !elseBranch)) return dropped();
  return std::make_unique<If>(loc, std::move(cond), std::move(thenBlock), std::move(elseBranch));
}

StmtPtr Parser::parseElse() {
  if (atWord("elif")) {
    failHere(Diag::SynWord, "elif", "else if");
    return parseIf();
  }
  advance();
  if (at(Tok::If)) return parseIf();
  return parseBody("else");
}

StmtPtr Parser::parseWhile() {
  uint32_t start = pos;
  advance();
  ExprPtr cond = parseExpr();
  Loc loc = since(start);
  if (cond && at(Tok::Comma)) {
    failHere(Diag::SynWhileAttr);
    cond.reset();
  }
  if (!cond && !skipToBlock()) return nullptr;
  Scoped<bool> loop(context.loop, true);
  BlockPtr body = parseBody("while");
  if (!body) return nullptr;
  if (!cond) return dropped();
  return std::make_unique<While>(loc, std::move(cond), std::move(body));
}

//===-- for -------------------------------------------------------------------------------------------------------===//

StmtPtr Parser::parseFor() {
  uint32_t start = pos;
  auto loop = std::make_unique<For>(here());
  if (accept(Tok::Static)) {
    loop->isStatic = true;
    if (!at(Tok::For)) {
      failHere(Diag::SynStatic);
      return nullptr;
    }
  }
  advance();
  bool header = parseForHeader(*loop);
  loop->loc = since(start);
  if (!header && !skipToBlock()) return nullptr;
  Scoped<bool> inLoop(context.loop, true);
  loop->body = parseBody("for");
  if (!loop->body) return nullptr;
  if (!header) return dropped();
  return loop;
}

bool Parser::parseForHeader(For &loop) {
  if (at(Tok::LParen)) {
    // `for (int i = 0; i < n; ++i)`: step over it to find the block.
    failHere(Diag::SynForHeader);
    while (!at(Tok::LBrace) && !at(Tok::RBrace) && !at(Tok::Eof) && tok().line == prev().line) advance();
    return false;
  }
  if (!parseName(loop.var)) return false;
  if (!expect(Tok::In)) return false;
  bool prefixed = (atWord("tl") || atWord("tlx")) && peek(1).kind == Tok::Dot;
  const Token &name = prefixed ? peek(2) : tok();
  if (name.kind == Tok::Ident && textOf(name) == "static_range") {
    failHere(Diag::SynStaticRange);
    return false;
  }
  if (prefixed && name.kind == Tok::Ident && textOf(name) == "range") {
    failHere(Diag::SynPrefix, std::string(textOf(tok())) + ".range", "range");
    return false;
  }
  if (!atWord("range") || peek(1).kind != Tok::LParen) {
    failHere(Diag::SynForHeader);
    return false;
  }
  advance();
  return parseRange(loop);
}

bool Parser::parseRange(For &loop) {
  uint32_t open = pos;
  std::vector<Arg> args;
  if (!parseArgs(args)) return false;
  std::vector<ExprPtr> bounds;
  for (Arg &arg : args) {
    if (arg.isPositional())
      bounds.push_back(std::move(arg.value));
    else
      loop.attrs.push_back(std::move(arg));
  }
  if (bounds.empty() || bounds.size() > 3) {
    diags.report(Diag::SynRangeArgs, since(open), bounds.size());
    return false;
  }
  size_t next = 0;
  if (bounds.size() > 1) loop.lo = std::move(bounds[next++]);
  loop.hi = std::move(bounds[next++]);
  if (bounds.size() > 2) loop.step = std::move(bounds[next]);
  return true;
}

//===-- jumps -----------------------------------------------------------------------------------------------------===//

/// `break` and `continue`. Where they stand is wrong or right without regard to what follows, so parsing goes on.
StmtPtr Parser::parseJump() {
  Loc loc = here();
  bool isBreak = at(Tok::Break);
  std::string_view word = textOf(tok());
  if (!context.loop) diags.report(context.task ? Diag::SynLeavesTask : Diag::SynOutsideLoop, loc, word);
  advance();
  if (!endStatement()) return nullptr;
  if (isBreak) return std::make_unique<Break>(loc);
  return std::make_unique<Continue>(loc);
}

StmtPtr Parser::parseReturn() {
  uint32_t start = pos;
  if (context.task) diags.report(Diag::SynLeavesTask, here(), "return");
  advance();
  ExprPtr value;
  if (!at(Tok::Semicolon) && !at(Tok::RBrace)) {
    value = parseExpr();
    if (!value) return nullptr;
  }
  Loc loc = since(start);
  if (!endStatement()) return nullptr;
  return std::make_unique<Return>(loc, std::move(value));
}

//===-- tasks -----------------------------------------------------------------------------------------------------===//

StmtPtr Parser::parseTasks() {
  uint32_t start = pos;
  advance();
  std::vector<Arg> attrs;
  bool header = !at(Tok::LParen) || parseArgs(attrs, "async_tasks");
  Loc loc = since(start);
  if (!header && !skipToBlock()) return nullptr;
  Scoped<Context> inside(context, {.loop = false, .task = context.task, .tasks = true});
  BlockPtr body = parseBody("async_tasks");
  if (!body) return nullptr;
  if (!header) return dropped();
  return std::make_unique<AsyncTasks>(loc, std::move(attrs), std::move(body));
}

StmtPtr Parser::parseTask() {
  uint32_t start = pos;
  if (!context.tasks) failHere(Diag::SynTaskOutside);
  advance();
  std::vector<Arg> args;
  bool header = parseArgs(args);
  Loc loc = since(start);
  bool isDefault = false;
  std::vector<Arg> attrs;
  for (Arg &arg : args) {
    auto *ref = dyn_cast<NameRef>(arg.value.get());
    auto *string = dyn_cast<StringLit>(arg.value.get());
    if (!arg.isPositional())
      attrs.push_back(std::move(arg));
    else if (&arg == &args[0] && ref && ref->name == "default")
      isDefault = true;
    else if (&arg == &args[0] && string && string->value == "default")
      diags.report(Diag::SynWord, arg.loc, "\"default\"", "default");
    else
      diags.report(Diag::SynNamedOnly, arg.loc, "async_task, after 'default',");
  }
  if (!header && !skipToBlock()) return nullptr;
  Scoped<Context> inside(context, {.loop = false, .task = true, .tasks = false});
  BlockPtr body = parseBody("async_task");
  if (!body) return nullptr;
  if (!header) return dropped();
  return std::make_unique<AsyncTask>(loc, isDefault, std::move(attrs), std::move(body));
}

//===-- assignments and calls -------------------------------------------------------------------------------------===//

struct CompoundOp {
  Tok token;
  BinaryOp op;
};
static constexpr CompoundOp kCompoundOps[] = {
    {Tok::PlusAssign, BinaryOp::Add},  {Tok::MinusAssign, BinaryOp::Sub},   {Tok::StarAssign, BinaryOp::Mul},
    {Tok::SlashAssign, BinaryOp::Div}, {Tok::PercentAssign, BinaryOp::Mod}, {Tok::AndAssign, BinaryOp::BitAnd},
    {Tok::OrAssign, BinaryOp::BitOr},  {Tok::XorAssign, BinaryOp::BitXor},  {Tok::ShlAssign, BinaryOp::Shl},
    {Tok::ShrAssign, BinaryOp::Shr},
};

static std::optional<BinaryOp> compoundOp(Tok kind) {
  for (const CompoundOp &entry : kCompoundOps)
    if (entry.token == kind) return entry.op;
  return std::nullopt;
}

/// `name =`, `name +=` or `(a, b, …) =`. Tuples of names are scanned to their end, so a value in parentheses costs
/// nothing but that.
bool Parser::atAssignment() const {
  auto assigns = [&](uint32_t n) { return peek(n).kind == Tok::Assign || compoundOp(peek(n).kind); };
  if (at(Tok::Ident)) return assigns(1);
  if (!at(Tok::LParen)) return false;
  uint32_t n = 1;
  while (peek(n).kind == Tok::Ident || peek(n).kind == Tok::Comma) ++n;
  return peek(n).kind == Tok::RParen && n > 1 && assigns(n + 1);
}

StmtPtr Parser::parseAssign() {
  uint32_t start = pos;
  Pattern target;
  if (!parsePattern(target)) return nullptr;
  Loc opLoc = here();
  std::optional<BinaryOp> op = compoundOp(tok().kind);
  if (op && (target.isTuple || target.names[0].isDiscard())) {
    failHere(Diag::SynCompoundTarget, textOf(tok()));
    return nullptr;
  }
  advance();
  ExprPtr value = parseExpr();
  if (!value) return nullptr;
  Loc loc = since(start);
  if (!endStatement()) return nullptr;
  return std::make_unique<Assign>(loc, std::move(target), op, opLoc, std::move(value));
}

/// An assignment, or an expression that has an effect. Most of what people try from other languages ends up here.
StmtPtr Parser::parseSimple() {
  if (atAssignment()) return parseAssign();
  uint32_t start = pos;
  if (atWord("with") && peek(1).kind == Tok::Ident) {
    failHere(Diag::SynWith);
    if (!skipToBlock()) return nullptr;
    parseBlock();
    return dropped();
  }
  if ((atWord("def") || atWord("func") || atWord("function")) && peek(1).kind == Tok::Ident) {
    failNested();
    return nullptr;
  }
  if (at(Tok::Ident) && peek(1).kind == Tok::Ident && peek(2).kind == Tok::Assign) { // int x = 3;
    failHere(Diag::SynDeclare, textOf(peek(1)));
    return nullptr;
  }
  ExprPtr value = parseExpr();
  if (!value) return nullptr;
  Loc loc = since(start);
  if (at(Tok::Assign) || compoundOp(tok().kind)) {
    if (failWithJoinedOperator()) return nullptr;
    failAt(loc, isa<Index>(*value) ? Diag::SynAssignIndex : Diag::SynAssignTarget);
    return nullptr;
  }
  if (!endStatement()) return nullptr;
  if (!isa<Call, MethodCall>(*value)) {
    auto *binary = dyn_cast<Binary>(value.get());
    diags.report(binary && binary->op == BinaryOp::Eq ? Diag::SynCompareStmt : Diag::SynNoEffect, loc);
    return dropped();
  }
  return std::make_unique<ExprStmt>(loc, std::move(value));
}

//===-- patterns --------------------------------------------------------------------------------------------------===//

/// A name or `_`.
bool Parser::parseNamePattern(Name &name) {
  if (at(Tok::LParen)) {
    failHere(Diag::SynTuplePattern);
    return false;
  }
  return parseName(name);
}

bool Parser::parsePattern(Pattern &pattern) {
  uint32_t start = pos;
  if (!at(Tok::LParen)) {
    pattern.names.emplace_back();
    bool ok = parseNamePattern(pattern.names.back());
    pattern.loc = since(start);
    return ok;
  }
  advance();
  pattern.isTuple = true;
  llvm::StringSet<> seen;
  while (!at(Tok::RParen)) {
    Name name;
    if (!parseNamePattern(name)) return false;
    if (!name.isDiscard() && !seen.insert(name.text).second) diags.report(Diag::SynDuplicateName, name.loc, name.text);
    pattern.names.push_back(std::move(name));
    if (!accept(Tok::Comma)) break;
  }
  if (!expectClose(Tok::RParen, start, "',' or ')'")) return false;
  pattern.loc = since(start);
  if (pattern.names.size() < 2) {
    failAt(pattern.loc, Diag::SynTuplePattern);
    return false;
  }
  return true;
}

} // namespace tlx::lang
