// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layout literals, the same in the language and in IR text: how layouts print, and how they are read back.
//
//   literal = name '(' [ key '=' value { ',' key '=' value } ] ')'        value = integer | '[' [ value { ',' value } ]
//   ']'
//
// Literals come from users: whatever is wrong with one ends in an error text.
#include "layout/gf2_p.h"
#include "llvm/ADT/StringExtras.h"

namespace tlx::layout {
using namespace detail;

namespace {
template <typename List, typename Print> std::string printList(const List &list, Print print) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? ", " : "") + print(list[i]);
  return text + "]";
}
std::string printNumbers(const auto &list) {
  return printList(list, [](auto number) { return std::to_string(number); });
}

struct Value {
  bool isList = false;
  int64_t number = 0;
  std::vector<Value> list;
};

/// Reads the form of a literal; what the keys mean comes after. The first error stays.
class Reader {
public:
  Reader(llvm::StringRef text, std::string &error) : text_(text), error_(error) { error_.clear(); }

  bool read() {
    name = word();
    if (name.empty()) return fail("expected a layout, such as linear(…)");
    if (!expect('(')) return false;
    if (!accept(')')) {
      do {
        const llvm::StringRef key = word();
        if (key.empty()) return fail("expected a name");
        for (const auto &[other, value] : fields_)
          if (other == key) return fail("'" + key.str() + "' appears twice");
        if (fields_.size() == 8) return fail("too many entries");
        fields_.push_back({key, {}});
        if (!expect('=') || !value(fields_.back().second, 0)) return false;
      } while (accept(','));
      if (!expect(')')) return false;
    }
    space();
    return at_ == text_.size() || fail("text after the literal");
  }
  /// Every key must be one of these.
  bool allow(llvm::ArrayRef<llvm::StringRef> keys) {
    for (const auto &[key, value] : fields_)
      if (!llvm::is_contained(keys, key)) return semantic("'" + name.str() + "' has no '" + key.str() + "'");
    return true;
  }
  const Value *find(llvm::StringRef key) const {
    for (const auto &[other, value] : fields_)
      if (other == key) return &value;
    return nullptr;
  }
  /// The list of numbers under `key`, which must be there.
  template <typename T> bool numbers(llvm::StringRef key, std::vector<T> &out) {
    const Value *value = find(key);
    if (!value) return semantic("'" + name.str() + "' needs '" + key.str() + "'");
    return numbers(key, *value, out);
  }
  template <typename T> bool numbers(llvm::StringRef key, const Value &value, std::vector<T> &out) {
    if (!value.isList) return semantic("'" + key.str() + "' needs a list of numbers");
    for (const Value &item : value.list) {
      if (item.isList) return semantic("'" + key.str() + "' needs a list of numbers, not of lists");
      out.push_back(T(item.number));
    }
    return true;
  }
  template <typename T> bool lists(llvm::StringRef key, const Value &value, std::vector<std::vector<T>> &out) {
    if (!value.isList) return semantic("'" + key.str() + "' needs a list of lists");
    for (const Value &item : value.list)
      if (!numbers(key, item, out.emplace_back())) return false;
    return true;
  }
  bool semantic(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }
  llvm::StringRef name;

private:
  void space() {
    while (at_ < text_.size() && llvm::isSpace(text_[at_])) ++at_;
  }
  llvm::StringRef word() {
    space();
    const size_t first = at_;
    while (at_ < text_.size() && (llvm::isAlnum(text_[at_]) || text_[at_] == '_')) ++at_;
    if (first < at_ && llvm::isDigit(text_[first])) at_ = first; // a number is no word
    return text_.slice(first, at_);
  }
  bool accept(char c) {
    space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool expect(char c) { return accept(c) || fail(std::string("expected '") + c + "'"); }
  bool value(Value &out, unsigned depth) {
    if (++values_ > 4096) return fail("the literal is too long");
    if (accept('[')) {
      if (depth == 2) return fail("lists nest at most two deep");
      out.isList = true;
      if (accept(']')) return true;
      do {
        if (!value(out.list.emplace_back(), depth + 1)) return false;
      } while (accept(','));
      return expect(']');
    }
    space();
    const size_t first = at_;
    while (at_ < text_.size() && llvm::isDigit(text_[at_])) {
      out.number = out.number * 10 + (text_[at_] - '0');
      if (out.number > INT32_MAX) return fail("the number is too large");
      ++at_;
    }
    return at_ > first || fail("expected a number or a list");
  }
  bool fail(std::string why) { return semantic(why + " at column " + std::to_string(at_ + 1) + " of the layout"); }

  llvm::StringRef text_;
  std::string &error_;
  size_t at_ = 0;
  unsigned values_ = 0;
  std::vector<std::pair<llvm::StringRef, Value>> fields_;
};

std::optional<TileLayout> makeTile(llvm::ArrayRef<int64_t> shape, TileLayout::Bases bases, Reader &reader) {
  if (auto why = TileLayout::check(shape, bases)) {
    reader.semantic(*why);
    return std::nullopt;
  }
  return TileLayout(shape, std::move(bases));
}

std::optional<TileLayout> parseLinear(Reader &reader, llvm::ArrayRef<int64_t> shape) {
  static constexpr llvm::StringRef keys[kInDims] = {"register", "lane", "warp", "cta"};
  if (!reader.allow(keys)) return std::nullopt;
  TileLayout::Bases bases;
  for (unsigned dim = 0; dim < kInDims; ++dim)
    if (const Value *value = reader.find(keys[dim])) {
      std::vector<std::vector<int32_t>> lists;
      if (!reader.lists(keys[dim], *value, lists)) return std::nullopt;
      for (const std::vector<int32_t> &basis : lists) bases[dim].push_back(Coord(basis.begin(), basis.end()));
    }
  return makeTile(shape, std::move(bases), reader);
}

std::optional<TileLayout> parseBlocked(Reader &reader, llvm::ArrayRef<int64_t> shape) {
  static constexpr llvm::StringRef keys[] = {"size", "lanes", "warps", "order"};
  static constexpr int64_t most[] = {1 << 20, 64, 256}; // elements, lanes, warps
  if (!reader.allow(keys)) return std::nullopt;
  if (auto why = checkShape(shape)) {
    reader.semantic(*why);
    return std::nullopt;
  }
  std::vector<unsigned> lists[4];
  for (unsigned i = 0; i < 4; ++i) {
    const std::string key = keys[i].str();
    if (!reader.numbers(keys[i], lists[i])) return std::nullopt;
    if (lists[i].size() != shape.size()) {
      reader.semantic("'" + key + "' has " + std::to_string(lists[i].size()) + " entries, the tile has " +
                      std::to_string(shape.size()) + " dimensions");
      return std::nullopt;
    }
    if (i == 3) break;
    int64_t product = 1;
    for (unsigned count : lists[i]) {
      if (!isPowerOf2(count)) {
        reader.semantic("'" + key + "' needs powers of two, not " + std::to_string(count));
        return std::nullopt;
      }
      if (count > most[i] / product) {
        reader.semantic("'" + key + "' multiplies to more than " + std::to_string(most[i]));
        return std::nullopt;
      }
      product *= count;
    }
  }
  std::vector<bool> seen(shape.size());
  for (unsigned d : lists[3]) {
    if (d >= seen.size() || seen[d]) {
      reader.semantic("'order' is not a permutation of the dimensions");
      return std::nullopt;
    }
    seen[d] = true;
  }
  return makeTile(shape, blockedBases(shape, lists[0], lists[1], lists[2], lists[3]), reader);
}
} // namespace

