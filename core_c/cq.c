/* cq.c: Cactus Quants. Levels as integers, the layout the kernels read, and the products.
 *
 * A matrix row is packed codes plus one f16 norm per group; weight = level[code] * norm, rotated. The products are
 * integer: int8 activations times levels rounded to at most 7 bits with a common unit. 2-bit levels are small
 * integers (the shipped codebook is {-10, -3, 3, 10} * unit within 0.2 %), 3- and 4-bit ones reach +-63.
 * Per group: y += float(dot) * (norm * scale), groups in ascending order, in every kernel and for every batch, so
 * that one token and many give the same bits. */
#include "kernels.h"

/* ---- levels ---- */

/* Fits integers q in [-most, most] and a unit to the levels by least squares over a scan of units. */
static void fit_levels(const float *values, uint32_t count, int32_t most, int32_t *q, float *unit) {
  double top = 0.0, best = -1.0;
  for (uint32_t i = 0; i < count; i++) {
    double size = values[i] < 0.0f ? -(double)values[i] : (double)values[i];
    if (size > top) top = size;
  }
  *unit = 0.0f;
  for (uint32_t i = 0; i < count; i++) q[i] = 0;
  if (top == 0.0) return;
  for (int32_t reach = 1; reach <= most; reach++)
    for (int32_t step = 0; step < 40; step++) {
      double trial = top / (reach - 0.5 + (step + 0.5) / 40.0), dot = 0.0, square = 0.0, error = 0.0;
      int32_t k[16];
      int fits = 1;
      for (uint32_t i = 0; i < count; i++) {
        double ratio = values[i] / trial;
        k[i] = (int32_t)(ratio < 0.0 ? ratio - 0.5 : ratio + 0.5);
        if (k[i] > most || k[i] < -most) fits = 0;
        dot += (double)k[i] * values[i];
        square += (double)k[i] * k[i];
      }
      if (!fits || square == 0.0) continue;
      double fitted = dot / square;
      for (uint32_t i = 0; i < count; i++) {
        double miss = k[i] * fitted - values[i];
        error += miss * miss;
      }
      if (best < 0.0 || error < best) {
        best = error;
        *unit = (float)fitted;
        for (uint32_t i = 0; i < count; i++) q[i] = k[i];
      }
    }
}

void areole_levels_init(areole_levels *levels, const float *values, uint32_t bits) {
  static const uint8_t counts[6] = {0, 2, 4, 8, 16, 4};
  uint32_t count = counts[bits];
  int32_t q[16] = {0}, most = 0;
  memset(levels, 0, sizeof *levels);
  levels->width = bits == 3 || bits == 4 ? 4 : 2;
  /* 16 for 2-bit codes: products of int8 activations then add up in i16 four deep, which other kernels may use. */
  fit_levels(values, count, levels->width == 2 ? 16 : 63, q, &levels->unit);
  for (uint32_t i = 0; i < count; i++) {
    levels->value[i] = values[i];
    if (q[i] > most) most = q[i];
    if (-q[i] > most) most = -q[i];
  }
  levels->offset = most;
  memset(levels->nibble, 15, sizeof levels->nibble);
  for (uint32_t i = 0; i < 16; i++) {
    levels->low[i] = (uint8_t)(q[levels->width == 2 ? i & 3 : i] + most);
    levels->high[i] = (uint8_t)(q[levels->width == 2 ? i >> 2 : i] + most);
  }
}

/* ---- layout ---- */

static uint32_t code_width(uint32_t bits) { return bits == 5 ? 2 : bits; }

uint32_t areole_stored_row_bytes(uint32_t padded, uint32_t bits) { return padded * code_width(bits) / 8; }

/* Code `index` of a row stored as a little-endian bitstream. */
AREOLE_INLINE uint32_t stored_code(const uint8_t *row, uint32_t index, uint32_t width) {
  uint32_t bit = index * width, byte = bit >> 3, shift = bit & 7;
  uint32_t window = row[byte];
  if (shift + width > 8) window |= (uint32_t)row[byte + 1] << 8;
  return (window >> shift) & ((1u << width) - 1);
}

