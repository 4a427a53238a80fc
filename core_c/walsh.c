/* walsh.c: the MLP of generation 2: two Walsh-Hadamard transforms with learned diagonals round them.
 *
 * z = (d1 * z) H; z = silu(d2 * z) H; x += d3 * z, with z filled up with zeros to n and H normalised. */
#include "kernels.h"

void areole_walsh_add(const areole_walsh *m, const float *z, uint32_t d, float *work, float *x) {
  uint32_t n = m->n;
  float *a = work, *b = work + n;
  exp_constants e = load_exp();
  vec one = e.c[EXP_ONE];
  for (uint32_t i = 0; i < d; i += 4) v_store(a + i, v_mul(v_load(m->d1 + i), v_load(z + i)));
  memset(a + d, 0, (n - d) * sizeof(float));
  areole_unrotate(a, n, b, a);
  AREOLE_NO_UNROLL
  for (uint32_t i = 0; i < n; i += 4) {
    vec y = v_mul(v_load(m->d2 + i), v_load(a + i));
    v_store(a + i, v_div(y, v_add(one, v_exp_with(v_sub(v_zero(), y), &e))));
  }
  areole_unrotate(a, n, b, a);
  for (uint32_t i = 0; i < d; i += 4) v_store(x + i, v_add(v_load(x + i), v_mul(v_load(m->d3 + i), v_load(a + i))));
}

int32_t areole_kernel_walsh(const float *d1, const float *d2, const float *d3, uint32_t n, const float *z, uint32_t d,
                            float *work, float *x) {
  if (!d1 || !d2 || !d3 || !z || !work || !x || !d || d % 4) return AREOLE_BAD_ARGUMENT;
  if (n < 16 || n < d || (n & (n - 1))) return AREOLE_BAD_GEOMETRY;
  areole_walsh m = {n, d1, d2, d3};
  areole_walsh_add(&m, z, d, work, x);
  return AREOLE_OK;
}
