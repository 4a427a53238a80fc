/* attention.c: RoPE, the int8 cache of keys and values, and attention over runs of visible slots.
 *
 * Both products are integer: q . k of int8 values, and the softmax weights as 15-bit integers times int8 values.
 * The sum of the weights is an integer too. So the order of the slots does not matter to a single bit, and a
 * ring, a snapshot or a batch cannot change a result. */
#include "kernels.h"

/* ---- RoPE: double precision, by our own series, so that every host has the same angles ---- */

#define PI 3.14159265358979323846

/* sin and cos of x >= 0 by Taylor series after reduction to [-pi/4, pi/4]. */
static void sin_cos(double x, double *sine, double *cosine) {
  int64_t quadrant = (int64_t)(x * (2.0 / PI) + 0.5);
  /* pi/2 in two parts keeps the reduction exact to 1e-12 for angles up to 2^20. */
  double r = (x - (double)quadrant * 1.57079632673412561417) - (double)quadrant * 6.07710050650619224932e-11;
  double r2 = r * r, s = 1.0, c = 1.0;
  for (int n = 17; n > 1; n -= 2) s = 1.0 - s * r2 / (double)(n * (n - 1));
  for (int n = 16; n > 0; n -= 2) c = 1.0 - c * r2 / (double)(n * (n - 1));
  s = s * r;
  switch (quadrant & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
  }
}

static double natural_log(double x) {
  double exponent = 0.0;
  while (x > 1.5) x = x * 0.5, exponent = exponent + 1.0;
  while (x < 0.75) x = x * 2.0, exponent = exponent - 1.0;
  double s = (x - 1.0) / (x + 1.0), s2 = s * s, sum = 0.0;
  for (int n = 41; n > 0; n -= 2) sum = sum * s2 + 1.0 / (double)n;
  return exponent * 0.69314718055994530942 + 2.0 * s * sum;
}

static double exponential(double x) { /* x in [-50, 0] */
  double halves = x / 64.0, sum = 1.0;
  for (int n = 14; n > 0; n--) sum = 1.0 + sum * halves / (double)n;
  for (int i = 0; i < 6; i++) sum = sum * sum;
  return sum;
}

void areole_rope_frequencies(uint32_t half, float theta, float *frequencies) {
  double log_theta = natural_log((double)theta);
  for (uint32_t i = 0; i < half; i++) frequencies[i] = (float)exponential(-(double)i / (double)half * log_theta);
}

void areole_rope_angles(uint32_t position, uint32_t half, const float *frequencies, float *cosine, float *sine) {
  for (uint32_t i = 0; i < half; i++) {
    double s, c;
    /* The reference's angle is a single-precision product; so is this one. */
    sin_cos((double)((float)position * frequencies[i]), &s, &c);
    cosine[i] = (float)c;
    sine[i] = (float)s;
  }
}

int32_t areole_kernel_rope(uint32_t position, uint32_t half, float theta, float *cos_out, float *sin_out) {
  if (!half || half > 512 || !cos_out || !sin_out || !(theta > 1.0f)) return AREOLE_BAD_ARGUMENT;
  float frequencies[512];
  areole_rope_frequencies(half, theta, frequencies);
  areole_rope_angles(position, half, frequencies, cos_out, sin_out);
  return AREOLE_OK;
}

/* ---- the cache ---- */

/* x (n,) to int8 in `out` (n in whole fours), one scale; returns the scale. */
static AREOLE_NOINLINE float round_int8(const float *x, uint32_t n, int8_t *out) {
  vec top = v_zero(), magic = v_splat(AREOLE_MAGIC);
  float most;
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) top = v_max(top, v_abs(v_load(x + i)));
  most = v_lane0(v_max_lanes(top));
  for (; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  float inverse = most > 0.0f ? 127.0f / most : 0.0f;
  vec factor = v_splat(inverse);
  for (i = 0; i + 4 <= n; i += 4) {
    vec rounded = v_add(v_mul(v_load(x + i), factor), magic);
    int32_t four = v_lane0_i32(v_shuffle8(rounded, rounded, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12));
    memcpy(out + i, &four, 4);
  }
  for (; i < n; i++) {
    float shifted = x[i] * inverse + AREOLE_MAGIC;
    int32_t bits;
    memcpy(&bits, &shifted, 4);
    out[i] = (int8_t)(bits - AREOLE_MAGIC_BITS);
  }
  return most * (1.0f / 127.0f);
}

