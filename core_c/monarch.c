/* monarch.c: the Hadamard (Monarch) MLP: three learned Kronecker products with gathers between them.
 *
 * kron(z; A, B) reshapes z to (a, b) and computes A^T Z B. Both halves are sums of rows times a scalar, taken in
 * ascending order from zero, so B is used as stored and A transposed. */
#include "kernels.h"

/* product for n = 32, what models are shipped with, and whole fours of inner: addresses are constants, and of each row
 * of x four numbers are loaded at once. Two rows by 8 columns at a time, which is what there are registers for. */
static AREOLE_NOINLINE void product_32(const float *x, uint32_t stride, const float *y, uint32_t rows, uint32_t inner,
                                       float *out) {
  for (uint32_t column = 0; column < 32; column += 8)
    for (uint32_t r = 0; r < rows; r += 2) {
      vec a[2][2];
      const float *first = x + (size_t)r * stride, *second = first + stride, *source = y + column;
      for (int i = 0; i < 2; i++) a[0][i] = a[1][i] = v_zero();
      AREOLE_NO_UNROLL
      for (uint32_t k = 0; k < inner; k += 4) {
        vec s = v_load(first), t = v_load(second);
        vec rows_of_x[2][4] = {{v_shuffle32(s, s, 0, 0, 0, 0), v_shuffle32(s, s, 1, 1, 1, 1),
                                v_shuffle32(s, s, 2, 2, 2, 2), v_shuffle32(s, s, 3, 3, 3, 3)},
                               {v_shuffle32(t, t, 0, 0, 0, 0), v_shuffle32(t, t, 1, 1, 1, 1),
                                v_shuffle32(t, t, 2, 2, 2, 2), v_shuffle32(t, t, 3, 3, 3, 3)}};
        for (int i = 0; i < 2; i++)
          for (int j = 0; j < 4; j++) {
            vec b = v_load(source + 32 * j + 4 * i);
            for (int row = 0; row < 2; row++) a[row][i] = v_add(a[row][i], v_mul(rows_of_x[row][j], b));
          }
        first += 4;
        second += 4;
        source += 128;
        AREOLE_OPAQUE(first);
        AREOLE_OPAQUE(second);
        AREOLE_OPAQUE(source);
      }
      for (int row = 0; row < 2; row++)
        for (int i = 0; i < 2; i++) v_store(out + (size_t)(r + row) * 32 + column + 4 * i, a[row][i]);
    }
}

/* out (rows, n) = x (rows, inner) times y (inner, n), where rows of x are `stride` floats apart. Two rows by 16 columns
 * at a time, then what is left of either. */
static AREOLE_NOINLINE void product(const float *x, uint32_t stride, const float *y, uint32_t rows, uint32_t inner,
                                    uint32_t n, float *out) {
  if (n == 32 && inner % 4 == 0 && rows % 2 == 0) {
    product_32(x, stride, y, rows, inner, out);
    return;
  }
  uint32_t wide = n & ~15u, pairs = rows & ~1u;
  for (uint32_t column = 0; column < wide; column += 16)
    for (uint32_t r = 0; r < pairs; r += 2) {
      vec a[2][4];
      const float *first = x + (size_t)r * stride, *second = first + stride, *source = y + column;
      for (int i = 0; i < 4; i++) a[0][i] = a[1][i] = v_zero();
      uint32_t twos = inner / 2;
      AREOLE_NO_UNROLL
      for (uint32_t k = 0; k < twos; k++) {
        vec s0 = v_splat_load(first), s1 = v_splat_load(second);
        vec t0 = v_splat_load(first + 1), t1 = v_splat_load(second + 1);
        for (int i = 0; i < 4; i++) {
          vec b = v_load(source + 4 * i), c = v_load(source + n + 4 * i);
          a[0][i] = v_add(v_add(a[0][i], v_mul(s0, b)), v_mul(t0, c));
          a[1][i] = v_add(v_add(a[1][i], v_mul(s1, b)), v_mul(t1, c));
        }
        first += 2;
        second += 2;
        source += 2 * n;
        AREOLE_OPAQUE(first);
        AREOLE_OPAQUE(second);
        AREOLE_OPAQUE(source);
      }
      for (int i = 0; inner % 2 && i < 4; i++) {
        a[0][i] = v_add(a[0][i], v_mul(v_splat_load(first), v_load(source + 4 * i)));
        a[1][i] = v_add(a[1][i], v_mul(v_splat_load(second), v_load(source + 4 * i)));
      }
      for (int i = 0; i < 4; i++) v_store(out + (size_t)r * n + column + 4 * i, a[0][i]);
      for (int i = 0; i < 4; i++) v_store(out + (size_t)(r + 1) * n + column + 4 * i, a[1][i]);
    }
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t column = r < pairs ? wide : 0; column < n; column++) {
      float a = 0.0f;
      for (uint32_t k = 0; k < inner; k++) a = a + x[(size_t)r * stride + k] * y[(size_t)k * n + column];
      out[(size_t)r * n + column] = a;
    }
}

