// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See npy.h.
#include "npy.h"

#include <cmath>
#include <cstring>

#include "tlxc.h"

namespace tlxc {

namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += std::to_string(shape[i]) + (i + 1 < shape.size() ? ", " : "");
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// The value of a key in the header's Python dictionary, up to the comma that ends it ("(2, 3)" has commas of its own).
std::string headerValue(const std::string &header, const std::string &key) {
  size_t at = header.find("'" + key + "'");
  if (at == std::string::npos) return "";
  at = header.find(':', at);
  if (at == std::string::npos) return "";
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string::npos) return "";
  const size_t end = header[at] == '(' ? header.find(')', at) + 1 : header.find_first_of(",}", at);
  return header.substr(at, end - at);
}

std::string without(std::string text, const char *characters) {
  std::string result;
  for (char c : text)
    if (!std::strchr(characters, c)) result += c;
  return result;
}

double readFloat(const uint8_t *from, size_t bytes) {
  if (bytes == 8) {
    double value;
    std::memcpy(&value, from, 8);
    return value;
  }
  if (bytes == 4) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                           : exponent == 0 ? std::ldexp(mantissa, -24)
                                           : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

} // namespace

std::vector<uint8_t> readNpy(const std::string &path, const ElementType &type, const std::vector<int64_t> &shape) {
  const std::string file = readFile(path);
  auto bad = [&](const std::string &why) -> Failure { return {kUserError, "error: " + path + ": " + why + "\n"}; };
  if (file.size() < 10 || std::memcmp(file.data(), kMagic, kMagicSize) != 0) throw bad("not an .npy file");
  const unsigned major = uint8_t(file[6]);
  size_t length = uint8_t(file[8]) | size_t(uint8_t(file[9])) << 8, start = 10;
  if (major >= 2) {
    if (file.size() < 12) throw bad("truncated");
    length |= size_t(uint8_t(file[10])) << 16 | size_t(uint8_t(file[11])) << 24;
    start = 12;
  }
  if (major > 3 || length > file.size() - start) throw bad("damaged header");
  const std::string header = file.substr(start, length);
  const std::string descr = without(headerValue(header, "descr"), "'\" ");
  const std::string shapeInFile = without(headerValue(header, "shape"), " ");
  const bool fortran = headerValue(header, "fortran_order").rfind("True", 0) == 0;
  if (shapeInFile != without(shapeText(shape), " "))
    throw bad("has the shape " + shapeInFile + ", and --arg says " + shapeText(shape));
  // NumPy writes '|' for one byte, but '<' is read as well.
  const bool sameType = descr == type.npy || (type.bytes == 1 && descr.size() == 3 && descr.substr(1) == type.npy + 1);
  const bool convert =
      !sameType && type.kind == ElementType::Float && (descr == "<f2" || descr == "<f4" || descr == "<f8");
  if (!sameType && !convert)
    throw bad("has the dtype " + descr + ", and " + type.name + " needs " + type.npy + (type.raw ? " (its bits)" : ""));
  const size_t width = convert ? size_t(descr[2] - '0') : type.bytes;
  size_t count = 1;
  for (int64_t extent : shape) count *= size_t(extent);
  if (file.size() - start - length < count * width) throw bad("truncated");
  const uint8_t *data = reinterpret_cast<const uint8_t *>(file.data()) + start + length;

  std::vector<uint8_t> result(count * type.bytes);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t i = 0; i < count; ++i) {
    size_t at = i;
    if (fortran) {
      at = 0;
      for (size_t d = shape.size(); d-- > 0;) at = at * size_t(shape[d]) + size_t(index[d]);
      for (size_t d = shape.size(); d-- > 0;) {
        if (++index[d] < shape[d]) break;
        index[d] = 0;
      }
    }
    uint8_t *to = &result[i * type.bytes];
    if (convert)
      storeValue(type, to, readFloat(data + at * width, width));
    else
      std::memcpy(to, data + at * width, width);
  }
  return result;
}

void writeNpy(const std::string &path, const ElementType &type, const std::vector<int64_t> &shape,
              const std::vector<uint8_t> &data) {
  std::string header =
      std::string("{'descr': '") + type.npy + "', 'fortran_order': False, 'shape': " + shapeText(shape) + ", }";
  header.append(63 - (kMagicSize + 4 + header.size()) % 64, ' '); // the data begins at a multiple of 64
  header += '\n';
  std::string file(kMagic, kMagicSize);
  file += {1, 0, char(header.size() & 255), char(header.size() >> 8)};
  file += header;
  file.append(reinterpret_cast<const char *>(data.data()), data.size());
  writeFile(path, file);
}

} // namespace tlxc
