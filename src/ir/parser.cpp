// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text form (docs/ir.md) → Module. Any bytes are accepted as input: the first mistake gives one IrSyntax diagnostic at
// its column, and no module. What is well-formed but wrong is left to the verifier; in particular values are looked up
// without regard to scopes, so that the verifier's own rules can be tested on text.
#include <bit>
#include <charconv>
#include <limits>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include "ir/text_p.h"

namespace tlx::ir {
using namespace text;

namespace {

struct Token {
  enum class Kind : uint8_t { Word, Int, Float, String, Value, Alias, Punct, End, Bad };
  Kind kind = Kind::End;
  llvm::StringRef text; // Value, Alias: without the sigil; String: with quotes
  uint32_t line = 1, col = 1;
  uint32_t length = 0;
  bool firstOnLine = false;
};

class Lexer {
public:
  explicit Lexer(llvm::StringRef text) : text(text) {}
  Token next();
  /// The rest of the current line, for layout literals.
  Token restOfLine();

private:
  Token make(Token::Kind kind, size_t begin, size_t skip = 0) {
    Token t;
    t.kind = kind;
    t.text = text.slice(begin + skip, pos);
    t.line = line, t.col = uint32_t(begin - lineStart + 1), t.length = uint32_t(pos - begin);
    t.firstOnLine = fresh;
    fresh = false;
    return t;
  }
  Token number(size_t begin);
  llvm::StringRef text;
  size_t pos = 0, lineStart = 0;
  uint32_t line = 1;
  bool fresh = true;
};

Token Lexer::number(size_t begin) {
  if (text[pos] == '-') ++pos;
  bool isFloat = false;
  if (text.substr(pos).starts_with("inf")) {
    pos += 3;
    return make(Token::Kind::Float, begin);
  }
  while (pos < text.size() && isDigit(text[pos])) ++pos;
  if (pos < text.size() && text[pos] == '.') {
    isFloat = true;
    ++pos;
    while (pos < text.size() && isDigit(text[pos])) ++pos;
  }
  if (pos < text.size() && text[pos] == 'e') {
    isFloat = true;
    ++pos;
    if (pos < text.size() && (text[pos] == '-' || text[pos] == '+')) ++pos;
    while (pos < text.size() && isDigit(text[pos])) ++pos;
  }
  return make(isFloat ? Token::Kind::Float : Token::Kind::Int, begin);
}

Token Lexer::next() {
  for (;; ++pos) {
    if (pos >= text.size()) return make(Token::Kind::End, pos);
    const char c = text[pos];
    if (c == '\n') {
      ++line, lineStart = pos + 1, fresh = true;
    } else if (c == '/' && text.substr(pos).starts_with("//")) {
      pos = std::min(text.find('\n', pos), text.size()) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      break;
    }
  }
  const size_t begin = pos;
  const char c = text[pos];
  if (isWordStart(c)) {
    while (pos < text.size() && isWordChar(text[pos])) ++pos;
    return make(Token::Kind::Word, begin);
  }
  if (isDigit(c) || (c == '-' && pos + 1 < text.size() && (isDigit(text[pos + 1]) || text[pos + 1] == 'i')))
    return number(begin);
  if (c == '%' || c == '#') {
    ++pos;
    while (pos < text.size() && isWordChar(text[pos])) ++pos;
    const Token::Kind kind = c == '%' ? Token::Kind::Value : Token::Kind::Alias;
    return make(pos == begin + 1 ? Token::Kind::Bad : kind, begin, 1);
  }
  if (c == '"') {
    ++pos;
    while (pos < text.size() && text[pos] != '"' && text[pos] != '\n') pos += text[pos] == '\\' ? 2 : 1;
    if (pos >= text.size() || text[pos] != '"') {
      pos = std::min(pos, text.size());
      return make(Token::Kind::Bad, begin);
    }
    ++pos;
    return make(Token::Kind::String, begin);
  }
  ++pos;
  return make(llvm::StringRef("(){}[]<>,:=^*@-").contains(c) ? Token::Kind::Punct : Token::Kind::Bad, begin);
}

Token Lexer::restOfLine() {
  while (pos < text.size() && (text[pos] == ' ' || text[pos] == '\t')) ++pos;
  const size_t begin = pos;
  pos = std::min(text.find('\n', pos), text.size());
  Token t = make(Token::Kind::String, begin);
  t.text = t.text.rtrim("\r \t");
  return t;
}

/// Failed parses unwind by return values: every function that returns bool or a pointer has reported when it returns
/// false or null.
class Parser {
public:
  Parser(Context &context, SourceManager &sources, uint32_t file, Diagnostics &diagnostics)
      : context(context), sources(sources), file(file), diagnostics(diagnostics), text(sources.text(file)),
        lexer(text) {}
  std::unique_ptr<Module> run();

private:
  Loc here(const Token &t) const { return {file, t.line, t.col, t.col + t.length}; }
  bool fail(const Token &at, const std::string &message) {
    diagnostics.report(Diag::IrSyntax, here(at), message);
    return false;
  }
  bool expected(llvm::StringRef what) {
    return fail(token, "expected " + what.str() +
                           (token.kind == Token::Kind::End ? std::string(", not the end of the text") : ""));
  }
  void advance() { token = lexer.next(); }
  bool isPunct(char c) const { return token.kind == Token::Kind::Punct && token.text[0] == c; }
  bool isWordToken(llvm::StringRef w) const { return token.kind == Token::Kind::Word && token.text == w; }
  bool takePunct(char c) {
    if (!isPunct(c)) return false;
    advance();
    return true;
  }
  bool expectPunct(char c) { return takePunct(c) || expected(std::string("'") + c + "'"); }
  bool takeWord(llvm::StringRef w) {
    if (!isWordToken(w)) return false;
    advance();
    return true;
  }
  bool expectWord(llvm::StringRef w) { return takeWord(w) || expected("'" + w.str() + "'"); }

