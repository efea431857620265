// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD: every device operation becomes its instruction; small kernels become HSACO files with what a loader needs.
#include "llvm/Object/ELFObjectFile.h"

#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

namespace {
struct Expected {
  const char *op;
  const char *text;  // of the assembly or, for what leaves no instruction of its own there, of LLVM's text before it
  unsigned cdna = 0; // the only generation that has it
};
const Expected kExpected[] = {
    {"tlx.smem.base", "ds_read_b32"},
    {"tlx.trap", "s_trap 2"},
    {"tlx.assert.fail", "s_trap 2"},
    {"tlx.amd.workitem.id.x", "@llvm.amdgcn.workitem.id.x()"},
    {"tlx.amd.workgroup.id.x", "@llvm.amdgcn.workgroup.id.x()"},
    {"tlx.amd.workgroup.id.y", ".amdhsa_system_sgpr_workgroup_id_y 1"},
    {"tlx.amd.workgroup.id.z", ".amdhsa_system_sgpr_workgroup_id_z 1"},
    {"tlx.amd.fence.release", "fence syncscope(\"workgroup\") release"},
    {"tlx.amd.fence.acquire", "fence syncscope(\"workgroup\") acquire"},
    {"tlx.amd.s.barrier", "s_barrier"},
    {"tlx.amd.ds.bpermute", "ds_bpermute_b32"},
    {"tlx.amd.readfirstlane", "@llvm.amdgcn.readfirstlane"},
    {"tlx.amd.ballot", "v_cmp_gt_i32"},
    {"tlx.amd.mfma.f32.16x16x16.f16", "v_mfma_f32_16x16x16_f16"},
    {"tlx.amd.mfma.f32.16x16x16.bf16", "v_mfma_f32_16x16x16_bf16"},
    {"tlx.amd.mfma.f32.32x32x8.f16", "v_mfma_f32_32x32x8_f16"},
    {"tlx.amd.mfma.f32.32x32x8.bf16", "v_mfma_f32_32x32x8_bf16"},
    {"tlx.amd.mfma.f32.16x16x4.f32", "v_mfma_f32_16x16x4_f32"},
    {"tlx.amd.mfma.f32.16x16x8.xf32", "v_mfma_f32_16x16x8_xf32", 3},
    {"tlx.amd.mfma.i32.16x16x32.i8", "v_mfma_i32_16x16x32_i8"},
    {"tlx.amd.mfma.i32.32x32x16.i8", "v_mfma_i32_32x32x16_i8"},
    {"tlx.amd.mfma.f64.16x16x4.f64", "v_mfma_f64_16x16x4_f64"},
    {"tlx.amd.mfma.f32.16x16x32.f16", "v_mfma_f32_16x16x32_f16", 4},
    {"tlx.amd.mfma.f32.16x16x32.bf16", "v_mfma_f32_16x16x32_bf16", 4},
    {"tlx.amd.mfma.f32.32x32x16.f16", "v_mfma_f32_32x32x16_f16", 4},
    {"tlx.amd.mfma.f32.32x32x16.bf16", "v_mfma_f32_32x32x16_bf16", 4},
    {"tlx.amd.mfma.i32.16x16x64.i8", "v_mfma_i32_16x16x64_i8", 4},
    {"tlx.amd.mfma.i32.32x32x32.i8", "v_mfma_i32_32x32x32_i8", 4},
    {"tlx.amd.mfma.f32.16x16x32.f8e4m3fnuz.f8e4m3fnuz", "v_mfma_f32_16x16x32_fp8_fp8", 3},
    {"tlx.amd.mfma.f32.32x32x16.f8e4m3fnuz.f8e4m3fnuz", "v_mfma_f32_32x32x16_fp8_fp8", 3},
    {"tlx.amd.mfma.f32.16x16x32.f8e4m3fnuz.f8e5m2fnuz", "v_mfma_f32_16x16x32_fp8_bf8", 3},
    {"tlx.amd.mfma.f32.32x32x16.f8e4m3fnuz.f8e5m2fnuz", "v_mfma_f32_32x32x16_fp8_bf8", 3},
    {"tlx.amd.mfma.f32.16x16x32.f8e5m2fnuz.f8e4m3fnuz", "v_mfma_f32_16x16x32_bf8_fp8", 3},
    {"tlx.amd.mfma.f32.32x32x16.f8e5m2fnuz.f8e4m3fnuz", "v_mfma_f32_32x32x16_bf8_fp8", 3},
    {"tlx.amd.mfma.f32.16x16x32.f8e5m2fnuz.f8e5m2fnuz", "v_mfma_f32_16x16x32_bf8_bf8", 3},
    {"tlx.amd.mfma.f32.32x32x16.f8e5m2fnuz.f8e5m2fnuz", "v_mfma_f32_32x32x16_bf8_bf8", 3},
    {"tlx.amd.mfma.f32.16x16x32.f8e4m3.f8e4m3", "v_mfma_f32_16x16x32_fp8_fp8", 4},
    {"tlx.amd.mfma.f32.32x32x16.f8e4m3.f8e4m3", "v_mfma_f32_32x32x16_fp8_fp8", 4},
    {"tlx.amd.mfma.f32.16x16x32.f8e4m3.f8e5m2", "v_mfma_f32_16x16x32_fp8_bf8", 4},
    {"tlx.amd.mfma.f32.32x32x16.f8e4m3.f8e5m2", "v_mfma_f32_32x32x16_fp8_bf8", 4},
    {"tlx.amd.mfma.f32.16x16x32.f8e5m2.f8e4m3", "v_mfma_f32_16x16x32_bf8_fp8", 4},
    {"tlx.amd.mfma.f32.32x32x16.f8e5m2.f8e4m3", "v_mfma_f32_32x32x16_bf8_fp8", 4},
    {"tlx.amd.mfma.f32.16x16x32.f8e5m2.f8e5m2", "v_mfma_f32_16x16x32_bf8_bf8", 4},
    {"tlx.amd.mfma.f32.32x32x16.f8e5m2.f8e5m2", "v_mfma_f32_32x32x16_bf8_bf8", 4},
    {"tlx.amd.buffer.load.lds.b32", "buffer_load_dword v", 4},
    {"tlx.amd.buffer.load.lds.b128", "buffer_load_dwordx4 v", 4},
    {"tlx.amd.s.waitcnt", "s_waitcnt vmcnt(1)"},
    {"tlx.amd.sched.barrier", "@llvm.amdgcn.sched.barrier(i32 0)"},
    {"tlx.amd.exp2", "v_exp_f32"},
    {"tlx.amd.log2", "v_log_f32"},
    {"tlx.amd.rcp", "v_rcp_f32"},
    {"tlx.amd.rsq", "v_rsq_f32"},
};

const char *kVectorAdd = R"(
declare i32 @tlx.amd.workitem.id.x()
declare i32 @tlx.amd.workgroup.id.x()
declare float @tlx.masked.load.f32(ptr addrspace(1), i1, float)
declare void @tlx.masked.store.f32(ptr addrspace(1), i1, float)
define void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n) "tlx.kernel" "tlx.threads"="256" "tlx.shared-bytes"="0" {
  %t = call i32 @tlx.amd.workitem.id.x()
  %g = call i32 @tlx.amd.workgroup.id.x()
  %o = mul i32 %g, 256
  %i = add i32 %o, %t
  %m = icmp slt i32 %i, %n
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = call float @tlx.masked.load.f32(ptr addrspace(1) %pa, i1 %m, float 0.0)
  %y = call float @tlx.masked.load.f32(ptr addrspace(1) %pb, i1 %m, float 0.0)
  %s = fadd float %x, %y
  call void @tlx.masked.store.f32(ptr addrspace(1) %pc, i1 %m, float %s)
  ret void
}
)";

