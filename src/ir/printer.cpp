// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Module → text form (docs/ir.md). Aliases and numbers are given in the order in which they are first printed, so that
// the text of a parsed module is the text that was parsed.
#include <bit>
#include <charconv>
#include <cmath>

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include "ir/text_p.h"

namespace tlx::ir {
using namespace text;

namespace {

std::string quoted(llvm::StringRef s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20 || c == 0x7f) {
      out += "\\x";
      out += llvm::hexdigit(c >> 4, true);
      out += llvm::hexdigit(c & 15, true);
    } else {
      out += char(c); // UTF-8 stays readable
    }
  }
  return out + "\"";
}

/// The shortest text that reads back as the same bits, and never looks like an integer.
std::string doubleText(double v) {
  if (std::isnan(v)) {
    const uint64_t bits = std::bit_cast<uint64_t>(v);
    if (bits == 0x7ff8000000000000) return "nan";
    return "nan(0x" + llvm::utohexstr(bits, true) + ")";
  }
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, v);
  std::string out(buffer, end.ptr);
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

class Printer {
public:
  Printer(const SourceManager *sources, PrintOptions options) : sources(sources), options(options) {}
  std::string module(const Module &m);
  void number(const Block &block); // gives numbers without printing
  void number(const Op &op);
  void op(const Op &op, unsigned indent);
  bool aliases = true;
  std::string out;

private:
  void block(const Block &block, unsigned indent);
  void value(const Value *v);
  void define(const Value *v) { numbers.try_emplace(v, numbers.size()); }
  void type(Type t);
  void attrs(const Op &op);
  void attr(Attr key, const AttrValue &value);
  void loc(Loc l);
  void shape(llvm::ArrayRef<int64_t> extents);
  void fact(const Fact &f);
  void args(const Block &b);
  /// The alias of a layout's literal: two shapes may share one.
  template <typename Layout>
  void layoutAlias(const Layout *layout, const char *prefix, llvm::StringMap<unsigned> &ids,
                   std::vector<std::string> &literals);

  const SourceManager *sources;
  PrintOptions options;
  llvm::DenseMap<const Value *, unsigned> numbers;
  llvm::DenseMap<const Value *, std::string> names; // kernel arguments with a usable name
  llvm::DenseMap<const void *, unsigned> layoutIds;
  llvm::StringMap<unsigned> tileIds, sharedIds;
  std::vector<std::string> tileLiterals, sharedLiterals;
  llvm::DenseMap<uint32_t, unsigned> fileIds;
  std::vector<uint32_t> files;
};

void Printer::value(const Value *v) {
  if (!v) {
    out += "<null>";
    return;
  }
  out += '%';
  if (auto it = names.find(v); it != names.end()) {
    out += it->second;
    return;
  }
  auto it = numbers.find(v);
  out += it == numbers.end() ? "<unknown>" : std::to_string(it->second);
}

void Printer::shape(llvm::ArrayRef<int64_t> extents) {
  out += '[';
  llvm::interleave(
      extents, [&](int64_t e) { out += std::to_string(e); }, [&] { out += ", "; });
}

template <typename Layout>
void Printer::layoutAlias(const Layout *layout, const char *prefix, llvm::StringMap<unsigned> &ids,
                          std::vector<std::string> &literals) {
  auto [known, fresh] = layoutIds.try_emplace(layout, 0);
  if (fresh) {
    std::string literal = layout->str();
    auto [it, freshText] = ids.try_emplace(literal, literals.size());
    if (freshText) literals.push_back(std::move(literal));
    known->second = it->second;
  }
  out += prefix + std::to_string(known->second);
}

void Printer::type(Type t) {
  if (!t) {
    out += "<none>";
    return;
  }
  const bool withLayout = aliases && ((t.isTile() && t.layout()) || (t.isBuffer() && t.sharedLayout()));
  if (!withLayout) {
    out += t.str();
    return;
  }
  if (t.isTile()) {
    out += t.element().str();
    shape(t.shape());
    layoutAlias(t.layout(), ", #", tileIds, tileLiterals);
    out += ']';
    return;
  }
  out += "buffer<" + scalarName(t.scalar()).str();
  shape(t.shape());
  layoutAlias(t.sharedLayout(), ", #s", sharedIds, sharedLiterals);
  out += "], " + std::to_string(t.depth()) + (t.space() == Space::Shared ? ", smem>" : ", tmem>");
}

void Printer::loc(Loc l) {
  if (!options.locations) return;
  if (!l.known()) {
    out += " loc(unknown)";
    return;
  }
  auto [it, fresh] = fileIds.try_emplace(l.file, files.size());
  if (fresh) files.push_back(l.file);
  out += " loc(" + std::to_string(it->second) + ":" + std::to_string(l.line) + ":" + std::to_string(l.col) + "-" +
         std::to_string(l.endCol) + ")";
}

void Printer::attr(Attr key, const AttrValue &value) {
  out += attrName(key);
  out += " = ";
  if (const int64_t *i = std::get_if<int64_t>(&value)) {
    // A predicate reads as a word; what is no predicate stays a number for the verifier to refuse.
    if (key == Attr::pred && *i >= 0 && uint64_t(*i) < std::size(kPreds))
      out += kPreds[*i];
    else
      out += std::to_string(*i);
  } else if (const double *d = std::get_if<double>(&value)) {
    out += doubleText(*d);
  } else if (const std::string *s = std::get_if<std::string>(&value)) {
    out += quoted(*s);
  } else {
    shape(std::get<std::vector<int64_t>>(value));
    out += ']';
  }
}

