/* lanes.c: the residual lanes (mHC): reading one stream out of them, and mixing it back in.
 *
 * Sinkhorn alternates dividing exp(logits) by its row sums and by its column sums. The trained logits spread over
 * more than exp's range in single precision, so rounds run on logarithms until every row has an entry above
 * e^-60, and on plain divisions from there. */
#include "kernels.h"

enum { SINKHORN_ROUNDS = 20 };

/* Subtracts log(sum(exp)) from n values `stride` apart. */
static void log_normalise(float *x, uint32_t n, uint32_t stride) {
  float top = x[0], sum = 0.0f;
  for (uint32_t i = 1; i < n; i++) top = x[i * stride] > top ? x[i * stride] : top;
  for (uint32_t i = 0; i < n; i++) sum = sum + f_exp(x[i * stride] - top);
  float shift = top + f_log(sum);
  for (uint32_t i = 0; i < n; i++) x[i * stride] = x[i * stride] - shift;
}

static int rows_have_weight(const float *x, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    float top = x[i * n];
    for (uint32_t j = 1; j < n; j++) top = x[i * n + j] > top ? x[i * n + j] : top;
    if (top < -60.0f) return 0;
  }
  return 1;
}

/* Four lanes at once: rows in vectors, row sums through a transpose. The order of every sum is that of the loops. */
static void divide_rounds4(float *k, uint32_t rounds) {
  vec r0 = v_load(k), r1 = v_load(k + 4), r2 = v_load(k + 8), r3 = v_load(k + 12);
  for (; rounds; rounds--) {
    v_transpose4(&r0, &r1, &r2, &r3);
    vec sum = v_add(v_add(v_add(r0, r1), r2), r3);
    r0 = v_div(r0, sum), r1 = v_div(r1, sum), r2 = v_div(r2, sum), r3 = v_div(r3, sum);
    v_transpose4(&r0, &r1, &r2, &r3);
    sum = v_add(v_add(v_add(r0, r1), r2), r3);
    r0 = v_div(r0, sum), r1 = v_div(r1, sum), r2 = v_div(r2, sum), r3 = v_div(r3, sum);
  }
  v_store(k, r0), v_store(k + 4, r1), v_store(k + 8, r2), v_store(k + 12, r3);
}

static void divide_rounds(float *k, uint32_t n, uint32_t rounds) {
  for (; rounds; rounds--) {
    for (uint32_t i = 0; i < n; i++) {
      float sum = k[i * n];
      for (uint32_t j = 1; j < n; j++) sum = sum + k[i * n + j];
      for (uint32_t j = 0; j < n; j++) k[i * n + j] = k[i * n + j] / sum;
    }
    for (uint32_t j = 0; j < n; j++) {
      float sum = k[j];
      for (uint32_t i = 1; i < n; i++) sum = sum + k[i * n + j];
      for (uint32_t i = 0; i < n; i++) k[i * n + j] = k[i * n + j] / sum;
    }
  }
}

void areole_sinkhorn(const float *logits, uint32_t n, float *out) {
  uint32_t round = 0;
  memcpy(out, logits, n * n * sizeof(float));
  do {
    for (uint32_t i = 0; i < n; i++) log_normalise(out + i * n, n, 1);
    for (uint32_t j = 0; j < n; j++) log_normalise(out + j, n, n);
    round++;
  } while (round < SINKHORN_ROUNDS && !rows_have_weight(out, n));
  for (uint32_t i = 0; i < n * n; i++) out[i] = f_exp(out[i]);
  (n == 4 ? divide_rounds4(out, SINKHORN_ROUNDS - round) : divide_rounds(out, n, SINKHORN_ROUNDS - round));
}

int32_t areole_kernel_sinkhorn(const float *logits, uint32_t n, float *out) {
  if (!logits || !out || !n) return AREOLE_BAD_ARGUMENT;
  if (n > AREOLE_MAX_LANES) return AREOLE_BAD_GEOMETRY;
  areole_sinkhorn(logits, n, out);
  return AREOLE_OK;
}

/* The lane count as a constant keeps the lanes in registers; four is what models are shipped with. */
AREOLE_INLINE void gather(const float *lanes, const float *weights, uint32_t n, uint32_t d, float *u) {
  vec w[AREOLE_MAX_LANES];
  for (uint32_t i = 0; i < n; i++) w[i] = v_splat(weights[i]);
  AREOLE_NO_UNROLL
  for (uint32_t k = 0; k < d; k += 4) {
    vec sum = v_mul(w[0], v_load(lanes + k));
    for (uint32_t i = 1; i < n; i++) sum = v_add(sum, v_mul(w[i], v_load(lanes + (size_t)i * d + k)));
    v_store(u + k, sum);
  }
}

AREOLE_NOINLINE void areole_lanes_gather(const float *lanes, const float *weights, uint32_t n, uint32_t d, float *u) {
  if (n == 4)
    gather(lanes, weights, 4, d, u);
  else
    gather(lanes, weights, n, d, u);
}

AREOLE_INLINE void update(float *lanes, const float *mix, const float *post, const float *x, const float *u, uint32_t n,
                          uint32_t d, float *mean) {
  vec share = v_splat(1.0f / (float)n);
  AREOLE_NO_UNROLL
  for (uint32_t k = 0; k < d; k += 4) {
    vec old[AREOLE_MAX_LANES], y = v_sub(v_load(x + k), v_load(u + k)), total = v_zero();
    for (uint32_t j = 0; j < n; j++) old[j] = v_load(lanes + (size_t)j * d + k);
    for (uint32_t i = 0; i < n; i++) {
      vec sum = v_mul(v_splat_load(mix + i * n), old[0]);
      for (uint32_t j = 1; j < n; j++) sum = v_add(sum, v_mul(v_splat_load(mix + i * n + j), old[j]));
      sum = v_add(sum, v_mul(v_splat_load(post + i), y));
      total = v_add(total, sum);
      v_store(lanes + (size_t)i * d + k, sum);
    }
    v_store(mean + k, v_mul(total, share));
  }
}

AREOLE_NOINLINE void areole_lanes_update(float *lanes, const float *mix, const float *post, const float *x,
                                         const float *u, uint32_t n, uint32_t d, float *mean) {
  if (n == 4)
    update(lanes, mix, post, x, u, 4, d, mean);
  else
    update(lanes, mix, post, x, u, n, d, mean);
}

int32_t areole_kernel_lanes(float *lanes, const float *weights, const float *mix, const float *post, const float *x,
                            uint32_t n, uint32_t d, float *u, float *mean) {
  if (!lanes || !weights || !mix || !post || !x || !u || !mean || !n || !d) return AREOLE_BAD_ARGUMENT;
  if (n > AREOLE_MAX_LANES || d % 4) return AREOLE_BAD_GEOMETRY;
  areole_lanes_gather(lanes, weights, n, d, u);
  areole_lanes_update(lanes, mix, post, x, u, n, d, mean);
  return AREOLE_OK;
}
