/* simd.h: the few vector operations the kernels need, three times over: relaxed SIMD, SIMD128, plain C.
 *
 * A vector is 16 bytes. Every operation here gives the same bits in all three, which is what makes the builds
 * agree: float operations are IEEE single operations, and the integer dot products are exact. Relaxed SIMD is
 * used only where its specification leaves no choice: the i8 x i7 dot with its second operand in 0..127, and the
 * swizzle with indices below 16. */
#ifndef AREOLE_SIMD_H
#define AREOLE_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define AREOLE_INLINE static inline __attribute__((always_inline))
#define AREOLE_NOINLINE __attribute__((noinline))

#ifdef __wasm_simd128__
#include <wasm_simd128.h>
typedef v128_t vec;

AREOLE_INLINE vec v_load(const void *p) { return wasm_v128_load(p); }
AREOLE_INLINE void v_store(void *p, vec a) { wasm_v128_store(p, a); }
AREOLE_INLINE vec v_splat(float x) { return wasm_f32x4_splat(x); }
AREOLE_INLINE vec v_splat_load(const float *p) { return wasm_v128_load32_splat(p); }
AREOLE_INLINE vec v_splat_i32(int32_t x) { return wasm_i32x4_splat(x); }
AREOLE_INLINE vec v_zero(void) { return wasm_i32x4_const_splat(0); }
AREOLE_INLINE vec v_add(vec a, vec b) { return wasm_f32x4_add(a, b); }
AREOLE_INLINE vec v_sub(vec a, vec b) { return wasm_f32x4_sub(a, b); }
AREOLE_INLINE vec v_mul(vec a, vec b) { return wasm_f32x4_mul(a, b); }
AREOLE_INLINE vec v_div(vec a, vec b) { return wasm_f32x4_div(a, b); }
AREOLE_INLINE vec v_max(vec a, vec b) { return wasm_f32x4_pmax(a, b); } /* a < b ? b : a */
AREOLE_INLINE vec v_min(vec a, vec b) { return wasm_f32x4_pmin(a, b); } /* b < a ? b : a */
AREOLE_INLINE vec v_abs(vec a) { return wasm_f32x4_abs(a); }
AREOLE_INLINE vec v_add_i32(vec a, vec b) { return wasm_i32x4_add(a, b); }
AREOLE_INLINE vec v_sub_i32(vec a, vec b) { return wasm_i32x4_sub(a, b); }
AREOLE_INLINE vec v_shl_i32(vec a, int n) { return wasm_i32x4_shl(a, n); }
AREOLE_INLINE vec v_and(vec a, vec b) { return wasm_v128_and(a, b); }
AREOLE_INLINE vec v_or(vec a, vec b) { return wasm_v128_or(a, b); }
AREOLE_INLINE vec v_select(vec yes, vec no, vec mask) { return wasm_v128_bitselect(yes, no, mask); }
AREOLE_INLINE vec v_float(vec a) { return wasm_f32x4_convert_i32x4(a); }
AREOLE_INLINE vec v_widen_u16(const uint16_t *p) { return wasm_u32x4_load16x4(p); }
AREOLE_INLINE vec v_widen_i8(const int8_t *p) { return wasm_i16x8_load8x8(p); }
/* The high nibble of every byte moved to the low one; what lies above is garbage for v_and to clear. */
AREOLE_INLINE vec v_high_nibbles(vec a) { return wasm_u16x8_shr(a, 4); }
AREOLE_INLINE vec v_dot_i16(vec a, vec b) { return wasm_i32x4_dot_i16x8(a, b); }
AREOLE_INLINE float v_lane0(vec a) { return wasm_f32x4_extract_lane(a, 0); }
AREOLE_INLINE int32_t v_lane0_i32(vec a) { return wasm_i32x4_extract_lane(a, 0); }
#define v_shuffle32(a, b, i0, i1, i2, i3) wasm_i32x4_shuffle(a, b, i0, i1, i2, i3)
#define v_shuffle8 wasm_i8x16_shuffle

#else
typedef int32_t vec __attribute__((vector_size(16)));
typedef float vec_f32 __attribute__((vector_size(16)));
typedef uint8_t vec_u8 __attribute__((vector_size(16)));
typedef uint16_t vec_u16 __attribute__((vector_size(16)));
typedef uint32_t vec_u32 __attribute__((vector_size(16)));