/* Rewrites rows of 1- or 3-bit codes as 2- or 4-bit codes. */
static void widen_codes(const uint8_t *stored, uint32_t bits, uint32_t rows, uint32_t padded, uint32_t width,
                        uint8_t *codes) {
  uint32_t from = areole_stored_row_bytes(padded, bits), to = padded * width / 8, per_byte = 8 / width;
  for (uint32_t r = 0; r < rows; r++)
    for (uint32_t i = 0; i < to; i++) {
      uint32_t byte = 0;
      for (uint32_t k = 0; k < per_byte; k++)
        byte |= stored_code(stored + (size_t)r * from, i * per_byte + k, bits) << (k * width);
      codes[(size_t)r * to + i] = (uint8_t)byte;
    }
}

/* Where row r's words (4 bytes) and norms (2 bytes) start, and how many rows share its block. */
AREOLE_INLINE uint32_t block_of(const areole_matrix *m, uint32_t r, uint32_t *first) {
  uint32_t whole = m->rows & ~15u, fours = m->rows & ~3u;
  uint32_t size = r < whole ? 16 : r < fours ? 4 : 1;
  *first = size == 16 ? r & ~15u : size == 4 ? whole + ((r - whole) & ~3u) : r;
  return size;
}

int32_t areole_matrix_init(areole_matrix *m, const areole_levels *levels, uint8_t *stored, uint8_t *codes,
                           uint16_t *norms, uint32_t rows, uint32_t columns, uint32_t group, uint32_t bits,
                           void *work) {
  uint32_t padded = round_up(columns, group);
  m->codes = codes;
  m->norms = norms;
  m->levels = levels;
  m->rows = rows;
  m->columns = columns;
  m->group = group;
  m->groups = padded / group;
  m->row_bytes = padded * levels->width / 8;
  if (code_width(bits) != levels->width) widen_codes(stored, bits, rows, padded, levels->width, codes);
  uint32_t words = m->row_bytes / 4;
  for (uint32_t r = 0, size; r < rows; r += size) {
    uint32_t first;
    size = block_of(m, r, &first);
    if (size == 1) break;
    uint8_t *block = codes + (size_t)r * m->row_bytes;
    memcpy(work, block, size * m->row_bytes);
    for (uint32_t i = 0; i < size; i++)
      for (uint32_t w = 0; w < words; w++)
        memcpy(block + (w * size + i) * 4, (uint8_t *)work + i * m->row_bytes + 4 * w, 4);
    uint16_t *block_norms = norms + (size_t)r * m->groups;
    memcpy(work, block_norms, size * m->groups * 2);
    for (uint32_t i = 0; i < size; i++)
      for (uint32_t g = 0; g < m->groups; g++)
        memcpy(block_norms + g * size + i, (uint16_t *)work + i * m->groups + g, 2);
  }
  return AREOLE_OK;
}

void areole_matrix_row(const areole_matrix *m, uint32_t row, float *work, float *out) {
  uint32_t first, size = block_of(m, row, &first), lane = row - first, width = m->levels->width, per_byte = 8 / width;
  const uint8_t *codes = m->codes + (size_t)first * m->row_bytes;
  const uint16_t *norms = m->norms + (size_t)first * m->groups;
  for (uint32_t g = 0; g < m->groups; g++) {
    float norm = f16_value(norms[g * size + lane]);
    for (uint32_t i = 0; i < m->group; i++) {
      uint32_t column = g * m->group + i, byte = column / per_byte;
      uint32_t code = codes[((byte >> 2) * size + lane) * 4 + (byte & 3)] >> ((column % per_byte) * width);
      work[m->group + i] = m->levels->value[code & ((1u << width) - 1)] * norm;
    }
    areole_unrotate(work + m->group, m->group, work, out + g * m->group);
  }
}

void areole_table_row(const areole_table *t, uint32_t row, float *work, float *out) {
  const uint8_t *codes = t->codes + (size_t)row * t->row_bytes;
  uint32_t width = code_width(t->bits);
  for (uint32_t g = 0; g < t->groups; g++) {
    float norm = f16_value(t->norms[(size_t)row * t->groups + g]);
    for (uint32_t i = 0; i < t->group; i++)
      work[t->group + i] = t->levels->value[stored_code(codes, g * t->group + i, width)] * norm;
    areole_unrotate(work + t->group, t->group, work, out + g * t->group);
  }
}

/* ---- products ---- */

typedef void gemv_kernel(const uint8_t *, const uint16_t *, const areole_levels *, const int8_t *, const areole_part *,
                         uint32_t, uint32_t, uint32_t, float *);
