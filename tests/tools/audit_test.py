# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tools/audit.py on short machine code with one fault each, and on a kernel as a whole: audit_test.py ROOT TLXC"""
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
TLXC = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "tools"))
import audit  # noqa: E402


def code(lines, labels=True):
    """Lines of instructions as nvdisasm prints them; 'name:' is a label, {name} in a branch its place."""
    text, at, places = [], 0, {}
    for line in lines:
        if line.endswith(":"):
            places[line[:-1]] = at
        else:
            at += 16
    at = 0
    for line in lines:
        if line.endswith(":"):
            text.append(f".L_{line}" if labels else "")
            continue
        for name, place in places.items():
            line = line.replace("{" + name + "}", f"`(.L_{name})" if labels else f"0x{place:x}")
        text.append(f"        /*{at:04x}*/                   {line} ;                       /* 0x000fe20000000f00 */")
        at += 16
    return "\n".join(text)


def wgmma_loop(before=(), after=(), first="R24"):
    return ["S2R R4, SR_TID.X", "x_1:", "WARPGROUP.ARRIVE", *before,
            f"HGMMA.64x16x16.F32 R24, gdesc[UR8], {first}", "HGMMA.64x16x16.F32 R24, gdesc[UR12], R24, gsb0", *after,
            "WARPGROUP.DEPBAR.LE gsb0, 0x0", "UIADD3 UR4, UR4, 0x1, URZ", "@P0 BRA {x_1}", "STG.E [R2.64], R24", "EXIT",
            "x_2:", "BRA {x_2}"]


class Sass(unittest.TestCase):
    def findings(self, lines, **options):
        return audit.audit_sass(code(lines, **options))[0]

    def test_clean(self):
        for labels in (True, False):
            findings, report = audit.audit_sass(code(wgmma_loop(), labels))
            self.assertEqual(findings, [])
            self.assertIn("10 instructions, 2 of them matrix instructions, 1 loops", report[0])
            self.assertIn("loop at 0010: 6 instructions: HGMMA 2", report[1])
            self.assertIn("1 groups, 1 WARPGROUP.ARRIVE, 1 WARPGROUP.DEPBAR, 0 R2UR", report[2])

    def test_accumulator_written(self):
        for copy in ("MOV R24, R100", "IMAD.MOV.U32 R31, RZ, RZ, R100", "FSEL R26, R26, RZ, P1", "CS2R R30, SRZ", "@P2 MOV R27, R5"):
            findings = self.findings(wgmma_loop([copy]))
            self.assertEqual(len(findings), 1, copy)
            self.assertIn(f"loop at 0010: 1 copies of accumulators, the first '{copy}' at 0020", findings[0])

    def test_accumulator_read(self):
        self.assertIn("1 copies of accumulators", self.findings(wgmma_loop(after=["MOV R90, R31"]))[0])
        self.assertIn("1 copies of accumulators", self.findings(wgmma_loop(after=["FMUL R90, R31, R3", "MOV R91, R24"]))[0])

    def test_other_copies(self):
        # Beside the accumulator (R24 to R31), and registers that hold one only for a while.
        self.assertEqual(self.findings(wgmma_loop(["MOV R32, R23", "IMAD.MOV.U32 R23, RZ, RZ, R40"])), [])
        reused = ["FADD R90, R24, R25", "MOV R24, R5", "IADD3 R91, R24, R92, RZ"]
        self.assertEqual(self.findings(wgmma_loop(after=reused, first="RZ, !UPT")), [])
        self.assertEqual(len(self.findings(wgmma_loop(after=reused))), 1)  # here the next step adds to what the copy left

    def test_ampere(self):
        loop = ["x_1:", "LDSM.16.M88.4 R8, [R2]", "HMMA.16816.F32 R16, R8, R12, R16", "HMMA.16816.F32 R20, R8, R14, R20",
                "@P0 BRA {x_1}", "EXIT"]
        self.assertEqual(self.findings(loop), [])
        self.assertIn("1 copies of accumulators, the first 'MOV R23, R6'", self.findings(loop[:2] + ["MOV R23, R6"] + loop[2:])[0])
        self.assertIn("1 copies", self.findings(loop[:4] + ["MOV R60, R19"] + loop[4:])[0])
        self.assertEqual(self.findings(loop[:2] + ["MOV R8, R6"] + loop[2:]), [])

    def test_local_memory(self):
        self.assertEqual(self.findings(wgmma_loop(["LDL R3, [R1]"])), ["local memory: 1 STL and LDL, 1 of them in loops"])
        self.assertEqual(self.findings(["STL.64 [R1+0x8], R2", *wgmma_loop()]), ["local memory: 1 STL and LDL, 0 of them in loops"])

    def test_fences(self):
        self.assertIn("1 fences of the device, the first 'MEMBAR.SC.GPU'", self.findings(wgmma_loop(["MEMBAR.SC.GPU"]))[0])
        self.assertIn("1 fences of the device, the first 'CCTL.IVALL'", self.findings(wgmma_loop(["CCTL.IVALL"]))[0])
        self.assertEqual(self.findings(wgmma_loop(["MEMBAR.ALL.CTA"])), [])
        self.assertIn("2 WARPGROUP.ARRIVE for 1 groups", self.findings(wgmma_loop(["WARPGROUP.ARRIVE"]))[0])

    def test_nested(self):
        # The outer loop's copies between tiles are its own; the inner loop stays clean.
        nested = ["x_9:", "CS2R R24, SRZ", *wgmma_loop()[:-4], "MOV R90, R24", "@P1 BRA {x_9}", "EXIT"]
        self.assertEqual(self.findings(nested), [])

    def test_out_of_line(self):
        # A retry behind the kernel's end belongs to the loop it returns to, what lies between does not.
        lines = ["x_1:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P3, [UR9], R7", "@!P3 BRA {x_7}", "x_2:",
                 "HGMMA.64x16x16.F32 R24, gdesc[UR8], R24, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x0", "@P0 BRA {x_1}", "MOV R24, R3", "MOV R90, R25", "LDL R3, [R1]", "EXIT",
                 "x_7:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P3, [UR9], R7", "@P3 BRA {x_2}", "BRA {x_7}"]
        findings, report = audit.audit_sass(code(lines))
        self.assertEqual(findings, ["local memory: 1 STL and LDL, 0 of them in loops"])
        self.assertIn("loop at 0000: 8 instructions: BRA 4, SYNCS 2, HGMMA 1", report[1])

    def test_masks(self):
        # A select of finished values is a mask, unless the next step adds to its result.
        mask = ["WARPGROUP.DEPBAR.LE gsb0, 0x0", "FSEL R26, R26, -INF , !P3"]
        self.assertEqual(self.findings(wgmma_loop(after=mask, first="RZ, !UPT")), [])
        self.assertIn("1 copies of accumulators", self.findings(wgmma_loop(after=mask))[0])

    def test_divergence(self):
        # The branch around a divergent part, and a loop within it that reconverges at the label of its BSSY.
        body = ["BSSY B0, {x_5}", "@P2 BRA {x_6}", "x_4:", "NOP", "@P3 BRA {x_4}", "x_6:", "BSYNC B0", "x_5:"]
        findings, report = audit.audit_sass(code(wgmma_loop(after=body)))
        self.assertEqual(findings, [])
        self.assertIn("15 instructions, 2 of them matrix instructions, 2 loops", report[0])
        self.assertIn("loop at 0010: 11 instructions", report[1])


