// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiled kernels call: the instrumentation's hooks, device operations of all vendors but the warp collectives,
// libm.
//
// Every device operation is called as instrument.cpp rewrites it: vectors by pointer (a vector result as first
// argument), i1 as i32, the site as last argument.
#include <cmath>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "sim/engine.h"
#include "sim/round.h"

namespace tlx::sim {

namespace {
/// Rounds a double to a format of `mantissa` bits and the exponents of f16 or bf16 (ties to even), as that format's
/// bits. All narrowing conversions go through here once: a second rounding would be wrong in the last bit.
uint16_t roundTo(double x, int mantissa, int minExponent, int maxExponent, uint16_t infinity, uint16_t nan) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return nan | sign;
  if (std::isinf(x)) return infinity | sign;
  x = std::fabs(x);
  if (x == 0) return sign;
  int e;
  std::frexp(x, &e);
  e = std::max(e - 1, minExponent);
  double units = std::nearbyint(std::ldexp(x, mantissa - e)); // the value in units of its last place
  if (units >= std::ldexp(1.0, mantissa + 1)) units /= 2, ++e;
  if (e > maxExponent) return infinity | sign;
  uint32_t u = uint32_t(units);
  if (u >> mantissa) u += uint32_t(e - minExponent) << mantissa; // the leading one counts as exponent 1
  return uint16_t(u | sign);
}
} // namespace

uint16_t toF16(double x) {
  return roundTo(x, 10, -14, 15, 0x7c00, 0x7e00);
}
uint16_t doubleToBf16(double x) {
  return roundTo(x, 7, -126, 127, 0x7f80, 0x7fc0);
}

