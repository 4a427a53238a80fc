/* fmath.h: exp, log, sigmoid and sums whose bits are the same on every host.
 *
 * The C library's own functions differ between hosts, so these are polynomials in single precision without fused
 * multiply-add. Largest relative errors, measured in the tests: exp 2e-7, log 2e-7 (absolute near 1). */
#ifndef AREOLE_FMATH_H
#define AREOLE_FMATH_H

#include "simd.h"

#define AREOLE_EPSILON 1e-6f

/* The constants of exp, kept in memory: a v128 constant in a wasm loop is built anew from three instructions each
 * time round, a load is one. ln 2 is in two parts, the first with so few bits that a multiple of it is exact. */
enum {
  EXP_LOW,
  EXP_HIGH,
  EXP_LOG2E,
  EXP_MAGIC,
  EXP_LN2,
  EXP_LN2_REST,
  EXP_P0,
  EXP_P1,
  EXP_P2,
  EXP_P3,
  EXP_P4,
  EXP_P5,
  EXP_ONE,
  EXP_COUNT
};
#define FOUR(x) {x, x, x, x}
static const float exp_table[EXP_COUNT][4] = {
    FOUR(-86.0f),
    FOUR(88.0f),
    FOUR(1.44269504f),
    FOUR(AREOLE_MAGIC),
    FOUR(0.693359375f),
    FOUR(-2.12194440e-4f),
    FOUR(1.9875691500e-4f),
    FOUR(1.3981999507e-3f),
    FOUR(8.3334519073e-3f),
    FOUR(4.1665795894e-2f),
    FOUR(1.6666665459e-1f),
    FOUR(5.0000001201e-1f),
    FOUR(1.0f),
};

typedef struct {
  vec c[EXP_COUNT];
} exp_constants;

AREOLE_INLINE exp_constants load_exp(void) {
  const float (*table)[4] = exp_table;
  exp_constants e;
  __asm__("" : "+r"(table)); /* or the compiler sees the constants through the pointer */
  for (int i = 0; i < EXP_COUNT; i++) e.c[i] = v_load(table[i]);
  return e;
}

/* e^x for x clamped to [-86, 88], so the exponent can be added as an integer: 2^n is never subnormal. */
AREOLE_INLINE vec v_exp_with(vec x, const exp_constants *e) {
  x = v_min(v_max(e->c[EXP_LOW], x), e->c[EXP_HIGH]);
  vec t = v_add(v_mul(x, e->c[EXP_LOG2E]), e->c[EXP_MAGIC]);
  vec n = v_sub(t, e->c[EXP_MAGIC]);
  vec r = v_sub(v_sub(x, v_mul(n, e->c[EXP_LN2])), v_mul(n, e->c[EXP_LN2_REST]));
  vec p = e->c[EXP_P0];
  for (int i = EXP_P1; i <= EXP_P5; i++) p = v_add(v_mul(p, r), e->c[i]);
  p = v_add(v_mul(v_mul(p, r), r), v_add(r, e->c[EXP_ONE]));
  return v_add_i32(p, v_shl_i32(t, 23));
}

AREOLE_INLINE vec v_sigmoid_with(vec x, const exp_constants *e) {
  return v_div(e->c[EXP_ONE], v_add(e->c[EXP_ONE], v_exp_with(v_sub(v_zero(), x), e)));
}

AREOLE_INLINE vec v_exp(vec x) {
  exp_constants e = load_exp();
  return v_exp_with(x, &e);
}

AREOLE_INLINE vec v_sigmoid(vec x) {
  exp_constants e = load_exp();
  return v_sigmoid_with(x, &e);
}

AREOLE_INLINE float f_exp(float x) { return v_lane0(v_exp(v_splat(x))); }
AREOLE_INLINE float f_sigmoid(float x) { return v_lane0(v_sigmoid(v_splat(x))); }

/* log(x) for normal positive x: x = m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2 atanh((m - 1) / (m + 1)). */
AREOLE_INLINE float f_log(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t shifted = bits - 0x3F3504F3u; /* sqrt(1/2) */
  float exponent = (float)((int32_t)shifted >> 23);
  bits = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
  float m;
  memcpy(&m, &bits, 4);
  float s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
  float p = s2 * (1.0f / 9.0f) + 1.0f / 7.0f;
  p = p * s2 + 1.0f / 5.0f;
  p = p * s2 + 1.0f / 3.0f;
  float tail = 2.0f * s * (s2 * p);
  return exponent * 0.693359375f + (2.0f * s + (tail + exponent * -2.12194440e-4f));
}

/* An f16 as f32: 2^112 moves the exponent, and makes subnormals right. Infinities and NaNs are refused before. */
AREOLE_INLINE float f16_value(uint16_t bits) {
  uint32_t wide = ((uint32_t)(bits & 0x7fff) << 13) | ((uint32_t)(bits & 0x8000) << 16);
  float x;
  memcpy(&x, &wide, 4);
  return x * 5.192296858534828e33f;
}

/* Sum of squares of n floats: four vector sums taken in turn, added (0 + 1) + (2 + 3), then what is left of four. */
AREOLE_INLINE float f_sum_squares(const float *x, uint32_t n) {
  vec s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    vec a = v_load(x + i), b = v_load(x + i + 4), c = v_load(x + i + 8), d = v_load(x + i + 12);
    s0 = v_add(s0, v_mul(a, a));
    s1 = v_add(s1, v_mul(b, b));
    s2 = v_add(s2, v_mul(c, c));
    s3 = v_add(s3, v_mul(d, d));
  }
  for (; i + 4 <= n; i += 4) {
    vec a = v_load(x + i);
    s0 = v_add(s0, v_mul(a, a));
  }
  float sum = v_lane0(v_sum_lanes(v_add(v_add(s0, s1), v_add(s2, s3))));
  for (; i < n; i++) sum = sum + x[i] * x[i];
  return sum;
}

/* x . y of n floats (a multiple of 4), in the same order. */
AREOLE_INLINE float f_dot(const float *x, const float *y, uint32_t n) {
  vec s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    s0 = v_add(s0, v_mul(v_load(x + i), v_load(y + i)));
    s1 = v_add(s1, v_mul(v_load(x + i + 4), v_load(y + i + 4)));
    s2 = v_add(s2, v_mul(v_load(x + i + 8), v_load(y + i + 8)));
    s3 = v_add(s3, v_mul(v_load(x + i + 12), v_load(y + i + 12)));
  }
  for (; i < n; i += 4) s0 = v_add(s0, v_mul(v_load(x + i), v_load(y + i)));
  return v_lane0(v_sum_lanes(v_add(v_add(s0, s1), v_add(s2, s3))));
}

/* 1 / sqrt(mean(x^2) + epsilon). */
AREOLE_INLINE float f_inverse_rms(const float *x, uint32_t n) {
  return 1.0f / sqrtf(f_sum_squares(x, n) / (float)n + AREOLE_EPSILON);
}

#endif