typedef void gemm_kernel(const uint8_t *, const uint16_t *, uint32_t, const areole_levels *, const int8_t *,
                         const areole_part *, uint32_t, uint32_t, float *, uint32_t);

/* Rows in blocks of 4 * R (R row quads interleaved) times one token. `steps` words of a row make a group. */
#define DEFINE_GEMV(NAME, R, WIDTH, DOT)                                                                            \
  static AREOLE_NOINLINE void NAME(const uint8_t *w, const uint16_t *norms, const areole_levels *levels,            \
                                   const int8_t *quads, const areole_part *parts, uint32_t blocks, uint32_t groups, \
                                   uint32_t steps, float *y) {                                                      \
    vec low = v_load(levels->low), high = v_load(levels->high), nibble = v_splat_i32(0x0f0f0f0f), zero = v_zero();  \
    for (; blocks; blocks--, y += 4 * R) {                                                                          \
      const int8_t *x = quads;                                                                                      \
      vec f[R];                                                                                                     \
      for (int i = 0; i < R; i++) f[i] = zero;                                                                      \
      for (uint32_t g = 0; g < groups; g++, norms += 4 * R) {                                                       \
        vec a[R][2], start = v_splat_i32(-levels->offset * parts[g].sum);                                           \
        for (int i = 0; i < R; i++) a[i][0] = start, a[i][1] = zero;                                                \
        AREOLE_NO_UNROLL                                                                                            \
        for (uint32_t s = 0; s < steps; s++) {                                                                      \
          AREOLE_TOUCH(w + 1024);                                                                                   \
          for (int i = 0; i < R; i++) {                                                                             \
            vec b = v_load(w + 16 * i), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);               \
            a[i][0] = DOT(v_load(x), v_lookup(low, lo), a[i][0]);                                                   \
            if (WIDTH == 2) {                                                                                       \
              a[i][1] = DOT(v_load(x + 16), v_lookup(high, lo), a[i][1]);                                           \
              a[i][0] = DOT(v_load(x + 32), v_lookup(low, hi), a[i][0]);                                            \
              a[i][1] = DOT(v_load(x + 48), v_lookup(high, hi), a[i][1]);                                           \
            } else {                                                                                                \
              a[i][1] = DOT(v_load(x + 16), v_lookup(low, hi), a[i][1]);                                            \
            }                                                                                                       \
          }                                                                                                         \
          w += 16 * R;                                                                                              \
          x += WIDTH == 2 ? 64 : 32;                                                                                \
          AREOLE_OPAQUE(w);                                                                                         \
          AREOLE_OPAQUE(x);                                                                                         \
        }                                                                                                           \
        vec scale = v_splat(parts[g].scale * levels->unit);                                                         \
        for (int i = 0; i < R; i++)                                                                                 \
          f[i] = areole_add_group(f[i], v_add_i32(a[i][0], a[i][1]), areole_norms4(norms + 4 * i), scale);          \
      }                                                                                                             \
      for (int i = 0; i < R; i++) v_store(y + 4 * i, f[i]);                                                         \
    }                                                                                                               \
  }

DEFINE_GEMV(gemv2_r4, 4, 2, v_dot_i8)
DEFINE_GEMV(gemv2_r1, 1, 2, v_dot_i8)
DEFINE_GEMV(gemv4_r4, 4, 4, v_dot_i8)
DEFINE_GEMV(gemv4_r1, 1, 4, v_dot_i8)