AREOLE_INLINE int8_t *keys_of(const areole_cache *c, uint32_t kv_head) {
  return c->keys + (size_t)kv_head * c->slots * c->qk_dim;
}
AREOLE_INLINE int8_t *values_of(const areole_cache *c, uint32_t kv_head) {
  return c->values + (size_t)kv_head * c->slots * c->v_padded;
}

void areole_cache_store(const areole_cache *c, uint32_t kv_head, uint32_t slot, const float *key, const float *value) {
  int8_t rounded[4096];
  int8_t *keys = keys_of(c, kv_head) + (size_t)(slot & ~3u) * c->qk_dim + (slot & 3) * 2;
  c->key_scales[(size_t)kv_head * c->slots + slot] = round_int8(key, c->qk_dim, rounded);
  for (uint32_t i = 0; i < c->qk_dim; i += 2) keys[i * 4] = rounded[i], keys[i * 4 + 1] = rounded[i + 1];
  int8_t *values = values_of(c, kv_head) + (size_t)(slot & ~1u) * c->v_padded + (slot & 1);
  c->value_scales[(size_t)kv_head * c->slots + slot] = round_int8(value, c->v_dim, rounded);
  for (uint32_t i = 0; i < c->v_dim; i++) values[2 * i] = rounded[i];
}

/* ---- attention ---- */

enum { HEADS_AT_ONCE = 6 };

/* Work, in this order: scores (heads, n) f32, value scales (n,) f32, weights (heads, n / 2) pairs of i16, sums
 * (heads, v_padded) i32, queries (qk_dim / 2, heads, 8) i16. n is the runs' slots in whole fours. */
uint32_t areole_attention_work(uint32_t slots, uint32_t heads, uint32_t qk_dim, uint32_t v_dim) {
  uint32_t at_once = heads < HEADS_AT_ONCE ? heads : HEADS_AT_ONCE, n = round_up(slots, 4) + 16;
  return at_once * n * 4 + n * 4 + at_once * n * 2 + at_once * round_up(v_dim, 4) * 4 + at_once * qk_dim * 8 + 5 * 64;
}

/* Scores of `heads` query heads over one run, appended at `at` in rows of n; returns how many lanes it took. */
#define DEFINE_SCORES(NAME, H)                                                                                  \
  static AREOLE_NOINLINE void NAME(const int8_t *keys, const float *key_scales, uint32_t first, uint32_t fours, \
                                   uint32_t qk_dim, const int16_t *queries, const float *scales, float *scores, \
                                   uint32_t n) {                                                                \
    const int8_t *k = keys + (size_t)first * qk_dim;                                                            \
    for (uint32_t g = 0; g < fours; g++) {                                                                      \
      vec a[H];                                                                                                 \
      for (int h = 0; h < H; h++) a[h] = v_zero();                                                              \
      const int16_t *q = queries;                                                                               \
      AREOLE_NO_UNROLL                                                                                          \
      for (uint32_t i = 0; i < qk_dim; i += 2) {                                                                \
        vec pair = v_widen_i8(k);                                                                               \
        for (int h = 0; h < H; h++) a[h] = v_add_i32(a[h], v_dot_i16(pair, v_load(q + 8 * h)));                 \
        k += 8;                                                                                                 \
        q += 8 * H;                                                                                             \
        AREOLE_OPAQUE(k);                                                                                       \
        AREOLE_OPAQUE(q);                                                                                       \
      }                                                                                                         \
      vec scale = v_load(key_scales + first + 4 * g);                                                           \
      for (int h = 0; h < H; h++)                                                                               \
        v_store(scores + h * n + 4 * g, v_mul(v_float(a[h]), v_mul(scale, v_splat(scales[h]))));                \
    }                                                                                                           \
  }

DEFINE_SCORES(scores_6, 6)
DEFINE_SCORES(scores_1, 1)

