/* select.c: what greedy decoding asks of a row of logits: the largest, and the total of the softmax. */
#include "kernels.h"

enum { MOST = 256 };

int32_t areole_top(const float *values, uint32_t n, uint32_t k, uint32_t *ids, float *top) {
  if (!values || !ids || !top || !n || !k || k > MOST) return AREOLE_BAD_ARGUMENT;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (kept == k && !(values[i] > top[kept - 1])) continue;
    uint32_t at = kept < k ? kept++ : k - 1;
    for (; at > 0 && values[i] > top[at - 1]; at--) top[at] = top[at - 1], ids[at] = ids[at - 1];
    top[at] = values[i], ids[at] = i;
  }
  return (int32_t)kept;
}

int32_t areole_log_sum_exp(const float *values, uint32_t n, float *out) {
  if (!values || !out || !n) return AREOLE_BAD_ARGUMENT;
  float top = values[0], sum = 0.0f;
  for (uint32_t i = 1; i < n; i++) top = values[i] > top ? values[i] : top;
  vec sums = v_zero(), shift = v_splat(top);
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) sums = v_add(sums, v_exp(v_sub(v_load(values + i), shift)));
  sum = v_lane0(v_sum_lanes(sums));
  for (; i < n; i++) sum = sum + f_exp(values[i] - top);
  *out = top + f_log(sum);
  return AREOLE_OK;
}
