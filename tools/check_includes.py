#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the include table of docs/architecture.md: which folder of src/ may include which. The table is not transitive."""
import pathlib
import re
import sys

LLVM_SUPPORT = ("llvm/ADT/", "llvm/Support/")
TABLE = {
    "support": [],
    "lang": ["support", "layout", "ir"],
    "layout": ["support"],
    "ir": ["support", "layout"],
    "features": ["support", "layout"],
    "passes": ["support", "ir", "layout", "features"],
    "device_ops": ["support"],
    "codegen": ["support", "ir", "layout", "features", "device_ops"],
    "target": ["support", "device_ops", "features"],
    "sim": ["support", "layout", "device_ops", "features"],
    "compiler": ["support", "lang", "layout", "ir", "features", "passes", "device_ops", "codegen", "target", "sim"],
    "runtime": ["support", "sim", "compiler", "features"],
}
# Folders that may use LLVM beyond Support and ADT.
LLVM = {"device_ops", "codegen", "target", "sim", "compiler", "runtime"}
FOLDERS = set(TABLE)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    bad = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        folder = path.relative_to(root / "src").parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            if not m:
                continue
            name = m.group(1)
            first = name.split("/")[0]
            where = f"{path.relative_to(root)}:{number}"
            if first in FOLDERS and first != folder and first not in TABLE[folder]:
                bad.append(f"{where}: src/{folder} may not include {name}")
            if first == "llvm" and folder not in LLVM and not name.startswith(LLVM_SUPPORT):
                bad.append(f"{where}: src/{folder} may include only LLVM's Support and ADT, not {name}")
            if folder == "support" and first == "tlxjit":
                bad.append(f"{where}: src/support includes nothing of the public headers")
    for path in sorted((root / "tools" / "tlxc").glob("*")):
        if path.suffix in (".h", ".cpp"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                if m and m.group(1).split("/")[0] in FOLDERS | {"llvm"}:
                    bad.append(f"{path.relative_to(root)}:{number}: tlxc uses the C ABI only, not {m.group(1)}")
    print("\n".join(bad) if bad else "include table: ok")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
