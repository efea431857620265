// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The promotion table of the language: what two operands of different number types become. docs/language.md holds the
// table that `promotionTable` prints.
#pragma once
#include <string>

#include "ir/types.h"

namespace tlx::lang {

struct Promotion {
  enum Outcome : uint8_t {
    Ok,
    BoolMix,   ///< i1 with a number
    SignMix,   ///< signed with unsigned
    KindMix,   ///< integer with float
    FormatMix, ///< two float formats of one width
  } outcome = Ok;
  ir::Scalar type{}; ///< if Ok
};

/// Within a kind the wider wins; all else is an error for the user to decide.
Promotion promote(ir::Scalar a, ir::Scalar b);

/// A Markdown table of `promote` over all types.
std::string promotionTable();

} // namespace tlx::lang