AREOLE_INLINE vec v_load(const void *p) {
  vec a;
  memcpy(&a, p, 16);
  return a;
}
AREOLE_INLINE void v_store(void *p, vec a) { memcpy(p, &a, 16); }
AREOLE_INLINE vec v_splat(float x) { return (vec)(vec_f32){x, x, x, x}; }
AREOLE_INLINE vec v_splat_load(const float *p) {
  float x;
  memcpy(&x, p, 4);
  return v_splat(x);
}
AREOLE_INLINE vec v_splat_i32(int32_t x) { return (vec){x, x, x, x}; }
AREOLE_INLINE vec v_zero(void) { return (vec){0, 0, 0, 0}; }
AREOLE_INLINE vec v_add(vec a, vec b) { return (vec)((vec_f32)a + (vec_f32)b); }
AREOLE_INLINE vec v_sub(vec a, vec b) { return (vec)((vec_f32)a - (vec_f32)b); }
AREOLE_INLINE vec v_mul(vec a, vec b) { return (vec)((vec_f32)a * (vec_f32)b); }
AREOLE_INLINE vec v_div(vec a, vec b) { return (vec)((vec_f32)a / (vec_f32)b); }
AREOLE_INLINE vec v_select(vec yes, vec no, vec mask) { return (yes & mask) | (no & ~mask); }
AREOLE_INLINE vec v_max(vec a, vec b) { return v_select(b, a, (vec)((vec_f32)a < (vec_f32)b)); }
AREOLE_INLINE vec v_min(vec a, vec b) { return v_select(b, a, (vec)((vec_f32)b < (vec_f32)a)); }
AREOLE_INLINE vec v_abs(vec a) { return a & v_splat_i32(0x7fffffff); }
/* Modulo 2^32, as wasm has them. */
AREOLE_INLINE vec v_add_i32(vec a, vec b) { return (vec)((vec_u32)a + (vec_u32)b); }
AREOLE_INLINE vec v_sub_i32(vec a, vec b) { return (vec)((vec_u32)a - (vec_u32)b); }
AREOLE_INLINE vec v_shl_i32(vec a, int n) { return (vec)((vec_u32)a << n); }
AREOLE_INLINE vec v_and(vec a, vec b) { return a & b; }
AREOLE_INLINE vec v_or(vec a, vec b) { return a | b; }
AREOLE_INLINE vec v_float(vec a) { return (vec) __builtin_convertvector(a, vec_f32); }
AREOLE_INLINE vec v_widen_u16(const uint16_t *p) { return (vec){p[0], p[1], p[2], p[3]}; }
AREOLE_INLINE vec v_widen_i8(const int8_t *p) {
  int16_t wide[8];
  for (int i = 0; i < 8; i++) wide[i] = p[i];
  return v_load(wide);
}
AREOLE_INLINE vec v_high_nibbles(vec a) { return (vec)((vec_u16)a >> 4); }
AREOLE_INLINE float v_lane0(vec a) { return ((vec_f32)a)[0]; }
AREOLE_INLINE int32_t v_lane0_i32(vec a) { return a[0]; }
#define v_shuffle32(a, b, i0, i1, i2, i3) __builtin_shufflevector(a, b, i0, i1, i2, i3)
#define v_shuffle8(a, b, ...) ((vec)__builtin_shufflevector((vec_u8)(a), (vec_u8)(b), __VA_ARGS__))
#ifdef __SSSE3__
#include <tmmintrin.h>
AREOLE_INLINE vec v_dot_i16(vec a, vec b) { return (vec)_mm_madd_epi16((__m128i)a, (__m128i)b); }
#else
AREOLE_INLINE vec v_dot_i16(vec a, vec b) {
  int16_t x[8], y[8];
  int32_t out[4];
  v_store(x, a);
  v_store(y, b);
  for (int i = 0; i < 4; i++) out[i] = x[2 * i] * y[2 * i] + x[2 * i + 1] * y[2 * i + 1];
  return v_load(out);
}
#endif
#endif

/* table[index] per byte; indices are below 16. */
AREOLE_INLINE vec v_lookup(vec table, vec index) {
#if defined(AREOLE_RELAXED)
  return wasm_i8x16_relaxed_swizzle(table, index);
#elif defined(__wasm_simd128__)
  return wasm_i8x16_swizzle(table, index);
#elif defined(__SSSE3__)
  return (vec)_mm_shuffle_epi8((__m128i)table, (__m128i)index);
#else
  uint8_t t[16], x[16];
  v_store(t, table);
  v_store(x, index);
  for (int i = 0; i < 16; i++) x[i] = t[x[i]];
  return v_load(x);
#endif
}

/* Four dot products of four: sum + x[4i..4i+3] . level[4i..4i+3] for lane i. x is signed bytes, level 0..127. */
AREOLE_INLINE vec v_dot_i8(vec x, vec level, vec sum) {
#if defined(AREOLE_RELAXED)
  return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, level, sum);