/* R row quads, `pitch` bytes of codes (and pitch / 4 norms) from one word to the next, times a tile of 6 tokens. */
#define DEFINE_GEMM(NAME, R, WIDTH, TILE, DOT)                                                                       \
  static AREOLE_NOINLINE void NAME(const uint8_t *w, const uint16_t *norms, uint32_t pitch,                          \
                                   const areole_levels *levels, const int8_t *x, const areole_part *parts,           \
                                   uint32_t groups, uint32_t steps, float *y, uint32_t stride) {                     \
    vec low = v_load(levels->low), high = v_load(levels->high), nibble = v_splat_i32(0x0f0f0f0f);                    \
    vec f[TILE][R];                                                                                                  \
    for (int t = 0; t < TILE; t++)                                                                                   \
      for (int i = 0; i < R; i++) f[t][i] = v_zero();                                                                \
    for (uint32_t g = 0; g < groups; g++) {                                                                          \
      vec a[TILE][R];                                                                                                \
      for (int t = 0; t < TILE; t++) {                                                                               \
        vec start = v_splat_i32(-levels->offset * parts[t * groups + g].sum);                                        \
        for (int i = 0; i < R; i++) a[t][i] = start;                                                                 \
      }                                                                                                              \
      AREOLE_NO_UNROLL                                                                                               \
      for (uint32_t s = 0; s < steps; s++) {                                                                         \
        AREOLE_TOUCH(w + 3072);                                                                                      \
        vec lo[R], hi[R], level[R];                                                                                  \
        for (int i = 0; i < R; i++) {                                                                                \
          vec b = v_load(w + 16 * i);                                                                                \
          lo[i] = v_and(b, nibble);                                                                                  \
          hi[i] = v_and(v_high_nibbles(b), nibble);                                                                  \
        }                                                                                                            \
        for (int q = 0; q < (WIDTH == 2 ? 4 : 2); q++) {                                                             \
          for (int i = 0; i < R; i++)                                                                                \
            level[i] =                                                                                               \
                WIDTH == 2 ? v_lookup(q & 1 ? high : low, q & 2 ? hi[i] : lo[i]) : v_lookup(low, q ? hi[i] : lo[i]); \
          for (int t = 0; t < TILE; t++) {                                                                           \
            vec values = v_load(x + (q * TILE + t) * 16);                                                            \
            for (int i = 0; i < R; i++) a[t][i] = DOT(values, level[i], a[t][i]);                                    \
          }                                                                                                          \
        }                                                                                                            \
        w += pitch;                                                                                                  \
        x += (WIDTH == 2 ? 4 : 2) * TILE * 16;                                                                       \
        AREOLE_OPAQUE(w);                                                                                            \
        AREOLE_OPAQUE(x);                                                                                            \
      }                                                                                                              \
      for (int i = 0; i < R; i++) {                                                                                  \
        vec norm = areole_norms4(norms + 4 * i);                                                                     \
        for (int t = 0; t < TILE; t++)                                                                               \
          f[t][i] = areole_add_group(f[t][i], a[t][i], norm, v_splat(parts[t * groups + g].scale * levels->unit));   \
      }                                                                                                              \
      norms += pitch / 4;                                                                                            \
    }                                                                                                                \
    for (int t = 0; t < TILE; t++)                                                                                   \
      for (int i = 0; i < R; i++) v_store(y + t * stride + 4 * i, f[t][i]);                                          \
  }

DEFINE_GEMM(gemm2_r2, 2, 2, AREOLE_TILE, v_dot_i8)
DEFINE_GEMM(gemm2_r1, 1, 2, AREOLE_TILE, v_dot_i8)
DEFINE_GEMM(gemm4_r2, 2, 4, AREOLE_TILE, v_dot_i8)
DEFINE_GEMM(gemm4_r1, 1, 4, AREOLE_TILE, v_dot_i8)

#ifdef AREOLE_PAIRS
/* 4-bit levels are too large for pair sums to add up (pairs.c), but even so they save instructions. */
DEFINE_GEMV(gemv4_pairs, 4, 4, v_dot_by_pairs)
DEFINE_GEMV(gemv4_pairs_r1, 1, 4, v_dot_by_pairs)
DEFINE_GEMM(gemm4_pairs, 2, 4, AREOLE_TILE, v_dot_by_pairs)
DEFINE_GEMM(gemm4_pairs_r1, 1, 4, AREOLE_TILE, v_dot_by_pairs)
DEFINE_GEMM(gemm2_pairs_r1, 1, 2, AREOLE_PAIRS_TILE, v_dot_by_pairs)
#endif

