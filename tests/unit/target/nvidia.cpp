// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA: every device operation becomes its PTX instruction, and ptxas takes it.
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

namespace {
/// The instruction that the table's documentation promises for each operation.
struct Expected {
  const char *op, *ptx;
  bool hopper = false; // not on sm_80
};
const Expected kExpected[] = {
    {"tlx.smem.base", "tlx_smem"},
    {"tlx.print", "vprintf"},
    {"tlx.trap", "trap;"},
    {"tlx.assert.fail", "vprintf"},
    {"tlx.nv.tid.x", "%tid.x"},
    {"tlx.nv.ctaid.x", "%ctaid.x"},
    {"tlx.nv.ctaid.y", "%ctaid.y"},
    {"tlx.nv.ctaid.z", "%ctaid.z"},
    {"tlx.nv.nctaid.x", "%nctaid.x"},
    {"tlx.nv.nctaid.y", "%nctaid.y"},
    {"tlx.nv.nctaid.z", "%nctaid.z"},
    {"tlx.nv.globaltimer", "%globaltimer"},
    {"tlx.nv.bar.sync", "1, 64;"},
    {"tlx.nv.bar.warp.sync", "bar.warp.sync"},
    {"tlx.nv.shfl.bfly", "shfl.sync.bfly.b32"},
    {"tlx.nv.shfl.idx", "shfl.sync.idx.b32"},
    {"tlx.nv.shfl.up", "shfl.sync.up.b32"},
    {"tlx.nv.shfl.down", "shfl.sync.down.b32"},
    {"tlx.nv.vote.any", "vote.sync.any.pred"},
    {"tlx.nv.vote.all", "vote.sync.all.pred"},
    {"tlx.nv.vote.ballot", "vote.sync.ballot.b32"},
    {"tlx.nv.ldmatrix.x1", "ldmatrix.sync.aligned.m8n8.x1.shared.b16"},
    {"tlx.nv.ldmatrix.x2", "ldmatrix.sync.aligned.m8n8.x2.shared.b16"},
    {"tlx.nv.ldmatrix.x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"},
    {"tlx.nv.ldmatrix.x1.trans", "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"},
    {"tlx.nv.ldmatrix.x2.trans", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"},
    {"tlx.nv.ldmatrix.x4.trans", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"},
    {"tlx.nv.stmatrix.x1", "stmatrix.sync.aligned.m8n8.x1.shared.b16"},
    {"tlx.nv.stmatrix.x2", "stmatrix.sync.aligned.m8n8.x2.shared.b16"},
    {"tlx.nv.stmatrix.x4", "stmatrix.sync.aligned.m8n8.x4.shared.b16"},
    {"tlx.nv.stmatrix.x1.trans", "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16"},
    {"tlx.nv.stmatrix.x2.trans", "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"},
    {"tlx.nv.stmatrix.x4.trans", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"},
    {"tlx.nv.mma.m16n8k16.f32.f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"},
    {"tlx.nv.mma.m16n8k16.f32.bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"},
    {"tlx.nv.mma.m16n8k8.f32.tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"},
    {"tlx.nv.mma.m16n8k32.s32.s8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"},
    {"tlx.nv.mma.m16n8k32.s32.u8", "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32"},
    {"tlx.nv.mma.m8n8k4.f64", "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"},
    {"tlx.nv.cp.async.ca.4", "cp.async.ca.shared.global"},
    {"tlx.nv.cp.async.ca.8", "cp.async.ca.shared.global"},
    {"tlx.nv.cp.async.cg.16", "cp.async.cg.shared.global"},
    {"tlx.nv.cp.async.commit", "cp.async.commit_group"},
    {"tlx.nv.cp.async.wait", "cp.async.wait_group \t1;"},
    {"tlx.nv.ex2.approx", "ex2.approx.ftz.f32"},
    {"tlx.nv.lg2.approx", "lg2.approx.ftz.f32"},
    {"tlx.nv.rcp.approx", "rcp.approx.ftz.f32"},
    {"tlx.nv.rsqrt.approx", "rsqrt.approx.ftz.f32"},
    {"tlx.nv.div.full", "div.full.f32"},
    {"tlx.nv.cvt.rna.tf32", "cvt.rna.tf32.f32"},
    {"tlx.nv.cvt.rn.bf16x2", "cvt.rn.bf16x2.f32"},
    {"tlx.nv.cvt.rn.f16x2", "cvt.rn.f16x2.f32"},
    {"tlx.nv.elect", "elect.sync", true},
    {"tlx.nv.mbarrier.init", "mbarrier.init.shared.b64", true},
    {"tlx.nv.mbarrier.inval", "mbarrier.inval.shared.b64", true},
    {"tlx.nv.mbarrier.arrive", "mbarrier.arrive.shared.b64", true},
    {"tlx.nv.mbarrier.arrive.expect.tx", "mbarrier.arrive.expect_tx.shared.b64", true},
    {"tlx.nv.mbarrier.expect.tx", "mbarrier.expect_tx.relaxed.cta.shared.b64", true},
    {"tlx.nv.mbarrier.try.wait", "mbarrier.try_wait.parity.shared.b64", true},
    {"tlx.nv.mbarrier.test.wait", "mbarrier.test_wait.parity.shared.b64", true},
    {"tlx.nv.fence.mbarrier.init", "fence.mbarrier_init.release.cluster;", true},
    {"tlx.nv.fence.proxy.async", "fence.proxy.async.shared::cta;", true},
    {"tlx.nv.fence.proxy.async.global", "fence.proxy.async.global;", true},
    {"tlx.nv.fence.acq.rel.cta", "fence.acq_rel.cta;"},
    {"tlx.nv.fence.acq.rel.gpu", "fence.acq_rel.gpu;"},
    {"tlx.nv.fence.acq.rel.sys", "fence.acq_rel.sys;"},
    {"tlx.nv.bar.arrive", "arrive \t1, 64;"},
    {"tlx.nv.bar.red.popc", "red.popc.u32"},
    {"tlx.nv.bulk.load", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint", true},
    {"tlx.nv.bulk.store", "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint", true},
    {"tlx.nv.bulk.commit", "cp.async.bulk.commit_group;", true},
    {"tlx.nv.bulk.wait", "cp.async.bulk.wait_group \t1;", true},
    {"tlx.nv.bulk.wait.read", "cp.async.bulk.wait_group.read \t1;", true},
    {"tlx.nv.wgmma.fence", "wgmma.fence.sync.aligned;", true},
    {"tlx.nv.pin", "vote.sync.any.pred p, p, 0xffffffff; @!p bra DONE;", true},
    {"tlx.nv.wgmma.commit", "wgmma.commit_group.sync.aligned;", true},
    {"tlx.nv.wgmma.wait", "wgmma.wait_group.sync.aligned \t1;", true},
};
/// Operations on tensor maps and accumulators need more around them: hopper.cpp.
bool testedInHopper(llvm::StringRef name) {
  return name.starts_with("tlx.nv.tma.") || name.starts_with("tlx.nv.wgmma.ss.") ||
         name.starts_with("tlx.nv.wgmma.rs.") || name == "tlx.nv.wgmma.retire" ||
         name.starts_with("tlx.nv.setmaxnreg.");
}
const Expected *expectedFor(llvm::StringRef name) {
  for (const Expected &e : kExpected)
    if (name == e.op) return &e;
  return nullptr;
}

const char *kAssembler() {
  return hasPtxas() ? "ptxas" : "none";
}

const char *kVectorAdd = R"(
declare i32 @tlx.nv.tid.x()
declare i32 @tlx.nv.ctaid.x()
declare float @tlx.masked.load.f32(ptr addrspace(1), i1, float)
declare void @tlx.masked.store.f32(ptr addrspace(1), i1, float)
define void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n) "tlx.kernel" "tlx.threads"="128" "tlx.shared-bytes"="0" {
  %t = call i32 @tlx.nv.tid.x()
  %g = call i32 @tlx.nv.ctaid.x()
  %o = mul i32 %g, 128
  %i = add i32 %o, %t
  %m = icmp slt i32 %i, %n
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = call float @tlx.masked.load.f32(ptr addrspace(1) %pa, i1 %m, float 0.0)
  %y = call float @tlx.masked.load.f32(ptr addrspace(1) %pb, i1 %m, float 0.0)
  %p = fmul float %x, %y
  %s = fadd float %p, %y
  call void @tlx.masked.store.f32(ptr addrspace(1) %pc, i1 %m, float %s)
  ret void
}
)";
} // namespace

TEST_CASE("nvidia: every operation of the tables has its instruction, and ptxas takes it") {
  if (!hasPtxas()) MESSAGE("no ptxas: PTX is checked as text only");
  for (const device_ops::DeviceOp &op : device_ops::allDeviceOps()) {
    if (op.vendor == device_ops::Vendor::Amd || llvm::StringRef(op.name).ends_with(".*")) continue;
    if (testedInHopper(op.name)) continue;
    CAPTURE(op.name);
    const Expected *expected = expectedFor(op.name);
    REQUIRE(expected);
    for (const char *name : {"sm_80", "sm_90a"}) {
      llvm::LLVMContext context;
      auto module = kernelOf(context, op, "", takesConstants(op.name));
      Emitted e = emit(*module, name, with(kAssembler()));
      if (!archOf(name).tma && (expected->hopper || llvm::StringRef(op.name).contains("stmatrix"))) {
        CHECK_FALSE(e.ok);
        CHECK(e.diagnostics == "'" + std::string(op.name) + "' does not exist on sm_80\n");
        continue;
      }
      CHECK_MESSAGE(e.ok, e.diagnostics);
      CHECK_MESSAGE(e.out.assembly.find(expected->ptx) != std::string::npos, e.out.assembly);
    }
  }
}

TEST_CASE("nvidia: registers move between warpgroups, on targets that have them") {
  const char *text = R"(
declare void @tlx.nv.setmaxnreg.inc(i32)
declare void @tlx.nv.setmaxnreg.dec(i32)
define void @k(i32 %n) "tlx.kernel" "tlx.threads"="256" {
  call void @tlx.nv.setmaxnreg.dec(i32 40)
  call void @tlx.nv.setmaxnreg.inc(i32 232)
  ret void
}
)";
  Emitted e = emitText(text, "sm_90a", with(kAssembler()));
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK(e.out.assembly.find("setmaxnreg.dec.sync.aligned.u32 \t40;") != std::string::npos);
  CHECK(e.out.assembly.find("setmaxnreg.inc.sync.aligned.u32 \t232;") != std::string::npos);
  CHECK(e.out.assembly.find(".minnctapersm 1") != std::string::npos); // else ptxas may not know the registers at entry
  CHECK(emitText(text, "sm_80", with(kAssembler())).diagnostics ==
        "'tlx.nv.setmaxnreg.inc' does not exist on sm_80\n'tlx.nv.setmaxnreg.dec' does not exist on sm_80\n");
}

TEST_CASE("nvidia: masked accesses are one predicated instruction") {
  struct Case {
    const char *type, *ptx;
  };
  for (Case c : {Case{"i8", ".b8"},     {"i16", ".b16"},      {"f16", ".b16"},      {"bf16", ".b16"},
                 {"i32", ".b32"},       {"f32", ".b32"},      {"v2f16", ".b32"},    {"v4i8", ".b32"},
                 {"v2i8", ".b16"},      {"i64", ".b64"},      {"f64", ".b64"},      {"v2i32", ".v2.b32"},
                 {"v4f16", ".v2.b32"},  {"v4i32", ".v4.b32"}, {"v4f32", ".v4.b32"}, {"v8f16", ".v4.b32"},
                 {"v8bf16", ".v4.b32"}, {"v2i64", ".v2.b64"}, {"v16i8", ".v4.b32"}, {"v2f64", ".v2.b64"}}) {
    CAPTURE(c.type);
    for (const char *family : {"tlx.masked.load.*", "tlx.masked.store.*"}) {
      llvm::LLVMContext context;
      auto module =
          kernelOf(context,
                   *device_ops::findDeviceOp(std::string(family) == "tlx.masked.load.*" ? "tlx.masked.load.i32"
                                                                                        : "tlx.masked.store.i32"),
                   c.type, false);
      Emitted e = emit(*module, "sm_80", with(kAssembler()));
      CHECK_MESSAGE(e.ok, e.diagnostics);
      std::string text = std::string(family).find("load") != std::string::npos ? " ld.global" : " st.global";
      size_t at = e.out.assembly.find(text + c.ptx + " ");
      CHECK_MESSAGE(at != std::string::npos, e.out.assembly);
      if (at != std::string::npos)
        CHECK(e.out.assembly.substr(e.out.assembly.rfind('\n', at), at).find("@%p") != std::string::npos);
    }
  }
}

TEST_CASE("nvidia: a constant mask needs no predicate, and no access when false") {
  auto text = [](const char *mask) {
    return std::string("declare <4 x i32> @tlx.masked.load.v4i32(ptr addrspace(1), i1, <4 x i32>)\n"
                       "define void @k(ptr addrspace(1) %p) \"tlx.kernel\" \"tlx.threads\"=\"32\" {\n"
                       "%v = call <4 x i32> @tlx.masked.load.v4i32(ptr addrspace(1) %p, i1 ") +
           mask + ", <4 x i32> splat (i32 7))\n%q = getelementptr i8, ptr addrspace(1) %p, i32 64\n" +
           "store <4 x i32> %v, ptr addrspace(1) %q\nret void }";
  };
  Emitted yes = emitText(text("true"), "sm_80", with("none"));
  CHECK_MESSAGE(yes.out.assembly.find("ld.global.v4.b32") != std::string::npos, yes.out.assembly);
  CHECK(yes.out.assembly.find("@%p") == std::string::npos);
  Emitted no = emitText(text("false"), "sm_80", with("none"));
  CHECK(no.ok);
  CHECK(no.out.assembly.find("ld.global") == std::string::npos);
}

TEST_CASE("nvidia: what is not one instruction is a diagnostic, not a crash") {
  llvm::LLVMContext context;
  auto module = kernelOf(context, *device_ops::findDeviceOp("tlx.masked.load.i32"), "v3i32", false);
  Emitted e = emit(*module, "sm_80", with("none"));
  CHECK(e.diagnostics ==
        "a masked access of type v3i32 (12 bytes) is not one instruction: its size has to be 1, 2, 4, 8 or 16 bytes\n");
  auto barrier = kernelOf(context, *device_ops::findDeviceOp("tlx.nv.bar.sync"), "", false);
  CHECK(emit(*barrier, "sm_80", with("none")).diagnostics == "operand 1 of 'tlx.nv.bar.sync' has to be a constant\n");
  auto foreign = kernelOf(context, *device_ops::findDeviceOp("tlx.amd.rcp"), "", false);
  CHECK(emit(*foreign, "sm_80", with("none")).diagnostics == "'tlx.amd.rcp' does not exist on sm_80\n");
}

TEST_CASE("nvidia: vector add") {
  Emitted e = emitText(kVectorAdd, "sm_80", with(kAssembler()));
  CHECK_MESSAGE(e.ok, e.diagnostics);
  const std::string &ptx = e.out.assembly;
  CHECK(ptx.find(".version 7.0") != std::string::npos);
  CHECK(ptx.find(".target sm_80\n") != std::string::npos);
  CHECK(ptx.find(".visible .entry add(") != std::string::npos);
  CHECK(ptx.find(".reqntid 128") != std::string::npos);
  // No fusion that the source does not ask for, here or in ptxas.
  CHECK(ptx.find("add.rn.f32") != std::string::npos);
  CHECK(ptx.find("mul.rn.f32") != std::string::npos);
  Emitted hopper = emitText(kVectorAdd, "sm_90a", with("none"));
  CHECK(hopper.out.assembly.find(".version 8.0") != std::string::npos);
  CHECK(hopper.out.assembly.find(".target sm_90a\n") != std::string::npos);
  CHECK(hopper.out.image.empty());
  CHECK(hopper.out.assembler == "none");
  if (!hasPtxas()) return;
  REQUIRE(e.out.image.size() > 4);
  CHECK(std::string(e.out.image.begin() + 1, e.out.image.begin() + 4) == "ELF");
  CHECK(e.out.kind == Binary::Kind::Cubin);
  CHECK(e.out.resources.registers.value_or(0) > 0);
  CHECK(e.out.resources.spillStores == 0u);
  CHECK(e.out.resources.stackBytes == 0u);
  CHECK(e.out.assembler.find("ptxas ") == 0);
  CHECK(e.out.stages.size() == 4);
  Emitted again = emitText(kVectorAdd, "sm_80", with("ptxas"));
  CHECK(again.out.assembly == ptx);
  CHECK(again.out.image == e.out.image);
  target::Options newer = with("ptxas");
  newer.assembleFor = "sm_90";
  Emitted forward = emitText(kVectorAdd, "sm_80", newer);
  CHECK_MESSAGE(forward.ok, forward.diagnostics);
  CHECK(forward.out.assembly == ptx);
  CHECK(forward.out.image != e.out.image);
}

TEST_CASE("nvidia: the other assemblers") {
  Emitted driver = emitText(kVectorAdd, "sm_80", with("driver"));
  REQUIRE(driver.ok);
  CHECK(driver.out.kind == Binary::Kind::Ptx);
  CHECK(driver.out.assembler == "driver");
  CHECK(std::string(reinterpret_cast<const char *>(driver.out.image.data())) == driver.out.assembly);
  CHECK(emitText(kVectorAdd, "sm_80", with("nasm")).diagnostics ==
        "'nasm' is not an assembler: use ptxas, nvjitlink, driver or none\n");
  if (target::assemblerIdentity(archOf("sm_80"), with("nvjitlink")).find("missing") == 0) {
    MESSAGE("no nvJitLink: not tested");
    return;
  }
  Emitted linked = emitText(kVectorAdd, "sm_80", with("nvjitlink"));
  REQUIRE_MESSAGE(linked.ok, linked.diagnostics);
  CHECK(linked.out.kind == Binary::Kind::Cubin);
  CHECK(std::string(linked.out.image.begin() + 1, linked.out.image.begin() + 4) == "ELF");
  CHECK(linked.out.assembler.find("nvjitlink ") == 0);
}

TEST_CASE("nvidia: a ptxas that is missing, fails, or hangs") {
  target::Options options = with("ptxas");
  options.ptxasPath = "/nonexistent/ptxas";
  CHECK(emitText(kVectorAdd, "sm_80", options).diagnostics == "ptxas was not found ('/nonexistent/ptxas')\n");
  auto script = [](const char *body) {
    std::string path = "/tmp/tlx_fake_ptxas_" + std::to_string(getpid());
    FILE *f = fopen(path.c_str(), "w");
    fprintf(f, "#!/bin/sh\n%s\n", body);
    fclose(f);
    chmod(path.c_str(), 0700);
    return path;
  };
  options.ptxasPath = script("echo 'ptxas fatal   : no such thing'; exit 255");
  CHECK(emitText(kVectorAdd, "sm_80", options).diagnostics == "ptxas failed: ptxas fatal   : no such thing\n");
  options.ptxasPath = script("case $1 in --version) echo 'release 1.0, V1.0.1';; *) sleep 60;; esac");
  options.timeoutSeconds = 1;
  Emitted hung = emitText(kVectorAdd, "sm_80", options);
  CHECK(hung.diagnostics == "ptxas did not finish within 1 seconds and was ended\n");
  CHECK(hung.out.assembler == "ptxas 1.0.1 (" + options.ptxasPath + ")");
  // What looks like information is a warning.
  options.ptxasPath = script("case $1 in --version) ;; *) for last; do :; done; echo x > $last; "
                             "echo \"ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions "
                             "are serialized\";; esac");
  Emitted warned = emitText(kVectorAdd, "sm_80", options);
  CHECK(warned.ok);
  REQUIRE(warned.out.warnings.size() == 1);
  CHECK(warned.out.warnings[0].find("C7510") != std::string::npos);
  unlink(options.ptxasPath.c_str());
}

TEST_CASE("nvidia: source lines reach the PTX without debug sections") {
  std::string text = R"(
define void @k(ptr addrspace(1) %p) "tlx.kernel" "tlx.threads"="32" !dbg !4 {
  store i32 1, ptr addrspace(1) %p, !dbg !7
  ret void, !dbg !7
}
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, producer: "tlx", isOptimized: true, runtimeVersion: 0, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "kernel.tlx", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "k", file: !1, line: 1, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !6)
!6 = !{}
!7 = !DILocation(line: 42, column: 3, scope: !4)
)";
  Emitted e = emitText(text, "sm_90a", with(kAssembler()));
  CHECK_MESSAGE(e.ok, e.diagnostics);
  CHECK_MESSAGE(e.out.assembly.find(".loc\t1 42 3") != std::string::npos, e.out.assembly);
  // An empty .debug_macinfo is all that LLVM leaves.
  CHECK(e.out.assembly.find(", debug") == std::string::npos);
  CHECK(e.out.assembly.find(".debug_info") == std::string::npos);
  target::Options options = with("none");
  options.lineInfo = false;
  CHECK(emitText(text, "sm_90a", options).out.assembly.find(".loc") == std::string::npos);
}