  bool header();
  bool kernelHead(Kernel &k);
  bool properties();
  bool fact(Kernel &k);
  bool args(Block &b, bool kernelArgs);
  bool block(Block &b, unsigned depth);
  bool op(Block &b, unsigned depth);
  bool attrs(Op &op);
  bool attrValue(Attr key, AttrValue &value);
  bool type(Type &t);
  bool bufferType(Type &t);
  bool shapeAndLayout(llvm::SmallVectorImpl<int64_t> &shape, std::optional<Token> &layout);
  bool scalarName(Scalar &s);
  bool integer(int64_t &v, int64_t min, int64_t max);
  bool floating(double &v);
  bool string(std::string &s);
  bool optionalLoc(Loc &l);
  bool define(const Token &name, Value *v);
  const layout::TileLayout *tileLayout(const Token &alias, llvm::ArrayRef<int64_t> shape);
  const layout::SharedLayout *sharedLayout(const Token &alias, llvm::ArrayRef<int64_t> shape);

  Context &context;
  SourceManager &sources;
  uint32_t file;
  Diagnostics &diagnostics;
  const std::string text; // a copy: the file table adds files to the source manager
  Lexer lexer;
  Token token;
  std::unique_ptr<Module> module;
  llvm::StringMap<Value *> values;
  llvm::StringMap<std::string> aliases;
  llvm::StringMap<const void *> layouts; // by alias and shape
  std::map<int64_t, uint32_t> files;
};

bool Parser::integer(int64_t &v, int64_t min, int64_t max) {
  if (token.kind != Token::Kind::Int) return expected("an integer");
  const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), v);
  if (error != std::errc() || end != token.text.end() || v < min || v > max)
    return fail(token, "this number is not between " + std::to_string(min) + " and " + std::to_string(max));
  advance();
  return true;
}

