// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong text and the whole of what is said about it: "line:column-end message" for each error, and no other. Columns
// count bytes from 1; the end is one past the last.
#include "syntax_testing.h"

using namespace tlx;
using namespace tlx::lang;

namespace {
struct Wrong {
  const char *text;
  std::vector<std::string> errors;
};
} // namespace

TEST_SUITE_BEGIN("syntax errors");

// clang-format off
// Each stands on line 2, inside "kernel k() {" … "}".
TEST_CASE("statements and expressions") {
  const Wrong table[] = {
    {R"(let x = 1
let y = 2;)",
     {R"(2:10-11 expected ';' after this)"}},
    {R"(let q = n // 4;
let r = q;)",
     {R"(2:10-11 expected ';' after this; '//' starts a comment, and '/' on integers rounds down already)"}},
    {R"(store(p, n // 2);
let r = 3;)",
     {R"(3:1-4 expected ',' or ')', found 'let'; '//' starts a comment, and '/' on integers rounds down already)"}},
    {R"(let x = a and b;)",
     {R"(2:11-14 write '&&' for 'and')"}},
    {R"(let x = not a;)",
     {R"(2:9-12 write '!' for 'not')"}},
    {R"(if a or b { f(); }
g();)",
     {R"(2:6-8 write '||' for 'or')"}},
    {R"(let x = a if c else b;)",
     {R"(2:11-13 there is no conditional expression: use where(condition, a, b), or an 'if' statement)"}},
    {R"(let x = c ? a : b;)",
     {R"(2:11-12 there is no conditional expression: use where(condition, a, b), or an 'if' statement)"}},
    {R"(let x = a ** 2;)",
     {R"(2:11-13 there is no '**' operator: multiply, or use exp2 and log2)"}},
    {R"(i++;)",
     {R"(2:2-4 there is no '++' operator: write 'x += 1')"}},
    {R"(++i;)",
     {R"(2:1-2 expected an expression, found '+')"}},
    {R"(x := 3;)",
     {R"(2:3-5 write '=' for ':=')"}},
    {R"(let x := 3;)",
     {R"(2:7-9 write '=' for ':=')"}},
    {R"(let x: f32 = 0;)",
     {R"(2:6-7 types are inferred: leave out ': f32', or convert the value with .to(f32))"}},
    {R"(let x: float = 0;)",
     {R"(2:6-7 types are inferred: leave out ': f32', or convert the value with .to(f32))"}},
    {R"(var x;)",
     {R"(2:6-7 'var' needs a value: write 'var x = …;')"}},
    {R"(let mut x = 3;)",
     {R"(2:5-8 write 'var' for 'let mut')"}},
    {R"(let a, b = f();)",
     {R"(2:6-7 a tuple stands in parentheses: (a, b))"}},
    {R"(return a, b;)",
     {R"(2:9-10 a tuple stands in parentheses: (a, b))"}},
    {R"(int x = 3;)",
     {R"(2:1-4 write 'let x = …' for a value or 'var x = …' for a variable; types are inferred)"}},
    {R"(auto x = 3;)",
     {R"(2:1-5 write 'let x = …' for a value or 'var x = …' for a variable; types are inferred)"}},
    {R"(if x == 3: f();
g();)",
     {R"(2:10-11 a block stands in braces, not after ':')"}},
    {R"(if x = 3 { f(); }
g();)",
     {R"(2:6-7 '=' does not stand inside an expression: '==' compares)"}},
    {R"(if (x) f();
g();)",
     {R"(2:8-9 the body of 'if' stands in braces: expected '{', found 'f')"}},
    {R"(if (x) return; else f();
g();)",
     {R"(2:8-14 the body of 'if' stands in braces: expected '{', found 'return')",
      R"(2:21-22 the body of 'else' stands in braces: expected '{', found 'f')"}},
    {R"(if (x) f(); else g();
h();)",
     {R"(2:8-9 the body of 'if' stands in braces: expected '{', found 'f')",
      R"(2:18-19 the body of 'else' stands in braces: expected '{', found 'g')"}},
    {R"(if x { f(); } elif y { g(); }
h();)",
     {R"(2:15-19 write 'else if' for 'elif')"}},
    {R"(else { f(); }
g();)",
     {R"(2:1-5 this 'else' belongs to no 'if')"}},
    {R"(for (int i = 0; i < n; ++i) { f(); }
g();)",
     {R"(2:5-6 a loop is written 'for i in range(lo, hi, step) { … }')"}},
    {R"(for i in n { f(); }
g();)",
     {R"(2:10-11 a loop is written 'for i in range(lo, hi, step) { … }')"}},
    {R"(for i in range(0, 1, 2, 3) { f(); }
g();)",
     {R"(2:15-27 range takes 1 to 3 bounds (lo, hi, step), not 4)"}},
    {R"(for i in tl.static_range(4) { f(); }
g();)",
     {R"(2:10-12 a loop that is unrolled is written 'static for i in range(…)')"}},
    {R"(for i in tl.range(4) { f(); })",
     {R"(2:10-12 an operation has no prefix: write 'range' for 'tl.range')"}},
    {R"(for i in range(4): { f(); })",
     {R"(2:18-19 a block stands in braces, not after ':')"}},
    {R"(x == 3;)",
     {R"(2:1-7 this statement has no effect: '==' compares, '=' assigns)"}},
    {R"(x + 1;)",
     {R"(2:1-6 this statement has no effect: only a call stands alone)"}},
    {R"(x[0] = 3;)",
     {R"(2:1-5 an element cannot be assigned: use store, local_store, or where for a new tile)"}},
    {R"(f(x) = 3;)",
     {R"(2:1-5 only a variable, or a tuple of variables, can be assigned)"}},
    {R"((a, (b, c)) = f();)",
     {R"(2:1-12 only a variable, or a tuple of variables, can be assigned)"}},
    {R"(let (a) = f();)",
     {R"(2:5-8 a tuple of names is flat and has at least two: (a, b))"}},
    {R"(let (a, a) = f();)",
     {R"(2:9-10 'a' is named twice)"}},
    {R"((a, b) += 3;)",
     {R"(2:8-10 '+=' needs one variable on its left)"}},
    {R"(let x = (a,);)",
     {R"(2:9-13 a tuple has at least two elements)"}},
    {R"(let x = ();)",
     {R"(2:9-11 a tuple has at least two elements)"}},
    {R"(let x = _;)",
     {R"(2:9-10 '_' only discards a value; it has none)"}},
    {R"(let x = a < b < c;)",
     {R"(2:15-16 comparisons do not chain: write a < b && b < c)"}},
    {R"(let x = f(1)(2);)",
     {R"(2:13-14 only a name can be called)"}},
    {R"(let x = a[0:4];)",
     {R"(2:12-13 there are no slices: use local_slice(buffer, offsets, shape))"}},
    {R"(let x = a[:4];)",
     {R"(2:12-13 there are no slices: use local_slice(buffer, offsets, shape))"}},
    {R"(let x = a[];)",
     {R"(2:11-12 expected an expression, found ']')"}},
    {R"(let x = *p;)",
     {R"(2:9-10 '*' does not dereference a pointer: use load(p) and store(p, value))"}},
    {R"(let x = &p;)",
     {R"(2:9-10 there is no '&' operator on one operand: a pointer comes from an argument)"}},
    {R"(let x = (float) y;)",
     {R"(2:17-18 a conversion is written x.to(f32))"}},
    {R"(let x = tl.arange(0, 4);)",
     {R"(2:9-18 an operation has no prefix: write 'arange' for 'tl.arange')"}},
    {R"(let x = tl.float32;)",
     {R"(2:9-19 an operation has no prefix: write 'f32' for 'tl.float32')"}},
    {R"(let x = True;)",
     {R"(2:9-13 write 'true' for 'True')"}},
    {R"(with tlx.async_tasks() { f(); }
g();)",
     {R"(2:1-5 there is no 'with': write 'async_tasks { async_task(…) { … } }')",
      R"(2:26-27 only 'async_task' stands directly inside 'async_tasks', and 'if' around one)"}},
    {R"(break;)",
     {R"(2:1-6 'break' stands outside a loop)"}},
    {R"(async_task(default) { })",
     {R"(2:1-11 'async_task' stands only directly inside 'async_tasks { … }')"}},
    {R"(async_tasks { let x = 3; async_task(default) { return; } })",
     {R"(2:15-18 only 'async_task' stands directly inside 'async_tasks', and 'if' around one)",
      R"(2:48-54 'return' cannot leave a task)"}},
    {R"(async_tasks { async_task(default) { break; } async_task(4) { } async_task("default") { } })",
     {R"(2:37-42 'break' cannot leave a task)",
      R"(2:57-58 async_task, after 'default', takes only 'name = value')",
      R"(2:75-84 write 'default' for '"default"')"}},
    {R"(for i in range(4) { async_tasks { async_task(default) { for j in range(3) { break; } continue; } } })",
     {R"(2:86-94 'continue' cannot leave a task)"}},
    {R"(async_tasks(exclusive) { })",
     {R"(2:13-22 async_tasks takes only 'name = value')"}},
    {R"(f(a = 1, 2);)",
     {R"(2:10-11 a positional argument cannot follow a named one)"}},
    {R"(f(a = 1, a = 2);)",
     {R"(2:10-11 'a' is named twice)"}},
    {R"(f(a b);)",
     {R"(2:5-6 expected ',' or ')', found 'b')"}},
    {R"(f(a, b;
g();)",
     {R"(2:7-8 expected ',' or ')', found ';')"}},
    {R"(let x = [1, 2;)",
     {R"(2:14-15 expected ',' or ']', found ';')"}},
    {R"(let x = (1 + 2;)",
     {R"(2:15-16 expected ',' or ')', found ';')"}},
    {R"(f(a == 3, b[1] = 2);)",
     {R"(2:16-17 '=' does not stand inside an expression: '==' compares)"}},
    {R"(let x = 1.;)",
     {R"(2:9-11 malformed number '1.': write a digit after the point)"}},
    {R"(let x = .5;)",
     {R"(2:9-11 malformed number '.5': write a digit before the point)"}},
    {R"(let x = 1.0f;)",
     {R"(2:9-13 malformed number '1.0f': a literal has no suffix; it adapts to its use, and .to(T) converts)"}},
    {R"(let x = 10u + 0x + 0b12 + 0xfg + 1__0 + 017;)",
     {R"(2:9-12 malformed number '10u': a literal has no suffix; it adapts to its use, and .to(T) converts)",
      R"(2:15-17 malformed number '0x': digits are missing)",
      R"(2:20-24 malformed number '0b12': a binary number has the digits 0 and 1)",
      R"(2:27-31 malformed number '0xfg': a hexadecimal number has the digits 0-9 and a-f)",
      R"(2:34-38 malformed number '1__0': '_' stands between two digits)",
      R"(2:41-44 malformed number '017': a decimal number does not start with 0)"}},
    {R"(let x = 18446744073709551616;)",
     {R"(2:9-29 the integer 18446744073709551616 does not fit in 64 bits)"}},
    {R"(let x = 1e999;)",
     {R"(2:9-14 the number 1e999 is outside the range of f64)"}},
    {R"(let s = "abc;
let y = 3;)",
     {R"(2:9-10 this string has no closing '"' on its line)"}},
    {R"(let s = "a\qb";)",
     {R"(2:11-13 unknown escape in a string: it may hold \n, \r, \t, \0, \", \\ and \xNN)"}},
    {R"(let s = 'abc';)",
     {R"(2:9-10 a string stands in double quotes, not in single ones)"}},
    {R"(# comment
let x = 3;)",
     {R"(2:1-2 a comment starts with '//', not with '#')"}},
    {R"(let x = a @ b;)",
     {R"(2:11-12 unexpected character '@')"}},
    {R"(let é = 3;)",
     {R"(2:5-7 unexpected character 'é')"}},
    {R"(let in = 3;)",
     {R"(2:5-7 'in' is a keyword and cannot be a name)"}},
    {R"(let 3 = x;)",
     {R"(2:5-6 expected a name, found '3')"}},
    {R"(const N = 3;)",
     {R"(2:1-6 'const' stands only at the top of a file: write 'let N = …', which is compile-time too if its value is)"}},
    {R"(static if x { })",
     {R"(2:8-10 only 'for' is marked 'static'; an 'if' on a compile-time condition is decided at compile time by itself)"}},
    {R"(let x = a => b;)",
     {R"(2:11-13 write '>=' for '=>')"}},
    {R"(let x = a <> b;)",
     {R"(2:11-13 write '!=' for '<>')"}},
    {R"(let x = a === b;)",
     {R"(2:11-14 write '==' for '===')"}},
    {R"(if a =< b { })",
     {R"(2:6-8 write '<=' for '=<')"}},
    {R"(let x = p->y;)",
     {R"(2:10-12 write '.' for '->')"}},
    {R"(let x = ;
let y = * ;
let z = 3 4;)",
     {R"(2:9-10 expected an expression, found ';')",
      R"(3:9-10 '*' does not dereference a pointer: use load(p) and store(p, value))",
      R"(4:11-12 expected ';', found '4')"}},
    {R"(fn g(x) { return x; }
f();)",
     {R"(2:1-3 'fn' stands only at the top of a file: a '}' is missing before it)"}},
    {R"(pass;)",
     {R"(2:1-5 this statement has no effect: only a call stands alone)"}},
    {R"(def f(x): return 3;)",
     {R"(2:1-4 'def' stands only at the top of a file: move it out of this block)"}},
    {R"(while True { f(); })",
     {R"(2:7-11 write 'true' for 'True')"}},
    {R"(x.3;)",
     {R"(2:3-4 expected the name of a method after '.', found '3')"}},
    {R"(/* never closed)",
     {R"(2:1-3 this comment is never closed: its '*/' is missing)"}},
    {R"({ f();)",
     {R"(1:12-13 this '{' is never closed)"}},
    {R"(f();
}
g();)",
     {R"(4:1-2 a statement stands only inside a kernel or a function)"}},
    {R"(let x = +3;)",
     {R"(2:9-10 expected an expression, found '+')"}},
    {R"(let x = a--b;)",
     {R"(2:10-12 there is no '--' operator: write 'x -= 1')"}},
    {R"(else x = 3;)",
     {R"(2:1-5 this 'else' belongs to no 'if')"}},
    {R"(let x = f(a // one
  b);)",
     {R"(3:3-4 expected ',' or ')', found 'b'; '//' starts a comment, and '/' on integers rounds down already)"}},
    {R"(if x { f(); } else g();
h();)",
     {R"(2:20-21 the body of 'else' stands in braces: expected '{', found 'g')"}},
    {R"(if { f(); })",
     {R"(2:4-5 expected an expression, found '{')"}},
    {R"(for i range(3) { f(); })",
     {R"(2:7-12 expected 'in', found 'range')"}},
    {R"(while (a) while (b) f();)",
     {R"(2:11-16 the body of 'while' stands in braces: expected '{', found 'while')",
      R"(2:21-22 the body of 'while' stands in braces: expected '{', found 'f')"}},
    {R"(let x = -3 - ++y;)",
     {R"(2:14-16 there is no '++' operator: write 'x += 1')"}},
    {R"(let x = 0x1_0000_0000_0000_0000;)",
     {R"(2:9-32 the integer 0x1_0000_0000_0000_0000 does not fit in 64 bits)"}},
    {R"(let x = a is b;)",
     {R"(2:11-13 write '==' for 'is')"}},
    {R"(let x = f(a =< b);)",
     {R"(2:13-15 write '<=' for '=<')"}},
    {R"(let x = a < b == c;)",
     {R"(2:15-17 comparisons do not chain: write a < b && b < c)"}},
    {R"(f(x)[0] += 2;)",
     {R"(2:1-8 an element cannot be assigned: use store, local_store, or where for a new tile)"}},
    {R"(let s = f("ok", "\x4g");)",
     {R"(2:18-20 unknown escape in a string: it may hold \n, \r, \t, \0, \", \\ and \xNN)"}},
    {R"(let x = $a;
let y = ;)",
     {R"(2:9-10 unexpected character '$')",
      R"(3:9-10 expected an expression, found ';')"}},
    {R"(x = y = 3;)",
     {R"(2:7-8 '=' does not stand inside an expression: '==' compares)"}},
    {R"(return;
return a b;)",
     {R"(3:10-11 expected ';', found 'b')"}},
    {R"(while x = 3 { f(); })",
     {R"(2:9-10 '=' does not stand inside an expression: '==' compares)"}},
    {R"(let x = y +
let z = 4;)",
     {R"(3:1-4 expected an expression, found 'let')"}},
    {R"(foo(a, b) c;)",
     {R"(2:11-12 expected ';', found 'c')"}},
    {R"(let x = [1, 2](3);)",
     {R"(2:15-16 only a name can be called)"}},
    {R"(continue)",
     {R"(2:1-9 'continue' stands outside a loop)",
      R"(2:9-10 expected ';' after this)"}},
  };
  for (const Wrong &wrong : table) {
    CAPTURE(wrong.text);
    CHECK(syntax::errorsIn(syntax::inKernel(wrong.text)) == wrong.errors);
  }
}

