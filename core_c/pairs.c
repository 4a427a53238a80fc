/* pairs.c: products of 2-bit matrices by way of i16 pair sums, for processors without a four-way byte dot.
 *
 * One instruction multiplies 16 bytes and adds neighbours: eight i16. What costs is to widen those to i32, so a whole
 * group is added up in i16 first. The levels carry an offset there, and the sums wrap; but wrapped sums are exact
 * modulo 2^16, and with the offset taken out again they are exact wherever the true ones fit: where the largest level
 * times the sum of the sizes of the values (`reach`) does. The others, which are few, are widened as they come.
 *
 * A vector holds four rows times four columns, so an i16 lane is half a row's columns: see areole_part. */
#include "kernels.h"

#ifdef AREOLE_PAIRS

AREOLE_INLINE int fits_i16(const areole_part *part, int32_t offset) { return part->reach <= 32767 / offset; }

/* What takes the offset out of a group's sums: of pairs as i16, or of four rows as i32. */
AREOLE_INLINE vec start_i16(const areole_part *part, int32_t offset) {
  uint32_t minus = (uint32_t)-offset & 0xffff;
  return v_mul_i16(v_splat_i32(part->halves), v_splat_i32((int32_t)(minus | minus << 16)));
}
AREOLE_INLINE vec start_i32(const areole_part *part, int32_t offset) { return v_splat_i32(-offset * part->sum); }

/* ---- one token ---- */

enum { ROWS = 4 }; /* row quads at once */

static AREOLE_NOINLINE void gemv_steps(const uint8_t *w, const areole_levels *levels, const int8_t *x, uint32_t steps,
                                       vec *sums) {
  vec low = v_load(levels->low), high = v_load(levels->high), nibble = v_splat_i32(0x0f0f0f0f);
  for (uint32_t s = 0; s < steps; s++, w += 16 * ROWS, x += 64)
    for (int i = 0; i < ROWS; i++) {
      vec b = v_load(w + 16 * i), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);
      vec p = v_add_i16(v_pairs(v_load(x), v_lookup(low, lo)), v_pairs(v_load(x + 16), v_lookup(high, lo)));
      vec q = v_add_i16(v_pairs(v_load(x + 32), v_lookup(low, hi)), v_pairs(v_load(x + 48), v_lookup(high, hi)));
      sums[i] = v_add_pairs(v_add_i16(p, q), sums[i]);
    }
}

AREOLE_NOINLINE void areole_gemv2_pairs(const uint8_t *w, const uint16_t *norms, const areole_levels *levels,
                                        const int8_t *quads, const areole_part *parts, uint32_t blocks, uint32_t groups,
                                        uint32_t steps, float *y) {
  vec low = v_load(levels->low), high = v_load(levels->high), nibble = v_load(levels->nibble), zero = v_zero();
  for (; blocks; blocks--, y += 4 * ROWS) {
    const int8_t *x = quads;
    vec f[ROWS];
    for (int i = 0; i < ROWS; i++) f[i] = zero;
    for (uint32_t g = 0; g < groups; g++, norms += 4 * ROWS) {
      vec dots[ROWS];
      if (fits_i16(&parts[g], levels->offset)) {
        vec a[ROWS], start = start_i16(&parts[g], levels->offset);
        for (int i = 0; i < ROWS; i++) a[i] = start;
        AREOLE_NO_UNROLL
        for (uint32_t s = 0; s < steps; s++) {
          AREOLE_TOUCH(w + 1024);
          vec x0 = v_load(x), x1 = v_load(x + 16), x2 = v_load(x + 32), x3 = v_load(x + 48);
          for (int i = 0; i < ROWS; i++) {
            vec b = v_load(w + 16 * i), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);
            a[i] = v_add_i16(a[i], v_pairs(x0, v_lookup(low, lo)));
            a[i] = v_add_i16(a[i], v_pairs(x1, v_lookup(high, lo)));
            a[i] = v_add_i16(a[i], v_pairs(x2, v_lookup(low, hi)));
            a[i] = v_add_i16(a[i], v_pairs(x3, v_lookup(high, hi)));
          }
          w += 16 * ROWS;
          x += 64;
          AREOLE_OPAQUE(w);
          AREOLE_OPAQUE(x);
        }
        for (int i = 0; i < ROWS; i++) dots[i] = v_widen_pairs(a[i]);
      } else {
        for (int i = 0; i < ROWS; i++) dots[i] = start_i32(&parts[g], levels->offset);
        gemv_steps(w, levels, x, steps, dots);
        w += (size_t)16 * ROWS * steps;
        x += 64 * steps;
      }
      vec scale = v_splat(parts[g].scale * levels->unit);
      for (int i = 0; i < ROWS; i++) f[i] = areole_add_group(f[i], dots[i], areole_norms4(norms + 4 * i), scale);
    }
    for (int i = 0; i < ROWS; i++) v_store(y + 4 * i, f[i]);
  }
}

/* ---- tiles of four tokens ---- */

enum { TILE = AREOLE_PAIRS_TILE, PANEL_BLOCKS = 4 };

/* One group of some blocks of 16 rows with its codes looked up: (blocks, 2, quads, 2 row quads, 16) bytes and
 * (blocks, 16) norms. */
typedef struct {
  float *norms;
  uint8_t *levels;
} panel;

