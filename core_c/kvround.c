/* kvround.c: keys and values as a cache of 2 to 4 bits would keep them.
 *
 * The cache itself is int8 for every model; one that was trained for fewer bits has its keys and values rounded to the
 * codebook first, group by group as a CQ matrix is: rotated, each coordinate to the nearest level of the unit vector,
 * times the length as f16, rotated back. */
#include "kernels.h"

/* The f16 nearest to x >= 0, half to even, as a float; no overflow below 65520. */
static float nearest_f16(float x) {
  uint32_t bits, unit;
  memcpy(&bits, &x, 4);
  if (x < 6.103515625e-05f) { /* subnormal: multiples of 2^-24 */
    float steps = x * 16777216.0f + 8388608.0f - 8388608.0f;
    return steps * 5.9604644775390625e-08f;
  }
  unit = (bits >> 13) & 1;
  bits = (bits + 0xfff + unit) & ~0x1fffu;
  memcpy(&x, &bits, 4);
  return x;
}

static uint32_t nearest(const float *values, uint32_t count, float x) {
  uint32_t right = 1;
  while (right + 1 < count && values[right] < x) right++;
  return fabsf(x - values[right - 1]) <= fabsf(x - values[right]) ? right - 1 : right;
}

void areole_kv_round(const float *values, uint32_t bits, float *x, uint32_t n, float *work) {
  float *a = work, *b = work + AREOLE_KV_GROUP;
  for (uint32_t at = 0; at < n; at += AREOLE_KV_GROUP) {
    uint32_t used = n - at < AREOLE_KV_GROUP ? n - at : AREOLE_KV_GROUP;
    memset(a, 0, AREOLE_KV_GROUP * sizeof(float));
    memcpy(a, x + at, used * sizeof(float));
    areole_unrotate(a, AREOLE_KV_GROUP, b, a);
    float length = sqrtf(f_sum_squares(a, AREOLE_KV_GROUP)), least = length > 1e-12f ? length : 1e-12f;
    float kept = nearest_f16(length);
    for (uint32_t i = 0; i < AREOLE_KV_GROUP; i++) a[i] = values[nearest(values, 1u << bits, a[i] / least)] * kept;
    areole_unrotate(a, AREOLE_KV_GROUP, b, a);
    memcpy(x + at, a, used * sizeof(float));
  }
}

int32_t areole_kernel_kv_round(const float *levels, uint32_t bits, float *x, uint32_t n, float *work) {
  if (!levels || !x || !work || !n || bits < 2 || bits > 4) return AREOLE_BAD_ARGUMENT;
  areole_kv_round(levels, bits, x, n, work);
  return AREOLE_OK;
}
