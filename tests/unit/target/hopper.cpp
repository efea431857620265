// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hopper's units on sm_90a: TMA, wgmma and mbarriers become the PTX of the ISA, ptxas takes it, and a loop of wgmma keeps its accumulator
// in registers. What one operation without an accumulator becomes is in nvidia.cpp.
#include <regex>

#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

namespace {
const char *assembler() { return hasPtxas() ? "ptxas" : "none"; }

size_t count(const std::string &text, const std::string &what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

/// Each run of spaces, tabs and newlines as one space.
std::string squeeze(const std::string &text) { return std::regex_replace(text, std::regex("[ \t\n]+"), " "); }

std::string number(uint64_t n) { return std::to_string(n); }

/// "declare …" of every operation that the text calls.
std::string declare(const std::string &text) {
  llvm::LLVMContext context;
  llvm::Module module("m", context);
  std::regex name("@(tlx\\.[a-z0-9.]+)\\(");
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
    device_ops::getDeviceOp(module, (*at)[1].str());
  std::string out;
  llvm::raw_string_ostream os(out);
  for (llvm::Function &f : module) f.print(os);
  return std::regex_replace(out, std::regex(" #[0-9]+"), " convergent nounwind");
}

std::string kernel(const std::string &body, const std::string &parameters = "i32 %n") {
  std::string attributes = " \"tlx.kernel\" \"tlx.threads\"=\"128\" \"tlx.shared-bytes\"=\"4096\"";
  std::string text = "define void @k(" + parameters + ")" + attributes + " {\n" + body + "}\n";
  return declare(text) + text;
}

const char *kMap = "ptr byval([128 x i8]) align 64 %map, i32 %n";

// --- TMA

struct Rank {
  const char *suffix, *constants; // operands
  unsigned coordinates;
};
const Rank kRanks[] = {{"1d", "i32 11", 1},
                       {"2d", "i32 11, i32 12", 2},
                       {"3d", "i32 11, i32 12, i32 13", 3},
                       {"4d", "i32 11, i32 12, i32 13, i32 14", 4},
                       {"5d", "i32 11, i32 12, i32 13, i32 14, i32 15", 5}};

/// The instruction of `opcode` in the PTX, with registers replaced by what was moved into them.
std::string resolved(const std::string &ptx, const std::string &opcode) {
  std::map<std::string, std::string> moved;
  std::string flat = squeeze(ptx);
  std::regex move("mov\\.b(?:32|64) (%r[d0-9]+), ([0-9a-z_]+);");
  for (std::sregex_iterator at(flat.begin(), flat.end(), move), end; at != end; ++at) moved[(*at)[1].str()] = (*at)[2].str();
  size_t at = flat.find(" " + opcode + " ");
  if (at == std::string::npos) return "none of '" + opcode + "' in " + ptx;
  std::string line = flat.substr(at + 1, flat.find(';', at) - at), out;
  std::regex reg("%r[d0-9]+");
  auto from = line.cbegin();
  for (std::sregex_iterator r(line.begin(), line.end(), reg), end; r != end; ++r) {
    out.append(from, line.cbegin() + r->position());
    auto known = moved.find(r->str());
    out += known == moved.end() ? "%" : known->second;
    from = line.cbegin() + r->position() + r->length();
  }
  return out.append(from, line.cend());
}

struct TmaForm {
  const char *op, *operands, *before, *after; // opcode before and after the rank
  const char *rest;                           // with {} for the coordinates
};
#define TLX_REDUCE(KIND) \
  {"reduce." KIND, "ptr addrspace(3) %s, ptr %map", "cp.reduce.async.bulk.tensor.", ".global.shared::cta." KIND ".tile.bulk_group", \
   "[%, {}], [%]"}
const TmaForm kTma[] = {
    {"load", "ptr addrspace(3) %s, ptr addrspace(3) %bar, ptr %map", "cp.async.bulk.tensor.",
     ".shared::cluster.global.tile.mbarrier::complete_tx::bytes", "[%], [%, {}], [%+2048]"},
    {"store", "ptr addrspace(3) %s, ptr %map", "cp.async.bulk.tensor.", ".global.shared::cta.tile.bulk_group", "[%, {}], [%]"},
    {"prefetch", "ptr %map", "cp.async.bulk.prefetch.tensor.", ".L2.global.tile", "[%, {}]"},
    TLX_REDUCE("add"),
    TLX_REDUCE("min"),
    TLX_REDUCE("max"),
    TLX_REDUCE("and"),
    TLX_REDUCE("or"),
    TLX_REDUCE("xor"),
};
#undef TLX_REDUCE

std::string tmaKernel(const TmaForm &form, const Rank &rank, const char *hint) {
  return kernel("%base = call ptr addrspace(3) @tlx.smem.base()\n"
                "%s = getelementptr i8, ptr addrspace(3) %base, i32 %n\n"
                "%bar = getelementptr i8, ptr addrspace(3) %s, i32 2048\n"
                "call void @tlx.nv.tma." + std::string(form.op) + "." + rank.suffix + "(" + form.operands + ", " + rank.constants +
                    ", i64 " + hint + ")\nret void\n",
                kMap);
}
} // namespace

TEST_CASE("hopper: every row of TMA is its instruction, coordinates in order") {
  unsigned rows = 0;
  for (const TmaForm &form : kTma)
    for (const Rank &rank : kRanks) {
      std::string op = std::string("tlx.nv.tma.") + form.op + "." + rank.suffix;
      CAPTURE(op);
      REQUIRE(device_ops::findDeviceOp(op));
      ++rows;
      std::string coordinates = "{11";
      for (unsigned i = 1; i < rank.coordinates; ++i) coordinates += ", " + number(11 + i);
      std::string operands = std::regex_replace(std::string(form.rest), std::regex("\\{\\}"), coordinates + "}");
      std::string opcode = form.before + std::string(rank.suffix) + form.after;
      Emitted e = emitText(tmaKernel(form, rank, "0"), "sm_90a", with(assembler()));
      CHECK_MESSAGE(e.ok, e.diagnostics);
      CHECK(resolved(e.out.assembly, opcode) == opcode + " " + operands + ";");
      // The map is read where the driver put it, not from a copy.
      CHECK(e.out.assembly.find(".local") == std::string::npos);
      CHECK(e.out.assembly.find("cvta.param") != std::string::npos);
      CHECK(e.out.assembly.find(".version 8.0") != std::string::npos);
      Emitted hinted = emitText(tmaKernel(form, rank, "77"), "sm_90a", with(assembler()));
      CHECK_MESSAGE(hinted.ok, hinted.diagnostics);
      CHECK(resolved(hinted.out.assembly, opcode + ".L2::cache_hint") == opcode + ".L2::cache_hint " + operands + ", 77;");
      CHECK(emitText(tmaKernel(form, rank, "0"), "sm_80", with("none")).diagnostics == "'" + op + "' does not exist on sm_80\n");
    }
  unsigned all = 0;
  for (const device_ops::DeviceOp &op : device_ops::allDeviceOps())
    all += llvm::StringRef(op.name).starts_with("tlx.nv.tma.") && op.name != std::string("tlx.nv.tma.prefetch.map");
  CHECK(rows == all);
}

TEST_CASE("hopper: a tensor map needs no copy, its hint is a constant") {
  Emitted e = emitText(kernel("call void @tlx.nv.tma.prefetch.map(ptr %map)\nret void\n", kMap), "sm_90a", with(assembler()));
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK_MESSAGE(e.out.assembly.find("prefetch.tensormap") != std::string::npos, e.out.assembly);
  CHECK(e.out.assembly.find(".param .align 64 .b8 k_param_0[128]") != std::string::npos);
  CHECK(e.out.assembly.find(".local") == std::string::npos);
  Emitted run = emitText(kernel("%h = zext i32 %n to i64\ncall void @tlx.nv.tma.prefetch.1d(ptr %map, i32 0, i64 %h)\nret void\n", kMap),
                         "sm_90a", with("none"));
  CHECK(run.diagnostics == "operand 2 of 'tlx.nv.tma.prefetch.1d' has to be a constant\n");
}

// --- wgmma

namespace {
struct Kind {
  const char *types;
  unsigned k;
  bool integers, negates, transposes;
};
const Kind kKinds[] = {
    {"f32.f16.f16", 16, false, true, true},    {"f32.bf16.bf16", 16, false, true, true},  {"f32.tf32.tf32", 8, false, true, false},
    {"f32.e4m3.e4m3", 32, false, true, false}, {"f32.e4m3.e5m2", 32, false, true, false}, {"f32.e5m2.e4m3", 32, false, true, false},
    {"f32.e5m2.e5m2", 32, false, true, false}, {"s32.s8.s8", 32, true, false, false},     {"s32.s8.u8", 32, true, false, false},
    {"s32.u8.s8", 32, true, false, false},     {"s32.u8.u8", 32, true, false, false}};

std::string element(const Kind &kind) { return kind.integers ? "i32" : "float"; }

/// Loads or stores of an accumulator at %out, four bytes an element and lane.
std::string transfer(const Kind &kind, unsigned n, const char *acc, bool store) {
  std::string text, type = element(kind), array = "[" + number(n / 2) + " x " + type + "]";
  for (unsigned i = 0; i < n / 2; ++i) {
    std::string id = std::string(acc) + (store ? "s" : "l") + number(i);
    text += "%p" + id + " = getelementptr inbounds " + array + ", ptr %" + acc + ", i32 0, i32 " + number(i) + "\n";
    text += "%g" + id + " = getelementptr i8, ptr addrspace(1) %out, i32 " + number(i * 512) + "\n";
    text += "%v" + id + " = load " + type + ", " + (store ? "ptr %p" : "ptr addrspace(1) %g") + id + "\n";
    text += "store " + type + " %v" + id + ", " + (store ? "ptr addrspace(1) %g" : "ptr %p") + id + "\n";
  }
  return text;
}

const char *kOut = "ptr addrspace(1) %out, i64 %a, i64 %b, i32 %n, <4 x i32> %ra";

/// One wgmma, waited for. `use` is an i32 operand.
std::string single(const Kind &kind, bool rs, unsigned n, const std::string &use, unsigned transposed) {
  std::string call = "call void @tlx.nv.wgmma." + std::string(rs ? "rs." : "ss.") + kind.types + "(ptr %acc, " +
                     (rs ? "<4 x i32> %ra" : "i64 %a") + ", i64 %b, i32 " + use + ", i32 " + number(n) + ", i32 " + number(transposed) +
                     ")\n";
  return kernel("%acc = alloca [" + number(n / 2) + " x " + element(kind) + "]\n" + (use == "0" ? "" : transfer(kind, n, "acc", false)) +
                    "call void @tlx.nv.wgmma.fence()\n" + call +
                    "call void @tlx.nv.wgmma.commit()\ncall void @tlx.nv.wgmma.wait(i32 0)\n"
                    "call void @tlx.nv.wgmma.retire(ptr %acc, i32 " + number(n / 2) + ")\n" +
                    transfer(kind, n, "acc", true) + "ret void\n",
                kOut);
}

/// What ptxas says against a loop that should run at full rate.
void checkClean(const Emitted &e) {
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK(e.out.assembly.find(".local") == std::string::npos);
  for (const std::string &w : e.out.warnings) FAIL_CHECK(w);
  if (e.out.image.empty()) return; // no ptxas, or not asked
  CHECK(e.out.resources.spillStores == 0u);
  CHECK(e.out.resources.spillLoads == 0u);
  CHECK(e.out.resources.stackBytes == 0u);
}
} // namespace

TEST_CASE("hopper: every kind of wgmma has the operands of its grammar, and ptxas takes it") {
  unsigned rows = 0;
  for (const Kind &kind : kKinds)
    for (bool rs : {false, true}) {
      ++rows;
      REQUIRE(device_ops::findDeviceOp(std::string("tlx.nv.wgmma.") + (rs ? "rs." : "ss.") + kind.types));
      for (unsigned transposed = 0; transposed < (kind.transposes ? 4u : 1u); ++transposed)
        for (const char *use : {"0", "1", "%n"}) {
          if (rs && (transposed & 1)) continue;
          CAPTURE(std::string(kind.types));
          CAPTURE(rs);
          CAPTURE(transposed);
          CAPTURE(std::string(use));
          Emitted e = emitText(single(kind, rs, 16, use, transposed), "sm_90a", with(assembler()));
          checkClean(e);
          std::string immediates;
          if (kind.negates) immediates += ", 1, 1";
          if (kind.transposes && !rs) immediates += transposed & 1 ? ", 1" : ", 0";
          if (kind.transposes) immediates += transposed & 2 ? ", 1" : ", 0";
          std::string d = "\\{%r[0-9]+(?:, %r[0-9]+){7}\\}", a = rs ? "\\{%r[0-9]+(?:, %r[0-9]+){3}\\}" : "%rd[0-9]+";
          std::string flat = squeeze(e.out.assembly);
          std::regex expected("wgmma\\.mma_async\\.sync\\.aligned\\.m64n16k" + number(kind.k) + "\\." + kind.types + " " + d + ", " + a +
                              ", %rd[0-9]+, (?:p|q|%p[0-9]+)" + immediates + ";");
          CHECK_MESSAGE(std::regex_search(flat, expected), e.out.assembly);
          bool mixed = kind.types == std::string("s32.s8.u8") || kind.types == std::string("s32.u8.s8");
          CHECK(flat.find(mixed ? ".version 8.4 " : ".version 8.0 ") != std::string::npos);
          CHECK(count(flat, "setp.ne.b32 q, 0, 0;") == (use[0] == '0'));
          CHECK(count(flat, "setp.ne.b32 p, 1, 0;") == (use[0] == '1'));
          CHECK(count(flat, ".reg .pred ") == 1); // LLVM's for %n, else ours
        }
    }
  unsigned all = 0;
  for (const device_ops::DeviceOp &op : device_ops::allDeviceOps())
    all += llvm::StringRef(op.name).starts_with("tlx.nv.wgmma.ss.") || llvm::StringRef(op.name).starts_with("tlx.nv.wgmma.rs.");
  CHECK(rows == all);
}

// The steps of a product pass the accumulator through LLVM once; what may not be joined is not.
TEST_CASE("hopper: steps of one product are one piece of assembly") {
  const std::string transfers = transfer(kKinds[0], 16, "acc", true);
  auto step = [](const char *acc, const char *use, const char *a = "%a") {
    return "call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %" + std::string(acc) + ", i64 " + a + ", i64 %b, i32 " + use + ", i32 16, i32 0)\n";
  };
  auto pieces = [&](const std::string &steps) {
    Emitted e = emitText(kernel("%acc = alloca [8 x float]\n%other = alloca [8 x float]\ncall void @tlx.nv.wgmma.fence()\n" + steps +
                                    "call void @tlx.nv.wgmma.commit()\ncall void @tlx.nv.wgmma.wait(i32 0)\n"
                                    "call void @tlx.nv.wgmma.retire(ptr %acc, i32 8)\n" + transfers + "ret void\n", kOut),
                         "sm_90a", with(assembler()));
    checkClean(e);
    unsigned found = 0;
    for (size_t at = 0, end; (at = e.out.assembly.find("begin inline asm", at)) != std::string::npos; at = end) {
      end = e.out.assembly.find("end inline asm", at);
      found += e.out.assembly.substr(at, end - at).find("wgmma.mma_async") != std::string::npos;
    }
    return std::pair(found, unsigned(count(e.out.assembly, "wgmma.mma_async")));
  };
  const std::string next = "%a2 = add i64 %a, 2\n" + step("acc", "1", "%a2");
  CHECK(pieces(step("acc", "0")) == std::pair(1u, 1u));
  CHECK(pieces(step("acc", "0") + next + step("acc", "1")) == std::pair(1u, 3u));
  CHECK(pieces(step("acc", "%n") + next) == std::pair(1u, 2u));
  CHECK(pieces(step("acc", "0") + step("acc", "%n")) == std::pair(2u, 2u));                      // a choice at run time
  CHECK(pieces(step("acc", "0") + step("acc", "0")) == std::pair(2u, 2u));                       // begins anew
  CHECK(pieces(step("acc", "0") + "call void @tlx.nv.wgmma.commit()\n" + next) == std::pair(2u, 2u)); // another group
  CHECK(pieces(step("other", "0") + step("acc", "0") + step("other", "1") + next) == std::pair(4u, 4u));
}

TEST_CASE("hopper: every legal width of wgmma; what there is not is an internal error") {
  const Kind &f16 = kKinds[0], &s8 = kKinds[7];
  auto message = [](const Kind &kind, bool rs, unsigned n, unsigned transposed) {
    return emitText(single(kind, rs, n, "1", transposed), "sm_90a", with("none")).diagnostics;
  };
  for (unsigned n = 8; n <= 256; n += 8) {
    CAPTURE(n);
    Emitted e = emitText(single(f16, false, n, "0", 0), "sm_90a", with(n % 48 ? "none" : assembler()));
    checkClean(e);
    CHECK(count(e.out.assembly, ".m64n" + number(n) + "k16.") == 1);
    bool legal = n % 16 == 0 || n == 8 || n == 24;
    Emitted i = emitText(single(s8, false, n, "0", 0), "sm_90a", with(legal && n % 48 ? "none" : assembler()));
    CHECK(i.ok == legal);
    if (!legal) CHECK(i.diagnostics.find("wgmma has no n = " + number(n) + " ('tlx.nv.wgmma.ss.s32.s8.s8')") != std::string::npos);
  }
  CHECK(message(f16, false, 12, 0).find("wgmma has no n = 12") != std::string::npos);
  CHECK(message(f16, false, 264, 0).find("wgmma has no n = 264") != std::string::npos);
  CHECK(message(f16, true, 16, 1).find("wgmma cannot transpose this operand ('tlx.nv.wgmma.rs.f32.f16.f16')") != std::string::npos);
  CHECK(message(kKinds[2], false, 16, 2).find("wgmma cannot transpose this operand") != std::string::npos);
  CHECK(message(s8, false, 16, 1).find("wgmma cannot transpose this operand") != std::string::npos);
  std::string older = emitText(single(f16, false, 16, "1", 0), "sm_80", with("none")).diagnostics;
  CHECK(older.find("'tlx.nv.wgmma.ss.f32.f16.f16' does not exist on sm_80\n") != std::string::npos);
  CHECK(older.find("'tlx.nv.wgmma.retire' does not exist on sm_80\n") != std::string::npos);
}

TEST_CASE("hopper: an accumulator is an alloca of its registers") {
  auto message = [](const char *memory, const char *call) {
    std::string body = std::string(memory) + "\ncall void @tlx.nv.wgmma." + call + "\nret void\n";
    return emitText(kernel(body, kOut), "sm_90a", with("none")).diagnostics;
  };
  const char *mma = "ss.f32.f16.f16(ptr %acc, i64 %a, i64 %b, i32 1, i32 16, i32 0)";
  CHECK(message("%acc = alloca [9 x float]", mma).find("an accumulator has to be an alloca of 8 registers") != std::string::npos);
  CHECK(message("%acc = alloca [8 x half]", mma).find("an accumulator has to be an alloca of 8 registers") != std::string::npos);
  CHECK(message("%acc = alloca [8 x i32]", mma).find("an accumulator of the wrong type") != std::string::npos);
  CHECK(message("%acc = inttoptr i64 %a to ptr", mma).find("an accumulator has to be an alloca of 8 registers") != std::string::npos);
  CHECK(message("%acc = alloca [8 x float]", "retire(ptr %acc, i32 4)").find("an alloca of 4 registers ('tlx.nv.wgmma.retire')") !=
        std::string::npos);
  CHECK(message("%acc = alloca [8 x float]", "ss.f32.f16.f16(ptr %acc, i64 %a, i64 %b, i32 1, i32 %n, i32 0)") ==
        "operand 4 of 'tlx.nv.wgmma.ss.f32.f16.f16' has to be a constant\n");
  CHECK(message("%acc = alloca [8 x float]", "wait(i32 %n)") == "operand 0 of 'tlx.nv.wgmma.wait' has to be a constant\n");
}

// --- a loop as code generation makes it

namespace {
/// A ring of three stages, TMA by one thread of warp 0, four wgmma a step of which one group stays in flight, and the accumulator stored
/// at the end. `use`: how the first step ignores what the accumulator holds ("run": by i > 0, "zero": it is zeroed before).
std::string matmul(const Kind &kind, bool rs, unsigned n, bool zeroed) {
  std::string type = element(kind), array = "[" + number(n / 2) + " x " + type + "]", body;
  unsigned aBytes = 64 * 128, stage = aBytes + n * 128;
  body += "entry:\n%acc = alloca " + array + "\n%smem = call ptr addrspace(3) @tlx.smem.base()\n";
  body += "%bars = getelementptr i8, ptr addrspace(3) %smem, i32 " + number(3 * stage) + "\n";
  body += "%tid = call i32 @tlx.nv.tid.x()\n%one = icmp eq i32 %tid, 0\nbr i1 %one, label %init, label %ready\n";
  body += "init:\ncall void @tlx.nv.tma.prefetch.map(ptr %ma)\ncall void @tlx.nv.tma.prefetch.map(ptr %mb)\n";
  for (unsigned i = 0; i < 3; ++i)
    body += "%b" + number(i) + " = getelementptr i8, ptr addrspace(3) %bars, i32 " + number(8 * i) +
            "\ncall void @tlx.nv.mbarrier.init(ptr addrspace(3) %b" + number(i) + ", i32 1)\n";
  body += "call void @tlx.nv.fence.mbarrier.init()\nbr label %ready\n";
  body += "ready:\ncall void @tlx.nv.bar.sync(i32 0, i32 128)\n";
  body += "%base = ptrtoint ptr addrspace(3) %smem to i32\n%base4 = lshr i32 %base, 4\n";
  if (zeroed)
    for (unsigned i = 0; i < n / 2; ++i)
      body += "%z" + number(i) + " = getelementptr inbounds " + array + ", ptr %acc, i32 0, i32 " + number(i) + "\nstore " + type +
              (kind.integers ? " 0" : " 0.0") + ", ptr %z" + number(i) + "\n";
  body += "br label %loop\n";
  body += "loop:\n%i = phi i32 [ 0, %ready ], [ %i1, %next ]\n%slot = phi i32 [ 0, %ready ], [ %slot1, %next ]\n"
          "%phase = phi i32 [ 0, %ready ], [ %phase1, %next ]\n";
  body += "%off = mul i32 %slot, " + number(stage) + "\n%as = getelementptr i8, ptr addrspace(3) %smem, i32 %off\n";
  body += "%bs = getelementptr i8, ptr addrspace(3) %as, i32 " + number(aBytes) + "\n%baroff = shl i32 %slot, 3\n";
  body += "%bar = getelementptr i8, ptr addrspace(3) %bars, i32 %baroff\n";
  body += "%w0 = icmp ult i32 %tid, 32\nbr i1 %w0, label %warp, label %wait\n";
  body += "warp:\n%el = call i1 @tlx.nv.elect()\nbr i1 %el, label %issue, label %wait\n";
  body += "issue:\ncall void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %bar, i32 " + number(stage) + ")\n%k = shl i32 %i, 6\n";
  body += "call void @tlx.nv.tma.load.2d(ptr addrspace(3) %as, ptr addrspace(3) %bar, ptr %ma, i32 %k, i32 0, i64 0)\n";
  body += "call void @tlx.nv.tma.load.2d(ptr addrspace(3) %bs, ptr addrspace(3) %bar, ptr %mb, i32 %k, i32 0, i64 0)\nbr label %wait\n";
  body += "wait:\n%done = call i1 @tlx.nv.mbarrier.try.wait(ptr addrspace(3) %bar, i32 %phase)\nbr i1 %done, label %mma, label %wait\n";
  body += "mma:\n%off4 = lshr i32 %off, 4\n%lo = add i32 %base4, %off4\n%more = icmp sgt i32 %i, 0\n%use = zext i1 %more to i32\n";
  if (rs)
    for (unsigned i = 0; i < 4; ++i)
      body += "%ap" + number(i) + " = getelementptr i8, ptr addrspace(3) %as, i32 " + number(i * 4096) + "\n%av" + number(i) +
              " = load <4 x i32>, ptr addrspace(3) %ap" + number(i) + "\n";
  body += "call void @tlx.nv.wgmma.fence()\n";
  for (unsigned i = 0; i < 4; ++i) {
    std::string id = number(i);
    for (const char *m : {"a", "b"}) {
      std::string name = m + id;
      body += "%l" + name + " = add i32 %lo, " + number(2 * i + (*m == 'b' ? aBytes / 16 : 0)) + "\n%z" + name + " = zext i32 %l" + name +
              " to i64\n%d" + name + " = or disjoint i64 %z" + name + ", " + number(((64ull | 1ull << 30) << 32) + (1u << 16)) + "\n";
    }
    body += "call void @tlx.nv.wgmma." + std::string(rs ? "rs." : "ss.") + kind.types + "(ptr %acc, " +
            (rs ? "<4 x i32> %av" + id : "i64 %da" + id) + ", i64 %db" + id + ", i32 " + (i || zeroed ? "1" : "%use") + ", i32 " +
            number(n) + ", i32 0)\n";
  }
  body += "call void @tlx.nv.wgmma.commit()\ncall void @tlx.nv.wgmma.wait(i32 " + std::string(rs ? "0" : "1") + ")\nbr label %next\n";
  body += "next:\n%i1 = add i32 %i, 1\n%s1 = add i32 %slot, 1\n%wrap = icmp eq i32 %s1, 3\n%slot1 = select i1 %wrap, i32 0, i32 %s1\n";
  body += "%flip = zext i1 %wrap to i32\n%phase1 = xor i32 %phase, %flip\n%again = icmp slt i32 %i1, %steps\n";
  body += "br i1 %again, label %loop, label %end\nend:\ncall void @tlx.nv.wgmma.wait(i32 0)\n";
  body += "call void @tlx.nv.wgmma.retire(ptr %acc, i32 " + number(n / 2) + ")\n" + transfer(kind, n, "acc", true) + "ret void\n";
  return kernel(body, "ptr byval([128 x i8]) align 64 %ma, ptr byval([128 x i8]) align 64 %mb, ptr addrspace(1) %out, i32 %steps");
}

/// The lines from the first wgmma to the last.
std::string between(const std::string &ptx) {
  size_t first = ptx.find("wgmma.mma_async"), last = ptx.rfind("wgmma.mma_async");
  return first == std::string::npos ? "" : ptx.substr(first, last - first);
}
} // namespace

TEST_CASE("hopper: a k loop keeps its accumulator in registers") {
  for (const Kind &kind : {kKinds[0], kKinds[2], kKinds[7]})
    for (unsigned n : {8u, 80u, 96u, 176u, 192u, 256u})
      for (bool rs : {false, true}) {
        CAPTURE(std::string(kind.types));
        CAPTURE(n);
        CAPTURE(rs);
        Emitted e = emitText(matmul(kind, rs, n, /*zeroed=*/rs), "sm_90a", with(assembler()));
        checkClean(e);
        CHECK(count(e.out.assembly, "wgmma.mma_async") == 4);
        CHECK(count(e.out.assembly, "cp.async.bulk.tensor.2d") == 2);
        // Between wgmmas descriptors are stepped; no element of the accumulator is copied.
        CHECK_MESSAGE(count(between(e.out.assembly), "mov.b32") == 0, e.out.assembly);
        if (hasPtxas()) CHECK(e.out.resources.registers.value_or(999) <= n / 2 + 48);
      }
}

TEST_CASE("hopper: registers touched between two groups: read behind the wait, written before the fence") {
  // Attention's accumulator: scaled by a factor between iterations, through retire and fence.
  const Kind &f16 = kKinds[0];
  for (unsigned n : {64u, 128u}) {
    CAPTURE(n);
    std::string array = "[" + number(n / 2) + " x float]", scale;
    for (unsigned i = 0; i < n / 2; ++i) {
      std::string id = number(i);
      scale += "%sp" + id + " = getelementptr inbounds " + array + ", ptr %acc, i32 0, i32 " + id + "\n";
      scale += "%sv" + id + " = load float, ptr %sp" + id + "\n";
      scale += "%sm" + id + " = fmul float %sv" + id + ", %f\nstore float %sm" + id + ", ptr %sp" + id + "\n";
    }
    std::string mma = "call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %acc, i64 %a, i64 %b, i32 1, i32 " + number(n) + ", i32 0)\n";
    std::string body = "entry:\n%acc = alloca " + array + "\n" + transfer(f16, n, "acc", false) +
                       "br label %loop\nloop:\n%i = phi i32 [ 0, %entry ], [ %i1, %loop ]\n"
                       "%fp = getelementptr float, ptr addrspace(1) %out, i32 %i\n%f = load float, ptr addrspace(1) %fp\n" +
                       scale + "call void @tlx.nv.wgmma.fence()\n" + mma + mma +
                       "call void @tlx.nv.wgmma.commit()\ncall void @tlx.nv.wgmma.wait(i32 0)\n"
                       "call void @tlx.nv.wgmma.retire(ptr %acc, i32 " + number(n / 2) + ")\n"
                       "%i1 = add i32 %i, 1\n%again = icmp slt i32 %i1, %n\nbr i1 %again, label %loop, label %end\nend:\n" +
                       transfer(f16, n, "acc", true) + "ret void\n";
    Emitted e = emitText(kernel(body, kOut), "sm_90a", with(assembler()));
    checkClean(e);
    const std::string &ptx = e.out.assembly;
    CHECK(count(ptx, "mul.rn.f32") == n / 2);
    CHECK_MESSAGE(ptx.rfind("mul.rn.f32") < ptx.find("wgmma.fence"), ptx);
    CHECK(count(between(ptx), "mov.b32") == 0);
    CHECK(ptx.find("wgmma.wait_group") < ptx.find("st.global"));
  }
}
