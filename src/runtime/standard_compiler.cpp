// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The service's link to the compiler, in a file of its own: a program that brings another compiler (a test) does not link ours.
#include "runtime/compile_service.h"

namespace tlx::runtime {

CompilerFunctions CompilerFunctions::standard() {
  return {tlx::compile, tlx::canonicalKey};
}

} // namespace tlx::runtime
