// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GCN ISA text → object (LLVM's assembler) → HSACO (lld, in process) → resources from the metadata note. The text is
// the one thing that is assembled: what a user reads is what runs.
#include <mutex>

#include "lld/Common/Driver.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/BinaryFormat/MsgPackDocument.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCParser/MCAsmParser.h"
#include "llvm/MC/MCParser/MCTargetAsmParser.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/SourceMgr.h"

#include "target/target_p.h"

LLD_HAS_DRIVER(elf)

using namespace llvm;

namespace tlx::target::amd {

void useLldStubs(); // lld_stubs.cpp

namespace {
/// LLVM's assembler; `error` gets its messages.
bool assembleObject(const std::string &isa, const features::Target &target, SmallVectorImpl<char> &object,
                    std::string &error) {
  initializeBackends();
  Triple triple(tripleOf(target));
  const llvm::Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend) return false;
  SourceMgr sources;
  raw_string_ostream errors(error);
  sources.setDiagHandler(
      [](const SMDiagnostic &d, void *os) { d.print(nullptr, *static_cast<raw_ostream *>(os), false); }, &errors);
  sources.AddNewSourceBuffer(MemoryBuffer::getMemBuffer(isa, "kernel.s"), SMLoc());
  MCTargetOptions options;
  std::unique_ptr<MCRegisterInfo> registers(backend->createMCRegInfo(triple));
  std::unique_ptr<MCAsmInfo> info(backend->createMCAsmInfo(*registers, triple, options));
  std::unique_ptr<MCInstrInfo> instructions(backend->createMCInstrInfo());
  std::unique_ptr<MCSubtargetInfo> subtarget(backend->createMCSubtargetInfo(triple, target.llvmCpu, ""));
  MCContext context(triple, info.get(), registers.get(), subtarget.get(), &sources, &options);
  std::unique_ptr<MCObjectFileInfo> sections(backend->createMCObjectFileInfo(context, /*PIC=*/true));
  context.setObjectFileInfo(sections.get());
  raw_svector_ostream os(object);
  std::unique_ptr<MCAsmBackend> encoder(backend->createMCAsmBackend(*subtarget, *registers, options));
  std::unique_ptr<MCObjectWriter> writer = encoder->createObjectWriter(os);
  std::unique_ptr<MCCodeEmitter> emitter(backend->createMCCodeEmitter(*instructions, context));
  std::unique_ptr<MCStreamer> streamer(backend->createMCObjectStreamer(
      triple, context, std::move(encoder), std::move(writer), std::move(emitter), *subtarget));
  std::unique_ptr<MCAsmParser> parser(createMCAsmParser(sources, context, *streamer, *info));
  std::unique_ptr<MCTargetAsmParser> targetParser(
      backend->createMCAsmParser(*subtarget, *parser, *instructions, options));
  parser->setTargetParser(*targetParser);
  return !parser->Run(/*NoInitialTextSection=*/false) && error.empty();
}

/// lld keeps global state: one link at a time, and none after it says that it cannot run again.
bool link(const std::string &object, const std::string &image, std::string &log, bool &usable) {
  static std::mutex mutex;
  static bool broken = false;
  std::lock_guard<std::mutex> lock(mutex);
  usable = !broken;
  if (broken) return false;
  useLldStubs();
  raw_string_ostream os(log);
  // One thread: lld's pool would outlive the link and not survive a fork. No build id: it hashes what the cache hashes
  // anyway.
  const char *arguments[] = {"ld.lld",       "-shared", "--no-undefined", "--threads=1", "--build-id=none",
                             object.c_str(), "-o",      image.c_str()};
  lld::Result result = lld::lldMain(arguments, os, os, {{lld::Gnu, &lld::elf::link}});
  broken = !result.canRunAgain;
  return result.retCode == 0;
}

/// The AMDGPU metadata note (amdhsa.kernels[0], LLVM's AMDGPUUsage, "Code Object Metadata").
bool readMetadata(ArrayRef<uint8_t> image, Output &out) {
  StringRef bytes(reinterpret_cast<const char *>(image.data()), image.size());
  auto file = object::ELFFile<object::ELF64LE>::create(bytes);
  if (!file) return consumeError(file.takeError()), false;
  auto sections = file->sections();
  if (!sections) return consumeError(sections.takeError()), false;
  for (const auto &section : *sections) {
    if (section.sh_type != ELF::SHT_NOTE) continue;
    Error error = Error::success();
    for (const auto &note : file->notes(section, error)) {
      if (note.getName() != "AMDGPU" || note.getType() != ELF::NT_AMDGPU_METADATA) continue;
      msgpack::Document document;
      ArrayRef<uint8_t> body = note.getDesc(section.sh_addralign);
      if (!document.readFromBlob(StringRef(reinterpret_cast<const char *>(body.data()), body.size()), /*Multi=*/false))
        continue;
      auto &root = document.getRoot();
      if (!root.isMap() || !root.getMap()["amdhsa.kernels"].isArray() ||
          root.getMap()["amdhsa.kernels"].getArray().empty())
        continue;
      msgpack::MapDocNode kernel = root.getMap()["amdhsa.kernels"].getArray()[0].getMap();
      auto number = [&](const char *key) -> std::optional<unsigned> {
        msgpack::DocNode node = kernel[key];
        if (node.getKind() == msgpack::Type::UInt) return static_cast<unsigned>(node.getUInt());
        if (node.getKind() == msgpack::Type::Int) return static_cast<unsigned>(node.getInt());
        return std::nullopt;
      };
      out.resources.registers = number(".vgpr_count");
      out.resources.spillStores = out.resources.spillLoads = number(".vgpr_spill_count");
      out.resources.scratchBytes = number(".private_segment_fixed_size");
      for (const char *key : {".vgpr_count", ".agpr_count", ".sgpr_count", ".vgpr_spill_count", ".sgpr_spill_count",
                              ".group_segment_fixed_size", ".private_segment_fixed_size", ".kernarg_segment_size",
                              ".max_flat_workgroup_size", ".wavefront_size"})
        if (auto value = number(key)) out.log += formatv("{0}: {1}\n", key + 1, *value).str();
      consumeError(std::move(error));
      return true;
    }
    consumeError(std::move(error));
  }
  return false;
}
} // namespace

bool assemble(const std::string &isa, const features::Target &target, const Options &, Output &out,
              Diagnostics &diags) {
  out.kind = Binary::Kind::Hsaco;
  SmallVector<char, 0> object;
  std::string error;
  if (!assembleObject(isa, target, object, error)) {
    diags.report(Diag::AssemblerFailed, {}, "LLVM's assembler", StringRef(error).trim());
    return false;
  }
  TemporaryDirectory directory;
  std::string input = directory.file("kernel.o"), image = directory.file("kernel.hsaco");
  if (!directory.valid() || !writeFile(input, StringRef(object.data(), object.size()))) {
    diags.report(Diag::AssemblerFailed, {}, "lld", "the temporary directory cannot be written");
    return false;
  }
  std::string log;
  bool usable = true;
  if (!link(input, image, log, usable) || !readFile(image, out.image)) {
    if (!usable)
      diags.report(Diag::LinkerUnusable, {});
    else
      diags.report(Diag::AssemblerFailed, {}, "lld", StringRef(log).trim());
    return false;
  }
  out.log = log;
  if (!readMetadata(out.image, out)) {
    diags.report(Diag::Internal, {}, "the image has no AMDGPU metadata");
    return false;
  }
  return true;
}

std::string assemblerIdentity() {
  return "lld " LLVM_VERSION_STRING;
}

} // namespace tlx::target::amd
