// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow, by meaning: the IR of a kernel is interpreted, and what it stores is compared with the same loops in
// C++. Scalars only, which is all that control flow sees.
#include "elaborate_testing.h"

using namespace tlx;
using namespace elaboration;

namespace {

/// Runs scalar IR. A pointer is the index of an element of a small memory, which is read as `index % 5` and records
/// what is stored.
class Interpreter {
public:
  explicit Interpreter(const ir::Module &module) : module(module) {}

  std::vector<std::pair<int64_t, int64_t>> run(int64_t n) {
    values.clear(), stores.clear(), steps = 0;
    for (unsigned i = 0; i < module.kernel.body.numArgs(); ++i) {
      ir::Value *arg = module.kernel.body.arg(i);
      values[arg] = arg->type.isPointer() ? 0 : n;
    }
    block(module.kernel.body);
    return stores;
  }

private:
  using Values = std::vector<int64_t>;
  int64_t at(ir::Value *v) {
    REQUIRE(values.count(v));
    return values[v];
  }
  Values operands(const ir::Op &op, unsigned from = 0) {
    Values out;
    for (unsigned i = from; i < op.numOperands(); ++i) out.push_back(at(op.operand(i)));
    return out;
  }
  void bind(const ir::Block &b, const Values &args, unsigned from = 0) {
    REQUIRE(b.numArgs() == args.size() + from);
    for (unsigned i = 0; i < args.size(); ++i) values[b.arg(i + from)] = args[i];
  }
  void results(ir::Op &op, const Values &v) {
    REQUIRE(op.numResults() == v.size());
    for (unsigned i = 0; i < v.size(); ++i) values[op.result(i)] = v[i];
  }
  static int64_t wrap(int64_t v, ir::Type t) {
    switch (ir::scalarBits(t.scalar())) {
    case 1:
      return v & 1;
    case 32:
      return int32_t(v);
    default:
      return v;
    }
  }
  static int64_t floorDiv(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }

  /// The operands of the terminator.
  Values block(const ir::Block &b) {
    for (ir::Op &op : b) {
      REQUIRE(++steps < 100000);
      if (op.is(ir::Opcode::Yield) || op.is(ir::Opcode::Condition)) return operands(op);
      if (op.is(ir::Opcode::Return)) return {};
      execute(op);
    }
    FAIL("a block without a terminator");
    return {};
  }

  void execute(ir::Op &op) {
    using O = ir::Opcode;
    auto a = [&] { return at(op.operand(0)); };
    auto c = [&] { return at(op.operand(1)); };
    auto set = [&](int64_t v) { values[op.result()] = op.result()->type.isPointer() ? v : wrap(v, op.result()->type); };
    switch (op.opcode) {
    case O::Constant:
      set(op.result()->type.isFloatLike() ? int64_t(op.floatAttr(ir::Attr::value)) : op.intAttr(ir::Attr::value));
      break;
    case O::Add:
    case O::AddPtr:
      set(a() + c());
      break;
    case O::Sub:
      set(a() - c());
      break;
    case O::Mul:
      set(a() * c());
      break;
    case O::DivFloor:
      set(floorDiv(a(), c()));
      break;
    case O::ModFloor:
      set(a() - floorDiv(a(), c()) * c());
      break;
    case O::CeilDiv:
      set(-floorDiv(-a(), c()));
      break;
    case O::And:
      set(a() & c());
      break;
    case O::Or:
      set(a() | c());
      break;
    case O::Xor:
      set(a() ^ c());
      break;
    case O::Neg:
      set(-a());
      break;
    case O::Cast:
    case O::Bitcast:
      set(a());
      break;
    case O::Select:
      set(a() ? c() : at(op.operand(2)));
      break;
    case O::Load:
      set(a() % 5);
      break;
    case O::Store:
      stores.emplace_back(a(), c());
      break;
    case O::Cmp: {
      int64_t x = a(), y = c();
      const bool table[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
      set(table[op.intAttr(ir::Attr::pred)]);
      break;
    }
    case O::If:
      results(op, block(op.body(a() ? 0 : 1)));
      break;
    case O::For: {
      Values carried = operands(op, 3);
      for (int64_t i = a(); i < c(); i += at(op.operand(2))) {
        values[op.body().arg(0)] = i;
        bind(op.body(), carried, 1);
        carried = block(op.body());
      }
      results(op, carried);
      break;
    }
    case O::While: {
      Values carried = operands(op);
      while (true) {
        bind(op.body(0), carried);
        Values test = block(op.body(0));
        carried.assign(test.begin() + 1, test.end());
        if (!test[0]) break;
        bind(op.body(1), carried);
        carried = block(op.body(1));
      }
      results(op, carried);
      break;
    }
    default:
      REQUIRE_MESSAGE(false, op.info().name);
    }
  }

  const ir::Module &module;
  std::map<const ir::Value *, int64_t> values;
  std::vector<std::pair<int64_t, int64_t>> stores;
  unsigned steps = 0;
};

/// What the C++ form of a kernel stores: out(index, value).
using Out = std::function<void(int64_t, int64_t)>;

int64_t memory(int64_t i) {
  return i % 5;
}

void same(const std::string &statements, const std::function<void(int64_t, const Out &)> &expected) {
  // Stores take an i32 value here: a pointer to i32 and a kernel of its own.
  std::string text = "kernel k(p: *i32, n: i32) {\n" + statements + R"(
}
fn find(p, n) { for i in range(1, n) { if load(p + i) == 0 { return i; } } return -1; }
fn first(n) { for i in range(0, n) { for j in range(0, n) { if i * j > 6 { return (i, j); } } } return (n, n); }
fn search(n) {
    var i = 0;
    while true { if i * i >= n { return i; } i += 1; }
}
fn twice_at(n) {
    if n > 4 { if n > 6 { return 100; } }
    for i in range(0, n) { if i == 2 { return i; } }
    return -5;
}
)";
  Elaborated e(text);
  REQUIRE_MESSAGE(e.module, e.diags.render(e.sources));
  for (int64_t n : {-3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 13}) {
    std::vector<std::pair<int64_t, int64_t>> want;
    expected(n, [&](int64_t i, int64_t v) { want.emplace_back(i, v); });
    CAPTURE(statements);
    CAPTURE(n);
    CHECK(Interpreter(*e.module).run(n) == want);
  }
}

} // namespace

