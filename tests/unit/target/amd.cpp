// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD: every device operation becomes its instruction; small kernels become HSACO files with what a loader needs.
#include "llvm/Object/ELFObjectFile.h"

#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

namespace {
struct Expected {
  const char *op, *isa;
};
const Expected kExpected[] = {
    {"tlx.smem.base", "ds_read_b32"},
    {"tlx.trap", "s_trap 2"},
    {"tlx.amd.workitem.id.x", "v0"},
    {"tlx.amd.workgroup.id.x", ".amdhsa_system_sgpr_workgroup_id_x 1"},
    {"tlx.amd.workgroup.id.y", ".amdhsa_system_sgpr_workgroup_id_y 1"},
    {"tlx.amd.workgroup.id.z", ".amdhsa_system_sgpr_workgroup_id_z 1"},
    {"tlx.amd.fence.release", "s_endpgm"},
    {"tlx.amd.fence.acquire", "s_endpgm"},
    {"tlx.amd.s.barrier", "s_barrier"},
    {"tlx.amd.ds.bpermute", "ds_bpermute_b32"},
    {"tlx.amd.readfirstlane", "s_endpgm"},
    {"tlx.amd.ballot", "v_cmp_gt_i32"},
    {"tlx.amd.mfma.f32.16x16x16.f16", "v_mfma_f32_16x16x16_f16"},
    {"tlx.amd.mfma.f32.16x16x16.bf16", "v_mfma_f32_16x16x16_bf16"},
    {"tlx.amd.mfma.f32.32x32x8.f16", "v_mfma_f32_32x32x8_f16"},
    {"tlx.amd.mfma.f32.32x32x8.bf16", "v_mfma_f32_32x32x8_bf16"},
    {"tlx.amd.mfma.f32.16x16x4.f32", "v_mfma_f32_16x16x4_f32"},
    {"tlx.amd.mfma.f32.16x16x8.xf32", "v_mfma_f32_16x16x8_xf32"},
    {"tlx.amd.mfma.i32.16x16x32.i8", "v_mfma_i32_16x16x32_i8"},
    {"tlx.amd.mfma.i32.32x32x16.i8", "v_mfma_i32_32x32x16_i8"},
    {"tlx.amd.mfma.f64.16x16x4.f64", "v_mfma_f64_16x16x4_f64"},
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
  for (const device_ops::DeviceOp &op : device_ops::allDeviceOps()) {
    llvm::StringRef name = op.name;
    if (op.vendor == device_ops::Vendor::Nvidia || name.ends_with(".*")) continue;
    CAPTURE(std::string(op.name));
    llvm::LLVMContext context;
    auto module = kernelOf(context, op, "", false);
    Emitted e = emit(*module, "gfx942");
    if (name == "tlx.print") {
      CHECK(e.diagnostics == "print is not supported on gfx942; run the kernel on the simulator to see its output\n");
      continue;
    }
    const char *expected = nullptr;
    for (const Expected &row : kExpected)
      if (name == row.op) expected = row.isa;
    REQUIRE(expected);
    CHECK_MESSAGE(e.ok, e.diagnostics);
    CHECK_MESSAGE(has(e.out.assembly, expected), e.out.assembly);
    CHECK(hasSymbol(e.out.image, "k.kd"));
  }
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
