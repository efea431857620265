// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics keep their order and scope through the NVPTX back end, which drops both of an atomicrmw.
#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

namespace {
std::string ptxOf(const std::string &instruction, const std::string &type, const char *target) {
  const std::string text =
      "define void @k(ptr addrspace(1) %p, " + type +
      " %v, ptr addrspace(1) %out) \"tlx.kernel\" \"tlx.threads\"=\"32\" {\n  %r = " + instruction + "\n  store " +
      type + " %r, ptr addrspace(1) %out\n  ret void\n}\n";
  const Emitted e = emitText(text, target);
  REQUIRE_MESSAGE(e.ok, e.diagnostics, text);
  return e.out.assembly;
}
} // namespace

TEST_CASE("atomics of NVIDIA carry order and scope") {
  struct Row {
    const char *instruction, *type, *ptx;
  };
  const Row table[] = {
      {"atomicrmw add ptr addrspace(1) %p, i32 %v syncscope(\"device\") monotonic", "i32", "atom.global.add.u32"},
      {"atomicrmw add ptr addrspace(1) %p, i32 %v syncscope(\"device\") release", "i32",
       "atom.release.gpu.global.add.u32"},
      {"atomicrmw add ptr addrspace(1) %p, i64 %v acq_rel", "i64", "atom.acq_rel.sys.global.add.u64"},
      {"atomicrmw min ptr addrspace(1) %p, i32 %v syncscope(\"block\") acquire", "i32",
       "atom.acquire.cta.global.min.s32"},
      {"atomicrmw max ptr addrspace(1) %p, i64 %v monotonic", "i64", "atom.relaxed.sys.global.max.s64"},
      {"atomicrmw umin ptr addrspace(1) %p, i64 %v monotonic", "i64", "atom.relaxed.sys.global.min.u64"},
      {"atomicrmw umax ptr addrspace(1) %p, i32 %v monotonic", "i32", "atom.relaxed.sys.global.max.u32"},
      {"atomicrmw and ptr addrspace(1) %p, i32 %v monotonic", "i32", "atom.relaxed.sys.global.and.b32"},
      {"atomicrmw or ptr addrspace(1) %p, i64 %v monotonic", "i64", "atom.relaxed.sys.global.or.b64"},
      {"atomicrmw xor ptr addrspace(1) %p, i32 %v monotonic", "i32", "atom.relaxed.sys.global.xor.b32"},
      {"atomicrmw xchg ptr addrspace(1) %p, i64 %v syncscope(\"device\") release", "i64",
       "atom.release.gpu.global.exch.b64"},
      {"atomicrmw xchg ptr addrspace(1) %p, float %v syncscope(\"device\") acq_rel", "float",
       "atom.acq_rel.gpu.global.exch.b32"},
      {"atomicrmw xchg ptr addrspace(1) %p, double %v monotonic", "double", "atom.relaxed.sys.global.exch.b64"},
      {"atomicrmw fadd ptr addrspace(1) %p, float %v syncscope(\"device\") acquire", "float",
       "atom.acquire.gpu.global.add.f32"},
      {"atomicrmw fadd ptr addrspace(1) %p, double %v monotonic", "double", "atom.relaxed.sys.global.add.f64"},
      {"atomicrmw fadd ptr addrspace(1) %p, half %v syncscope(\"device\") release", "half",
       "atom.release.gpu.global.add.noftz.f16"},
      // No instruction: a loop of compare-and-swap, which keeps the order.
      {"atomicrmw fmax ptr addrspace(1) %p, float %v syncscope(\"device\") acq_rel", "float",
       "atom.acq_rel.gpu.global.cas.b32"},
      {"atomicrmw fmin ptr addrspace(1) %p, double %v acquire", "double", "atom.acquire.sys.global.cas.b64"},
  };
  for (const char *target : {"sm_80", "sm_90a"})
    for (const Row &row : table) {
      const std::string ptx = ptxOf(row.instruction, row.type, target);
      CHECK_MESSAGE(ptx.find(row.ptx) != std::string::npos, target, ": ", row.instruction, "\n", ptx);
    }
  const char *bf16 = "atomicrmw fadd ptr addrspace(1) %p, bfloat %v syncscope(\"device\") release";
  CHECK(ptxOf(bf16, "bfloat", "sm_90a").find("atom.release.gpu.global.add.noftz.bf16") != std::string::npos);
  CHECK(ptxOf(bf16, "bfloat", "sm_80").find("atom.release.gpu.global.cas.b") != std::string::npos);
}

TEST_CASE("cache hints of masked accesses") {
  auto text = [](const char *hint, const char *mask) {
    return std::string("declare <4 x i32> @tlx.masked.load.v4i32(ptr addrspace(1), i1, <4 x i32>)\n"
                       "declare void @tlx.masked.store.v4i32(ptr addrspace(1), i1, <4 x i32>)\n"
                       "define void @k(ptr addrspace(1) %p, i1 %m, ptr addrspace(1) %out) \"tlx.kernel\" "
                       "\"tlx.threads\"=\"32\" {\n"
                       "  %r = call <4 x i32> @tlx.masked.load.v4i32(ptr addrspace(1) %p, i1 ") +
           mask + ", <4 x i32> zeroinitializer) \"tlx.hint\"=\"" + hint +
           "\"\n  call void @tlx.masked.store.v4i32(ptr addrspace(1) %out, i1 " + mask +
           ", <4 x i32> %r) \"tlx.hint\"=\"" + hint + "\"\n  ret void\n}\n";
  };
  for (const char *mask : {"%m", "true"}) {
    const Emitted cg = emitText(text(".cg", mask), "sm_80"), last = emitText(text(".L1::evict_last", mask), "sm_80");
    REQUIRE_MESSAGE(cg.ok, cg.diagnostics);
    REQUIRE_MESSAGE(last.ok, last.diagnostics);
    CHECK(cg.out.assembly.find("ld.global.cg.v4.b32") != std::string::npos);
    CHECK(cg.out.assembly.find("st.global.cg.v4.b32") != std::string::npos);
    CHECK(last.out.assembly.find("ld.global.L1::evict_last.v4.b32") != std::string::npos);
    CHECK(last.out.assembly.find("st.global.L1::evict_last.v4.b32") != std::string::npos);
    CHECK(last.out.assembly.find(".version 7.4") != std::string::npos); // cg: 7.0
    CHECK(cg.out.assembly.find(".version 7.0") != std::string::npos);
  }
}