std::string TileLayout::str() const {
  auto print = [](const std::vector<Coord> &bases) {
    return printList(bases, [](const Coord &basis) { return printNumbers(basis); });
  };
  return "linear(register = " + print(bases_[0]) + ", lane = " + print(bases_[1]) + ", warp = " + print(bases_[2]) +
         ", cta = " + print(bases_[3]) + ")";
}

std::optional<TileLayout> parseTileLayout(llvm::StringRef text, llvm::ArrayRef<int64_t> shape, std::string &error) {
  Reader reader(text, error);
  if (!reader.read()) return std::nullopt;
  if (reader.name == "linear") return parseLinear(reader, shape);
  if (reader.name == "blocked") return parseBlocked(reader, shape);
  reader.semantic("unknown layout '" + reader.name.str() + "'; a tile layout is linear(…) or blocked(…)");
  return std::nullopt;
}

std::string SharedLayout::str() const {
  return "shared(box = " + printNumbers(box_) +
         ", bases = " + printList(bases_, [](const std::vector<uint32_t> &bases) { return printNumbers(bases); }) +
         ", stride = " + printNumbers(boxStride_) + ")";
}

std::optional<SharedLayout> parseSharedLayout(llvm::StringRef text, llvm::ArrayRef<int64_t> shape, std::string &error) {
  Reader reader(text, error);
  if (!reader.read()) return std::nullopt;
  if (reader.name != "shared") {
    reader.semantic("unknown layout '" + reader.name.str() + "'; a shared layout is shared(…)");
    return std::nullopt;
  }
  std::vector<int64_t> box, stride;
  std::vector<std::vector<uint32_t>> bases;
  if (!reader.allow({"box", "bases", "stride"}) || !reader.numbers("box", box) || !reader.numbers("stride", stride))
    return std::nullopt;
  const Value *value = reader.find("bases");
  if (!value) {
    reader.semantic("'shared' needs 'bases'");
    return std::nullopt;
  }
  if (!reader.lists("bases", *value, bases)) return std::nullopt;
  if (auto why = SharedLayout::check(shape, box, bases, stride)) {
    reader.semantic(*why);
    return std::nullopt;
  }
  return SharedLayout(shape, box, std::move(bases), stride);
}

} // namespace tlx::layout
