// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Element types as bytes, the random generator, and `--arg` specifications.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tlxc {

/// An element type of the language in memory.
struct ElementType {
  const char *name; // "f16"
  enum Kind : uint8_t { Bool, Signed, Unsigned, Float } kind;
  unsigned bytes;
  unsigned exponent, mantissa; // of small floats
  bool finite, fnuz;           // e4m3 has no infinities; fnuz forms have neither infinities nor -0
  const char *npy;             // its dtype in .npy files
  bool raw;                    // NumPy has no such type: the bits are stored as an unsigned integer
};
/// nullptr if there is no such type.
const ElementType *findType(const std::string &name);
/// Rounded to nearest even; integers are truncated towards zero and wrap.
void storeValue(const ElementType &type, uint8_t *to, double value);
void storeInteger(const ElementType &type, uint8_t *to, int64_t value);

/// splitmix64 (Steele, Lea, Flood, OOPSLA 2014), seeded with FNV-1a over the argument's name, xor the seed. Normal
/// numbers by Box-Muller from pairs of uniform ones with 53 bits. Part of the tool's interface: the same seed gives the
/// same inputs in every version.
class Random {
public:
  Random(uint64_t seed, const std::string &name);
  uint64_t next();
  double normal();
  /// In [low, high).
  int64_t integer(int64_t low, int64_t high);

private:
  uint64_t state;
  double spare = 0;
  bool hasSpare = false;
};

/// `--arg NAME=SPEC`, parsed.
struct ArgSpec {
  std::string name;
  bool isTensor = false;
  // A number:
  bool isFloat = false;
  double number = 0;
  int64_t integer = 0;
  bool isUnsigned = false; // above INT64_MAX: the bits are in `integer`
  // A tensor:
  const ElementType *type = nullptr;
  std::vector<int64_t> shape, strides; // in elements
  enum class Init : uint8_t { Empty, Zeros, Ones, Arange, Randn, Randint, Full, File } init = Init::Empty;
  int64_t low = 0, high = 0;
  double value = 0;
  std::string file;

  int64_t count() const;
  /// Elements from the first to the last, strides included.
  int64_t span() const;
  /// Position in memory, in elements, of each logical element in row-major order.
  std::vector<int64_t> offsets() const;
};
/// Throws Failure(kUsage) with what is wrong.
ArgSpec parseArg(const std::string &text);
/// The tensor's memory: span() elements, those that no index reaches zero.
std::vector<uint8_t> makeData(const ArgSpec &spec, uint64_t seed);

} // namespace tlxc