bool Parser::floating(double &v) {
  if (token.text == "nan") {
    const Token start = token;
    advance();
    if (!takePunct('(')) {
      v = std::bit_cast<double>(uint64_t(0x7ff8000000000000));
      return true;
    }
    // The lexer splits 0x… into a 0 and a word.
    uint64_t bits = 0;
    if (token.text != "0") return expected("the bits of the nan as 0x…");
    advance();
    llvm::StringRef digits = token.text;
    if (token.kind != Token::Kind::Word || !digits.consume_front("x") || digits.getAsInteger(16, bits))
      return expected("the bits of the nan as 0x…");
    v = std::bit_cast<double>(bits);
    if (v == v) return fail(start, "these bits are no nan");
    advance();
    return expectPunct(')');
  }
  if (token.text == "inf" || token.text == "-inf") {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    v = token.text == "inf" ? infinity : -infinity;
    advance();
    return true;
  }
  const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), v);
  if (error != std::errc() || end != token.text.end()) return fail(token, "not a number that a double can hold");
  advance();
  return true;
}

bool Parser::string(std::string &s) {
  if (token.kind != Token::Kind::String) return expected("a string");
  llvm::StringRef body = token.text.drop_front().drop_back();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      s += body[i];
      continue;
    }
    const char c = ++i < body.size() ? body[i] : '\0';
    if (c == 'n') {
      s += '\n';
    } else if (c == '"' || c == '\\') {
      s += c;
    } else if (c == 'x' && i + 2 < body.size() && llvm::isHexDigit(body[i + 1]) && llvm::isHexDigit(body[i + 2])) {
      s += char(llvm::hexDigitValue(body[i + 1]) * 16 + llvm::hexDigitValue(body[i + 2]));
      i += 2;
    } else {
      Token at = token;
      at.col += uint32_t(i), at.length = 2;
      return fail(at, "this escape is none of \\n, \\\", \\\\ and \\xHH");
    }
  }
  advance();
  return true;
}

bool Parser::scalarName(Scalar &s) {
  std::optional<Scalar> found;
  if (token.kind == Token::Kind::Word) found = scalarByName(token.text);
  if (!found) return expected("a scalar type");
  s = *found;
  advance();
  return true;
}

bool Parser::shapeAndLayout(llvm::SmallVectorImpl<int64_t> &shape, std::optional<Token> &layout) {
  const Token start = token;
  if (!expectPunct('[')) return false;
  int64_t total = 1;
  while (true) {
    if (token.kind == Token::Kind::Alias && !shape.empty()) {
      layout = token;
      advance();
      break;
    }
    int64_t extent;
    if (!integer(extent, 1, kMaxElements)) return false;
    if (extent > kMaxElements / total) return fail(start, "a tile has at most 2^30 elements");
    total *= extent;
    shape.push_back(extent);
    if (shape.size() > kMaxRank) return fail(start, "a tile has at most 8 dimensions");
    if (!takePunct(',')) break;
  }
  return expectPunct(']');
}

static std::string layoutKey(const Token &alias, llvm::ArrayRef<int64_t> shape) {
  std::string key = alias.text.str();
  for (int64_t e : shape) key += "," + std::to_string(e);
  return key;
}

const layout::TileLayout *Parser::tileLayout(const Token &alias, llvm::ArrayRef<int64_t> shape) {
  auto it = aliases.find(alias.text);
  if (it == aliases.end()) return fail(alias, "no layout #" + alias.text.str() + " is defined above"), nullptr;
  const void *&slot = layouts[layoutKey(alias, shape)];
  if (!slot) {
    std::string error;
    const std::optional<layout::TileLayout> parsed = layout::parseTileLayout(it->second, shape, error);
    if (!parsed) return fail(alias, "layout #" + alias.text.str() + " does not fit here: " + error), nullptr;
    slot = context.unique(*parsed);
  }
  return static_cast<const layout::TileLayout *>(slot);
}

const layout::SharedLayout *Parser::sharedLayout(const Token &alias, llvm::ArrayRef<int64_t> shape) {
  auto it = aliases.find(alias.text);
  if (it == aliases.end()) return fail(alias, "no layout #" + alias.text.str() + " is defined above"), nullptr;
  const void *&slot = layouts["s:" + layoutKey(alias, shape)];
  if (!slot) {
    std::string error;
    const std::optional<layout::SharedLayout> parsed = layout::parseSharedLayout(it->second, shape, error);
    if (!parsed) return fail(alias, "layout #" + alias.text.str() + " does not fit here: " + error), nullptr;
    slot = context.unique(*parsed);
  }
  return static_cast<const layout::SharedLayout *>(slot);
}

