// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/types.h"

#include <deque>
#include <map>
#include <tuple>

namespace tlx::ir {

namespace {
struct ScalarInfo {
  const char *name;
  unsigned bits;
};
const ScalarInfo kScalarInfo[kScalars] = {
    {"i1", 1},         {"i8", 8},   {"i16", 16},  {"i32", 32},   {"i64", 64},   {"u8", 8},
    {"u16", 16},       {"u32", 32}, {"u64", 64},  {"f8e4m3", 8}, {"f8e5m2", 8}, {"f8e4m3fnuz", 8},
    {"f8e5m2fnuz", 8}, {"f16", 16}, {"bf16", 16}, {"f32", 32},   {"f64", 64}};
} // namespace

llvm::StringRef scalarName(Scalar s) {
  return kScalarInfo[unsigned(s)].name;
}
unsigned scalarBits(Scalar s) {
  return kScalarInfo[unsigned(s)].bits;
}

std::optional<Scalar> scalarByName(llvm::StringRef name) {
  for (unsigned i = 0; i < kScalars; ++i)
    if (name == kScalarInfo[i].name) return Scalar(i);
  return std::nullopt;
}

bool isSignedInt(Scalar s) {
  return s >= Scalar::I8 && s <= Scalar::I64;
}
bool isUnsignedInt(Scalar s) {
  return s == Scalar::I1 || (s >= Scalar::U8 && s <= Scalar::U64);
}
int64_t wrapInt(int64_t v, Scalar s) {
  const unsigned drop = 64 - scalarBits(s);
  if (isSignedInt(s)) return int64_t(uint64_t(v) << drop) >> drop;
  return int64_t(uint64_t(v) << drop >> drop);
}

bool isFp8(Scalar s) {
  return s >= Scalar::F8E4M3 && s <= Scalar::F8E5M2FNUZ;
}

Type::Kind Type::kind() const {
  return data->kind;
}
Scalar Type::scalar() const {
  return data->kind == Kind::Tile ? data->element.scalar() : data->scalar;
}
Type Type::element() const {
  return data->kind == Kind::Tile ? data->element : *this;
}
llvm::ArrayRef<int64_t> Type::shape() const {
  return data->shape;
}
const layout::TileLayout *Type::layout() const {
  return data->layout;
}
const layout::SharedLayout *Type::sharedLayout() const {
  return data->shared;
}
unsigned Type::depth() const {
  return data->depth;
}
Space Type::space() const {
  return data->space;
}
Context &Type::context() const {
  return *data->context;
}

int64_t Type::elements() const {
  int64_t n = 1;
  for (int64_t e : data->shape) n *= e;
  return n;
}

Type Type::withElement(Type element) const {
  return isTile() ? context().tile(element, shape(), layout()) : element;
}
Type Type::withScalar(Scalar s) const {
  return withElement(context().scalar(s));
}
Type Type::withLayout(const layout::TileLayout *layout) const {
  return isTile() ? context().tile(element(), shape(), layout) : *this;
}

static std::string shapeStr(llvm::ArrayRef<int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::string Type::str() const {
  switch (kind()) {
  case Kind::Scalar:
    return scalarName(data->scalar).str();
  case Kind::Pointer:
    return "*" + scalarName(data->scalar).str();
  case Kind::Tile:
    return data->element.str() + shapeStr(data->shape);
  case Kind::Buffer:
    return "buffer<" + scalarName(data->scalar).str() + shapeStr(data->shape) + ", " + std::to_string(data->depth) +
           ", " + (data->space == Space::Shared ? "smem" : "tmem") + ">";
  case Kind::Barrier:
    return "barrier<" + std::to_string(data->depth) + ">";
  case Kind::TensorDesc:
    return "tensor_desc<" + scalarName(data->scalar).str() + ", " + shapeStr(data->shape) + ">";
  case Kind::Token:
    return "token";
  }
  return "?";
}

struct Context::Impl {
  using Key = std::tuple<uint8_t, uint8_t, const TypeData *, std::vector<int64_t>, const void *, unsigned, uint8_t>;
  std::deque<TypeData> types;
  std::map<Key, const TypeData *> index;
  std::map<std::string, std::unique_ptr<layout::TileLayout>> tiles;
  std::map<std::string, std::unique_ptr<layout::SharedLayout>> shared;
};

Context::Context() : impl(std::make_unique<Impl>()) {}
Context::~Context() = default;

Type Context::make(TypeData d) {
  d.context = this;
  const void *layout = d.layout ? static_cast<const void *>(d.layout) : d.shared;
  Impl::Key key{uint8_t(d.kind), uint8_t(d.scalar), d.element.data,  {d.shape.begin(), d.shape.end()},
                layout,          d.depth,           uint8_t(d.space)};
  auto [it, fresh] = impl->index.try_emplace(std::move(key), nullptr);
  if (fresh) {
    impl->types.push_back(std::move(d));
    it->second = &impl->types.back();
  }
  return Type(it->second);
}

Type Context::scalar(Scalar s) {
  return make({.kind = Type::Kind::Scalar, .context = this, .scalar = s});
}
Type Context::pointer(Scalar s) {
  return make({.kind = Type::Kind::Pointer, .context = this, .scalar = s});
}
Type Context::tile(Type element, llvm::ArrayRef<int64_t> shape, const layout::TileLayout *layout) {
  TypeData d{.kind = Type::Kind::Tile, .context = this, .element = element, .layout = layout};
  d.shape.assign(shape.begin(), shape.end());
  return make(std::move(d));
}
Type Context::buffer(Scalar element, llvm::ArrayRef<int64_t> shape, unsigned depth, Space space,
                     const layout::SharedLayout *shared) {
  TypeData d{
      .kind = Type::Kind::Buffer, .context = this, .scalar = element, .shared = shared, .depth = depth, .space = space};
  d.shape.assign(shape.begin(), shape.end());
  return make(std::move(d));
}
Type Context::barrier(unsigned count) {
  return make({.kind = Type::Kind::Barrier, .context = this, .depth = count});
}
Type Context::tensorDesc(Scalar element, llvm::ArrayRef<int64_t> block) {
  TypeData d{.kind = Type::Kind::TensorDesc, .context = this, .scalar = element};
  d.shape.assign(block.begin(), block.end());
  return make(std::move(d));
}
Type Context::token() {
  return make({.kind = Type::Kind::Token, .context = this});
}

const layout::TileLayout *Context::unique(const layout::TileLayout &layout) {
  std::string key = layout.str();
  for (int64_t e : layout.shape()) key += "," + std::to_string(e);
  auto &slot = impl->tiles[key];
  if (!slot) slot = std::make_unique<layout::TileLayout>(layout);
  return slot.get();
}
const layout::SharedLayout *Context::unique(const layout::SharedLayout &layout) {
  std::string key = layout.str();
  for (int64_t e : layout.shape()) key += "," + std::to_string(e);
  auto &slot = impl->shared[key];
  if (!slot) slot = std::make_unique<layout::SharedLayout>(layout);
  return slot.get();
}

} // namespace tlx::ir