TEST_SUITE_BEGIN("elaborated control flow");

TEST_CASE("branches merge variables") {
  same("var x = 0; if n > 3 { x = 1; } else { x = 2; } store(p + x, n);",
       [](int64_t n, const Out &out) { out(n > 3 ? 1 : 2, n); });
  same("var (x, y) = (1, 2); if n > 3 { (x, y) = (y, x); } store(p + x, y);",
       [](int64_t n, const Out &out) { n > 3 ? out(2, 1) : out(1, 2); });
  same("var x = 0; if n > 5 { x = 1; } else if n > 2 { if n == 4 { x = 2; } } else { x = 3; } store(p + x, n);",
       [](int64_t n, const Out &out) {
         out(n > 5 ? 1 : n > 2 ? (n == 4 ? 2 : 0) : 3, n);
       });
}

TEST_CASE("loops carry variables") {
  same("var x = 0; for i in range(0, n) { x += i; } store(p, x);", [](int64_t n, const Out &out) {
    int64_t x = 0;
    for (int64_t i = 0; i < n; ++i) x += i;
    out(0, x);
  });
  same("var (a, b) = (0, 1); for _ in range(0, n) { (a, b) = (b, a + b); } store(p, a);",
       [](int64_t n, const Out &out) {
         int64_t a = 0, b = 1;
         for (int64_t i = 0; i < n; ++i) {
           int64_t t = a + b;
           a = b, b = t;
         }
         out(0, a);
       });
  same("for i in range(n, 0, -2) { store(p + i, i); }", [](int64_t n, const Out &out) {
    for (int64_t i = n; i > 0; i -= 2) out(i, i);
  });
  same("for i in range(1, 10, n) { store(p + i, i); }", [](int64_t n, const Out &out) {
    for (int64_t i = 1; n > 0 && i < 10; i += n) out(i, i);
  });
  same("for i in range(0, n, 3) { if i == 6 { break; } store(p + i, i); }", [](int64_t n, const Out &out) {
    for (int64_t i = 0; i < n && i != 6; i += 3) out(i, i);
  });
  same("for i in range(2147483640, 2147483647, 4) { if n < 0 { break; } store(p, i); }", [](int64_t n, const Out &out) {
    for (int64_t i = 2147483640; n >= 0 && i < 2147483647; i += 4) out(0, i);
  });
  same("var hi = n; for i in range(0, hi) { hi = 0; store(p + i, hi); }", [](int64_t n, const Out &out) {
    for (int64_t i = 0; i < n; ++i) out(i, 0); // bounds are read once
  });
}