/* Marks the lanes of a run's first and last fours that lie outside it. */
static void mask_run(float *scores, uint32_t before, uint32_t lanes, uint32_t count) {
  for (uint32_t i = 0; i < before; i++) scores[i] = -1e30f;
  for (uint32_t i = before + count; i < lanes; i++) scores[i] = -1e30f;
}

/* Exponentials are added as integers, four sums of them side by side: as so many 2^-20, or 2^-17 where more
 * positions are visible than four unsigned sums hold then; AREOLE_LONGEST is the most there may be. */
enum { ORDINARY = 16000 };

/* The lanes' sum; each is below 2^32. */
AREOLE_INLINE float sum_unsigned(vec lanes) {
  uint32_t four[4];
  v_store(four, lanes);
  return (float)((uint64_t)four[0] + four[1] + four[2] + four[3]);
}

/* Softmax of one head's scores (n,), of which `visible` are not masked, times the value scales -> pairs of 15-bit
 * weights; returns what turns the integer weighted sum of int8 values into the attention output. scores is overwritten.
 */
static AREOLE_NOINLINE float softmax_weights(float *scores, const float *value_scales, uint32_t n, uint32_t visible,
                                             int32_t *pairs) {
  vec top = v_splat(-1e30f);
  for (uint32_t i = 0; i < n; i += 4) top = v_max(top, v_load(scores + i));
  top = v_max_lanes(top);
  float one = visible <= ORDINARY ? 1048576.0f : 131072.0f;
  exp_constants constants = load_exp();
  vec sum = v_zero(), most = v_zero(), magic = constants.c[EXP_MAGIC], unit = v_splat(one);
  AREOLE_NO_UNROLL
  for (uint32_t i = 0; i < n; i += 4) {
    vec e = v_exp_with(v_sub(v_load(scores + i), top), &constants);
    sum = v_add_i32(sum, v_sub_i32(v_add(v_mul(e, unit), magic), magic));
    e = v_mul(e, v_load(value_scales + i));
    most = v_max(most, e);
    v_store(scores + i, e);
  }
  float biggest = v_lane0(v_max_lanes(most));
  if (!(biggest > 0.0f)) {
    memset(pairs, 0, n / 2 * sizeof(int32_t));
    return 0.0f;
  }
  /* 127 * sum of weights must stay below 2^31; only long flat rows need the second round. */
  float limit = 32767.0f;
  for (;;) {
    vec scale = v_splat(limit / biggest), total = v_zero();
    AREOLE_NO_UNROLL
    for (uint32_t i = 0; i < n; i += 4) {
      vec w = v_sub_i32(v_add(v_mul(v_load(scores + i), scale), magic), magic);
      total = v_add_i32(total, w);
      /* Lanes w0 w1 w2 w3 to two words w0 | w1 << 16, w2 | w3 << 16. */
      vec packed = v_or(w, v_shl_i32(v_shuffle32(w, w, 1, 1, 3, 3), 16));
      v_store(pairs + i / 2, v_shuffle32(packed, packed, 0, 2, 0, 2));
    }
    float whole = (float)v_lane0_i32(v_sum_lanes_i32(total));
    if (whole <= 16700000.0f) break;
    limit = limit * (16600000.0f / whole);
    if (!(limit >= 1.0f)) break; /* the scores are no numbers */
    limit = (float)(int32_t)limit;
  }
  return biggest / limit / (sum_unsigned(sum) * (1.0f / one));
}