#elif defined(__wasm_simd128__)
  /* Even and odd bytes as i16: each of the two products leaves a sum of two in its lane. What is made of x is the
   * same for every level it meets in a turn of a loop, and is made once. */
  vec even = wasm_i16x8_shr(wasm_i16x8_shl(x, 8), 8), odd = wasm_i16x8_shr(x, 8);
  vec level_even = wasm_v128_and(level, wasm_i16x8_const_splat(0xff)), level_odd = wasm_u16x8_shr(level, 8);
  sum = wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(even, level_even));
  return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(odd, level_odd));
#elif defined(__SSSE3__)
  /* Pairs reach 2 * 127 * 127, which an i16 holds, so nothing saturates. */
  __m128i pairs = _mm_maddubs_epi16((__m128i)level, (__m128i)x);
  return sum + (vec)_mm_madd_epi16(pairs, _mm_set1_epi16(1));
#else
  int8_t a[16], b[16];
  int32_t out[4];
  v_store(a, x);
  v_store(b, level);
  v_store(out, sum);
  for (int i = 0; i < 16; i++) out[i >> 2] += a[i] * b[i];
  return v_load(out);
#endif
}

/* The same by way of i16 pair sums: fewer instructions on processors without a four-way byte dot. AREOLE_PAIRS says
 * that the build has it. v_pairs: eight sums of two products, each within 2 * 127 * 127; v_add_pairs: sum + pairs of
 * those. Up to four v_pairs of levels below 33 may be added as i16 first. */
#if defined(AREOLE_RELAXED) || (!defined(__wasm_simd128__) && defined(__SSSE3__))
#define AREOLE_PAIRS 1
AREOLE_INLINE vec v_pairs(vec x, vec level) {
#if defined(AREOLE_RELAXED)
  return wasm_i16x8_relaxed_dot_i8x16_i7x16(x, level);
#else
  return (vec)_mm_maddubs_epi16((__m128i)level, (__m128i)x);
#endif
}
AREOLE_INLINE vec v_add_i16(vec a, vec b) {
#if defined(AREOLE_RELAXED)
  return wasm_i16x8_add(a, b);
#else
  return (vec)_mm_add_epi16((__m128i)a, (__m128i)b);
#endif
}
AREOLE_INLINE vec v_mul_i16(vec a, vec b) {
#if defined(AREOLE_RELAXED)
  return wasm_i16x8_mul(a, b);
#else
  return (vec)_mm_mullo_epi16((__m128i)a, (__m128i)b);
#endif
}
AREOLE_INLINE vec v_widen_pairs(vec pairs) {
#if defined(AREOLE_RELAXED)
  return wasm_i32x4_extadd_pairwise_i16x8(pairs);
#else
  return (vec)_mm_madd_epi16((__m128i)pairs, _mm_set1_epi16(1));
#endif
}
AREOLE_INLINE vec v_add_pairs(vec pairs, vec sum) { return v_add_i32(sum, v_widen_pairs(pairs)); }
AREOLE_INLINE vec v_dot_by_pairs(vec x, vec level, vec sum) { return v_add_pairs(v_pairs(x, level), sum); }
#endif

/* The sum of the four lanes as (0 + 2) + (1 + 3), and their maximum, in every lane. */
AREOLE_INLINE vec v_sum_lanes(vec a) {
  a = v_add(a, v_shuffle32(a, a, 2, 3, 0, 1));
  return v_add(a, v_shuffle32(a, a, 1, 0, 3, 2));
}
AREOLE_INLINE vec v_sum_lanes_i32(vec a) {
  a = v_add_i32(a, v_shuffle32(a, a, 2, 3, 0, 1));
  return v_add_i32(a, v_shuffle32(a, a, 1, 0, 3, 2));
}
AREOLE_INLINE vec v_max_lanes(vec a) {
  a = v_max(a, v_shuffle32(a, a, 2, 3, 0, 1));
  return v_max(a, v_shuffle32(a, a, 1, 0, 3, 2));
}
AREOLE_INLINE void v_transpose4(vec *a, vec *b, vec *c, vec *d) {
  vec t0 = v_shuffle32(*a, *b, 0, 4, 1, 5), t1 = v_shuffle32(*a, *b, 2, 6, 3, 7);
  vec t2 = v_shuffle32(*c, *d, 0, 4, 1, 5), t3 = v_shuffle32(*c, *d, 2, 6, 3, 7);
  *a = v_shuffle32(t0, t2, 0, 1, 4, 5);
  *b = v_shuffle32(t0, t2, 2, 3, 6, 7);
  *c = v_shuffle32(t1, t3, 0, 1, 4, 5);
  *d = v_shuffle32(t1, t3, 2, 3, 6, 7);
}

/* 1.5 * 2^23: adding it rounds a float below 2^22 to an integer, half to even, in the low bits. */
#define AREOLE_MAGIC 12582912.0f
#define AREOLE_MAGIC_BITS 0x4B400000

#endif