// Reverses 256 values through LDS.
const char *kShared = R"(
declare i32 @tlx.amd.workitem.id.x()
declare ptr addrspace(3) @tlx.smem.base()
declare void @tlx.amd.fence.release()
declare void @tlx.amd.s.barrier() convergent
declare void @tlx.amd.fence.acquire()
define void @reverse(ptr addrspace(1) %p) "tlx.kernel" "tlx.threads"="256" "tlx.shared-bytes"="1536" {
  %t = call i32 @tlx.amd.workitem.id.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %pt = getelementptr i32, ptr addrspace(1) %p, i32 %t
  %v = load i32, ptr addrspace(1) %pt
  %st = getelementptr i32, ptr addrspace(3) %s, i32 %t
  store i32 %v, ptr addrspace(3) %st
  call void @tlx.amd.fence.release()
  call void @tlx.amd.s.barrier()
  call void @tlx.amd.fence.acquire()
  %r = sub i32 255, %t
  %sr = getelementptr i32, ptr addrspace(3) %s, i32 %r
  %w = load i32, ptr addrspace(3) %sr
  store i32 %w, ptr addrspace(1) %pt
  ret void
}
)";

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

bool hasSymbol(const std::vector<uint8_t> &image, const std::string &name) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(reinterpret_cast<const char *>(image.data()), image.size()), "image"));
  if (!file) return llvm::consumeError(file.takeError()), false;
  auto *elf = llvm::dyn_cast<llvm::object::ELFObjectFileBase>(file->get());
  for (const auto &symbol : elf->getDynamicSymbolIterators()) {
    auto found = symbol.getName();
    if (!found)
      llvm::consumeError(found.takeError());
    else if (*found == name)
      return true;
  }
  return false;
}
} // namespace

