// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Several compiles at once, of both vendors, give the bits of one alone.
#include <atomic>
#include <thread>

#include "helpers.h"

using namespace tlx;
using namespace tlx::test;

TEST_CASE("target: threads") {
  const char *text = R"(
define void @k(ptr addrspace(1) %p, i32 %n) "tlx.kernel" "tlx.threads"="64" "tlx.shared-bytes"="0" {
  %q = getelementptr i32, ptr addrspace(1) %p, i32 %n
  store i32 %n, ptr addrspace(1) %q
  ret void
})";
  const char *names[] = {"sm_80", "gfx942", "sm_90a", "gfx942"};
  Emitted alone[4];
  for (int i = 0; i < 4; ++i) alone[i] = emitText(text, names[i], with(i % 2 ? "" : "driver"));
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        Emitted e = emitText(text, names[i], with(i % 2 ? "" : "driver"));
        if (e.ok && !e.out.image.empty() && e.out.image == alone[i].out.image) ++same;
      }
    });
  for (std::thread &t : threads) t.join();
  CHECK(same == 20);
}

TEST_CASE("target: what the linker refuses is a diagnostic, and the next compile works") {
  auto text = [](bool call) {
    return std::string("declare void @nowhere()\n"
                       "define void @k(ptr addrspace(1) %p) \"tlx.kernel\" \"tlx.threads\"=\"64\" "
                       "\"tlx.shared-bytes\"=\"0\" {\n") +
           (call ? "call void @nowhere()\n" : "") + "store i32 1, ptr addrspace(1) %p\nret void }";
  };
  Emitted amd = emitText(text(true), "gfx942");
  CHECK_FALSE(amd.ok);
  CHECK_MESSAGE(amd.diagnostics.find("lld failed: ") == 0, amd.diagnostics);
  CHECK(amd.diagnostics.find("nowhere") != std::string::npos);
  Emitted again = emitText(text(false), "gfx942");
  CHECK_MESSAGE(again.ok, again.diagnostics);
  if (!hasPtxas()) return;
  Emitted nvidia = emitText(text(true), "sm_80", with("ptxas"));
  CHECK_MESSAGE(nvidia.diagnostics.find("ptxas failed: ") == 0, nvidia.diagnostics);
  CHECK(emitText(text(false), "sm_80", with("ptxas")).ok);
}