/* A row that no block of four holds, times one token of a tile; `pitch` bytes from quad to quad. */
static float single_row(const areole_matrix *m, uint32_t row, const int8_t *quads, uint32_t pitch,
                        const areole_part *parts) {
  const areole_levels *levels = m->levels;
  const uint8_t *codes = m->codes + (size_t)row * m->row_bytes;
  uint32_t per_quad = levels->width; /* quads in one 4-byte word: 4 of 16 columns, or 2 of 8 */
  per_quad = per_quad == 2 ? 4 : 2;
  uint32_t words = m->row_bytes / 4 / m->groups;
  float y = 0.0f;
  for (uint32_t g = 0; g < m->groups; g++) {
    int32_t dot = -levels->offset * parts[g].sum;
    for (uint32_t w = 0; w < words; w++, codes += 4)
      for (uint32_t q = 0; q < per_quad; q++, quads += pitch)
        for (uint32_t k = 0; k < 4; k++) {
          uint32_t nibble = per_quad == 4 ? (codes[k] >> (q & 2 ? 4 : 0)) & 15 : (codes[k] >> (4 * q)) & 15;
          dot += quads[k] * (per_quad == 4 && (q & 1) ? levels->high[nibble] : levels->low[nibble]);
        }
    float norm = f16_value(m->norms[(size_t)row * m->groups + g]);
    y = y + (float)dot * (norm * (parts[g].scale * levels->unit));
  }
  return y;
}

uint32_t areole_tile(const areole_levels *levels) {
#ifdef AREOLE_PAIRS
  if (levels->pairs && levels->width == 2) return AREOLE_PAIRS_TILE;
#else
  (void)levels;
#endif
  return AREOLE_TILE;
}

void areole_input_prepare(areole_input *in, const areole_matrix *m, const float *x, uint32_t stride, uint32_t tokens,
                          const float *multipliers, float *work) {
  uint32_t width = m->levels->width, padded = m->groups * m->group;
  in->tokens = tokens;
  in->group = m->group;
  in->width = width;
  in->tile = tokens == 1 ? 1 : areole_tile(m->levels);
  for (uint32_t t = 0; t < tokens; t++)
    areole_rotate(x + (size_t)t * stride, m->columns, m->group, width, multipliers ? multipliers[t] : 1.0f, work,
                  in->quads + (size_t)(t / in->tile) * padded * 4 * in->tile + t % in->tile * 16, 16 * in->tile,
                  in->parts + t * m->groups);
}

static void matvec(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y) {
  uint32_t done = m->rows & ~15u, whole = (rows < done ? rows + 15 : done) / 16, steps = m->row_bytes / 4 / m->groups;
  int wide = m->levels->width == 4;
  gemv_kernel *blocks = wide ? gemv4_r4 : gemv2_r4, *quads = wide ? gemv4_r1 : gemv2_r1;
#ifdef AREOLE_PAIRS
  if (m->levels->pairs) blocks = wide ? gemv4_pairs : areole_gemv2_pairs;
  if (m->levels->pairs && wide) quads = gemv4_pairs_r1;
#endif
  blocks(m->codes, m->norms, m->levels, in->quads, in->parts, whole, m->groups, steps, y);
  if (rows <= done) return;
  uint32_t fours = (m->rows - done) / 4;
  quads(m->codes + (size_t)done * m->row_bytes, m->norms + (size_t)done * m->groups, m->levels, in->quads, in->parts,
        fours, m->groups, steps, y + done);
  for (uint32_t r = done + 4 * fours; r < m->rows; r++) y[r] = single_row(m, r, in->quads, 16, in->parts);
}

void areole_matmul(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y, uint32_t y_stride) {
  if (in->tokens == 1) {
    matvec(m, in, rows, y);
    return;
  }
  uint32_t whole = m->rows & ~15u, fours = m->rows & ~3u, steps = m->row_bytes / 4 / m->groups;
  uint32_t tile_bytes = m->groups * m->group * 4 * in->tile, wide = m->levels->width == 4, from = 0;
  gemm_kernel *two = wide ? gemm4_r2 : gemm2_r2, *one = wide ? gemm4_r1 : gemm2_r1;
#ifdef AREOLE_PAIRS
  if (m->levels->pairs && wide) two = gemm4_pairs, one = gemm4_pairs_r1;
  if (m->levels->pairs && !wide) {
    one = gemm2_pairs_r1;
    from = rows < whole ? rows : whole;
    areole_gemm2_pairs(m, in, from, y, y_stride);
  }
#endif
  for (uint32_t t = 0; t < in->tokens; t += in->tile) {
    const int8_t *x = in->quads + (size_t)(t / in->tile) * tile_bytes;
    const areole_part *parts = in->parts + t * m->groups;
    float *out = y + (size_t)t * y_stride;
    for (uint32_t r = from; r < rows && r < whole; r += 8) {
      const uint8_t *w = m->codes + (size_t)(r & ~15u) * m->row_bytes + (r & 15) * 4;
      const uint16_t *norms = m->norms + (size_t)(r & ~15u) * m->groups + (r & 15);
      two(w, norms, 64, m->levels, x, parts, m->groups, steps, out + r, y_stride);
    }
    for (uint32_t r = whole; r < rows && r < fours; r += 4)
      one(m->codes + (size_t)r * m->row_bytes, m->norms + (size_t)r * m->groups, 16, m->levels, x, parts, m->groups,
          steps, out + r, y_stride);
    for (uint32_t r = fours; r < rows; r++)
      for (uint32_t i = 0; i < in->tile && t + i < in->tokens; i++)
        out[i * y_stride + r] = single_row(m, r, x + 16 * i, 16 * in->tile, parts + i * m->groups);
  }
}