void Printer::attrs(const Op &op) {
  if (op.attrs().empty()) return;
  out += " {";
  llvm::interleave(
      op.attrs(), [&](const auto &p) { attr(p.first, p.second); }, [&] { out += ", "; });
  out += '}';
}

void Printer::args(const Block &b) {
  out += '(';
  for (unsigned i = 0; i < b.numArgs(); ++i) {
    if (i) out += ", ";
    value(b.arg(i));
    out += ": ";
    type(b.arg(i)->type);
  }
  out += ')';
}

void Printer::number(const Op &op) {
  for (unsigned i = 0; i < op.numResults(); ++i) define(op.result(i));
  for (unsigned r = 0; r < op.numRegions(); ++r) {
    const Block &body = op.body(r);
    for (unsigned i = 0; i < body.numArgs(); ++i) define(body.arg(i));
    for (const Op &inner : body) number(inner);
  }
}

void Printer::number(const Block &block) {
  llvm::StringSet<> taken;
  for (unsigned i = 0; i < block.numArgs(); ++i) {
    const Value *arg = block.arg(i);
    // Two arguments of one name, or a name that is no word: numbers are always right.
    if (!block.parentOp() && isWord(arg->name) && taken.insert(arg->name).second)
      names[arg] = arg->name;
    else
      define(arg);
  }
  for (const Op &op : block) number(op);
}

void Printer::op(const Op &op, unsigned indent) {
  out.append(indent, ' ');
  for (unsigned i = 0; i < op.numResults(); ++i) {
    if (i) out += ", ";
    value(op.result(i));
  }
  if (op.numResults()) out += " = ";
  out += op.info().name;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    out += i ? ", " : " ";
    value(op.operand(i));
  }
  attrs(op);
  for (unsigned i = 0; i < op.numResults(); ++i) {
    out += i ? ", " : " : ";
    type(op.result(i)->type);
  }
  for (unsigned r = 0; r < op.numRegions(); ++r) {
    out += " ^";
    args(op.body(r));
    out += " {\n";
    block(op.body(r), indent + 2);
    out.append(indent, ' ');
    out += '}';
  }
  loc(op.loc);
  out += '\n';
}

void Printer::block(const Block &b, unsigned indent) {
  for (const Op &o : b) op(o, indent);
}

void Printer::fact(const Fact &f) {
  out += f.noalias ? "  fact noalias " : "  fact ";
  out += quoted(f.text) + " [";
  for (size_t i = 0; i < f.program.size(); ++i) {
    const Fact::Step &step = f.program[i];
    if (i) out += ", ";
    out += kFactOps[size_t(step.op)];
    if (step.op == Fact::Op::Const || step.op == Fact::Op::Arg) out += " " + std::to_string(step.value);
  }
  out += "]\n";
}

std::string Printer::module(const Module &m) {
  const Kernel &k = m.kernel;
  number(k.body);
  out += "kernel @" + (isWord(k.name) ? k.name : quoted(k.name));
  args(k.body);
  out += " target = " + quoted(m.target) + " warps = " + std::to_string(k.numWarps) +
         " warp_size = " + std::to_string(k.warpSize) + " shared_bytes = " + std::to_string(k.sharedBytes) +
         " properties = [";
  bool first = true;
  for (const PropertyName &p : kProperties)
    if (m.properties.*p.member) {
      out += first ? "" : ", ";
      out += p.name;
      first = false;
    }
  out += ']';
  loc(k.loc);
  out += '\n';
  for (const Fact &f : k.facts) fact(f);
  for (const DescriptorArgument &d : k.descriptors) {
    out += "  descriptor " + quoted(d.name) + " at " + std::to_string(d.first) + " : ";
    type(d.type);
    out += '\n';
  }
  out += "{\n";
  block(k.body, 2);
  out += "}\n";

  std::string head;
  for (size_t i = 0; i < files.size(); ++i)
    head += "file " + std::to_string(i) + " = " +
            quoted(sources ? sources->name(files[i]) : std::string_view("<unknown>")) + "\n";
  for (size_t i = 0; i < tileLiterals.size(); ++i) head += "#" + std::to_string(i) + " = " + tileLiterals[i] + "\n";
  for (size_t i = 0; i < sharedLiterals.size(); ++i)
    head += "#s" + std::to_string(i) + " = " + sharedLiterals[i] + "\n";
  return head + out;
}

} // namespace

std::string print(const Module &module, const SourceManager *sources, PrintOptions options) {
  return Printer(sources, options).module(module);
}

std::string print(const Op &op) {
  // Numbered as in the text of the whole module, so that the two can be compared. Layouts are left out: their literals
  // are longer than all the rest.
  Printer printer(nullptr, {});
  printer.aliases = false;
  const Op *top = &op;
  while (const Op *parent = top->parentOp()) top = parent;
  if (top->parent())
    printer.number(*top->parent());
  else
    printer.number(op);
  printer.op(op, 0);
  return std::move(printer.out);
}

} // namespace tlx::ir
