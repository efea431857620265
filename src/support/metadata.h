// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a compiled kernel says of itself: everything that the launcher, the cache and users need, and nothing of LLVM. Stored as JSON
// beside the image.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tlx {

/// A tensor descriptor: what the launcher makes of pointer, shape and strides. Dimensions in the order of the language, the last contiguous.
struct DescriptorInfo {
  std::string element;        // "f16"
  std::vector<int64_t> block; // as declared
  /// True: the argument is a tensor map of 128 bytes (64-byte aligned), encoded with this box and swizzle. False: it is passed as
  /// fields, the pointer at ArgInfo::offset and the others at these offsets.
  bool tensorMap = false;
  std::vector<uint32_t> box; // elements of one message, by dimension
  uint32_t swizzle = 0;      // bytes of a row that the pattern permutes: 0, 32, 64 or 128
  /// With a tensor map: the fields follow it, the pointer at this offset (kernels that store through the map need them at ragged edges).
  std::optional<uint32_t> pointerOffset;
  std::vector<uint32_t> shapeOffsets;  // i32, by dimension
  std::vector<uint32_t> strideOffsets; // i64 elements, by dimension but the last
  bool operator==(const DescriptorInfo &) const = default;
};

/// A kernel argument as the host passes it, in the order of the parameter buffer (natural alignment).
struct ArgInfo {
  enum class Kind : uint8_t { Scalar, Pointer, TensorDesc };
  std::string name;
  Kind kind = Kind::Scalar;
  std::string type;              // the language's spelling: "i32", "*f16"
  uint32_t offset = 0, size = 0; // a TensorDesc passed as fields: from its pointer to the end of its last field
  std::optional<DescriptorInfo> descriptor; // of a TensorDesc
};

/// Arguments that the launcher adds behind the user's.
struct HiddenArg {
  /// WaitRecord: the address of a WaitRecord for each of KernelMetadata::waits, 0: nobody reads them.
  enum class Kind : uint8_t { GridX, GridY, GridZ, WaitRecord };
  Kind kind = Kind::GridX;
  uint32_t offset = 0, size = 4;
};

/// A place where the kernel waits for an mbarrier, under a debug time-out.
struct WaitSite {
  std::string task; // "'consumer' (replica 1)"
  std::string barrier;
  std::string place;                 // "gemm.tlx:31"
  uint32_t offset = 0, barriers = 1; // bytes in shared memory, and how many lie there
  bool operator==(const WaitSite &) const = default;
};

/// What a wait writes that gives up, in one store of 16 bytes.
struct WaitRecord {
  static constexpr uint32_t kWritten = 1u << 31;
  uint32_t phase = 0;     // and kWritten
  uint32_t barrier = 0;   // bytes in shared memory
  uint32_t x = 0, yz = 0; // the program; y in the low half
};
static_assert(sizeof(WaitRecord) == 16);

/// A fact of `requires` or an option, checked at every launch: a comparison over integers, as a small stack program in postfix
/// order; `text` is how the user wrote it.
struct Fact {
  enum class Op : uint8_t { Const, Arg, Add, Sub, Mul, DivFloor, ModFloor, Neg, Eq, Ne, Lt, Le, Gt, Ge, And, Or, Not };
  struct Step {
    Op op = Op::Const;
    int64_t value = 0; // Const: the number; Arg: index into args (a pointer's address, a scalar integer's value)
  };
  std::string text;
  std::vector<Step> program; // leaves one value: true if not zero
  bool noalias = false;      // only the simulator can see it; program is Arg of the pointer
};

/// Whether a fact holds for these arguments (indexed as by Op::Arg). A span and not LLVM's ArrayRef, which converts to it: this
/// header and the launcher are free of LLVM. Arithmetic wraps; division by zero or a malformed program: false.
bool evaluateFact(const Fact &fact, std::span<const int64_t> args);

struct Resources {
  std::optional<unsigned> registers, spillStores, spillLoads, stackBytes, scratchBytes;
};

/// A task of an async_tasks: consecutive warps that run the same code at one time.
struct TaskInfo {
  std::string name;    // "consumer[1]": its replica, where there are several
  unsigned region = 0; // which async_tasks of the kernel, from 0
  unsigned start = 0, warps = 0;
  bool operator==(const TaskInfo &) const = default;
};

/// A buffer or barriers in shared memory that have a name in the text: `slots` equal parts. Several may have the same bytes, one after another.
struct SharedInfo {
  std::string name;
  unsigned offset = 0, bytes = 0, slots = 1;
  bool barriers = false;
  bool operator==(const SharedInfo &) const = default;
};

struct StageTime {
  std::string name;
  double milliseconds = 0;
};

struct KernelMetadata {
  std::string name;         // as written by the user
  std::string symbol;       // in the image
  std::string target;       // "sm_80"
  std::string assembledFor; // the device's architecture the image is for, when that differs
  unsigned warpSize = 32, numWarps = 4;
  unsigned sharedBytes = 0; // of the CTA, dynamic on NVIDIA, static on AMD
  uint32_t paramBytes = 0;  // with hidden arguments
  std::vector<ArgInfo> args;
  std::vector<HiddenArg> hidden;
  std::vector<WaitSite> waits; // with a debug time-out
  uint32_t debugTimeout = 0;   // microseconds
  std::vector<Fact> facts;
  std::vector<TaskInfo> tasks;
  std::vector<SharedInfo> shared;
  Resources resources;
  std::string assembler; // identity of what made the image: "ptxas 13.0.88 (/path)", "lld 22.1.8", "simulator"
  std::vector<StageTime> stages;
};

std::string toJson(const KernelMetadata &metadata);
/// nullopt if the text is not such metadata; `error` says why.
std::optional<KernelMetadata> metadataFromJson(const std::string &text, std::string &error);

/// A compiled kernel: metadata and the image of one kind.
struct Binary {
  enum class Kind : uint8_t { Cubin, Ptx, Hsaco, SimBitcode };
  Kind kind = Kind::SimBitcode;
  KernelMetadata metadata;
  std::vector<uint8_t> image;
};

} // namespace tlx