TEST_CASE("files, kernels and functions") {
  const Wrong table[] = {
    {R"(kernel k<A: i32 = 2 < 3>() { })",
     {R"(1:21-22 a default holds no bare '<': put it in parentheses)"}},
    {R"(kernel k<A: i32 = 2 > 3>() { })",
     {R"(1:21-22 expected '(' after the parameters (a '>' in a default stands in parentheses), found '3')"}},
    {R"(kernel k<A: i32 = 2 >> 1>() { })",
     {R"(1:21-23 a default holds no bare '>>': put it in parentheses)"}},
    {R"(kernel k<A: i32, A: f32>(A: i32) { })",
     {R"(1:18-19 'A' is named twice)",
      R"(1:26-27 'A' is named twice)"}},
    {R"(kernel k<A>() { })",
     {R"(1:10-11 'A' needs a type: write 'A: i32', 'A: *f16', …)"}},
    {R"(kernel k(x) { })",
     {R"(1:10-11 'x' needs a type: write 'x: i32', 'x: *f16', …)"}},
    {R"(kernel k(float *x, int n) { })",
     {R"(1:10-15 an argument is written 'name: type')"}},
    {R"(kernel k(x: float32, y: *tl.float16, z: float*) { })",
     {R"(1:13-20 write 'f32' for 'float32')",
      R"(1:26-36 write 'f16' for 'tl.float16')",
      R"(1:41-46 write '*f32' for 'float*')"}},
    {R"(kernel k(x: i32 = 3) { })",
     {R"(1:17-18 an argument in ( ) has no default; a compile-time parameter in < > may have one)"}},
    {R"(kernel k(const x: i32) { })",
     {R"(1:10-15 'const' marks a parameter of a function; what a kernel takes at compile time stands in < >)"}},
    {R"(kernel k(x: tensor_desc<f16, []>, y: tensor_desc<f16>) { })",
     {R"(1:31-32 expected an extent, found ']')"}},
    {R"(kernel k() -> f32 { })",
     {R"(1:12-13 expected '{' (a kernel returns nothing), found '-')"}},
    {R"(fn f(x) -> f32 { return x; })",
     {R"(1:9-10 the result type of a function is inferred: leave out '-> …')"}},
    {R"(kernel k() launch(4) { })",
     {R"(1:19-20 launch takes only 'name = value')"}},
    {R"(kernel k() launch(a = 1) launch(b = 2) { })",
     {R"(1:26-32 a kernel has one 'launch' clause)"}},
    {R"(kernel k(): 
  f();)",
     {R"(1:11-12 a block stands in braces, not after ':')"}},
    {R"(def f(x):
  return x)",
     {R"(1:1-4 write 'fn' for a function or 'kernel' for a kernel, not 'def')"}},
    {R"(void f() { })",
     {R"(1:1-5 write 'fn' for a function or 'kernel' for a kernel, not 'void')"}},
    {R"(let x = 3;)",
     {R"(1:1-4 a statement stands only inside a kernel or a function)"}},
    {R"(f();
kernel k() { f( }
kernel j() { g( })",
     {R"(1:1-2 a statement stands only inside a kernel or a function)",
      R"(2:17-18 expected an expression, found '}')",
      R"(3:17-18 expected an expression, found '}')"}},
    {R"(}
kernel k() { })",
     {R"(1:1-2 this '}' closes nothing)"}},
    {R"(kernel k() {
  f();

kernel j() {
  g();
})",
     {R"(4:1-7 'kernel' stands only at the top of a file: a '}' is missing before it)"}},
    {R"(kernel k() {
  fn g(x) { return x; }
  let y = ;
}
kernel j() { let z = ; })",
     {R"(2:3-5 'fn' stands only at the top of a file: move it out of this block)",
      R"(3:11-12 expected an expression, found ';')",
      R"(5:22-23 expected an expression, found ';')"}},
    {R"(import std;
import "a.tlx"
import "b.tlx";
const N = 3
const M: i32 = 4;
const = 3;)",
     {R"(1:8-11 expected the name of a file in double quotes, found 'std')",
      R"(2:15-16 expected ';' after this)",
      R"(4:12-13 expected ';' after this)",
      R"(5:8-9 types are inferred: leave out ': i32', or convert the value with .to(i32))",
      R"(6:7-8 expected a name, found '=')"}},
    {R"(kernel k( { })",
     {R"(1:11-12 expected a name, found '{')"}},
    {R"(kernel)",
     {R"(1:7-7 expected a name, found the end of the file)"}},
    {R"(kernel k)",
     {R"(1:9-9 expected '(', found the end of the file)"}},
    {R"(kernel k(x: i32)",
     {R"(1:16-16 expected ',' or ')', found the end of the file)"}},
    {R"(kernel kernel() { })",
     {R"(1:8-14 'kernel' is a keyword and cannot be a name)"}},
    {R"(fn f(_) { })",
     {R"(1:6-7 '_' only discards a value; it has none)"}},
    {R"(é)",
     {R"(1:1-3 unexpected character 'é')"}},
    {R"(kernel k(a: i32 b: i32) { f(; })",
     {R"(1:17-18 expected ',' or ')', found 'b')",
      R"(1:29-30 expected an expression, found ';')"}},
    {R"(kernel k() foo(3) { })",
     {R"(1:12-15 expected 'launch(…)', 'requires(…)' or '{', found 'foo')"}},
    {R"(kernel k() { if x { f(); 
}
fn g() { })",
     {R"(3:1-3 'fn' stands only at the top of a file: a '}' is missing before it)"}},
    {R"(kernel k() { f(); } }
fn g() { h() })",
     {R"(1:21-22 this '}' closes nothing)",
      R"(2:13-14 expected ';' after this)"}},
    {R"(kernel k(x: float*) { })",
     {R"(1:13-18 write '*f32' for 'float*')"}},
    {R"(kernel k() { let x = 3 // no semicolon
})",
     {R"(1:23-24 expected ';' after this)"}},
    {R"(kernel k() requires(n = 3) { })",
     {R"(1:23-24 '=' does not stand inside an expression: '==' compares)"}},
    {R"(import 'a.tlx';)",
     {R"(1:8-9 a string stands in double quotes, not in single ones)"}},
    {R"(kernel k(x: tensor_desc<f16, [128, 64>) { })",
     {R"(1:39-40 expected an expression, found ')')"}},
    {R"(kernel k(x: i32,, y: i32) { })",
     {R"(1:17-18 expected a name, found ',')"}},
    {R"(fn f(x: 3) { })",
     {R"(1:9-10 expected a type, found '3')"}},
    {R"(const A = 1; const B = A +; const C = 2;)",
     {R"(1:27-28 expected an expression, found ';')"}},
    {R"(kernel 3() { })",
     {R"(1:8-9 expected a name, found '3')"}},
    {R"(export kernel k() { })",
     {R"(1:1-7 expected 'kernel', 'fn', 'const' or 'import', found 'export')"}},
  };
  for (const Wrong &wrong : table) {
    CAPTURE(wrong.text);
    CHECK(syntax::errorsIn(wrong.text) == wrong.errors);
  }
}
// clang-format on

TEST_SUITE_END();