/* ---- the kernel alone, for tests and bench ---- */

enum { LEVELS_BYTES = (sizeof(areole_levels) + 63) / 64 * 64 };

int32_t areole_kernel_matmul_size(uint32_t rows, uint32_t columns, uint32_t group, uint32_t bits, uint32_t tokens,
                                  uint32_t *work_bytes) {
  if (!work_bytes || !rows || !columns || !tokens) return AREOLE_BAD_ARGUMENT;
  if (group < 16 || group > 256 || (group & (group - 1)) || bits < 1 || bits > 5) return AREOLE_BAD_GEOMETRY;
  uint32_t padded = round_up(columns, group), groups = padded / group, whole = round_up(tokens, AREOLE_TILES);
  if (rows > 65536 || padded > 65536 || tokens > 4096) return AREOLE_BAD_GEOMETRY;
  *work_bytes = LEVELS_BYTES + 2048 + round_up(rows * padded / 2, 64) + round_up(8 * padded + 64 * groups, 64) +
                whole * padded * 4 + whole * groups * (uint32_t)sizeof(areole_part) + AREOLE_PANEL_BYTES +
                round_up(rows, 16) * whole * 4;
  return AREOLE_OK;
}

int32_t areole_kernel_matmul(uint8_t *blob, uint32_t nbytes, uint32_t rows, uint32_t columns, uint32_t group,
                             uint32_t bits, uint32_t pairs, const float *values, const float *x, uint32_t tokens,
                             float *y, void *work, uint32_t work_bytes) {
  uint32_t needed, status;
  if (!blob || !values || !x || !y || !work) return AREOLE_BAD_ARGUMENT;
  status = (uint32_t)areole_kernel_matmul_size(rows, columns, group, bits, tokens, &needed);
  if (status) return (int32_t)status;
  uint32_t padded = round_up(columns, group), groups = padded / group, whole = round_up(tokens, AREOLE_TILES);
  uint32_t split = rows * areole_stored_row_bytes(padded, bits);
  if (nbytes != split + rows * groups * 2) return AREOLE_BAD_TENSOR;
  if (work_bytes < needed) return AREOLE_TOO_SMALL;
  uint8_t *p = work;
  areole_levels *levels = (areole_levels *)p;
  float *scratch = (float *)(p += LEVELS_BYTES);
  uint8_t *widened = (p += 2048);
  uint8_t *block = (p += round_up(rows * padded / 2, 64));
  areole_input in = {(int8_t *)(p += round_up(8 * padded + 64 * groups, 64)), 0, 0, 0, 0, 0, 0};
  in.parts = (areole_part *)(void *)(p += whole * padded * 4);
  in.panel = (p += whole * groups * sizeof(areole_part));
  float *out = (float *)(void *)(p += AREOLE_PANEL_BYTES);
  uint32_t stride = round_up(rows, 16);
  areole_levels_init(levels, values, bits);
  levels->pairs = pairs;
  areole_matrix m;
  int wide = code_width(bits) != levels->width;
  areole_matrix_init(&m, levels, blob, wide ? widened : blob, (uint16_t *)(void *)(blob + split), rows, columns, group,
                     bits, block);
  areole_input_prepare(&in, &m, x, columns, tokens, 0, scratch);
  areole_matmul(&m, &in, rows, out, stride);
  for (uint32_t t = 0; t < tokens; t++) memcpy(y + (size_t)t * rows, out + (size_t)t * stride, rows * sizeof(float));
  return AREOLE_OK;
}
