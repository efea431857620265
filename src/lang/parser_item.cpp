// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What stands at the top of a file, and types.
#include <algorithm>

#include "lang/parser_p.h"
#include "llvm/ADT/StringSet.h"

namespace tlx::lang {

using namespace ast;

//===-- items -----------------------------------------------------------------------------------------------------===//

void Parser::parseItem(File &result) {
  unsigned errorsBefore = diags.errorCount();
  uint32_t first = tok().line;
  leavingBlocks = false;
  context = {};
  auto add = [&](auto &list, auto item) {
    if (!item) return leavingBlocks ? void() : skipToItem();
    uint32_t last = prev().line;
    item->incomplete =
        diags.errorCount() != errorsBefore || std::any_of(lexerErrorLines.begin(), lexerErrorLines.end(),
                                                          [&](uint32_t line) { return line >= first && line <= last; });
    result.order.push_back(item.get());
    list.push_back(std::move(item));
  };
  switch (tok().kind) {
  case Tok::Import:
    return add(result.imports, parseImport());
  case Tok::Const:
    return add(result.consts, parseConst());
  case Tok::Fn:
    return add(result.fns, parseFn());
  case Tok::Kernel:
    return add(result.kernels, parseKernel());
  default:
    parseStrayItem();
  }
}

/// Text that belongs to no item: one message, up to the next item.
void Parser::parseStrayItem() {
  bool call =
      at(Tok::Ident) && (peek(1).kind == Tok::LParen || peek(1).kind == Tok::Assign || peek(1).kind == Tok::Dot);
  if (balanceLost) {
    errorToken = pos;
  } else if (at(Tok::RBrace)) {
    failHere(Diag::SynUnmatched, "}");
  } else if (atWord("def") || atWord("func") || atWord("function") || atWord("void") || atWord("__global__")) {
    failHere(Diag::SynDef, textOf(tok()));
  } else if (call || at(Tok::Let) || at(Tok::Var) || at(Tok::If) || at(Tok::For) || at(Tok::While) || at(Tok::Return) ||
             at(Tok::AsyncTasks)) {
    failHere(Diag::SynStmtAtTop);
    if (pos && prev().kind == Tok::RBrace) noteHere(locOf(prev()), "this '}' ended the last one");
  } else {
    failExpected("'kernel', 'fn', 'const' or 'import'");
  }
  advance();
  skipToItem();
}

std::unique_ptr<Import> Parser::parseImport() {
  uint32_t start = pos;
  auto item = std::make_unique<Import>(here());
  advance();
  if (!at(Tok::String)) {
    failExpected("the name of a file in double quotes");
    return nullptr;
  }
  item->path = unescapeString(textOf(tok()));
  item->pathLoc = here();
  advance();
  item->loc = since(start);
  return endStatement() ? std::move(item) : nullptr;
}

std::unique_ptr<Const> Parser::parseConst() {
  uint32_t start = pos;
  auto item = std::make_unique<Const>(here());
  advance();
  if (!parseName(item->name)) return nullptr;
  if (at(Tok::Colon) && peek(1).kind == Tok::Ident) {
    Loc colon = here();
    advance();
    Scoped<bool> quiet(quietTypes, true);
    TypePtr type = parseType();
    if (!type) return nullptr;
    diags.report(Diag::SynLetType, colon, print(*type));
  }
  if (!expect(Tok::Assign)) return nullptr;
  item->value = parseExpr();
  if (!item->value) return nullptr;
  item->loc = since(start);
  return endStatement() ? std::move(item) : nullptr;
}

std::unique_ptr<Fn> Parser::parseFn() {
  uint32_t start = pos;
  auto item = std::make_unique<Fn>(here());
  advance();
  bool header = parseName(item->name) && parseParamList(ParamList::FnParams, item->params);
  item->loc = since(start);
  if (header) {
    checkNamedOnce({&item->params});
    if (at(Tok::Minus) && peek(1).kind == Tok::Greater) {
      failHere(Diag::SynResultType);
      header = false;
    }
  }
  if (!header && !skipToBlock()) return nullptr;
  item->body = parseBody("fn");
  return item->body ? std::move(item) : nullptr;
}

std::unique_ptr<Kernel> Parser::parseKernel() {
  uint32_t start = pos;
  auto item = std::make_unique<Kernel>(here());
  advance();
  bool header = parseKernelHeader(*item);
  item->loc = since(start);
  if (!header && !skipToBlock()) return nullptr;
  item->body = parseBody("kernel");
  return item->body ? std::move(item) : nullptr;
}

bool Parser::parseKernelHeader(Kernel &kernel) {
  if (!parseName(kernel.name)) return false;
  if (at(Tok::Less) && !parseParamList(ParamList::CompileTime, kernel.params)) return false;
  if (pos && prev().kind == Tok::Greater && !at(Tok::LParen)) {
    // `<A: i1 = 3 > 2>(…)`: the first '>' closed the list.
    failAt(locOf(prev()), Diag::SynExpected, "'(' after the parameters (a '>' in a default stands in parentheses)",
           describe(tok()));
    return false;
  }
  if (!parseParamList(ParamList::KernelArgs, kernel.args)) return false;
  checkNamedOnce({&kernel.params, &kernel.args});
  bool seenLaunch = false, seenRequires = false;
  while (atWord("launch") || atWord("requires")) {
    bool &seen = atWord("launch") ? seenLaunch : seenRequires;
    if (seen) diags.report(Diag::SynDuplicateClause, here(), textOf(tok()));
    seen = true;
    if (!parseClause(kernel)) return false;
  }
  if (at(Tok::LBrace)) return true;
  if (at(Tok::Colon))
    failHere(Diag::SynColonBlock);
  else if (at(Tok::Minus) && peek(1).kind == Tok::Greater)
    failExpected("'{' (a kernel returns nothing)");
  else
    failExpected("'launch(…)', 'requires(…)' or '{'");
  return false;
}

/// `launch(num_warps = 4)` or `requires(cols <= BLOCK, aligned(x, 16))`. A second clause of a kind replaces the first.
bool Parser::parseClause(Kernel &kernel) {
  bool isLaunch = atWord("launch");
  advance();
  if (isLaunch) {
    kernel.launch.clear();
    return parseArgs(kernel.launch, "launch");
  }
  uint32_t open = pos;
  if (!expect(Tok::LParen)) return false;
  kernel.facts.clear();
  return parseElements(kernel.facts, Tok::RParen, open);
}

//===-- parameters ------------------------------------------------------------------------------------------------===//

void Parser::checkNamedOnce(const std::vector<const std::vector<Param> *> &lists) {
  llvm::StringSet<> names;
  for (const auto *list : lists)
    for (const Param &param : *list)
      if (!names.insert(param.name.text).second) diags.report(Diag::SynDuplicateName, param.name.loc, param.name.text);
}

bool Parser::parseParamList(ParamList kind, std::vector<Param> &params) {
  uint32_t open = pos;
  bool angles = kind == ParamList::CompileTime;
  Tok close = angles ? Tok::Greater : Tok::RParen;
  if (!expect(angles ? Tok::Less : Tok::LParen)) return false;
  while (!at(close)) {
    Param param;
    if (!parseParam(kind, param)) return false;
    params.push_back(std::move(param));
    if (!accept(Tok::Comma)) break;
  }
  return expectClose(close, open, angles ? "',' or '>'" : "',' or ')'");
}

bool Parser::parseParam(ParamList list, Param &param) {
  uint32_t start = pos;
  if (at(Tok::Const)) {
    if (list != ParamList::FnParams) {
      failHere(Diag::SynConstArg);
      return false;
    }
    advance();
    param.isConst = true;
  }
  // `float *x`, `int n`: the order of C.
  bool typeFirst =
      at(Tok::Ident) && (peek(1).kind == Tok::Ident || (peek(1).kind == Tok::Star && peek(2).kind == Tok::Ident));
  if (typeFirst) {
    failHere(Diag::SynArgOrder);
    return false;
  }
  if (!parseName(param.name)) return false;
  if (param.name.isDiscard()) {
    failAt(param.name.loc, Diag::SynDiscardValue);
    return false;
  }
  if (accept(Tok::Colon)) {
    param.type = parseType();
    if (!param.type) return false;
  } else if (list != ParamList::FnParams) {
    failAt(param.name.loc, Diag::SynArgType, param.name.text);
    return false;
  }
  if (at(Tok::Assign)) {
    Loc equals = here();
    advance();
    Scoped<bool> angles(noAngles, list == ParamList::CompileTime);
    param.defaultValue = parseExpr();
    if (!param.defaultValue) return false;
    if (list == ParamList::KernelArgs) {
      diags.report(Diag::SynArgDefault, equals);
      param.defaultValue.reset();
    }
  }
  param.loc = since(start);
  return true;
}

//===-- types -----------------------------------------------------------------------------------------------------===//

TypePtr Parser::parseType() {
  uint32_t start = pos;
  Nested level(*this);
  if (!level.ok()) return nullptr;
  TypePtr type;
  if (accept(Tok::Star)) {
    type = std::make_unique<TypeExpr>();
    type->kind = TypeExpr::Pointer;
    type->element = parseType();
    if (!type->element) return nullptr;
  } else {
    type = parseNamedType();
    if (!type) return nullptr;
  }
  type->loc = since(start);
  return type;
}

/// A name, a tile of it, or a descriptor.
TypePtr Parser::parseNamedType() {
  auto type = std::make_unique<TypeExpr>();
  if (!at(Tok::Ident) && !at(Tok::Fn)) {
    failExpected("a type");
    return nullptr;
  }
  bool descriptor = atWord("tensor_desc");
  std::string_view name = textOf(tok());
  std::string_view ours = dtypeSuggestion(name);
  if ((name == "tl" || name == "tlx") && peek(1).kind == Tok::Dot && peek(2).kind == Tok::Ident) {
    name = textOf(peek(2));
    ours = dtypeSuggestion(name).empty() ? name : dtypeSuggestion(name);
    Loc loc = here();
    loc.endCol = peek(2).endCol();
    if (!quietTypes) diags.report(Diag::SynWord, loc, std::string(textOf(tok())) + "." + std::string(name), ours);
    advance();
    advance();
    name = ours;
  } else if (!descriptor && peek(1).kind == Tok::Star) { // float *
    std::string_view shown = ours.empty() ? name : ours;
    failHere(Diag::SynWord, std::string(name) + "*", "*" + std::string(shown));
    return nullptr;
  } else if (!ours.empty()) { // as good as the right name from here on
    if (!quietTypes) diags.report(Diag::SynWord, here(), name, ours);
    name = ours;
  }
  type->name = name;
  type->loc = here();
  advance();
  if (descriptor) {
    type->kind = TypeExpr::TensorDesc;
    type->name.clear();
    auto form = [&](bool there) { // of what belongs here next
      if (!there) failHere(Diag::SynTensorDesc);
      return there;
    };
    if (!form(at(Tok::Less)) || !expect(Tok::Less)) return nullptr;
    type->element = parseType();
    if (!type->element || !form(at(Tok::Comma)) || !expect(Tok::Comma) || !form(at(Tok::LBracket))) return nullptr;
    if (!parseShape(type->shape) || !expect(Tok::Greater)) return nullptr;
  } else if (at(Tok::LBracket)) {
    auto tile = std::make_unique<TypeExpr>();
    tile->kind = TypeExpr::Tile;
    tile->element = std::move(type);
    if (!parseShape(tile->shape)) return nullptr;
    return tile;
  }
  return type;
}

bool Parser::parseShape(std::vector<ExprPtr> &shape) {
  uint32_t open = pos;
  if (!expect(Tok::LBracket)) return false;
  if (at(Tok::RBracket)) {
    failExpected("an extent");
    return false;
  }
  return parseElements(shape, Tok::RBracket, open);
}

} // namespace tlx::lang
