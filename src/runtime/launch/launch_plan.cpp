// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See launch_plan.h.
#include "runtime/launch/launch_plan.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdio>

namespace tlx::runtime {

namespace {

std::string quoted(const std::string &text) {
  return "'" + text + "'";
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%" PRIx64, value);
  return text;
}

const char *kindName(Arg::Kind kind) {
  switch (kind) {
  case Arg::Kind::Pointer:
    return "a pointer";
  case Arg::Kind::Int:
  case Arg::Kind::UInt:
    return "an integer";
  case Arg::Kind::Float:
    return "a float";
  case Arg::Kind::Tensor:
    return "a tensor";
  }
  return "an unknown kind of argument";
}

} // namespace

uint32_t roundToFloatBits(double value, unsigned exponent, unsigned mantissa) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint32_t sign = uint32_t(bits >> 63) << (exponent + mantissa);
  const int bias = (1 << (exponent - 1)) - 1;
  const uint32_t infinity = ((1u << exponent) - 1) << mantissa;
  if (std::isnan(value)) return sign | infinity | (1u << (mantissa - 1));
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  // value = m * 2^(e - mantissa), with m rounded to an integer: one rounding, subnormals included. nearbyint rounds to
  // even in the default mode, which the C standard lets a library assume.
  int e;
  std::frexp(std::fabs(value), &e);
  e = std::max(e - 1, 1 - bias);
  uint64_t m = uint64_t(std::nearbyint(std::ldexp(std::fabs(value), int(mantissa) - e)));
  // A carry out of the mantissa moves the exponent up by itself: the fields are adjacent.
  const uint64_t result = (uint64_t(e - (1 - bias)) << mantissa) + m;
  return sign | uint32_t(std::min<uint64_t>(result, infinity));
}

namespace {

/// fp8 types without infinities: e4m3 (NaN 0x7f, largest 448, overflow gives NaN) and the fnuz forms (bias one higher,
/// NaN 0x80, no negative zero).
uint8_t roundToFp8(double value, unsigned exponent, unsigned mantissa, bool fnuz, uint8_t largest) {
  const uint8_t nan = fnuz ? 0x80 : 0x7f;
  if (std::isnan(value) || std::isinf(value)) return nan;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const int bias = (1 << (exponent - 1)) - 1 + fnuz;
  int e;
  std::frexp(std::fabs(value), &e);
  e = value == 0 ? 1 - bias : std::max(e - 1, 1 - bias);
  const uint64_t m = uint64_t(std::nearbyint(std::ldexp(std::fabs(value), int(mantissa) - e)));
  const uint64_t result = (uint64_t(e - (1 - bias)) << mantissa) + m;
  if (result > largest) return nan;
  if (result == 0 && fnuz) return 0;
  return uint8_t(sign | result);
}

} // namespace

Status checkGrid(const Grid &grid, const GridLimits &limits, unsigned threadsPerProgram) {
  const uint64_t most[3] = {limits.x, limits.y, limits.z};
  const uint32_t extent[3] = {grid.x, grid.y, grid.z};
  for (int i = 0; i < 3; ++i) {
    if (most[i] && extent[i] > most[i])
      return Status::error(Code::InvalidArgument, std::string("grid.") + "xyz"[i] + " is " + std::to_string(extent[i]) +
                                                      ", and this device takes at most " + std::to_string(most[i]));
    const uint64_t threads = uint64_t(extent[i]) * (i == 0 ? threadsPerProgram : 1);
    if (limits.threads && threads > limits.threads)
      return Status::error(Code::InvalidArgument, std::string("grid.") + "xyz"[i] +
                                                      " times the threads of a program is " + std::to_string(threads) +
                                                      ", and this device takes at most " +
                                                      std::to_string(limits.threads) + " threads in a dimension");
  }
  return Status::ok();
}

