/* probes.c: the probe pool of a head, kept up with each token, so that no (T, L + 1, D) buffer exists.
 *
 * Per (row, probe) the state is the running maximum of the scores, the sum of exp(score - maximum), and the cells
 * summed with those weights. A new maximum rescales what is there. State: [(rows * k), 2 + d] floats, maximum
 * and sum padded to 4. */
#include "kernels.h"

enum { HEAD_START = 4 }; /* maximum, sum, two unused: the vector starts aligned */

uint32_t areole_pool_floats(const areole_head *head) { return head->rows * head->k * (HEAD_START + head->d); }

void areole_pool_reset(const areole_head *head, float *state) {
  memset(state, 0, areole_pool_floats(head) * sizeof(float));
  for (uint32_t i = 0; i < head->rows * head->k; i++) state[i * (HEAD_START + head->d)] = -1e30f;
}

/* sum (d,) = sum * keep + cell * weight. */
static AREOLE_NOINLINE void blend(float *sum, float keep, const float *cell, float weight, uint32_t d) {
  vec k = v_splat(keep), w = v_splat(weight);
  for (uint32_t i = 0; i < d; i += 4) v_store(sum + i, v_add(v_mul(v_load(sum + i), k), v_mul(v_load(cell + i), w)));
}

void areole_pool_add(const areole_head *head, float *state, uint32_t row, const float *cell) {
  float root = areole_inverse_sqrt(head->d);
  for (uint32_t p = row * head->k; p < (row + 1) * head->k; p++) {
    float *s = state + p * (HEAD_START + head->d);
    uint32_t probe = head->query ? p : p - row * head->k;
    float score = f_dot(cell, head->probes + (size_t)probe * head->d, head->d) * root;
    float keep = 1.0f, weight = 1.0f;
    if (score > s[0]) {
      keep = s[1] > 0.0f ? f_exp(s[0] - score) : 0.0f;
      s[0] = score;
    } else {
      weight = f_exp(score - s[0]);
    }
    s[1] = s[1] * keep + weight;
    blend(s + HEAD_START, keep, cell, weight, head->d);
  }
}

/* One softmax over all cells for each probe, (k, d): the rows' pools, weighted by their shares of it. */
static void finish_flat(const areole_head *head, const float *state, float *pooled) {
  uint32_t d = head->d, stride = HEAD_START + d;
  memset(pooled, 0, (size_t)head->k * d * sizeof(float));
  for (uint32_t p = 0; p < head->k; p++) {
    float top = -1e30f, sum = 0.0f;
    for (uint32_t r = 0; r < head->rows; r++) {
      float most = state[(r * head->k + p) * stride];
      top = most > top ? most : top;
    }
    for (uint32_t r = 0; r < head->rows; r++) {
      const float *s = state + (size_t)(r * head->k + p) * stride;
      sum = sum + f_exp(s[0] - top) * s[1];
    }
    for (uint32_t r = 0; r < head->rows; r++) {
      const float *s = state + (size_t)(r * head->k + p) * stride;
      blend(pooled + p * d, 1.0f, s + HEAD_START, f_exp(s[0] - top) / sum, d);
    }
  }
}

/* The queries' choice among all rows and probes, (q, d). */
static void finish_rows(const areole_head *head, const float *state, float *work, float *pooled) {
  uint32_t d = head->d, cells = head->rows * head->k;
  float *r = work, *u = work + cells * d, root = areole_inverse_sqrt(d);
  for (uint32_t p = 0; p < cells; p++) {
    const float *s = state + p * (HEAD_START + d);
    float share = 1.0f / s[1];
    for (uint32_t i = 0; i < d; i++) r[p * d + i] = s[HEAD_START + i] * share;
    float scale = f_inverse_rms(r + p * d, d) * head->gain[p];
    for (uint32_t i = 0; i < d; i++) r[p * d + i] = r[p * d + i] * scale;
  }
  for (uint32_t q = 0; q < head->q; q++) {
    float top = -1e30f, sum = 0.0f, *out = pooled + q * d;
    for (uint32_t p = 0; p < cells; p++) {
      u[p] = f_dot(r + p * d, head->query + (size_t)q * d, d) * root + head->row_bias[q * cells + p];
      top = u[p] > top ? u[p] : top;
    }
    for (uint32_t p = 0; p < cells; p++) {
      u[p] = f_exp(u[p] - top);
      sum = sum + u[p];
    }
    memset(out, 0, d * sizeof(float));
    for (uint32_t p = 0; p < cells; p++) blend(out, 1.0f, r + p * d, u[p] / sum, d);
  }
}

/* work: rows * k * (d + 1) floats. */
void areole_pool_finish(const areole_head *head, const float *state, float *work, float *pooled, float *output) {
  uint32_t d = head->d;
  if (head->query)
    finish_rows(head, state, work, pooled);
  else
    finish_flat(head, state, pooled);
  for (uint32_t o = 0; output && o < head->outputs; o++)
    output[o] = f_dot(pooled, head->proj + (size_t)o * head->q * d, head->q * d) + head->bias[o];
}