static AREOLE_NOINLINE void look_up(const areole_matrix *m, uint32_t block, uint32_t blocks, uint32_t g, panel *p) {
  vec low = v_load(m->levels->low), high = v_load(m->levels->high), nibble = v_load(m->levels->nibble);
  uint32_t steps = m->group / 16;
  uint8_t *out = p->levels;
  for (uint32_t i = 0; i < blocks; i++) {
    const uint8_t *w = m->codes + (size_t)(block + i) * 16 * m->row_bytes + (size_t)g * steps * 64;
    const uint16_t *norms = m->norms + ((size_t)(block + i) * m->groups + g) * 16;
    for (int r = 0; r < 16; r += 4) v_store(p->norms + 16 * i + r, areole_norms4(norms + r));
    for (int half = 0; half < 2; half++, out += 128 * steps)
      for (uint32_t s = 0; s < steps; s++)
        for (int r = 0; r < 2; r++) {
          vec b = v_load(w + 64 * s + 32 * half + 16 * r), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);
          v_store(out + 128 * s + 16 * r, v_lookup(low, lo));
          v_store(out + 128 * s + 32 + 16 * r, v_lookup(high, lo));
          v_store(out + 128 * s + 64 + 16 * r, v_lookup(low, hi));
          v_store(out + 128 * s + 96 + 16 * r, v_lookup(high, hi));
        }
  }
}

/* y (4 tokens, 8 rows a pair of row quads) += one group's products. Two quads of columns a turn: with four, the
 * compiler's order of them asks for more registers than there are. */
#define DEFINE_PANEL(NAME, START, ADD, DOTS)                                                                      \
  static AREOLE_NOINLINE void NAME(const panel *p, const int8_t *tile, const areole_part *parts, uint32_t groups, \
                                   const areole_levels *levels, uint32_t quads, uint32_t pairs, float *y,         \
                                   uint32_t stride) {                                                             \
    const uint8_t *w = p->levels;                                                                                 \
    const float *norms = p->norms;                                                                                \
    vec starts[TILE], scales[TILE];                                                                               \
    for (int t = 0; t < TILE; t++) {                                                                              \
      const areole_part *part = parts + t * groups;                                                               \
      starts[t] = START(part, levels->offset);                                                                    \
      scales[t] = v_splat(part->scale * levels->unit);                                                            \
    }                                                                                                             \
    for (; pairs; pairs--, y += 8, norms += 8) {                                                                  \
      const int8_t *x = tile;                                                                                     \
      vec a[TILE][2];                                                                                             \
      for (int t = 0; t < TILE; t++) a[t][0] = a[t][1] = starts[t];                                               \
      AREOLE_NO_UNROLL                                                                                            \
      for (const uint8_t *end = w + 32 * quads; w < end;) {                                                       \
        for (int t = 0; t < TILE; t++) {                                                                          \
          vec x0 = v_load(x + t * 16), x1 = v_load(x + (TILE + t) * 16);                                          \
          for (int i = 0; i < 2; i++)                                                                             \
            a[t][i] = ADD(ADD(a[t][i], v_pairs(x0, v_load(w + 16 * i))), v_pairs(x1, v_load(w + 16 * i + 32)));   \
        }                                                                                                         \
        w += 64;                                                                                                  \
        x += 32 * TILE;                                                                                           \
        AREOLE_OPAQUE(w);                                                                                         \
        AREOLE_OPAQUE(x);                                                                                         \
      }                                                                                                           \
      for (int i = 0; i < 2; i++) {                                                                               \
        vec norm = v_load(norms + 4 * i);                                                                         \
        for (int t = 0; t < TILE; t++) {                                                                          \
          float *out = y + t * stride + 4 * i;                                                                    \
          v_store(out, areole_add_group(v_load(out), DOTS(a[t][i]), norm, scales[t]));                            \
        }                                                                                                         \
      }                                                                                                           \
    }                                                                                                             \
  }

AREOLE_INLINE vec add_widened(vec sum, vec pairs) { return v_add_i32(sum, v_widen_pairs(pairs)); }
AREOLE_INLINE vec as_is(vec dots) { return dots; }
DEFINE_PANEL(panel_i16, start_i16, v_add_i16, v_widen_pairs)
DEFINE_PANEL(panel_i32, start_i32, add_widened, as_is)

void areole_gemm2_pairs(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y, uint32_t y_stride) {
  uint32_t blocks = (rows + 15) / 16, tile_bytes = m->groups * m->group * 4 * TILE;
  panel p = {(float *)(void *)in->panel, in->panel + PANEL_BLOCKS * 16 * sizeof(float)};
  for (uint32_t t = 0; t < round_up(in->tokens, TILE); t++) memset(y + (size_t)t * y_stride, 0, blocks * 64);
  for (uint32_t block = 0, some; block < blocks; block += some) {
    some = blocks - block < PANEL_BLOCKS ? blocks - block : PANEL_BLOCKS;
    for (uint32_t g = 0; g < m->groups; g++) {
      look_up(m, block, some, g, &p);
      for (uint32_t t = 0; t < in->tokens; t += TILE) {
        const areole_part *parts = in->parts + t * m->groups + g;
        int fits = 1;
        for (uint32_t i = 0; i < TILE; i++) fits &= fits_i16(&parts[i * m->groups], m->levels->offset);
        (fits ? panel_i16 : panel_i32)(&p, in->quads + (size_t)(t / TILE) * tile_bytes + g * m->group * 4 * TILE, parts,
                                       m->groups, m->levels, m->group / 4, 2 * some,
                                       y + (size_t)t * y_stride + 16 * block, y_stride);
      }
    }
  }
}

#endif