bool Parser::bufferType(Type &t) {
  Scalar element;
  llvm::SmallVector<int64_t, 4> shape;
  std::optional<Token> alias;
  int64_t depth;
  if (!expectPunct('<') || !scalarName(element) || !shapeAndLayout(shape, alias) || !expectPunct(',') ||
      !integer(depth, 1, kMaxDepth) || !expectPunct(','))
    return false;
  if (!isWordToken("smem") && !isWordToken("tmem")) return expected("'smem' or 'tmem'");
  const Space space = token.text == "smem" ? Space::Shared : Space::Tensor;
  advance();
  const layout::SharedLayout *shared = nullptr;
  if (alias && !(shared = sharedLayout(*alias, shape))) return false;
  t = context.buffer(element, shape, unsigned(depth), space, shared);
  return expectPunct('>');
}

bool Parser::type(Type &t) {
  Scalar s;
  if (isWordToken("buffer")) {
    advance();
    return bufferType(t);
  }
  if (isWordToken("barrier")) {
    advance();
    int64_t count;
    if (!expectPunct('<') || !integer(count, 1, kMaxDepth) || !expectPunct('>')) return false;
    t = context.barrier(unsigned(count));
    return true;
  }
  if (isWordToken("tensor_desc")) {
    advance();
    llvm::SmallVector<int64_t, 4> shape;
    std::optional<Token> alias;
    if (!expectPunct('<') || !scalarName(s) || !expectPunct(',') || !shapeAndLayout(shape, alias)) return false;
    if (alias) return fail(*alias, "a tensor descriptor has no layout");
    t = context.tensorDesc(s, shape);
    return expectPunct('>');
  }
  if (takeWord("token")) {
    t = context.token();
    return true;
  }
  const bool pointer = takePunct('*');
  if (token.kind != Token::Kind::Word || !scalarByName(token.text)) return expected("a type");
  if (!scalarName(s)) return false;
  t = pointer ? context.pointer(s) : context.scalar(s);
  if (!isPunct('[')) return true;
  llvm::SmallVector<int64_t, 4> shape;
  std::optional<Token> alias;
  if (!shapeAndLayout(shape, alias)) return false;
  const layout::TileLayout *layout = nullptr;
  if (alias && !(layout = tileLayout(*alias, shape))) return false;
  t = context.tile(t, shape, layout);
  return true;
}

bool Parser::define(const Token &name, Value *v) {
  if (!values.try_emplace(name.text, v).second) return fail(name, "%" + name.text.str() + " is already defined");
  return true;
}

bool Parser::args(Block &b, bool kernelArgs) {
  if (!expectPunct('(')) return false;
  if (takePunct(')')) return true;
  do {
    const Token name = token;
    if (token.kind != Token::Kind::Value) return expected("a value name");
    advance();
    Type t;
    if (!expectPunct(':') || !type(t)) return false;
    if (!define(name, b.addArg(t, kernelArgs && isWord(name.text) ? name.text.str() : std::string()))) return false;
  } while (takePunct(','));
  return expectPunct(')');
}

bool Parser::attrValue(Attr key, AttrValue &value) {
  int64_t i;
  switch (token.kind) {
  case Token::Kind::Int:
    if (!integer(i, INT64_MIN, INT64_MAX)) return false;
    value = i;
    return true;
  case Token::Kind::Float: {
    double d;
    if (!floating(d)) return false;
    value = d;
    return true;
  }
  case Token::Kind::String: {
    std::string s;
    if (!string(s)) return false;
    value = std::move(s);
    return true;
  }
  case Token::Kind::Word: {
    double d;
    if (token.text == "inf" || token.text == "nan") {
      if (!floating(d)) return false;
      value = d;
      return true;
    }
    if (key == Attr::pred)
      for (unsigned p = 0; p < std::size(kPreds); ++p)
        if (token.text == kPreds[p]) {
          value = int64_t(p);
          advance();
          return true;
        }
    break;
  }
  default:
    break;
  }
  if (!takePunct('[')) return expected("the value of an attribute");
  std::vector<int64_t> list;
  if (!takePunct(']')) {
    do {
      if (!integer(i, INT64_MIN, INT64_MAX)) return false;
      list.push_back(i);
    } while (takePunct(','));
    if (!expectPunct(']')) return false;
  }
  value = std::move(list);
  return true;
}

