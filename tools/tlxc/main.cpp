// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command line of tlxc. The help texts are the tool's manual.
#include <cstdio>

#include <CLI/CLI.hpp>

#include "tlxc.h"

namespace {

constexpr const char *kMainHelp = R"(tlxc - compile and run GPU kernels written in the tlx language

A kernel is compiled for a target (an architecture: sm_80, gfx942) and runs on a device: a GPU, or the simulator, which runs the
code of any target on this computer and checks it on the way. `tlxc COMMAND --help` explains each command.)";

constexpr const char *kMainFooter = R"(
Exit codes
  0  done        1  an error in the kernel, its arguments or the surroundings (no driver, no assembler)
  2  wrong use of tlxc        3  the simulator's checkers found something        4  an internal error

Environment
  TLX_CACHE_DIR    directory of compiled kernels (else $XDG_CACHE_HOME/tlxjit, else ~/.cache/tlxjit)
  TLX_CACHE        on, readonly or off
  TLX_LOG          trace, debug, info, warning or error: log to stderr
  TLX_CUDA_DRIVER  path of libcuda        TLX_HIP_DRIVER  path of libamdhip64

Examples
  tlxc build kernels/vector_add.tlx --kernel vector_add --target sm_80 --emit ptx
  tlxc run kernels/vector_add.tlx --kernel vector_add --target sm_80 --device sim --grid 1 \
       --arg x=f32[1000]=randn --arg y=f32[1000]=ones --arg out=f32[1000] --arg n=1000 --out out=sum.npy)";

constexpr const char *kBuildHelp = R"(Compile one kernel and write the result.

Without --emit the machine code is written to KERNEL.cubin or KERNEL.hsaco. Texts (ir, llvm, ptx, asm, json) go to stdout unless
-o names a file. Reports (--dump-after, --explain-layouts, --time-passes) and warnings go to stderr.)";

constexpr const char *kBuildFooter = R"(
Forms of --emit
  ir     the compiler's own representation after its passes        llvm   LLVM IR
  ptx    PTX (NVIDIA)           cubin  machine code (NVIDIA)        asm    assembly of the target: PTX, or AMD's
  hsaco  code object (AMD)      json   arguments, facts, shared memory, registers, times: the kernel's metadata

Examples
  tlxc build softmax.tlx --kernel softmax -D BLOCK=1024 -D T=f16 --target gfx942 -o softmax.hsaco
  tlxc build matmul.tlx --kernel matmul --target sm_90a --assume 'K % 64 == 0' --assume 'aligned(a, 16)' --emit asm)";

constexpr const char *kRunHelp = R"(Compile one kernel, launch it once, and write what it computed.

Every argument of the kernel is given with --arg, by name. A number is a scalar. A tensor lies in fresh device memory; a pointer of
the kernel gets its address, a tensor_desc gets address, shape and strides, whatever its block:

  --arg NAME=NUMBER                          42, -1, 0x7f, 1.5, inf, true
  --arg NAME=TYPE[SHAPE]=CONTENTS            f16[256,128]=randn
  --arg NAME=TYPE[SHAPE:stride=S]=CONTENTS   f16[256,128:stride=1,256]=randn   (strides in elements, one a dimension)

TYPE is an element type of the language (i1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2 f8e4m3fnuz f8e5m2fnuz)
and must be that of the kernel's pointer or tensor_desc. Without strides the tensor is dense and row-major. CONTENTS is one of

  zeros, ones     all elements 0 or 1                  full:VALUE      all elements VALUE
  arange          0, 1, 2, ... in row-major order      randint:LO:HI   integers, LO <= x < HI
  randn           normal, mean 0, deviation 1          @FILE.npy       from a file of this shape and type
  empty           not written at all (also when "=CONTENTS" is left out): the simulator reports reads of it

Random contents depend on --seed and the argument's name only, and are the same in every version: splitmix64 started at the seed
xor the name's FNV-1a hash; normal numbers by Box-Muller, computed in double and rounded once to TYPE.

.npy files are NumPy's, version 1.0, little-endian. NumPy has no bf16 and no fp8: their bits are stored as uint16 ('<u2') and uint8.
Reading, a float tensor takes float16, float32 and float64 files too, and rounds.)";

constexpr const char *kCheckHelp =
    R"(Compile one kernel and launch it once on the simulator, as `tlxc run` does with the same arguments, and find races as well: two accesses of the
