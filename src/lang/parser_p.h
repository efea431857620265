// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to the parser: the class whose parts stand in parser.cpp (tokens, messages, recovery), parser_item.cpp,
// parser_stmt.cpp and parser_expr.cpp.
//
// A parse function that fails has reported (or knows that the lexer has) and returns null or false; its callers return
// at once, up to the statement or item, which skips to a place where the text makes sense again. So a statement gives
// one message, and errors in different statements are independent.
#pragma once
#include <string>
#include <vector>

#include "lang/lexer.h"
#include "lang/parser.h"

namespace tlx::lang {

class Parser {
public:
  Parser(std::string_view text, uint32_t file, TokenList list, Diagnostics &diags)
      : text(text), file(file), list(std::move(list)), diags(diags) {}
  std::unique_ptr<ast::File> parse();

private:
  //===-- tokens (parser.cpp) -------------------------------------------------------------------------------------===//
  void indexLines();
  const Token &tok() const { return list.tokens[pos]; }
  const Token &peek(uint32_t n) const { return list.tokens[std::min<size_t>(size_t(pos) + n, list.tokens.size() - 1)]; }
  const Token &prev() const { return list.tokens[pos ? pos - 1 : 0]; }
  bool at(Tok kind) const { return tok().kind == kind; }
  bool atWord(std::string_view word) const { return at(Tok::Ident) && textOf(tok()) == word; }
  void advance() {
    if (!at(Tok::Eof)) ++pos;
  }
  bool accept(Tok kind);
  /// The token before this one is of this kind and touches it: two tokens that look like one operator elsewhere.
  bool joined(Tok before) const { return pos && prev().kind == before && prev().end == tok().begin; }
  std::string_view textOf(const Token &token) const { return text.substr(token.begin, token.end - token.begin); }
  Loc locOf(const Token &token) const { return {file, token.line, token.col, token.endCol()}; }
  Loc here() const { return locOf(tok()); }
  /// From a token to the last one consumed, or as far as its line goes.
  Loc since(uint32_t start) const;

  //===-- messages (parser.cpp) -----------------------------------------------------------------------------------===//
  /// Whether an error at the current token is news: not after an Error token, nor where one was reported already.
  bool isNews() const;
  template <typename... Args> void failHere(Diag id, Args &&...args) {
    failAt(here(), id, std::forward<Args>(args)...);
  }
  /// Reports an error that belongs to the current token at `loc`, and no other for this token after it.
  template <typename... Args> void failAt(Loc loc, Diag id, Args &&...args) {
    reported = isNews() ? &diags.report(id, loc, std::forward<Args>(args)...) : nullptr;
    errorToken = pos;
  }
  /// Reports that `what` ("','", "a name") should stand here, or better the habit that explains the token.
  void failExpected(std::string_view what);
  bool failWithHabit();
  bool failWithJoinedOperator();
  bool expect(Tok kind);
  /// Expects the end of something that `open` began, after a list or expression.
  bool expectClose(Tok kind, uint32_t open, std::string_view what);
  void explainComment();
  void noteHere(Loc loc, std::string message) {
    if (reported) reported->notes.push_back({loc, std::move(message)});
  }
  std::string describe(const Token &token) const;
  /// The type of another language, or one of ours: `int x = 3;`.
  bool looksLikeTypeName(const Token &token) const;

  //===-- recovery (parser.cpp) -----------------------------------------------------------------------------------===//
  bool startsItem(uint32_t index) const;
  /// After a broken statement: past its ';' or block, or to the '}', statement or item that follows.
  void skipStatement();
  /// After a broken header: to its '{', if there is one before anything that cannot be part of the header.
  bool skipToBlock();
  void skipToItem();
  /// Past a '}' and what follows up to it, from inside the braces.
  void skipBraces();
  bool tooManyErrors() const { return diags.errorCount() > kMaxSyntaxErrors; }

  /// One level of nesting, for as long as it lives.
  class Nested {
  public:
    explicit Nested(Parser &parser) : parser(parser) { ++parser.nesting; }
    ~Nested() {
      if (--parser.nesting + 8 < kMaxNesting) parser.tooDeep = false;
    }
    Nested(const Nested &) = delete;
    /// False, and reported, if that is too deep.
    bool ok() const;

  private:
    Parser &parser;
  };