/* acc[h][j] += weights . values over one run; j counts vectors of four dims, VECTORS at a time from `dim`. */
#define DEFINE_WEIGHTED(NAME, H, VECTORS)                                                                         \
  static AREOLE_NOINLINE void NAME(const int8_t *values, uint32_t v_padded, uint32_t fours, const int32_t *pairs, \
                                   uint32_t n, int32_t *sums, uint32_t sums_stride) {                             \
    vec a[H][VECTORS];                                                                                            \
    for (int h = 0; h < H; h++)                                                                                   \
      for (int j = 0; j < VECTORS; j++) a[h][j] = v_load(sums + h * sums_stride + 4 * j);                         \
    AREOLE_NO_UNROLL                                                                                              \
    for (uint32_t i = 0; i < 2 * fours; i++) {                                                                    \
      vec v[VECTORS];                                                                                             \
      for (int j = 0; j < VECTORS; j++) v[j] = v_widen_i8(values + 8 * j);                                        \
      for (int h = 0; h < H; h++) {                                                                               \
        vec w = v_splat_load((const float *)(const void *)(pairs + h * n));                                       \
        for (int j = 0; j < VECTORS; j++) a[h][j] = v_add_i32(a[h][j], v_dot_i16(v[j], w));                       \
      }                                                                                                           \
      values += 2 * v_padded;                                                                                     \
      pairs++;                                                                                                    \
      AREOLE_OPAQUE(values);                                                                                      \
      AREOLE_OPAQUE(pairs);                                                                                       \
    }                                                                                                             \
    for (int h = 0; h < H; h++)                                                                                   \
      for (int j = 0; j < VECTORS; j++) v_store(sums + h * sums_stride + 4 * j, a[h][j]);                         \
  }

DEFINE_WEIGHTED(weighted_6x2, 6, 2)
DEFINE_WEIGHTED(weighted_6x1, 6, 1)
DEFINE_WEIGHTED(weighted_1x1, 1, 1)

AREOLE_INLINE void *take(uint8_t **work, uint32_t bytes) {
  uint8_t *p = *work;
  *work = p + round_up(bytes, 64);
  return p;
}

/* `heads` is HEADS_AT_ONCE or 1. */
static void attend(const areole_cache *c, uint32_t kv_head, const areole_run *runs, uint32_t run_count,
                   const float *queries, uint32_t heads, uint8_t *work, float *out) {
  uint32_t n = 0, at = 0, visible = 0, wide = heads == HEADS_AT_ONCE;
  for (uint32_t i = 0; i < run_count; i++) {
    n += round_up((runs[i].first & 3) + runs[i].count, 4);
    visible += runs[i].count;
  }
  float *scores = take(&work, heads * n * 4), *value_scales = take(&work, n * 4);
  int32_t *pairs = take(&work, heads * n * 2), *sums = take(&work, heads * c->v_padded * 4);
  int16_t *q = take(&work, heads * c->qk_dim * 8);
  const int8_t *keys = keys_of(c, kv_head), *values = values_of(c, kv_head);
  float scales[HEADS_AT_ONCE], root = areole_inverse_sqrt(c->qk_dim);
  for (uint32_t h = 0; h < heads; h++) {
    int8_t rounded[4096];
    scales[h] = round_int8(queries + h * c->qk_dim, c->qk_dim, rounded) * root;
    for (uint32_t i = 0; i < c->qk_dim; i += 2) {
      uint32_t pair = (uint16_t)(int16_t)rounded[i] | (uint32_t)(uint16_t)(int16_t)rounded[i + 1] << 16;
      v_store(q + (i / 2 * heads + h) * 8, v_splat_i32((int32_t)pair));
    }
  }
  for (uint32_t i = 0; i < run_count; i++) {
    uint32_t first = runs[i].first & ~3u, before = runs[i].first & 3, lanes = round_up(before + runs[i].count, 4);
    (wide ? scores_6 : scores_1)(keys, c->key_scales + (size_t)kv_head * c->slots, first, lanes / 4, c->qk_dim, q,
                                 scales, scores + at, n);
    for (uint32_t h = 0; h < heads; h++) mask_run(scores + h * n + at, before, lanes, runs[i].count);
    memcpy(value_scales + at, c->value_scales + (size_t)kv_head * c->slots + first, lanes * 4);
    at += lanes;
  }
  for (uint32_t h = 0; h < heads; h++)
    scales[h] = softmax_weights(scores + h * n, value_scales, n, visible, pairs + h * (n / 2));
  memset(sums, 0, heads * c->v_padded * 4);
  at = 0;
  for (uint32_t i = 0; i < run_count; i++) {
    uint32_t first = runs[i].first & ~3u, lanes = round_up((runs[i].first & 3) + runs[i].count, 4), j = 0;
    const int8_t *v = values + (size_t)first * c->v_padded;
    const int32_t *weights = pairs + at / 2;
    for (; wide && j + 8 <= c->v_padded; j += 8)
      weighted_6x2(v + 2 * j, c->v_padded, lanes / 4, weights, n / 2, sums + j, c->v_padded);
    for (; j < c->v_padded; j += 4)
      (wide ? weighted_6x1 : weighted_1x1)(v + 2 * j, c->v_padded, lanes / 4, weights, n / 2, sums + j, c->v_padded);
    at += lanes;
  }
  for (uint32_t h = 0; h < heads; h++) {
    vec scale = v_splat(scales[h]);
    uint32_t i = 0;
    for (; i + 4 <= c->v_dim; i += 4)
      v_store(out + h * c->v_dim + i, v_mul(v_float(v_load(sums + h * c->v_padded + i)), scale));
    for (; i < c->v_dim; i++) out[h * c->v_dim + i] = (float)sums[h * c->v_padded + i] * scales[h];
  }
}