class Logs(unittest.TestCase):
    def test_ptxas(self):
        clean = ("ptxas info    : Function properties for k\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                 "ptxas info    : Used 168 registers, used 1 barriers\n")
        self.assertEqual(audit.audit_log(clean)[0], [])
        self.assertIn("Used 168 registers, used 1 barriers", audit.audit_log(clean)[1])
        spilled = clean.replace("0 bytes spill loads", "24 bytes spill loads").replace("0 bytes stack", "16 bytes stack")
        self.assertEqual(audit.audit_log(spilled)[0], ["ptxas: 16 bytes stack frame", "ptxas: 24 bytes spill loads"])
        serialized = "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
        self.assertEqual(audit.audit_log(clean + serialized)[0], [serialized.strip()])

    def test_layouts(self):
        line = "  line   38  local_store  buffer<f16[128, 32], 1, smem> 2 bytes an access    {} wavefronts, minimum 1\n"
        self.assertEqual(audit.audit_layouts(line.format(1))[0], [])
        findings, report = audit.audit_layouts(line.format(1) + line.format(2))
        self.assertEqual(len(findings), 1)
        self.assertIn("line 38 local_store", findings[0])
        self.assertEqual(report, ["2 shared accesses by registers, 1 at the minimum of wavefronts"])


class Command(unittest.TestCase):
    def run_audit(self, *arguments, **environment):
        done = subprocess.run([sys.executable, str(ROOT / "tools" / "audit.py"), *arguments], capture_output=True, text=True,
                              env={**os.environ, "TLX_TLXC": TLXC, **environment})
        return done.returncode, done.stdout + done.stderr

    def test_kernel(self):
        status, out = self.run_audit("vector_add")
        self.assertEqual(status, 0, out)
        self.assertIn("vector_add sm_90a\n", out)
        self.assertIn("2 kernels, 0 findings", out)
        self.assertTrue("skipped: no ptxas" in out or "0 bytes spill loads" in out, out)

    def test_rules(self):
        status, out = self.run_audit("softmax", "--target", "sm_80", TLX_PTXAS="/nonexistent")
        self.assertIn("softmax sm_80 BLOCK=1024 WARPS=1 T=f16", out)
        self.assertIn("softmax_long sm_80", out)
        status, out = self.run_audit("softmax", "--kernel", "none")
        self.assertEqual(status, 2, out)

    def test_failure(self):
        status, out = self.run_audit("vector_add", "-D", "NOTHING=1")
        self.assertEqual(status, 2, out)
        self.assertIn("NOTHING", out)


if __name__ == "__main__":
    unittest.main()
