// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Only here to carry the precompiled header.
