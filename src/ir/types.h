// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types of the IR: immutable, uniqued by a Context, compared by pointer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include "layout/layout.h"

namespace tlx::ir {

enum class Scalar : uint8_t {
  I1,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  F16,
  BF16,
  F32,
  F64
};
inline constexpr unsigned kScalars = 17;

llvm::StringRef scalarName(Scalar s); // "f8e4m3"
std::optional<Scalar> scalarByName(llvm::StringRef name);
unsigned scalarBits(Scalar s); // i1 is 1 in registers and 8 in memory
inline unsigned scalarBytes(Scalar s) {
  return (scalarBits(s) + 7) / 8;
} // in memory
bool isSignedInt(Scalar s);   // i8 … i64
bool isUnsignedInt(Scalar s); // i1, u8 … u64
inline bool isInt(Scalar s) {
  return isSignedInt(s) || isUnsignedInt(s);
}
inline bool isFloat(Scalar s) {
  return !isInt(s);
}
bool isFp8(Scalar s);
/// The number that an integer type holds of `v`: its low bits, sign- or zero-extended (u64: the bits). Constants are stored so.
int64_t wrapInt(int64_t v, Scalar s);

enum class Space : uint8_t { Shared, Tensor }; // where a buffer lives

class Context;
struct TypeData;

/// A value type: cheap to copy, compared by identity.
class Type {
public:
  enum class Kind : uint8_t { Scalar, Pointer, Tile, Buffer, Barrier, TensorDesc, Token };
  Type() = default;
  explicit Type(const TypeData *data) : data(data) {}
  explicit operator bool() const { return data != nullptr; }
  bool operator==(const Type &) const = default;

  Kind kind() const;
  bool isScalar() const { return kind() == Kind::Scalar; }
  bool isPointer() const { return kind() == Kind::Pointer; }
  bool isTile() const { return kind() == Kind::Tile; }
  bool isBuffer() const { return kind() == Kind::Buffer; }

  /// The scalar of a scalar, of a tile of scalars, of a pointer's pointee, of a buffer or descriptor's elements.
  Scalar scalar() const;
  /// Of a tile: its element type (scalar or pointer). Of anything else: itself.
  Type element() const;
  llvm::ArrayRef<int64_t> shape() const; // of a tile, buffer or descriptor block; empty for others
  unsigned rank() const { return shape().size(); }
  int64_t elements() const;
  const layout::TileLayout *layout() const;         // of a tile; null before layout assignment
  const layout::SharedLayout *sharedLayout() const; // of a buffer; null before layout assignment
  unsigned depth() const;                           // ring depth of a buffer; number of barriers
  Space space() const;
  Context &context() const;
  /// The element (or the type itself) is a pointer / a scalar with the property.
  bool isPointerLike() const { return element().isPointer(); }
  bool isIntLike() const { return element().isScalar() && isInt(element().scalar()); }
  bool isFloatLike() const { return element().isScalar() && isFloat(element().scalar()); }
  bool isBoolLike() const { return element().isScalar() && element().scalar() == Scalar::I1; }

  /// The same shape (or a scalar for a scalar) with another element type; keeps the layout.
  Type withElement(Type element) const;
  Type withScalar(Scalar s) const;
  Type withLayout(const layout::TileLayout *layout) const;
  /// As printed without layout aliases: "f32[128, 64]", "*f16".
  std::string str() const;

  const TypeData *data = nullptr;
};

struct TypeData {
  Type::Kind kind;
  Context *context;
  Scalar scalar{};
  Type element;
  llvm::SmallVector<int64_t, 4> shape;
  const layout::TileLayout *layout = nullptr;
  const layout::SharedLayout *shared = nullptr;
  unsigned depth = 1;
  Space space = Space::Shared;
};

/// Owns types and layouts. Not thread-safe: one a compile.
class Context {
public:
  Context();
  ~Context();
  Context(const Context &) = delete;

  Type scalar(Scalar s);
  Type pointer(Scalar pointee);
  Type tile(Type element, llvm::ArrayRef<int64_t> shape, const layout::TileLayout *layout = nullptr);
  Type buffer(Scalar element, llvm::ArrayRef<int64_t> shape, unsigned depth, Space space,
              const layout::SharedLayout *shared = nullptr);
  Type barrier(unsigned count);
  Type tensorDesc(Scalar element, llvm::ArrayRef<int64_t> block);
  Type token();
  const layout::TileLayout *unique(const layout::TileLayout &layout);
  const layout::SharedLayout *unique(const layout::SharedLayout &layout);

private:
  Type make(TypeData data);
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tlx::ir