TEST_CASE("amd: every operation of the tables has its instruction") {
  target::Options options;
  options.keepLlvmIr = true;
  // Assembly and LLVM's text.
  auto textOf = [&](const device_ops::DeviceOp &op, const char *target, Emitted &e) {
    llvm::LLVMContext context;
    e = emit(*kernelOf(context, op, "", takesConstants(op.name)), target, options);
    return e.out.assembly + e.out.llvmIr;
  };
  for (const device_ops::DeviceOp &op : device_ops::allDeviceOps()) {
    llvm::StringRef name = op.name;
    if (op.vendor == device_ops::Vendor::Nvidia || name.ends_with(".*")) continue;
    CAPTURE(std::string(op.name));
    const Expected *expected = nullptr;
    for (const Expected &row : kExpected)
      if (name == row.op) expected = &row;
    for (const char *target : {"gfx942", "gfx950"}) {
      Emitted e, other;
      const std::string text = textOf(op, target, e);
      if (name == "tlx.print") {
        CHECK(e.diagnostics == "print is not supported on " + std::string(target) +
                                   "; run the kernel on the simulator to see its output\n");
        continue;
      }
      REQUIRE(expected);
      if (expected->cdna && expected->cdna != archOf(target).cdna) {
        CHECK(e.diagnostics == "'" + name.str() + "' does not exist on " + target + "\n");
        continue;
      }
      CHECK_MESSAGE(e.ok, e.diagnostics);
      CHECK_MESSAGE(has(text, expected->text), text);
      // What every kernel has says nothing about this one.
      const char *plain = name == "tlx.amd.rcp" ? "tlx.amd.exp2" : "tlx.amd.rcp";
      CHECK(!has(textOf(*device_ops::findDeviceOp(plain), target, other), expected->text));
      CHECK(hasSymbol(e.out.image, "k.kd"));
    }
  }
}