Status LaunchPlan::create(const KernelMetadata &metadata, LaunchPlan &plan) {
  auto bad = [&](const std::string &why) {
    return Status::error(Code::Internal, "metadata of kernel " + quoted(metadata.name) + ": " + why);
  };
  static constexpr Format kFormats[] = {Format::I1,         Format::I1,         Format::Signed,   Format::Signed,
                                        Format::Signed,     Format::Signed,     Format::Unsigned, Format::Unsigned,
                                        Format::Unsigned,   Format::Unsigned,   Format::F8E4M3,   Format::F8E5M2,
                                        Format::F8E4M3Fnuz, Format::F8E5M2Fnuz, Format::F16,      Format::BF16,
                                        Format::F32,        Format::F64}; // by Element
  static_assert(std::size(kFormats) == size_t(Element::F64) + 1);

  plan = LaunchPlan();
  plan.metadata = &metadata;
  if (metadata.paramBytes > ParamBuffer::kCapacity)
    return Status::error(Code::Unsupported, "kernel " + quoted(metadata.name) + " takes " +
                                                std::to_string(metadata.paramBytes) + " bytes of arguments, and " +
                                                std::to_string(ParamBuffer::kCapacity) +
                                                " is the most a launch can pass");
  uint32_t end = 0;
  auto placeAligned = [&](const std::string &name, uint32_t offset, uint32_t size, uint32_t alignment) -> std::string {
    if (size == 0 || offset % alignment != 0) return "argument " + quoted(name) + " is not naturally aligned";
    if (offset < end) return "argument " + quoted(name) + " overlaps the one before it";
    if (offset > metadata.paramBytes || size > metadata.paramBytes - offset)
      return "argument " + quoted(name) + " lies outside the parameter buffer";
    end = offset + size;
    return {};
  };
  auto place = [&](const std::string &name, uint32_t offset, uint32_t size) {
    return placeAligned(name, offset, size, size);
  };
  auto placeTensor = [&](const ArgInfo &arg) -> std::string {
    const DescriptorInfo &descriptor = *arg.descriptor;
    if (descriptor.tensorMap) {
      const uint32_t size = descriptor.pointerOffset ? uint32_t(kTensorMapBytes) : arg.size;
      if (std::string why = placeAligned(arg.name, arg.offset, size, kTensorMapAlignment); !why.empty()) return why;
      if (!descriptor.pointerOffset) return {};
    }
    // Its fields in the order of their offsets, and nothing else among them.
    const uint32_t first = descriptor.pointerOffset.value_or(arg.offset);
    std::vector<std::pair<uint32_t, uint32_t>> fields = {{first, 8}};
    for (uint32_t offset : descriptor.shapeOffsets) fields.emplace_back(offset, 4);
    for (uint32_t offset : descriptor.strideOffsets) fields.emplace_back(offset, 8);
    std::sort(fields.begin(), fields.end());
    if (fields[0].first != first) return "argument " + quoted(arg.name) + " has a field before its pointer";
    for (const auto &[offset, size] : fields)
      if (std::string why = place(arg.name, offset, size); !why.empty()) return why;
    if (end != arg.offset + arg.size) return "argument " + quoted(arg.name) + " does not end with its last field";
    return {};
  };
  for (const ArgInfo &arg : metadata.args) {
    Format format = Format::Pointer;
    if (arg.kind == ArgInfo::Kind::TensorDesc) {
      plan.tensors.resize(metadata.args.size());
      if (std::string why = TensorParam::create(arg, plan.tensors[plan.formats.size()]); !why.empty())
        return bad("tensor descriptor " + quoted(arg.name) + ": " + why);
      if (std::string why = placeTensor(arg); !why.empty()) return bad(why);
      plan.formats.push_back(Format::Tensor);
      continue;
    }
    if (arg.kind == ArgInfo::Kind::Pointer) {
      if (arg.size != 8) return bad("pointer " + quoted(arg.name) + " does not have 8 bytes");
    } else {
      const Element element = findElement(arg.type);
      if (element == Element::None)
        return bad("argument " + quoted(arg.name) + " has the unknown type " + quoted(arg.type));
      // An i1 may be passed wider (the host's calling convention leaves garbage above bit 0 of a byte).
      const bool wideBool = element == Element::I1 && (arg.size == 1 || arg.size == 4);
      if (arg.size != elementBytes(element) && !wideBool)
        return bad("argument " + quoted(arg.name) + " of type " + arg.type + " has " + std::to_string(arg.size) +
                   " bytes");
      format = kFormats[size_t(element)];
    }
    if (std::string why = place(arg.name, arg.offset, arg.size); !why.empty()) return bad(why);
    plan.formats.push_back(format);
  }
  plan.user = end;
  for (const HiddenArg &arg : metadata.hidden) {
    const uint32_t size = arg.kind == HiddenArg::Kind::WaitRecord ? 8 : 4;
    if (arg.size != size) return bad("a hidden argument does not have " + std::to_string(size) + " bytes");
    if (std::string why = place("(hidden)", arg.offset, arg.size); !why.empty()) return bad(why);
  }
  for (const Fact &fact : metadata.facts) {
    plan.anyFacts |= !fact.noalias;
    for (const Fact::Step &step : fact.program)
      if (step.op == Fact::Op::Arg && (step.value < 0 || uint64_t(step.value) >= metadata.args.size()))
        return bad("fact " + quoted(fact.text) + " names argument " + std::to_string(step.value));
      else if (step.op == Fact::Op::Arg && plan.formats[size_t(step.value)] == Format::Tensor)
        return bad("fact " + quoted(fact.text) + " speaks of a tensor descriptor");
  }
  return Status::ok();
}