  //===-- files (parser_item.cpp) ---------------------------------------------------------------------------------===//
  void parseItem(ast::File &result);
  std::unique_ptr<ast::Import> parseImport();
  std::unique_ptr<ast::Const> parseConst();
  std::unique_ptr<ast::Fn> parseFn();
  std::unique_ptr<ast::Kernel> parseKernel();
  void parseStrayItem();
  bool parseKernelHeader(ast::Kernel &kernel);
  bool parseClause(ast::Kernel &kernel);
  enum class ParamList { CompileTime, KernelArgs, FnParams };
  bool parseParamList(ParamList list, std::vector<ast::Param> &params);
  bool parseParam(ParamList list, ast::Param &param);
  void checkNamedOnce(const std::vector<const std::vector<ast::Param> *> &lists);
  ast::TypePtr parseType();
  ast::TypePtr parseNamedType();
  bool parseShape(std::vector<ast::ExprPtr> &shape);

  //===-- statements (parser_stmt.cpp) ----------------------------------------------------------------------------===//
  ast::BlockPtr parseBlock();
  ast::BlockPtr parseBody(std::string_view of);
  ast::StmtPtr parseStmt();
  void parseAndDropStmt();
  void skipIfChain();
  ast::StmtPtr parseLet();
  ast::StmtPtr parseIf();
  ast::StmtPtr parseElse();
  ast::StmtPtr parseFor();
  bool parseForHeader(ast::For &loop);
  bool parseRange(ast::For &loop);
  ast::StmtPtr parseWhile();
  ast::StmtPtr parseJump();
  ast::StmtPtr parseReturn();
  ast::StmtPtr parseTasks();
  ast::StmtPtr parseTask();
  ast::StmtPtr parseSimple();
  ast::StmtPtr parseAssign();
  bool atAssignment() const;
  bool parsePattern(ast::Pattern &pattern);
  bool parseNamePattern(ast::Name &name);
  bool failMisplaced();
  void failNested();
  bool endStatement();

  //===-- expressions (parser_expr.cpp) ---------------------------------------------------------------------------===//
  ast::ExprPtr parseExpr();
  ast::ExprPtr parseBinary(int minPrecedence);
  ast::ExprPtr parseUnary();
  ast::ExprPtr parsePostfix();
  ast::ExprPtr parsePrimary();
  ast::ExprPtr parseMember(ast::ExprPtr object, uint32_t start);
  ast::ExprPtr parseCall(ast::ExprPtr callee, uint32_t start);
  ast::ExprPtr parseIndex(ast::ExprPtr object, uint32_t start);
  bool parseSubscript(ast::Subscript &subscript);
  ast::ExprPtr parseParens();
  ast::ExprPtr parseList();
  bool parseElements(std::vector<ast::ExprPtr> &elements, Tok close, uint32_t open);
  /// `( args )`, from its '('. With `onlyNamed`, the name of what takes no positional ones.
  bool parseArgs(std::vector<ast::Arg> &args, std::string_view onlyNamed = {});
  void checkArgs(const std::vector<ast::Arg> &args, std::string_view onlyNamed);
  bool parseName(ast::Name &name, std::string_view what = "a name");
  /// Sets the height from the children's; null, and reported, if it is over the limit.
  ast::ExprPtr grown(ast::ExprPtr expr, unsigned childHeight);

  std::string_view text;
  uint32_t file;
  TokenList list;
  Diagnostics &diags;

  uint32_t pos = 0;
  uint32_t errorToken = UINT32_MAX; ///< where the last error was reported
  Diagnostic *reported = nullptr;   ///< by the last fail…, to add to; null if it was no news
  std::vector<uint32_t> lineEnd;    ///< for each token, the last token of its line

  unsigned nesting = 0;
  /// The limit was reported and the parser is still near it.
  bool tooDeep = false;
  /// In a default between < >, where a bare < or > ends the expression.
  bool noAngles = false;
  /// What the statement stands in, as far as break, continue, return and async_task ask.
  struct Context {
    bool loop = false, task = false, tasks = false;
  } context;
  std::vector<uint32_t> openBraces;
  /// The statement that failed was consumed to its end: nothing to skip.
  bool recovered = false;
  ast::StmtPtr dropped() {
    recovered = true;
    return nullptr;
  }
  /// In a type that is reported as a whole: no further message about its name.
  bool quietTypes = false;
  std::vector<uint32_t> lexerErrorLines;
  /// An item began inside a block, so a '}' is missing: leave all blocks without a further message.
  bool leavingBlocks = false;
  /// That has happened: what stands outside all items later may have been meant to be inside.
  bool balanceLost = false;
};

/// Sets a member for as long as it lives.
template <typename T> class Scoped {
public:
  Scoped(T &slot, T value) : slot(slot), saved(slot) { slot = value; }
  ~Scoped() { slot = saved; }
  Scoped(const Scoped &) = delete;

private:
  T &slot;
  T saved;
};

} // namespace tlx::lang
