/* norm.c: the zero-centred root-mean-square norm, and the elementwise functions of fmath.h for tests and bench. */
#include "kernels.h"

void areole_norm(const float *x, const float *scale, uint32_t n, float *out) {
  float inverse = f_inverse_rms(x, n);
  vec factor = v_splat(inverse), one = v_splat(1.0f);
  uint32_t i = 0;
  for (; i + 4 <= n; i += 4) v_store(out + i, v_mul(v_mul(v_load(x + i), factor), v_add(one, v_load(scale + i))));
  for (; i < n; i++) out[i] = (x[i] * inverse) * (1.0f + scale[i]);
}

int32_t areole_kernel_norm(const float *x, const float *scale, uint32_t n, float *out) {
  if (!x || !scale || !out || !n) return AREOLE_BAD_ARGUMENT;
  areole_norm(x, scale, n, out);
  return AREOLE_OK;
}

int32_t areole_kernel_exp(const float *x, uint32_t n, float *out) {
  if (!x || !out || n % 4) return AREOLE_BAD_ARGUMENT;
  for (uint32_t i = 0; i < n; i += 4) v_store(out + i, v_exp(v_load(x + i)));
  return AREOLE_OK;
}

int32_t areole_kernel_sigmoid(const float *x, uint32_t n, float *out) {
  if (!x || !out || n % 4) return AREOLE_BAD_ARGUMENT;
  for (uint32_t i = 0; i < n; i += 4) v_store(out + i, v_sigmoid(v_load(x + i)));
  return AREOLE_OK;
}