Status LaunchPlan::packOne(size_t index, const Arg &arg, TensorMapEncoder *maps, uint8_t *bytes,
                           int64_t &factValue) const {
  const ArgInfo &info = metadata->args[index];
  const Format format = formats[index];
  bytes += info.offset;
  auto mismatch = [&] {
    return Status::error(Code::InvalidArgument, "argument " + quoted(info.name) + " is of type " + info.type +
                                                    ", and " + kindName(arg.kind) + " was passed");
  };
  if (format == Format::Pointer) {
    if (arg.kind != Arg::Kind::Pointer) return mismatch();
    const uint64_t address = reinterpret_cast<uintptr_t>(arg.pointer);
    storeAs(bytes, address);
    factValue = int64_t(address);
    return Status::ok();
  }
  if (format == Format::Tensor) {
    if (arg.kind != Arg::Kind::Tensor) return mismatch();
    factValue = 0; // facts do not speak of tensors
    return tensors[index].pack(*arg.tensor, maps, bytes);
  }
  if (format == Format::I1 || format == Format::Signed || format == Format::Unsigned) {
    if (arg.kind != Arg::Kind::Int && arg.kind != Arg::Kind::UInt) return mismatch();
    const bool negative = arg.kind == Arg::Kind::Int && arg.i < 0;
    const unsigned bits = format == Format::I1 ? 1 : info.size * 8;
    // Both members hold the same 64 bits; `negative` says how to read them.
    const bool fits = negative
                          ? format == Format::Signed && arg.i >= (bits == 64 ? INT64_MIN : -(int64_t(1) << (bits - 1)))
                          : arg.u <= (format == Format::Signed ? (uint64_t(1) << (bits - 1)) - 1
                                                               : (bits == 64 ? UINT64_MAX : (uint64_t(1) << bits) - 1));
    if (!fits)
      return Status::error(Code::InvalidArgument, "argument " + quoted(info.name) + ": " +
                                                      (negative ? std::to_string(arg.i) : std::to_string(arg.u)) +
                                                      " does not fit " + info.type);
    const uint64_t value = arg.u;
    switch (info.size) {
    case 1:
      storeAs(bytes, uint8_t(value));
      break;
    case 2:
      storeAs(bytes, uint16_t(value));
      break;
    case 4:
      storeAs(bytes, uint32_t(value));
      break;
    default:
      storeAs(bytes, value);
      break;
    }
    factValue = int64_t(value);
    return Status::ok();
  }
  double value;
  if (arg.kind == Arg::Kind::Float)
    value = arg.f;
  else if (arg.kind == Arg::Kind::Int)
    value = double(arg.i);
  else if (arg.kind == Arg::Kind::UInt)
    value = double(arg.u);
  else
    return mismatch();
  switch (format) {
  case Format::F64:
    storeAs(bytes, value);
    break;
  case Format::F32:
    storeAs(bytes, float(value));
    break;
  case Format::F16:
    storeAs(bytes, uint16_t(roundToFloatBits(value, 5, 10)));
    break;
  case Format::BF16:
    storeAs(bytes, uint16_t(roundToFloatBits(value, 8, 7)));
    break;
  case Format::F8E5M2:
    storeAs(bytes, uint8_t(roundToFloatBits(value, 5, 2)));
    break;
  case Format::F8E4M3:
    storeAs(bytes, roundToFp8(value, 4, 3, false, 0x7e));
    break;
  case Format::F8E4M3Fnuz:
    storeAs(bytes, roundToFp8(value, 4, 3, true, 0x7f));
    break;
  case Format::F8E5M2Fnuz:
    storeAs(bytes, roundToFp8(value, 5, 2, true, 0x7f));
    break;
  default:
    return mismatch();
  }
  factValue = 0; // facts speak of integers and addresses only
  return Status::ok();
}

Status LaunchPlan::checkFacts(std::span<const int64_t> values) const {
  for (const Fact &fact : metadata->facts) {
    if (fact.noalias || evaluateFact(fact, values)) continue;
    std::string text;
    std::vector<int64_t> seen;
    for (const Fact::Step &step : fact.program) {
      if (step.op != Fact::Op::Arg || std::find(seen.begin(), seen.end(), step.value) != seen.end()) continue;
      seen.push_back(step.value);
      const size_t index = size_t(step.value);
      const bool isPointer = formats[index] == Format::Pointer, isUnsigned = formats[index] == Format::Unsigned;
      text += (text.empty() ? "" : ", ") + metadata->args[index].name + " = " +
              (isPointer    ? hex(uint64_t(values[index]))
               : isUnsigned ? std::to_string(uint64_t(values[index]))
                            : std::to_string(values[index]));
    }
    return Status::error(Code::Fact, "kernel " + quoted(metadata->name) + " requires " + quoted(fact.text) +
                                         ", which does not hold here" + (text.empty() ? "" : ": " + text));
  }
  return Status::ok();
}