TEST_CASE("break and continue") {
  same("var x = 0; for i in range(0, n) { if i == 3 { continue; } x += i; store(p + i, x); } store(p, x);",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         for (int64_t i = 0; i < n; ++i) {
           if (i == 3) continue;
           x += i;
           out(i, x);
         }
         out(0, x);
       });
  same("var x = 0; for i in range(0, n) { if i == 3 { x = 50; break; } x += i; } store(p, x);",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         for (int64_t i = 0; i < n; ++i) {
           if (i == 3) {
             x = 50;
             break;
           }
           x += i;
         }
         out(0, x);
       });
  same(R"(var x = 0;
for i in range(0, n) {
    if i > 2 { if i > 4 { break; } x = 1; } else { if i == 1 { continue; } x = 5; }
    x += 1;
    store(p + i, x);
}
store(p, x);)",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         for (int64_t i = 0; i < n; ++i) {
           if (i > 2) {
             if (i > 4) break;
             x = 1;
           } else {
             if (i == 1) continue;
             x = 5;
           }
           x += 1;
           out(i, x);
         }
         out(0, x);
       });
  same("var x = 0; while x < n { x += 1; if load(p + x) == 4 { break; } if x == 2 { continue; } store(p + x, x); }",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         while (x < n) {
           x += 1;
           if (memory(x) == 4) break;
           if (x == 2) continue;
           out(x, x);
         }
       });
  same("var x = 1; while true { x = x * 2; if x > n { break; } } store(p, x);", [](int64_t n, const Out &out) {
    int64_t x = 1;
    do x *= 2;
    while (x <= n);
    out(0, x);
  });
  same(R"(var x = 0;
for i in range(0, n) {
    var y = i;
    while y > 0 { if y == 5 { break; } y = y / 2; x += 1; }
    if x > 6 { break; }
}
store(p, x);)",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         for (int64_t i = 0; i < n; ++i) {
           int64_t y = i;
           while (y > 0) {
             if (y == 5) break;
             y /= 2, x += 1;
           }
           if (x > 6) break;
         }
         out(0, x);
       });
  same("for i in range(0, n) { break; store(p, i); }", [](int64_t, const Out &) {});
}

TEST_CASE("static for") {
  same("static for i in range(0, 3) { store(p + i, n); }", [](int64_t n, const Out &out) {
    for (int64_t i = 0; i < 3; ++i) out(i, n);
  });
  same(R"(var x = 0;
static for i in range(5, 0, -1) { if n == i { break; } if i == 3 { continue; } x += i; store(p + i, x); }
store(p, x);)",
       [](int64_t n, const Out &out) {
         int64_t x = 0;
         for (int64_t i = 5; i > 0; --i) {
           if (n == i) break;
           if (i == 3) continue;
           x += i;
           out(i, x);
         }
         out(0, x);
       });
  same("static for i in range(0, 4) { if i == 2 { break; } store(p + i, n); }",
       [](int64_t n, const Out &out) { out(0, n), out(1, n); });
}

TEST_CASE("early return") {
  same("if n > 3 { return; } store(p, n);", [](int64_t n, const Out &out) {
    if (n <= 3) out(0, n);
  });
  same("var x = 0; if n > 1 { if n > 2 { return; } x = 1; } else { x = 5; } store(p + x, n);",
       [](int64_t n, const Out &out) {
         if (n <= 2) out(n > 1 ? 1 : 5, n);
       });
  same("for i in range(0, n) { for j in range(0, n) { if i * j == 6 { return; } store(p + j, i); } store(p + i, -1); } "
       "store(p, 9);",
       [](int64_t n, const Out &out) {
         for (int64_t i = 0; i < n; ++i) {
           for (int64_t j = 0; j < n; ++j) {
             if (i * j == 6) return;
             out(j, i);
           }
           out(i, -1);
         }
         out(0, 9);
       });
  same("if n > 1 { if n > 5 { return; } store(p, 7); } for i in range(0, n) { if i > 2 { return; } store(p + i, i); } "
       "store(p, 8);",
       [](int64_t n, const Out &out) {
         if (n > 1) {
           if (n > 5) return;
           out(0, 7);
         }
         for (int64_t i = 0; i < n; ++i) {
           if (i > 2) return;
           out(i, i);
         }
         out(0, 8);
       });
}

TEST_CASE("functions return early") {
  same("store(p, find(p, n));", [](int64_t n, const Out &out) { out(0, n > 5 ? 5 : -1); });
  same("let (i, j) = first(n); store(p + i, j);", [](int64_t n, const Out &out) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (i * j > 6) return out(i, j);
    out(n, n);
  });
  same("store(p, search(n));", [](int64_t n, const Out &out) {
    int64_t i = 0;
    while (i * i < n) ++i;
    out(0, i);
  });
  same("store(p, twice_at(n));", [](int64_t n, const Out &out) { out(0, n > 6 ? 100 : n > 2 ? 2 : -5); });
  // Two calls in one expression do not disturb each other.
  same("store(p, find(p, n) + twice_at(n) * 1000);", [](int64_t n, const Out &out) {
    out(0, (n > 5 ? 5 : -1) + (n > 6 ? 100 : n > 2 ? 2 : -5) * 1000);
  });
}

TEST_CASE("&& and || skip their right side") {
  same("if n > 2 && load(p + n) == 3 { store(p, 1); } if n < 2 || load(p + n) == 1 { store(p, 2); }",
       [](int64_t n, const Out &out) {
         if (n > 2 && memory(n) == 3) out(0, 1);
         if (n < 2 || memory(n) == 1) out(0, 2);
       });
  Elaborated e("kernel k(p: *i32, n: i32) { if n > 2 && load(p + n) == 3 { store(p, 1); } }");
  REQUIRE(e.module);
  bool guarded = false;
  e.module->kernel.body.walk([&](ir::Op &op) {
    if (op.is(ir::Opcode::Load)) guarded = op.parentOp() && op.parentOp()->is(ir::Opcode::If);
  });
  CHECK(guarded);
}

TEST_SUITE_END();