namespace {
/// Two slots of a ring: the first is waited for and read, the second stays in flight.
std::string directLoads(const std::string &sync) {
  return R"(
declare i32 @tlx.amd.workitem.id.x()
declare i32 @tlx.amd.readfirstlane(i32) convergent
declare ptr addrspace(3) @tlx.smem.base()
declare void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3), ptr addrspace(1), i32, i1) convergent
declare void @tlx.amd.s.waitcnt(i32, i32)
declare void @tlx.amd.sched.barrier()
declare void @tlx.amd.s.barrier() convergent
declare void @tlx.amd.fence.release()
declare void @tlx.amd.fence.acquire()
define void @ring(ptr addrspace(1) %p, i32 %n) "tlx.kernel" "tlx.threads"="256" "tlx.shared-bytes"="8192" {
  %t = call i32 @tlx.amd.workitem.id.x()
  %w0 = lshr i32 %t, 6
  %w = call i32 @tlx.amd.readfirstlane(i32 %w0)
  %wo = shl i32 %w, 10
  %s = call ptr addrspace(3) @tlx.smem.base()
  %d0 = getelementptr i8, ptr addrspace(3) %s, i32 %wo
  %d1 = getelementptr i8, ptr addrspace(3) %d0, i32 4096
  %o = shl i32 %t, 4
  %m = icmp slt i32 %t, %n
  call void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3) %d0, ptr addrspace(1) %p, i32 %o, i1 true)
  %p1 = getelementptr i8, ptr addrspace(1) %p, i32 4096
  call void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3) %d1, ptr addrspace(1) %p1, i32 %o, i1 %m)
)" + sync +
         R"(
  %x = xor i32 %o, 1024
  %q = getelementptr i8, ptr addrspace(3) %s, i32 %x
  %v = load <4 x i32>, ptr addrspace(3) %q, align 16
  %g = getelementptr i8, ptr addrspace(1) %p, i32 %o
  store <4 x i32> %v, ptr addrspace(1) %g, align 16
  ret void
}
)";
}
} // namespace

TEST_CASE("amd: direct loads stay in flight over a counted barrier, and the waits are those that are written") {
  Emitted e = emitText(directLoads(R"(
  call void @tlx.amd.s.waitcnt(i32 1, i32 15)
  call void @tlx.amd.sched.barrier()
  call void @tlx.amd.s.waitcnt(i32 63, i32 0)
  call void @tlx.amd.s.barrier()
  call void @tlx.amd.sched.barrier()
)"),
                       "gfx950");
  REQUIRE_MESSAGE(e.ok, e.diagnostics);
  const std::string &isa = e.out.assembly;
  const size_t load = isa.find(" lds\n"), barrier = isa.find("s_barrier"), read = isa.find("ds_read_b128");
  REQUIRE_MESSAGE((load < barrier && barrier < read && read != std::string::npos), isa);
  size_t count = 0;
  for (size_t at = 0; (at = isa.find(" lds\n", at)) != std::string::npos; ++at) ++count;
  CHECK(count == 2);
  CHECK_MESSAGE(has(isa.substr(load, barrier - load), "vmcnt(1)"), isa);
  CHECK_MESSAGE(!has(isa.substr(load, read - load), "vmcnt(0)"), isa);
  CHECK(isa.find("v_cndmask", 0) < barrier); // the masked lanes' offset

  // A workgroup fence waits for all: what the counted barrier avoids.
  Emitted fenced = emitText(directLoads("  call void @tlx.amd.fence.release()\n  call void @tlx.amd.s.barrier()\n  "
                                        "call void @tlx.amd.fence.acquire()\n"),
                            "gfx950");
  REQUIRE_MESSAGE(fenced.ok, fenced.diagnostics);
  CHECK_MESSAGE(has(fenced.out.assembly.substr(0, fenced.out.assembly.find("s_barrier")), "vmcnt(0)"),
                fenced.out.assembly);
}