same bytes of shared or global memory, one of them a write, that nothing orders, whatever the schedule made of them. Each lane of a warp is an actor (on AMD
a wave is); a TMA load is another, which ends with a phase of its mbarrier, and so is a TMA store, which ends with the wait that covers it. wgmma
reads until a wait covers it. Barriers order the warps of a program, barriers of a warp its lanes (shuffles and votes do not), atomics that release
and acquire those of different programs; relaxed atomics do not race.

Each finding names both accesses with their lines, the warps and tasks, the buffer, and the edge that is missing. Exit code 3 if there is one.

With --exhaustive every interleaving of each program is checked, of its warps and of what TMA and wgmma do on their own, and not only this schedule: what
orders the synchronizations of the run must put every arrival behind the end of the phase before its own, and every wait before the end of the
phase behind its own; then no other schedule goes differently, and two accesses can meet exactly if nothing orders them. Where that fails, the other
order is tried: a deadlock is a finding. If all is covered it says so. What cannot be is a finding that begins with "not covered": an order that is
open and does not hang, work by an atomic counter, cp.async, a target without mbarriers. The lanes of a warp
and global memory are looked at as without it, in the order of this run. The kernel runs four times, its memory is put back in between.)";

constexpr const char *kRunFooter = R"(
Examples
  tlxc run softmax.tlx --kernel softmax -D BLOCK=1024 --target gfx942 --grid 64 --schedule random --seed 7 \
       --arg x=f32[64,1000]=randn --arg y=f32[64,1000] --arg cols=1000 --arg stride=1000 --out y=y.npy
  tlxc run matmul.tlx --kernel matmul --target sm_90a --grid 4 --arg M=256 --arg N=512 --arg K=128 \
       --arg a=f16[256,128]=randn --arg b=f16[128,512]=randn --arg c=f16[256,512] --out c=c.npy
  tlxc run vector_add.tlx --kernel vector_add --device cuda:0 --grid 65536 --time \
       --arg x=f32[67108864]=randn --arg y=f32[67108864]=randn --arg out=f32[67108864] --arg n=67108864)";

void addCompileOptions(CLI::App &command, tlxc::CompileArgs &args) {
  command.add_option("FILE", args.file, "the kernel's text")->required();
  command.add_option("--kernel", args.kernel, "which kernel of the file; needed if it has several")->type_name("NAME");
  command
      .add_option("-D,--define", args.defines, "a compile-time parameter: BLOCK=1024, T=f16, CAUSAL=true; repeatable")
      ->type_name("P=V")
      ->allow_extra_args(false);
  command
      .add_option(
          "--assume", args.assumptions,
          "a fact about the arguments that the compiler may use, as in `requires`: 'K % 8 == 0', 'aligned(x, 16)'; "
          "checked at the launch; repeatable")
      ->type_name("FACT")
      ->allow_extra_args(false);
  command
      .add_option("-I,--import-dir", args.includeDirs,
                  "where to look for imports, after FILE's own directory; repeatable")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command.add_option("--dump-after", args.dumpAfter, "print the IR after this pass")->type_name("PASS");
  command.add_flag("--time-passes", args.timePasses, "print the time of each stage of the compile");
  command.add_flag("--explain-layouts", args.explainLayouts,
                   "print the layout of each value, and for each shared access its bank wavefronts beside the minimum");
  command.add_flag("--verify", args.verify, "check the IR after every pass");
  command.add_flag("--no-static-checks", args.noStaticChecks,
                   "take hand-written schedules as they are, without looking for waits that never end");
  command
      .add_option("--debug-timeout", args.debugTimeout,
                  "NVIDIA: a wait for a barrier that takes longer (1000000 microseconds if no number is given) stops "
                  "the kernel, and "
                  "the error says which wait it was; for this, the code is slower")
      ->type_name("[MICROSECONDS]")
      ->expected(0, 1)
      ->default_str("1000000")
      ->check(CLI::Range(1u, 4000000000u));
  command
      .add_option("--assembler", args.assembler, "who turns PTX into machine code; default: the first that is there")
      ->check(CLI::IsMember({"ptxas", "nvjitlink", "driver"}));
  command.add_option("--ptxas", args.ptxas, "path of ptxas")->type_name("FILE");
  command.add_flag("--no-cache", args.noCache, "neither read nor write the cache of compiled kernels");
}