namespace {
// --- hooks of the instrumentation
uint8_t *simAccess(uint8_t *p, uint32_t flags, uint32_t site) {
  return engine().access(p, {flags}, site);
}
void simBackEdge(uint32_t site) {
  engine().backEdge(site);
}
void simWrapped(uint32_t where, uint32_t site) {
  if (where)
    engine().report(FindingKind::AddressWrap, site,
                    "32-bit arithmetic wrapped, and the result is part of this address: " + engine().siteText(where) +
                        "; make an operand 64 bits wide");
}
void simAccumulator(const uint8_t *p, uint32_t bytes, uint32_t write, uint32_t site) {
  engine().wgmmaTouch(p, bytes, write != 0, site);
}
void simDivision(uint32_t zero, uint32_t site) {
  if (zero) engine().report(FindingKind::DivisionByZero, site, "integer division by zero");
}

// --- common
uint8_t *smemBase(uint32_t) {
  return engine().cta().shared;
}
void print(const char *format, const uint8_t *arguments, uint32_t bytes, uint32_t) {
  engine().print(format, arguments, bytes);
}
void assertFail(const char *text, uint32_t site) {
  engine().failAssertion(text, site);
}
void trap(uint32_t site) {
  engine().report(FindingKind::Trap, site, "the kernel stopped itself (trap)");
  engine().stop();
}
void expanded() {
  std::abort();
} // masked accesses became plain ones before the kernel was compiled

// --- NVIDIA
uint32_t thread(uint32_t) {
  return engine().current->index;
}
uint64_t standingTime(uint32_t) {
  return 0; // a wait that never ends is a deadlock here
}
template <unsigned I> uint32_t ctaId(uint32_t) {
  return engine().cta().id[I];
}
template <unsigned I> uint32_t gridSize(uint32_t) {
  return engine().config.grid[I];
}
void barSync(uint32_t id, uint32_t count, uint32_t site) {
  if (count == 0) count = ~0u; // reported
  engine().barrier(id, count, site);
}
uint32_t barCount(uint32_t id, uint32_t count, uint32_t predicate, uint32_t site) {
  engine().barrier(id, count ? count : ~0u, site, predicate != 0);
  return engine().current->votes;
}
void barArrive(uint32_t id, uint32_t count, uint32_t site) {
  engine().barrierArrive(id, count, site);
}
void setRegisters(uint32_t, uint32_t) {} // budgets are checked when the kernel is compiled
template <unsigned Bytes> void cpAsync(uint8_t *to, const uint8_t *from, uint32_t sourceBytes, uint32_t site) {
  engine().asyncIssue(to, from, Bytes, sourceBytes, site);
}
void cpCommit(uint32_t site) {
  engine().asyncCommit(site);
}
void cpWait(uint32_t keep, uint32_t site) {
  engine().asyncWait(keep, site);
}

uint32_t bitsOf(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
float floatOf(uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
// The approximations of the hardware differ from these by 1 or 2 ulp; the correctly rounded value is inside every
// bound.
float exp2Ftz(float x, uint32_t) {
  return flush(std::exp2(flush(x)));
}
float log2Ftz(float x, uint32_t) {
  return std::log2(flush(x));
}
float rcpFtz(float x, uint32_t) {
  return flush(1.0f / flush(x));
}
float rsqrtFtz(float x, uint32_t) {
  return float(1.0 / std::sqrt(double(flush(x))));
}
float divFull(float a, float b, uint32_t) {
  return a / b;
}

uint32_t toTf32(float x, uint32_t) {
  uint32_t u = bitsOf(x);
  if ((u & 0x7f800000) == 0x7f800000) return u & 0x007fffff ? 0x7fffffff : u;
  return (u + 0x1000) & ~0x1fffu; // to nearest, ties away from zero
}

/// To nearest, ties to even.
uint16_t toBf16(float x) {
  uint32_t u = bitsOf(x);
  if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float f16ToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
  if (e == 31) return floatOf(sign | 0x7f800000 | m << 13);
  if (e == 0) return std::copysign(std::ldexp(float(m), -24), sign ? -1.0f : 1.0f);
  return floatOf(sign | (e + 112) << 23 | m << 13);
}
uint32_t packBf16(float high, float low, uint32_t) {
  return uint32_t(toBf16(high)) << 16 | toBf16(low);
}
uint32_t packF16(float high, float low, uint32_t) {
  return uint32_t(toF16(high)) << 16 | toF16(low);
}

// --- AMD
void sBarrier(uint32_t site) {
  engine().barrier(0, 0, site);
}
void fenceRelease(uint32_t site) {
  engine().waitCounters(0, 0, site); // LLVM makes it wait for everything that goes to LDS
}
void fenceAcquire(uint32_t site) {
  engine().acquireFence(site);
}
float exp2Amd(float x, uint32_t) {
  return flush(std::exp2(flush(x)));
}
float log2Amd(float x, uint32_t) {
  return std::log2(flush(x));
}
float rcpAmd(float x, uint32_t) {
  return 1.0f / x;
}
float rsqAmd(float x, uint32_t) {
  return float(1.0 / std::sqrt(double(x)));
}

// --- the compiler's runtime. half and bfloat travel in the low 16 bits of an SSE register, and so does this float.
float truncToBf16(float x) {
  return floatOf(toBf16(x));
}
float truncToF16(float x) {
  return floatOf(toF16(x));
}
float truncDoubleToBf16(double x) {
  return floatOf(doubleToBf16(x));
}
float truncDoubleToF16(double x) {
  return floatOf(toF16(x));
}
float extendF16(float x) {
  return f16ToFloat(uint16_t(bitsOf(x)));
}

#define LIBM1(NAME)                                                                                                    \
  symbol(#NAME, static_cast<double (*)(double)>(::NAME)), symbol(#NAME "f", static_cast<float (*)(float)>(::NAME##f))
#define LIBM2(NAME)                                                                                                    \
  symbol(#NAME, static_cast<double (*)(double, double)>(::NAME)),                                                      \
      symbol(#NAME "f", static_cast<float (*)(float, float)>(::NAME##f))

const Symbol kCommon[] = {
    symbol("tlx.smem.base", smemBase),
    symbol("tlx.masked.load.*", expanded),
    symbol("tlx.masked.store.*", expanded),
    symbol("tlx.print", print),
    symbol("tlx.assert.fail", assertFail),
    symbol("tlx.trap", trap),
    symbol("tlx.nv.tid.x", thread),
    symbol("tlx.nv.ctaid.x", ctaId<0>),
    symbol("tlx.nv.ctaid.y", ctaId<1>),
    symbol("tlx.nv.ctaid.z", ctaId<2>),
    symbol("tlx.nv.nctaid.x", gridSize<0>),
    symbol("tlx.nv.nctaid.y", gridSize<1>),
    symbol("tlx.nv.nctaid.z", gridSize<2>),
    symbol("tlx.nv.globaltimer", standingTime),
    symbol("tlx.nv.bar.sync", barSync),
    symbol("tlx.nv.bar.red.popc", barCount),
    symbol("tlx.nv.bar.arrive", barArrive),
    symbol("tlx.nv.setmaxnreg.inc", setRegisters),
    symbol("tlx.nv.setmaxnreg.dec", setRegisters),
    symbol("tlx.nv.cp.async.ca.4", cpAsync<4>),
    symbol("tlx.nv.cp.async.ca.8", cpAsync<8>),
    symbol("tlx.nv.cp.async.cg.16", cpAsync<16>),
    symbol("tlx.nv.cp.async.commit", cpCommit),
    symbol("tlx.nv.cp.async.wait", cpWait),
    symbol("tlx.nv.ex2.approx", exp2Ftz),
    symbol("tlx.nv.lg2.approx", log2Ftz),
    symbol("tlx.nv.rcp.approx", rcpFtz),
    symbol("tlx.nv.rsqrt.approx", rsqrtFtz),
    symbol("tlx.nv.div.full", divFull),
    symbol("tlx.nv.cvt.rna.tf32", toTf32),
    symbol("tlx.nv.cvt.rn.bf16x2", packBf16),
    symbol("tlx.nv.cvt.rn.f16x2", packF16),
    symbol("tlx.amd.workitem.id.x", thread),
    symbol("tlx.amd.workgroup.id.x", ctaId<0>),
    symbol("tlx.amd.workgroup.id.y", ctaId<1>),
    symbol("tlx.amd.workgroup.id.z", ctaId<2>),
    symbol("tlx.amd.fence.release", fenceRelease),
    symbol("tlx.amd.s.barrier", sBarrier),
    symbol("tlx.amd.fence.acquire", fenceAcquire),
    symbol("tlx.amd.exp2", exp2Amd),
    symbol("tlx.amd.log2", log2Amd),
    symbol("tlx.amd.rcp", rcpAmd),
    symbol("tlx.amd.rsq", rsqAmd),
};

const Symbol kHost[] = {
    symbol("tlx_sim_access", simAccess),
    symbol("tlx_sim_back_edge", simBackEdge),
    symbol("tlx_sim_wrapped", simWrapped),
    symbol("tlx_sim_division", simDivision),
    symbol("tlx_sim_accumulator", simAccumulator),
    symbol("__truncsfbf2", truncToBf16),
    symbol("__truncsfhf2", truncToF16),
    symbol("__truncdfbf2", truncDoubleToBf16),
    symbol("__truncdfhf2", truncDoubleToF16),
    symbol("__extendhfsf2", extendF16),
    symbol("__gnu_h2f_ieee", extendF16),
    symbol("memcpy", ::memcpy),
    symbol("memset", ::memset),
    symbol("memmove", ::memmove),
    LIBM1(exp),
    LIBM1(exp2),
    LIBM1(expm1),
    LIBM1(log),
    LIBM1(log2),
    LIBM1(log10),
    LIBM1(log1p),
    LIBM1(sin),
    LIBM1(cos),
    LIBM1(tan),
    LIBM1(asin),
    LIBM1(acos),
    LIBM1(atan),
    LIBM1(sinh),
    LIBM1(cosh),
    LIBM1(tanh),
    LIBM1(erf),
    LIBM1(erfc),
    LIBM1(sqrt),
    LIBM1(cbrt),
    LIBM1(floor),
    LIBM1(ceil),
    LIBM1(trunc),
    LIBM1(round),
    LIBM1(roundeven),
    LIBM1(rint),
    LIBM1(nearbyint),
    LIBM1(fabs),
    LIBM2(pow),
    LIBM2(fmod),
    LIBM2(fmax),
    LIBM2(fmin),
    LIBM2(atan2),
    LIBM2(copysign),
    symbol("fma", static_cast<double (*)(double, double, double)>(::fma)),
    symbol("fmaf", static_cast<float (*)(float, float, float)>(::fmaf)),
    symbol("ldexp", static_cast<double (*)(double, int)>(::ldexp)),
    symbol("ldexpf", static_cast<float (*)(float, int)>(::ldexpf)),
};
#undef LIBM1
#undef LIBM2
} // namespace

llvm::ArrayRef<Symbol> commonOperations() {
  return kCommon;
}
llvm::ArrayRef<Symbol> hostLibrary() {
  return kHost;
}

std::vector<Symbol> runtimeSymbols() {
  std::vector<Symbol> all;
  for (llvm::ArrayRef<Symbol> list : {commonOperations(), nvidiaOperations(), mbarrierOperations(), tmaOperations(),
                                      wgmmaOperations(), amdOperations(), hostLibrary()})
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool implementsDeviceOp(llvm::StringRef name) {
  for (llvm::ArrayRef<Symbol> list : {commonOperations(), nvidiaOperations(), mbarrierOperations(), tmaOperations(),
                                      wgmmaOperations(), amdOperations()})
    for (const Symbol &s : list)
      if (name == s.name) return true;
  return false;
}

} // namespace tlx::sim
