/* monarch.c: the Hadamard (Monarch) MLP: three learned Kronecker products with gathers between them.
 *
 * kron(z; A, B) reshapes z to (a, b) and computes A^T Z B. Both halves are sums of rows times a scalar, taken in
 * ascending order from zero, so B is used as stored and A transposed. */
#include "kernels.h"

/* out (rows, n) = x (rows, inner) times y (inner, n); 32 columns of a row at a time. */
static AREOLE_NOINLINE void product(const float *x, const float *y, uint32_t rows, uint32_t inner, uint32_t n,
                                    float *out) {
  for (uint32_t column = 0; column < n;) {
    if (n - column >= 32) {
      for (uint32_t r = 0; r < rows; r++) {
        vec a[8];
        const float *row = x + (size_t)r * inner, *source = y + column;
        for (int i = 0; i < 8; i++) a[i] = v_zero();
        AREOLE_NO_UNROLL
        for (uint32_t k = 0; k < inner; k++) {
          vec s = v_splat_load(row);
          for (int i = 0; i < 8; i++) a[i] = v_add(a[i], v_mul(s, v_load(source + 4 * i)));
          row++;
          source += n;
          AREOLE_OPAQUE(row);
          AREOLE_OPAQUE(source);
        }
        for (int i = 0; i < 8; i++) v_store(out + (size_t)r * n + column + 4 * i, a[i]);
      }
      column += 32;
    } else if (n - column >= 4) {
      for (uint32_t r = 0; r < rows; r++) {
        vec a = v_zero();
        for (uint32_t k = 0; k < inner; k++)
          a = v_add(a, v_mul(v_splat(x[(size_t)r * inner + k]), v_load(y + (size_t)k * n + column)));
        v_store(out + (size_t)r * n + column, a);
      }
      column += 4;
    } else {
      for (uint32_t r = 0; r < rows; r++) {
        float a = 0.0f;
        for (uint32_t k = 0; k < inner; k++) a = a + x[(size_t)r * inner + k] * y[(size_t)k * n + column];
        out[(size_t)r * n + column] = a;
      }
      column += 1;
    }
  }
}

void areole_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, float *work,
                 float *out) {
  product(z, b, a_dim, b_dim, b_dim, work);
  product(at, work, a_dim, a_dim, b_dim, out);
}

/* softmax(z cond_v) (rank,), z taken four rows at a time so that the sums do not wait for each other. */
static AREOLE_NOINLINE void condition(const areole_monarch *m, const float *z, uint32_t d, float *weights) {
  for (uint32_t r = 0; r < m->rank; r += 4) {
    const float *v = m->cond_v + r, *x = z;
    size_t rank = m->rank;
    vec s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;
    AREOLE_NO_UNROLL
    for (uint32_t k = 0; k < d; k += 4) {
      s0 = v_add(s0, v_mul(v_splat_load(x), v_load(v)));
      s1 = v_add(s1, v_mul(v_splat_load(x + 1), v_load(v + rank)));
      s2 = v_add(s2, v_mul(v_splat_load(x + 2), v_load(v + 2 * rank)));
      s3 = v_add(s3, v_mul(v_splat_load(x + 3), v_load(v + 3 * rank)));
      v += 4 * rank;
      x += 4;
    }
    v_store(weights + r, v_add(v_add(s0, s1), v_add(s2, s3)));
  }
  float top = weights[0], sum = 0.0f;
  for (uint32_t r = 1; r < m->true_rank; r++) top = weights[r] > top ? weights[r] : top;
  for (uint32_t r = 0; r < m->true_rank; r++) {
    weights[r] = f_exp(weights[r] - top);
    sum = sum + weights[r];
  }
  for (uint32_t r = 0; r < m->true_rank; r++) weights[r] = weights[r] / sum;
}

/* y = d2 * (1 + weights . cond_u) * x + b2, then silu in place; cond (n,) is scratch. */
static AREOLE_NOINLINE void gated_silu(const areole_monarch *m, const float *weights, float *x, float *cond) {
  uint32_t n = m->n;
  exp_constants e = load_exp();
  vec one = e.c[EXP_ONE];
  for (uint32_t i = 0; i < n; i += 4) v_store(cond + i, one);
  for (uint32_t r = 0; r < m->true_rank; r++) {
    vec w = v_splat(weights[r]);
    const float *u = m->cond_u + (size_t)r * n;
    for (uint32_t i = 0; i < n; i += 4) v_store(cond + i, v_add(v_load(cond + i), v_mul(w, v_load(u + i))));
  }
  AREOLE_NO_UNROLL
  for (uint32_t i = 0; i < n; i += 4) {
    vec y = v_add(v_mul(v_mul(v_load(m->d2 + i), v_load(cond + i)), v_load(x + i)), v_load(m->b2 + i));
    v_store(x + i, v_div(y, v_add(one, v_exp_with(v_sub(v_zero(), y), &e))));
  }
}

static AREOLE_NOINLINE void gather(const float *x, const uint32_t *index, uint32_t n, float *out) {
  for (uint32_t i = 0; i < n; i += 4) {
    float a = x[index[i]], b = x[index[i + 1]], c = x[index[i + 2]], d = x[index[i + 3]];
    out[i] = a, out[i + 1] = b, out[i + 2] = c, out[i + 3] = d;
  }
}

void areole_monarch_add(const areole_monarch *m, const float *z, uint32_t d, float *work, float *x) {
  float *p = work, *q = work + m->n, *temporary = work + 2 * m->n, *weights = work + 3 * m->n;
  uint32_t n = m->n;
  condition(m, z, d, weights);
  for (uint32_t i = 0; i < d; i += 4) v_store(p + i, v_mul(v_load(m->d1 + i), v_load(z + i)));
  memset(p + d, 0, (n - d) * sizeof(float));
  areole_kron(m->w1a, m->w1b, p, m->a, m->b, temporary, q);
  gather(q, m->p1, n, p);
  gated_silu(m, weights, p, temporary);
  areole_kron(m->w2a, m->w2b, p, m->a, m->b, temporary, q);
  gather(q, m->p2, n, p);
  for (uint32_t i = 0; i < n; i += 4) v_store(p + i, v_mul(v_load(m->d3 + i), v_load(p + i)));
  areole_kron(m->w3a, m->w3b, p, m->a, m->b, temporary, q);
  for (uint32_t i = 0; i < d; i += 4) v_store(x + i, v_add(v_load(x + i), v_mul(v_load(m->d4 + i), v_load(q + i))));
}

int32_t areole_kernel_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, float *work,
                           float *out) {
  if (!at || !b || !z || !work || !out || !a_dim || !b_dim) return AREOLE_BAD_ARGUMENT;
  areole_kron(at, b, z, a_dim, b_dim, work, out);
  return AREOLE_OK;
}