TEST_CASE("amd: bf16 conversion is one instruction on gfx950, LDS is 160 KB there") {
  const char *text = R"(
define void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) "tlx.kernel" "tlx.threads"="64" {
  %v = load <2 x float>, ptr addrspace(1) %p
  %t = fptrunc <2 x float> %v to <2 x bfloat>
  store <2 x bfloat> %t, ptr addrspace(1) %q
  ret void
})";
  CHECK(has(emitText(text, "gfx950").out.assembly, "v_cvt_pk_bf16_f32"));
  CHECK(!has(emitText(text, "gfx942").out.assembly, "v_cvt_pk_bf16_f32"));
  std::string shared = kShared;
  shared.replace(shared.find("\"1536\""), 6, "\"163840\"");
  Emitted e = emitText(shared, "gfx950");
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK(has(e.out.log, "group_segment_fixed_size: 163840\n"));
  CHECK_FALSE(emitText(shared, "gfx942").ok);
}

TEST_CASE("amd: products of consecutive indices are one product and sums") {
  Emitted e = emitText(R"(
declare i32 @tlx.amd.workitem.id.x()
define void @k(ptr addrspace(1) %p, i32 %s) "tlx.kernel" "tlx.threads"="64" {
  %t = call i32 @tlx.amd.workitem.id.x()
  %t1 = add i32 %t, 1
  %t2 = add i32 %t, 2
  %a = mul i32 %t, %s
  %b = mul i32 %t1, %s
  %c = mul i32 %t2, %s
  %q = getelementptr [3 x i32], ptr addrspace(1) %p, i32 %t
  %q1 = getelementptr i8, ptr addrspace(1) %q, i32 4
  %q2 = getelementptr i8, ptr addrspace(1) %q, i32 8
  store i32 %a, ptr addrspace(1) %q
  store i32 %b, ptr addrspace(1) %q1
  store i32 %c, ptr addrspace(1) %q2
  ret void
})",
                       "gfx942");
  REQUIRE_MESSAGE(e.ok, e.diagnostics);
  // Straight-line strength reduction; ptxas does it for NVIDIA.
  const size_t product = e.out.assembly.find("v_mul_lo_u32");
  CHECK_MESSAGE((product != std::string::npos && product == e.out.assembly.rfind("v_mul_lo_u32")), e.out.assembly);
}

TEST_CASE("amd: masked accesses are one access behind a branch") {
  struct Case {
    const char *type, *isa;
  };
  for (Case c : {Case{"i8", "byte"},
                 {"i16", "short"},
                 {"f16", "short"},
                 {"i32", "dword "},
                 {"f32", "dword "},
                 {"v4i8", "dword "},
                 {"i64", "dwordx2"},
                 {"v2i32", "dwordx2"},
                 {"v4i32", "dwordx4"},
                 {"v8f16", "dwordx4"},
                 {"v8bf16", "dwordx4"},
                 {"v2i64", "dwordx4"}}) {
    CAPTURE(std::string(c.type));
    llvm::LLVMContext context;
    auto load = kernelOf(context, *device_ops::findDeviceOp("tlx.masked.load.i32"), c.type, false);
    Emitted e = emit(*load, "gfx942");
    CHECK_MESSAGE(e.ok, e.diagnostics);
    bool loaded =
        has(e.out.assembly, "load_" + std::string(c.isa)) || has(e.out.assembly, "load_u" + std::string(c.isa));
    CHECK_MESSAGE(loaded, e.out.assembly);
    auto store = kernelOf(context, *device_ops::findDeviceOp("tlx.masked.store.i32"), c.type, false);
    e = emit(*store, "gfx942");
    CHECK_MESSAGE(has(e.out.assembly, "global_store_" + std::string(c.isa)), e.out.assembly);
    CHECK(has(e.out.assembly, "s_cbranch"));
  }
  llvm::LLVMContext context;
  auto odd = kernelOf(context, *device_ops::findDeviceOp("tlx.masked.load.i32"), "v3i32", false);
  CHECK(has(emit(*odd, "gfx942").diagnostics, "12 bytes"));
  auto foreign = kernelOf(context, *device_ops::findDeviceOp("tlx.nv.rcp.approx"), "", false);
  CHECK(emit(*foreign, "gfx942").diagnostics == "'tlx.nv.rcp.approx' does not exist on gfx942\n");
}