bool Parser::attrs(Op &op) {
  if (!takePunct('{')) return true;
  do {
    const Token name = token;
    std::optional<Attr> key;
    if (token.kind == Token::Kind::Word) key = attrByName(token.text);
    if (!key) return expected("the name of an attribute");
    if (op.hasAttr(*key)) return fail(name, "the attribute '" + name.text.str() + "' stands twice");
    advance();
    AttrValue value;
    if (!expectPunct('=') || !attrValue(*key, value)) return false;
    op.setAttr(*key, std::move(value));
  } while (takePunct(','));
  return expectPunct('}');
}

bool Parser::optionalLoc(Loc &l) {
  if (token.firstOnLine || !takeWord("loc")) return true;
  if (!expectPunct('(')) return false;
  if (takeWord("unknown")) {
    l = {};
    return expectPunct(')');
  }
  const Token at = token;
  int64_t id, line, col, end;
  if (!integer(id, 0, INT32_MAX) || !expectPunct(':') || !integer(line, 0, UINT32_MAX) || !expectPunct(':') ||
      !integer(col, 0, UINT32_MAX))
    return false;
  // "4-9" is one number and one negative number to the lexer.
  if (token.kind != Token::Kind::Int || token.text[0] != '-') return expected("'-' and the end column");
  if (!integer(end, -int64_t(UINT32_MAX), 0)) return false;
  auto it = files.find(id);
  if (it == files.end()) return fail(at, "no file " + std::to_string(id) + " is named above");
  l = {it->second, uint32_t(line), uint32_t(col), uint32_t(-end)};
  return expectPunct(')');
}

bool Parser::op(Block &b, unsigned depth) {
  llvm::SmallVector<Token, 2> names;
  if (token.kind == Token::Kind::Value) {
    do {
      if (token.kind != Token::Kind::Value) return expected("a value name");
      names.push_back(token);
      advance();
    } while (takePunct(','));
    if (!expectPunct('=')) return false;
  }
  const Token mnemonic = token;
  if (token.kind != Token::Kind::Word) return expected("an operation");
  const std::optional<Opcode> opcode = opcodeByName(token.text);
  if (!opcode) return fail(token, "unknown operation '" + token.text.str() + "'");
  advance();
  Op &op = *b.insert(std::make_unique<Op>(*opcode, here(mnemonic)), nullptr);
  if (token.kind == Token::Kind::Value && !token.firstOnLine) {
    do {
      if (token.kind != Token::Kind::Value) return expected("an operand");
      auto it = values.find(token.text);
      if (it == values.end()) return fail(token, "%" + token.text.str() + " is not defined above");
      op.addOperand(it->second);
      advance();
    } while (takePunct(','));
  }
  if (!attrs(op)) return false;
  llvm::SmallVector<Type, 2> types;
  const Token colon = token;
  if (takePunct(':')) {
    do {
      if (!type(types.emplace_back())) return false;
    } while (takePunct(','));
  }
  if (types.size() != names.size())
    return fail(types.empty() ? mnemonic : colon,
                std::to_string(names.size()) + " results are named, " + std::to_string(types.size()) + " have a type");
  for (size_t i = 0; i < names.size(); ++i)
    if (!define(names[i], op.addResult(types[i]))) return false;
  while (isPunct('^')) {
    if (depth >= kMaxRegionNesting) return fail(token, "regions nest deeper than " + std::to_string(kMaxRegionNesting));
    advance();
    Block &body = op.addRegion();
    if (!args(body, false) || !block(body, depth + 1)) return false;
  }
  if (!optionalLoc(op.loc)) return false;
  if (!token.firstOnLine && !isPunct('}') && token.kind != Token::Kind::End)
    return expected("the end of the operation");
  return true;
}

bool Parser::block(Block &b, unsigned depth) {
  if (!expectPunct('{')) return false;
  while (!takePunct('}'))
    if (!op(b, depth)) return false;
  return true;
}