void areole_attention(const areole_cache *cache, uint32_t kv_head, const areole_run *runs, uint32_t run_count,
                      const float *queries, uint32_t heads, void *work, float *out) {
  uint32_t h = 0;
  for (; h + HEADS_AT_ONCE <= heads; h += HEADS_AT_ONCE)
    attend(cache, kv_head, runs, run_count, queries + h * cache->qk_dim, HEADS_AT_ONCE, work, out + h * cache->v_dim);
  for (; h < heads; h++)
    attend(cache, kv_head, runs, run_count, queries + h * cache->qk_dim, 1, work, out + h * cache->v_dim);
}

/* ---- the kernel alone, for tests and bench ---- */

int32_t areole_kernel_attention_size(uint32_t count, uint32_t heads, uint32_t qk_dim, uint32_t v_dim,
                                     uint32_t *work_bytes) {
  if (!work_bytes || !count || !heads || !qk_dim || !v_dim) return AREOLE_BAD_ARGUMENT;
  if (count > AREOLE_LONGEST || heads > 256 || qk_dim > 4096 || qk_dim % 2 || v_dim > 4096) return AREOLE_BAD_GEOMETRY;
  uint64_t slots = round_up(count, 4), bytes = slots * (qk_dim + round_up(v_dim, 4) + 8) + 4 * 64;
  bytes += areole_attention_work((uint32_t)slots, heads, qk_dim, v_dim);
  if (bytes > 0x7fffffff) return AREOLE_BAD_GEOMETRY;
  *work_bytes = (uint32_t)bytes;
  return AREOLE_OK;
}

int32_t areole_kernel_attention(const float *keys, const float *values, uint32_t count, uint32_t first,
                                const float *queries, uint32_t heads, uint32_t qk_dim, uint32_t v_dim, float *out,
                                void *work, uint32_t work_bytes) {
  uint32_t needed;
  if (!queries || !out || !work || (keys && !values) || first >= count) return AREOLE_BAD_ARGUMENT;
  int32_t status = areole_kernel_attention_size(count, heads, qk_dim, v_dim, &needed);
  if (status) return status;
  if (work_bytes < needed) return AREOLE_TOO_SMALL;
  uint8_t *rest = work;
  areole_cache c = {0, 0, 0, 0, round_up(count, 4), qk_dim, v_dim, round_up(v_dim, 4)};
  c.keys = take(&rest, c.slots * qk_dim);
  c.values = take(&rest, c.slots * c.v_padded);
  c.key_scales = take(&rest, c.slots * 4);
  c.value_scales = take(&rest, c.slots * 4);
  if (keys) {
    memset(work, 0, (size_t)(rest - (uint8_t *)work)); /* slots that no position fills are read and masked */
    for (uint32_t i = 0; i < count; i++)
      areole_cache_store(&c, 0, i, keys + (size_t)i * qk_dim, values + (size_t)i * v_dim);
  }
  areole_run run = {first, count - first};
  areole_attention(&c, 0, &run, 1, queries, heads, rest, out);
  return AREOLE_OK;
}