/* The Kronecker product of z (a_dim, b_dim), of which only the first `given` rows are not zero, and of whose result
 * only the first `wanted` rows are. What is left out would add zeros. */
static void kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, uint32_t given,
                 uint32_t wanted, float *work, float *out) {
  product(z, b_dim, b, given, b_dim, b_dim, work);
  product(at, a_dim, work, wanted, given, b_dim, out);
}

void areole_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, float *work,
                 float *out) {
  kron(at, b, z, a_dim, b_dim, a_dim, a_dim, work, out);
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

/* cond (n,) = 1 + weights . cond_u, ranks in ascending order; 16 at a time stay in registers (n is a power of two). */
static AREOLE_NOINLINE void conditions(const areole_monarch *m, const float *weights, float *cond) {
  uint32_t n = m->n, wide = n & ~15u;
  vec one = v_splat(1.0f);
  for (uint32_t i = 0; i < wide; i += 16) {
    vec c0 = one, c1 = one, c2 = one, c3 = one;
    const float *u = m->cond_u + i, *weight = weights;
    AREOLE_NO_UNROLL
    for (uint32_t r = 0; r < m->true_rank; r++) {
      vec w = v_splat_load(weight);
      c0 = v_add(c0, v_mul(w, v_load(u)));
      c1 = v_add(c1, v_mul(w, v_load(u + 4)));
      c2 = v_add(c2, v_mul(w, v_load(u + 8)));
      c3 = v_add(c3, v_mul(w, v_load(u + 12)));
      u += n;
      weight++;
      AREOLE_OPAQUE(u);
      AREOLE_OPAQUE(weight);
    }
    v_store(cond + i, c0), v_store(cond + i + 4, c1), v_store(cond + i + 8, c2), v_store(cond + i + 12, c3);
  }
  for (uint32_t i = wide; i < n; i++) {
    cond[i] = 1.0f;
    for (uint32_t r = 0; r < m->true_rank; r++) cond[i] = cond[i] + weights[r] * m->cond_u[(size_t)r * n + i];
  }
}

/* y = d2 * (1 + weights . cond_u) * x + b2, then silu in place; cond (n,) is scratch. */
static AREOLE_NOINLINE void gated_silu(const areole_monarch *m, const float *weights, float *x, float *cond) {
  uint32_t n = m->n;
  exp_constants e = load_exp();
  conditions(m, weights, cond);
  AREOLE_NO_UNROLL
  for (uint32_t i = 0; i < n; i += 4) {
    vec y = v_add(v_mul(v_mul(v_load(m->d2 + i), v_load(cond + i)), v_load(x + i)), v_load(m->b2 + i));
    v_store(x + i, v_div(y, v_add(e.c[EXP_ONE], v_exp_with(v_sub(v_zero(), y), &e))));
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
  uint32_t n = m->n, rows = (d + m->b - 1) / m->b; /* of the matrix that z is, and that its sum with x is */
  condition(m, z, d, weights);
  for (uint32_t i = 0; i < d; i += 4) v_store(p + i, v_mul(v_load(m->d1 + i), v_load(z + i)));
  memset(p + d, 0, (n - d) * sizeof(float));
  kron(m->w1a, m->w1b, p, m->a, m->b, rows, m->a, temporary, q);
  gather(q, m->p1, n, p);
  gated_silu(m, weights, p, temporary);
  kron(m->w2a, m->w2b, p, m->a, m->b, m->a, m->a, temporary, q);
  gather(q, m->p2, n, p);
  for (uint32_t i = 0; i < n; i += 4) v_store(p + i, v_mul(v_load(m->d3 + i), v_load(p + i)));
  kron(m->w3a, m->w3b, p, m->a, m->b, m->a, rows, temporary, q);
  for (uint32_t i = 0; i < d; i += 4) v_store(x + i, v_add(v_load(x + i), v_mul(v_load(m->d4 + i), v_load(q + i))));
}

int32_t areole_kernel_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, float *work,
                           float *out) {
  if (!at || !b || !z || !work || !out || !a_dim || !b_dim) return AREOLE_BAD_ARGUMENT;
  areole_kron(at, b, z, a_dim, b_dim, work, out);
  return AREOLE_OK;
}