TEST_CASE("amd: vector add to HSACO") {
  target::Options options;
  options.keepLlvmIr = true;
  Emitted e = emitText(kVectorAdd, "gfx942", options);
  REQUIRE_MESSAGE(e.ok, e.diagnostics);
  CHECK(e.out.kind == Binary::Kind::Hsaco);
  CHECK(hasSymbol(e.out.image, "add"));
  CHECK(hasSymbol(e.out.image, "add.kd"));
  CHECK(has(e.out.assembly, ".amdhsa_kernel add"));
  CHECK(has(e.out.assembly, ".max_flat_workgroup_size: 256"));
  // No hidden arguments, no ids that are not used.
  CHECK(has(e.out.log, "kernarg_segment_size: 28\n"));
  CHECK(has(e.out.assembly, ".amdhsa_user_sgpr_dispatch_ptr 0"));
  CHECK(has(e.out.assembly, ".amdhsa_system_sgpr_workgroup_id_y 0"));
  CHECK(has(e.out.assembly, ".amdhsa_system_vgpr_workitem_id 0"));
  CHECK(e.out.resources.registers.value_or(0) > 0);
  CHECK(e.out.resources.spillStores == 0u);
  CHECK(e.out.resources.scratchBytes == 0u);
  CHECK(has(e.out.assembler, "lld 22"));
  CHECK(e.out.stages.size() == 4);
  CHECK(has(e.out.llvmIr, "amdgpu_kernel"));
  // Accesses with one mask share one branch.
  CHECK_MESSAGE(e.out.assembly.find("s_cbranch_execz") == e.out.assembly.rfind("s_cbranch_execz"), e.out.assembly);
  Emitted again = emitText(kVectorAdd, "gfx942", options);
  CHECK(again.out.assembly == e.out.assembly);
  CHECK(again.out.image == e.out.image);
}

TEST_CASE("amd: shared memory and the wait before the barrier") {
  Emitted e = emitText(kShared, "gfx942");
  REQUIRE_MESSAGE(e.ok, e.diagnostics);
  CHECK(has(e.out.log, "group_segment_fixed_size: 1536\n"));
  const std::string &isa = e.out.assembly;
  size_t write = isa.find("ds_write_b32"), wait = isa.find("s_waitcnt lgkmcnt(0)", write),
         barrier = isa.find("s_barrier");
  REQUIRE_MESSAGE(barrier != std::string::npos, isa);
  CHECK_MESSAGE(write < wait, isa);
  CHECK_MESSAGE(wait < barrier, isa);
  CHECK(isa.find("ds_read_b32") > barrier);
}

TEST_CASE("amd: more shared memory than there is is a diagnostic") {
  std::string text = kShared;
  text.replace(text.find("\"1536\""), 6, "\"90000\"");
  Emitted e = emitText(text, "gfx942");
  CHECK_FALSE(e.ok);
  CHECK_MESSAGE(has(e.diagnostics, "local memory"), e.diagnostics);
}

TEST_CASE("amd: stack variables of codegen move to the private address space") {
  Emitted e = emitText(R"(
define void @k(ptr addrspace(1) %p, i32 %i) "tlx.kernel" "tlx.threads"="64" {
  %a = alloca [4 x i32]
  %v = load <4 x i32>, ptr addrspace(1) %p
  store <4 x i32> %v, ptr %a
  %q = getelementptr i32, ptr %a, i32 %i
  %w = load i32, ptr %q
  store i32 %w, ptr addrspace(1) %p
  ret void
})",
                       "gfx942");
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK_MESSAGE(!has(e.out.assembly, "flat_load"), e.out.assembly);
}
