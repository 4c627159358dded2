// Numbers of the kernels and the few instructions that depend on them: bfloat16 with AVX-512 BF16, where BFLOAT16 is
// defined, else float32 with AVX-512 or AVX2. Sums, gates and norms are float32 in vectors F of LANES numbers.
//
// B of a product A · B is packed in panels of WIDTH columns: for every STEP rows of B, the STEP numbers of each column
// lie beside each other, as the instruction of bfloat16 wants them.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#define INLINE inline __attribute__((always_inline))

namespace {

#ifdef __AVX512F__
constexpr int LANES = 16, VECTORS = 4;  // vectors of a panel: with 6 rows, 24 of 32 registers are sums
#else
constexpr int LANES = 8, VECTORS = 2;  // 12 of 16
#endif
constexpr long WIDTH = LANES * VECTORS, HALF = WIDTH / 2, ROWS = 6;
constexpr float LOG2E = 1.44269504f;
typedef float F __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

#ifdef __AVX512F__
INLINE F constant(float x) { return (F)_mm512_set1_ps(x); }
#else
INLINE F constant(float x) { return (F)_mm256_set1_ps(x); }
#endif
INLINE float total(F x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) x[lane] += x[lane + half];
    return x[0];
#endif
}
INLINE F at(const float* x) {
    F value;
    std::memcpy(&value, x, sizeof value);
    return value;
}
INLINE void put(float* x, F value) { std::memcpy(x, &value, sizeof value); }

#ifdef BFLOAT16

using number = uint16_t;
constexpr long STEP = 2;
using Packed = __m512bh;

INLINE F at(const number* x) {
    return (F)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)x)), 16);
}
INLINE void put(number* x, F value) { _mm256_storeu_si256((__m256i*)x, (__m256i)_mm512_cvtneps_pbh((__m512)value)); }

INLINE Packed packed(const number* x) { return (Packed)_mm512_load_si512(x); }
INLINE Packed spread(const number* x) {
    int32_t pair;
    std::memcpy(&pair, x, sizeof pair);
    return (Packed)_mm512_set1_epi32(pair);
}
INLINE F dot(F sum, Packed a, Packed b) { return (F)_mm512_dpbf16_ps((__m512)sum, a, b); }
// LANES columns of rows k and k + 1 of a panel; a row that is not there is 0.
INLINE void pack(number* to, const number* first, const number* second) {
    const auto row = [](const number* x) {
        return _mm512_cvtepu16_epi32(x ? _mm256_loadu_si256((const __m256i*)x) : _mm256_setzero_si256());
    };
    _mm512_store_si512(to, _mm512_or_si512(row(first), _mm512_slli_epi32(row(second), 16)));
}

// e^x to a relative 3e-6, and 1/x to 14 bits: a thirtieth of what bfloat16 rounds.
INLINE F exp(F x) {
    const F t = x * LOG2E, f = (F)_mm512_reduce_ps((__m512)t, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // t - floor(t)
    F p = constant(0.0135341678f);
    for (float c : {0.0520114608f, 0.241442757f, 0.693003834f, 1.00000259f}) p = p * f + c;
    return (F)_mm512_scalef_ps((__m512)p, (__m512)t);
}
INLINE F inverse(F x) { return (F)_mm512_rcp14_ps((__m512)x); }

#else

using number = float;
constexpr long STEP = 1;
using Packed = F;

INLINE Packed packed(const number* x) { return at(x); }
INLINE Packed spread(const number* x) { return constant(*x); }
INLINE F dot(F sum, Packed a, Packed b) { return sum + a * b; }
INLINE void pack(number* to, const number* row, const number*) { put(to, row ? at(row) : F{}); }

// e^x to the last bits: 2^n · e^r, n whole and |r| ≤ ln 2 / 2; infinite from 88.4 on, 0 below -87.7.
INLINE F exp(F x) {
    constexpr float MAGIC = 12582912.f;  // 1.5 · 2^23: what is added to it is rounded to a whole number
    x = x < 88.8f ? x : constant(88.8f);
    x = x > -88.f ? x : constant(-88.f);
    const F shifted = x * LOG2E + MAGIC, n = shifted - MAGIC;
    const F r = x - n * 0.693359375f - n * -2.12194440e-4f;  // ln 2 in two parts
    F p = constant(0.00138145984f);
    for (float c : {0.0083687169f, 0.0416683881f, 0.166665206f, 0.499999934f, 1.f, 1.f}) p = p * r + c;
    return p * (F)(((Ints)shifted - (Ints)constant(MAGIC) + 127) << 23);
}
INLINE F inverse(F x) { return 1.f / x; }

#endif

}  // namespace
