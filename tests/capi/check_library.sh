#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# check_library.sh LIBRARY SOURCE_DIR: the exported symbols are the checked-in list, which is what the header declares; the library
# depends on no LLVM and on no C++ runtime of the application's.
set -euo pipefail
library=$1
source=$2
export LC_ALL=C
exported=$("${NM:-nm}" -D --defined-only "$library" | awk '{print $NF}' | sort -u)
if ! diff <(echo "$exported") "$source/capi/exports.txt"; then
  echo "the exported symbols (<) differ from capi/exports.txt (>)"
  exit 1
fi
declared=$(grep '^TLX_API' "$source/include/tlxjit/tlx.h" | grep -o 'tlx_[a-z0-9_]*(' | tr -d '(' | sort -u)
if ! diff <(echo "$declared") "$source/capi/exports.txt"; then
  echo "the functions of tlx.h (<) differ from capi/exports.txt (>)"
  exit 1
fi
needed=$("${READELF:-readelf}" -d "$library")
forbidden='libLLVM|libcuda|libamdhip64'
[ -n "${TLX_TEST_ASAN:-}" ] || forbidden="$forbidden|libstdc\+\+|libgcc_s"
if echo "$needed" | grep -E "NEEDED.*($forbidden)" ||
  ldd "$library" | grep -E "$forbidden"; then
  echo "the library must not need these"
  exit 1
fi
if ! echo "$needed" | grep -q 'SONAME.*libtlxjit.so.0'; then
  echo "the SONAME is not libtlxjit.so.0"
  exit 1
fi
echo "$(echo "$exported" | wc -l) exported symbols"