void addLaunchOptions(CLI::App &command, tlxc::RunArgs &args) {
  addCompileOptions(command, args);
  command.add_option("--target", args.target, "the architecture; default: the device's (the simulator has none)")
      ->type_name("T");
  command.add_option("--grid", args.grid, "programs in each dimension; a 0 launches nothing")
      ->type_name("X[,Y[,Z]]")
      ->capture_default_str();
  command.add_option("--arg", args.args, "an argument, see `tlxc run --help`; repeatable")
      ->type_name("NAME=SPEC")
      ->allow_extra_args(false);
  command.add_option("--out", args.outs, "write a tensor to a file after the launch, in row-major order; repeatable")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--seed", args.seed, "for random contents and the random schedule")->capture_default_str();
  command
      .add_option("--schedule", args.schedule,
                  "simulator: the order in which warps run and asynchronous operations complete")
      ->check(CLI::IsMember({"in-order", "random", "late", "early"}))
      ->capture_default_str();
  command
      .add_option("--max-steps", args.maxSteps,
                  "simulator: loop steps before a launch counts as endless; 0: its default")
      ->type_name("N");
  command
      .add_option("--timeline", args.timeline,
                  "simulator: draw what one program does, as a page of HTML: warps and units as lanes, phases of "
                  "barriers, who waits for whom")
      ->type_name("FILE.html");
  command
      .add_option("--timeline-program", args.timelineProgram,
                  "which program --timeline draws: x + X * (y + Y * z) in a grid of X,Y,Z")
      ->type_name("N")
      ->capture_default_str();
  command.add_flag(
      "--exact", args.exact,
      "simulator: floats are integers of their width, so that two kernels of one mathematics give equal bits "
      "whatever their order of sums; the values mean nothing else");
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app(kMainHelp, "tlxc");
  app.footer(kMainFooter);
  app.set_version_flag("--version", std::string("tlxc ") + tlx_version_string());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  tlxc::BuildArgs buildArgs;
  CLI::App &build = *app.add_subcommand("build", "compile one kernel and write the result");
  build.description(kBuildHelp);
  build.footer(kBuildFooter);
  addCompileOptions(build, buildArgs);
  build.add_option("--target", buildArgs.target, "the architecture, one of `tlxc targets`")->type_name("T")->required();
  build.add_option("--emit", buildArgs.emit, "what to write; default: the machine code")
      ->check(CLI::IsMember({"ir", "llvm", "ptx", "cubin", "asm", "hsaco", "json"}));
  build.add_option("-o,--output", buildArgs.output, "where to; '-' is stdout")->type_name("OUT");

  tlxc::RunArgs runArgs;
  CLI::App &run = *app.add_subcommand("run", "compile one kernel, launch it, and write what it computed");
  run.description(kRunHelp);
  run.footer(kRunFooter);
  addLaunchOptions(run, runArgs);
  run.add_option("--device", runArgs.device, "sim, cuda:N or hip:N, see `tlxc devices`")->capture_default_str();
  run.add_flag("--time", runArgs.time,
               "measure: after the launch above, warm up and launch again, and print the median in milliseconds (on a "
               "GPU by its "
               "events)");
  run.add_option("--warm-ups", runArgs.warmUps, "launches before the measured ones")->capture_default_str();
  run.add_option("--repeats", runArgs.repeats, "measured launches")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1000000u));

  tlxc::RunArgs checkArgs;
  checkArgs.checkRaces = true;
  CLI::App &check = *app.add_subcommand("check", "the same on the simulator, and find races");
  check.description(kCheckHelp);
  addLaunchOptions(check, checkArgs);
  check.add_flag("--exhaustive", checkArgs.exhaustive,
                 "check every interleaving of each program: of its warps and of what TMA and wgmma do on their own");

  CLI::App &targets = *app.add_subcommand("targets", "list the architectures that tlxc compiles for");
  targets.description("List the architectures that tlxc compiles for, with their warp size and limits.");
  CLI::App &devices = *app.add_subcommand("devices", "list the devices that kernels can run on");
  devices.description("List the simulator and the GPUs of this computer. Where a vendor's driver is missing, say why.");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &problem) {
    // Help and version are "errors" with code 0.
    return app.exit(problem) == 0 ? tlxc::kRight : tlxc::kUsage;
  }

  try {
    if (build.parsed()) return tlxc::build(buildArgs);
    if (run.parsed()) return tlxc::run(runArgs);
    if (check.parsed()) return tlxc::run(checkArgs);
    if (targets.parsed()) return tlxc::targets();
    if (devices.parsed()) return tlxc::devices();
  } catch (const tlxc::Failure &failure) {
    std::fflush(stdout);
    std::fputs(failure.what(), stderr);
    return failure.code;
  } catch (const std::exception &problem) {
    std::fprintf(stderr, "tlxc: internal error: %s\n", problem.what());
    return tlxc::kInternal;
  }
  return tlxc::kUsage;
}
