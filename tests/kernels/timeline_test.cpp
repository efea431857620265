// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The page that a launch draws: well formed, with all lanes, and nothing of the kernel's text that a browser would take for markup.
#include <doctest/doctest.h>

#include <regex>

#include "references.h"

using namespace harness;

namespace {
size_t count(const std::string &text, const std::string &what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}
/// The lanes' names in the data.
std::vector<std::string> lanes(const std::string &page) {
  std::vector<std::string> names;
  const size_t at = page.find("\"lanes\":["), end = page.find("],\"marks\"", at);
  REQUIRE(at != std::string::npos);
  const std::string list = page.substr(at, end - at);
  const std::regex name("\"name\":\"([^\"]*)\"");
  for (std::sregex_iterator i(list.begin(), list.end(), name), last; i != last; ++i) names.push_back((*i)[1]);
  return names;
}
bool has(const std::vector<std::string> &names, const std::string &prefix) {
  for (const std::string &n : names)
    if (n.compare(0, prefix.size(), prefix) == 0) return true;
  return false;
}
/// Tags that are opened are closed, in order; script and style hold anything but "</".
void checkForm(const std::string &page) {
  CHECK(page.compare(0, 15, "<!DOCTYPE html>") == 0);
  std::vector<std::string> open;
  for (size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const bool raw = !open.empty() && (open.back() == "script" || open.back() == "style");
    if (raw && page.compare(at, open.back().size() + 2, "</" + open.back()) != 0) continue;
    size_t from = at + 1, end = page.find('>', at);
    if (page[from] == '!') continue;
    const bool closes = page[from] == '/';
    from += closes;
    const std::string tag = page.substr(from, page.find_first_of(" >", from) - from);
    if (tag == "meta") continue;
    if (!closes) {
      open.push_back(tag);
    } else {
      REQUIRE(!open.empty());
      CHECK(open.back() == tag);
      open.pop_back();
    }
    REQUIRE(end != std::string::npos);
  }
  CHECK(open.empty());
  for (const char *outside : {"src=", "href=", "url(", "@import", "http"}) CHECK(count(page, outside) == 0);
}
} // namespace

TEST_CASE("timeline: gemm_ws has its warps, units and barriers") {
  if (!onSimulator()) return;
  Program p = compile({"gemm_ws.tlx", "gemm_ws", {{"BM", "128"}, {"BN", "64"}, {"STAGES", "3"}}, {}}, "sm_90a");
  Rng rng(1);
  Matrix a("f16", 256, 320), b("f16", 320, 64), c("f16", 256, 64);
  a.fillWith(rng, Fill::Integers, 2), b.fillWith(rng, Fill::Integers, 2);
  auto da = upload(a.values), db = upload(b.values), dc = upload(c.values);
  const std::string page = p.timeline({1}, {a.argument(da), b.argument(db), c.argument(dc), 256, 64, 320});
  checkForm(page);
  const std::vector<std::string> names = lanes(page);
  for (const char *name :
       {"warp 0 (producer)", "warp 4 (consumer[0])", "warp 11 (consumer[1])", "TMA loads of warp 0",
        "wgmma of warps 4-7", "TMA stores of warp 8", "full[0]", "full[2]", "empty[2]", "barrier 0"}) {
    CAPTURE(name);
    CHECK(has(names, name));
  }
  // Ten tiles, each of A and of B.
  CHECK(count(page, "TMA load to ") >= 6);
  CHECK(page.find("completed by: ") != std::string::npos);
  CHECK(page.find("gemm_ws.tlx:") != std::string::npos);
}

TEST_CASE("timeline: texts are data, other targets have one too, a deadlock is drawn as far as it went") {
  if (!onSimulator()) return;
  const std::string evil = "</script><b>&\"'.tlx";
  Tensor out("i32", 128);
  auto d = upload(out);
  for (const char *target : {"sm_90a", "sm_80", "gfx942"}) {
    Program p = compileText("kernel k(out: *i32) launch(num_warps = 4) { store(out, sum(arange(0, 256))); }",
                            {evil, "k", {}, {}}, target);
    const std::string page = p.timeline({2}, {d});
    checkForm(page);
    CHECK(count(page, "</script>") == 2);
    CHECK(count(page, "<b>") == 0);
    CHECK(has(lanes(page), "warp 0"));
  }
  Program p = compileText(R"(kernel k(out: *i32) launch(num_warps = 4) {
  let ready = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "one") { barrier_wait(ready[0], 0); }
    async_task(num_warps = 4, name = "two") { barrier_wait(ready[0], 0); }
  }
})",
                          {"k.tlx", "k", {}, {}, TLX_COMPILE_NO_STATIC_CHECKS}, "sm_90a");
  const std::string page = p.timeline({1}, {d});
  checkForm(page);
  CHECK(page.find("The launch ended before this program did") != std::string::npos);
  CHECK(page.find("wait ready[0], phase 0") != std::string::npos);
}