bool Parser::header() {
  while (true) {
    if (token.kind == Token::Kind::Alias) {
      const Token name = token;
      advance();
      if (!isPunct('=')) return expected("'='");
      const Token literal = lexer.restOfLine();
      if (literal.text.empty()) return fail(literal, "expected a layout literal");
      if (!aliases.try_emplace(name.text, literal.text.str()).second)
        return fail(name, "#" + name.text.str() + " is already defined");
      advance();
    } else if (isWordToken("file")) {
      advance();
      const Token at = token;
      int64_t id;
      std::string name;
      if (!integer(id, 0, INT32_MAX) || !expectPunct('=') || !string(name)) return false;
      uint32_t number = sources.find(name);
      if (!number) number = sources.add(name, "");
      if (!files.try_emplace(id, number).second) return fail(at, "this file is already named");
    } else {
      return true;
    }
  }
}

bool Parser::properties() {
  if (!expectPunct('[')) return false;
  if (takePunct(']')) return true;
  do {
    bool known = false;
    for (const PropertyName &p : kProperties)
      if (isWordToken(p.name)) module->properties.*p.member = known = true;
    if (!known) return expected("the name of a property");
    advance();
  } while (takePunct(','));
  return expectPunct(']');
}

bool Parser::fact(Kernel &k) {
  Fact f;
  f.noalias = takeWord("noalias");
  if (!string(f.text) || !expectPunct('[')) return false;
  if (!takePunct(']')) {
    do {
      Fact::Step step;
      size_t i = 0;
      while (i < std::size(kFactOps) && !isWordToken(kFactOps[i])) ++i;
      if (i == std::size(kFactOps)) return expected("a step of a fact");
      step.op = Fact::Op(i);
      advance();
      if ((step.op == Fact::Op::Const && !integer(step.value, INT64_MIN, INT64_MAX)) ||
          (step.op == Fact::Op::Arg && !integer(step.value, 0, INT32_MAX)))
        return false;
      f.program.push_back(step);
    } while (takePunct(','));
    if (!expectPunct(']')) return false;
  }
  k.facts.push_back(std::move(f));
  return true;
}

bool Parser::kernelHead(Kernel &k) {
  const Token start = token;
  if (!expectWord("kernel") || !expectPunct('@')) return false;
  k.loc = here(start);
  if (token.kind == Token::Kind::Word) {
    k.name = token.text.str();
    advance();
  } else if (!string(k.name)) {
    return false;
  }
  if (!args(k.body, true)) return false;
  struct {
    const char *name;
    unsigned *value;
  } fields[] = {{"warps", &k.numWarps}, {"warp_size", &k.warpSize}, {"shared_bytes", &k.sharedBytes}};
  if (!expectWord("target") || !expectPunct('=') || !string(module->target)) return false;
  for (auto &[name, value] : fields) {
    int64_t v;
    if (!expectWord(name) || !expectPunct('=') || !integer(v, 0, INT32_MAX)) return false;
    *value = unsigned(v);
  }
  if (!expectWord("properties") || !expectPunct('=') || !properties() || !optionalLoc(k.loc)) return false;
  while (takeWord("fact"))
    if (!fact(k)) return false;
  while (takeWord("descriptor")) {
    DescriptorArgument &d = k.descriptors.emplace_back();
    int64_t first;
    if (!string(d.name) || !expectWord("at") || !integer(first, 0, INT32_MAX) || !expectPunct(':') || !type(d.type))
      return false;
    d.first = unsigned(first);
  }
  return true;
}

std::unique_ptr<Module> Parser::run() {
  module = std::make_unique<Module>(context);
  advance();
  if (!header() || !kernelHead(module->kernel) || !block(module->kernel.body, 0)) return nullptr;
  if (token.kind != Token::Kind::End) return expected("the end of the text"), nullptr;
  return std::move(module);
}

} // namespace

std::unique_ptr<Module> parse(Context &context, SourceManager &sources, uint32_t file, Diagnostics &diagnostics) {
  return Parser(context, sources, file, diagnostics).run();
}

} // namespace tlx::ir
