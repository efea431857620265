// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstring>

namespace tlx {

namespace {

struct Search {
  uintptr_t address;
  std::string id;
};

// Notes are (name size, descriptor size, type, name, descriptor), padded to 4 bytes (ELF specification, "Note Section").
std::string findNote(const char *at, const char *end) {
  while (at + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof note);
    const char *name = at + sizeof note;
    const char *descriptor = name + ((note.n_namesz + 3) & ~3u);
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      std::string hex;
      for (unsigned i = 0; i < note.n_descsz; ++i) {
        const char *digits = "0123456789abcdef";
        unsigned char byte = descriptor[i];
        hex += digits[byte >> 4];
        hex += digits[byte & 15];
      }
      return hex;
    }
    at = descriptor + ((note.n_descsz + 3) & ~3u);
  }
  return {};
}

int visit(dl_phdr_info *info, size_t, void *data) {
  auto *search = static_cast<Search *>(data);
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + p.p_vaddr;
    holds |= p.p_type == PT_LOAD && search->address >= start && search->address < start + p.p_memsz;
  }
  if (!holds) return 0;
  for (int i = 0; i < info->dlpi_phnum && search->id.empty(); ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    const char *start = reinterpret_cast<const char *>(info->dlpi_addr + p.p_vaddr);
    if (p.p_type == PT_NOTE) search->id = findNote(start, start + p.p_memsz);
  }
  return 1;
}

} // namespace

const std::string &buildId() {
  static const std::string id = [] {
    Search search{reinterpret_cast<uintptr_t>(&buildId), {}};
    dl_iterate_phdr(visit, &search);
    // Linked with --build-id (see cmake/tlx.cmake); without a note nothing may be shared between processes.
    return search.id.empty() ? "no build id " + std::to_string(search.address) : search.id;
  }();
  return id;
}

} // namespace tlx