void LaunchPlan::addHidden(const Grid &grid, ParamBuffer &out) const {
  for (const HiddenArg &arg : metadata->hidden) {
    switch (arg.kind) {
    case HiddenArg::Kind::GridX:
      storeAs(out.bytes + arg.offset, grid.x);
      break;
    case HiddenArg::Kind::GridY:
      storeAs(out.bytes + arg.offset, grid.y);
      break;
    case HiddenArg::Kind::GridZ:
      storeAs(out.bytes + arg.offset, grid.z);
      break;
    case HiddenArg::Kind::WaitRecord: // a device that reads records puts their address here
      storeAs(out.bytes + arg.offset, uint64_t(0));
      break;
    }
  }
}

namespace {

/// Values for the facts: on the stack for all but kernels with very many arguments.
class FactValues {
public:
  explicit FactValues(size_t count) : count(count) {
    if (count > std::size(small)) large.resize(count);
  }
  int64_t &operator[](size_t index) { return large.empty() ? small[index] : large[index]; }
  std::span<const int64_t> span() const { return {large.empty() ? small : large.data(), count}; }

private:
  size_t count;
  int64_t small[32];
  std::vector<int64_t> large;
};

} // namespace

Status LaunchPlan::pack(std::span<const Arg> args, const Grid &grid, ParamBuffer &out, TensorMapEncoder *maps) const {
  if (args.size() != metadata->args.size()) {
    std::string names;
    for (const ArgInfo &arg : metadata->args) names += (names.empty() ? "" : ", ") + arg.name + ": " + arg.type;
    return Status::error(Code::InvalidArgument, "kernel " + quoted(metadata->name) + " takes " +
                                                    std::to_string(metadata->args.size()) + " arguments (" + names +
                                                    "), and " + std::to_string(args.size()) + " were passed");
  }
  out.size = metadata->paramBytes;
  std::memset(out.bytes, 0, out.size); // padding is defined, so equal launches have equal bytes
  FactValues values(args.size());
  for (size_t i = 0; i < args.size(); ++i)
    if (Status status = packOne(i, args[i], maps, out.bytes, values[i])) return status;
  if (anyFacts)
    if (Status status = checkFacts(values.span())) return status;
  addHidden(grid, out);
  return Status::ok();
}

Status LaunchPlan::packTensor(size_t index, const Tensor &tensor, TensorMapEncoder *maps,
                              std::span<uint8_t> out) const {
  if (index >= formats.size())
    return Status::error(Code::NotFound, "there is no argument number " + std::to_string(index));
  const ArgInfo &info = metadata->args[index];
  if (formats[index] != Format::Tensor)
    return Status::error(Code::InvalidArgument,
                         "argument " + quoted(info.name) + " is of type " + info.type + ", which is no tensor_desc");
  if (out.size() != info.size)
    return Status::error(Code::InvalidArgument, "argument " + quoted(info.name) + " has " + std::to_string(info.size) +
                                                    " bytes in the packed buffer, and room for " +
                                                    std::to_string(out.size()) + " was given");
  std::memset(out.data(), 0, out.size()); // padding is defined
  return tensors[index].pack(tensor, maps, out.data());
}

Status LaunchPlan::packRaw(std::span<const uint8_t> bytes, const Grid &grid, ParamBuffer &out) const {
  if (bytes.size() != user)
    return Status::error(Code::InvalidArgument, "kernel " + quoted(metadata->name) + " takes " + std::to_string(user) +
                                                    " bytes of packed arguments, and " + std::to_string(bytes.size()) +
                                                    " were passed");
  out.size = metadata->paramBytes;
  std::memset(out.bytes, 0, out.size);
  if (!bytes.empty()) std::memcpy(out.bytes, bytes.data(), bytes.size());
  if (anyFacts) {
    FactValues values(metadata->args.size());
    for (size_t i = 0; i < metadata->args.size(); ++i) {
      const ArgInfo &arg = metadata->args[i];
      uint64_t value = 0;
      std::memcpy(&value, out.bytes + arg.offset, std::min<size_t>(arg.size, 8));
      if (formats[i] == Format::Signed && arg.size < 8) { // sign extension
        const unsigned shift = 64 - arg.size * 8;
        value = uint64_t(int64_t(value << shift) >> shift);
      }
      if (formats[i] == Format::I1) value &= 1;
      values[i] = int64_t(value);
    }
    if (Status status = checkFacts(values.span())) return status;
  }
  addHidden(grid, out);
  return Status::ok();
}

} // namespace tlx::runtime
