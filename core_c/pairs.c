/* pairs.c: products of 2-bit matrices by way of i16 pair sums, for processors without a four-way byte dot.
 *
 * One instruction multiplies 16 bytes and adds neighbours: eight i16. What costs is to widen those to i32, so a whole
 * group, or half of one, is added up in i16 first. The levels carry an offset there, and the sums wrap; but wrapped
 * sums are exact modulo 2^16, and with the offset taken out again they are exact wherever the true ones fit: where the
 * largest level times the sum of the sizes of the values does (`reach`). Six groups in seven fit whole, nearly all
 * others by halves; what is left is widened as it comes. */
#include "kernels.h"

#ifdef AREOLE_PAIRS

/* How many chunks of a group fit: 1, 2, or 0 for neither. */
AREOLE_INLINE uint32_t chunks_of(const areole_part *part, int32_t offset) {
  return part->reach * offset <= 32767 ? 1 : part->reach_of_half * offset <= 32767 ? 2 : 0;
}

/* What takes the offset out: of the pair sums of one chunk, or of the dots of a whole group. */
AREOLE_INLINE vec start_i16(int32_t pairs, int32_t offset) {
  uint32_t minus = (uint32_t)-offset & 0xffff;
  return v_mul_i16(v_splat_i32(pairs), v_splat_i32((int32_t)(minus | minus << 16)));
}
AREOLE_INLINE vec start_i32(const areole_part *part, int32_t offset) { return v_splat_i32(-offset * part->sum); }

/* ---- one token ---- */

/* Blocks of four row quads. A chunk is half a group in i16; without CHUNKS every step is widened. */
#define DEFINE_GEMV(NAME, CHUNKS)                                                                                   \
  static AREOLE_NOINLINE void NAME(const uint8_t *w, const uint16_t *norms, const areole_levels *levels,            \
                                   const int8_t *quads, const areole_part *parts, uint32_t blocks, uint32_t groups, \
                                   uint32_t steps, float *y) {                                                      \
    enum { R = 4 };                                                                                                 \
    vec low = v_load(levels->low), high = v_load(levels->high), nibble = v_load(levels->nibble);                    \
    for (; blocks; blocks--, y += 4 * R) {                                                                          \
      const int8_t *x = quads;                                                                                      \
      vec f[R];                                                                                                     \
      for (int i = 0; i < R; i++) f[i] = v_zero();                                                                  \
      for (uint32_t g = 0; g < groups; g++, norms += 4 * R) {                                                       \
        vec dots[R];                                                                                                \
        for (int i = 0; i < R; i++) dots[i] = CHUNKS ? v_zero() : start_i32(&parts[g], levels->offset);             \
        for (uint32_t c = 0; c < (CHUNKS ? CHUNKS : 1); c++) {                                                      \
          vec a[R];                                                                                                 \
          if (CHUNKS)                                                                                               \
            for (int i = 0; i < R; i++) a[i] = start_i16(parts[g].pairs[c], levels->offset);                        \
          AREOLE_NO_UNROLL                                                                                          \
          for (uint32_t s = 0; s < (CHUNKS ? steps / 2 : steps); s++) {                                             \
            AREOLE_TOUCH(w + 1024);                                                                                 \
            vec x0 = v_load(x), x1 = v_load(x + 16), x2 = v_load(x + 32), x3 = v_load(x + 48);                      \
            for (int i = 0; i < R; i++) {                                                                           \
              vec b = v_load(w + 16 * i), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);             \
              vec sum = v_pairs(x0, v_lookup(low, lo));                                                             \
              sum = CHUNKS ? v_add_i16(a[i], sum) : sum;                                                            \
              sum = v_add_i16(sum, v_pairs(x1, v_lookup(high, lo)));                                                \
              sum = v_add_i16(sum, v_pairs(x2, v_lookup(low, hi)));                                                 \
              a[i] = v_add_i16(sum, v_pairs(x3, v_lookup(high, hi)));                                               \
              if (!CHUNKS) dots[i] = v_add_pairs(a[i], dots[i]);                                                    \
            }                                                                                                       \
            w += 16 * R;                                                                                            \
            x += 64;                                                                                                \
            AREOLE_OPAQUE(w);                                                                                       \
            AREOLE_OPAQUE(x);                                                                                       \
          }                                                                                                         \
          if (CHUNKS)                                                                                               \
            for (int i = 0; i < R; i++) dots[i] = v_add_pairs(a[i], dots[i]);                                       \
        }                                                                                                           \
        vec scale = v_splat(parts[g].scale * levels->unit);                                                         \
        for (int i = 0; i < R; i++) f[i] = areole_add_group(f[i], dots[i], areole_norms4(norms + 4 * i), scale);    \
      }                                                                                                             \
      for (int i = 0; i < R; i++) v_store(y + 4 * i, f[i]);                                                         \
    }                                                                                                               \
  }

DEFINE_GEMV(gemv_halves, 2)
DEFINE_GEMV(gemv_steps, 0)

void areole_gemv2_pairs(const uint8_t *w, const uint16_t *norms, const areole_levels *levels, const int8_t *quads,
                        const areole_part *parts, uint32_t blocks, uint32_t groups, uint32_t steps, float *y) {
  int fits = steps % 2 == 0;
  for (uint32_t g = 0; g < groups; g++) fits &= chunks_of(&parts[g], levels->offset) != 0;
  (fits ? gemv_halves : gemv_steps)(w, norms, levels, quads, parts, blocks, groups, steps, y);
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
      for (uint32_t s = 0; s < steps; s++) {
        AREOLE_TOUCH(w + 64 * (s + steps)); /* the next group's, which come after some thousand products */
        for (int r = 0; r < 2; r++) {
          vec b = v_load(w + 64 * s + 32 * half + 16 * r), lo = v_and(b, nibble), hi = v_and(v_high_nibbles(b), nibble);
          v_store(out + 128 * s + 16 * r, v_lookup(low, lo));
          v_store(out + 128 * s + 32 + 16 * r, v_lookup(high, lo));
          v_store(out + 128 * s + 64 + 16 * r, v_lookup(low, hi));
          v_store(out + 128 * s + 96 + 16 * r, v_lookup(high, hi));
        }
      }
  }
}

/* y (4 tokens, 8 rows a pair of row quads) += one group's products, in CHUNKS chunks of i16; without, all is widened.
 * Two quads of columns a turn: with four, the compiler's order of them asks for more registers than there are. */
#define DEFINE_PANEL(NAME, CHUNKS)                                                                                   \
  static AREOLE_NOINLINE void NAME(const panel *p, const int8_t *tile, const areole_part *parts, uint32_t groups,    \
                                   const areole_levels *levels, uint32_t quads, uint32_t pairs, int first, float *y, \
                                   uint32_t stride) {                                                                \
    const uint8_t *w = p->levels;                                                                                    \
    const float *norms = p->norms;                                                                                   \
    vec starts[2][TILE], scales[TILE];                                                                               \
    for (int t = 0; t < TILE; t++) {                                                                                 \
      const areole_part *part = parts + t * groups;                                                                  \
      for (int c = 0; c < 2; c++) starts[c][t] = start_i16(part->pairs[c], levels->offset);                          \
      if (CHUNKS == 1) starts[0][t] = v_add_i16(starts[0][t], starts[1][t]);                                         \
      if (CHUNKS == 0) starts[0][t] = start_i32(part, levels->offset);                                               \
      scales[t] = v_splat(part->scale * levels->unit);                                                               \
    }                                                                                                                \
    for (; pairs; pairs--, y += 8, norms += 8) {                                                                     \
      const int8_t *x = tile;                                                                                        \
      vec a[TILE][2], dots[TILE][2];                                                                                 \
      for (int c = 0; c < (CHUNKS == 2 ? 2 : 1); c++) {                                                              \
        for (int t = 0; t < TILE; t++) a[t][0] = a[t][1] = starts[c][t];                                             \
        AREOLE_NO_UNROLL                                                                                             \
        for (const uint8_t *end = w + (CHUNKS == 2 ? 16 : 32) * quads; w < end;) {                                   \
          for (int t = 0; t < TILE; t++) {                                                                           \
            vec x0 = v_load(x + t * 16), x1 = v_load(x + (TILE + t) * 16);                                           \
            for (int i = 0; i < 2; i++) {                                                                            \
              vec first = v_pairs(x0, v_load(w + 16 * i)), second = v_pairs(x1, v_load(w + 16 * i + 32));            \
              a[t][i] = CHUNKS ? v_add_i16(v_add_i16(a[t][i], first), second)                                        \
                               : v_add_pairs(second, v_add_pairs(first, a[t][i]));                                   \
            }                                                                                                        \
          }                                                                                                          \
          w += 64;                                                                                                   \
          x += 32 * TILE;                                                                                            \
          AREOLE_OPAQUE(w);                                                                                          \
          AREOLE_OPAQUE(x);                                                                                          \
        }                                                                                                            \
        for (int t = 0; t < TILE; t++)                                                                               \
          for (int i = 0; i < 2; i++) {                                                                              \
            vec wide = CHUNKS ? v_widen_pairs(a[t][i]) : a[t][i];                                                    \
            dots[t][i] = c ? v_add_i32(dots[t][i], wide) : wide;                                                     \
          }                                                                                                          \
      }                                                                                                              \
      for (int i = 0; i < 2; i++) {                                                                                  \
        vec norm = v_load(norms + 4 * i);                                                                            \
        for (int t = 0; t < TILE; t++) {                                                                             \
          float *out = y + t * stride + 4 * i;                                                                       \
          vec before = first ? v_zero() : v_load(out);                                                               \
          v_store(out, areole_add_group(before, dots[t][i], norm, scales[t]));                                       \
        }                                                                                                            \
      }                                                                                                              \
    }                                                                                                                \
  }

DEFINE_PANEL(panel_steps, 0)
DEFINE_PANEL(panel_whole, 1)
DEFINE_PANEL(panel_halves, 2)

/* The fewest chunks that fit for every token of a tile; 0 where none does. */
static uint32_t chunks_of_tile(const areole_part *parts, uint32_t groups, int32_t offset, uint32_t quads) {
  uint32_t most = 1;
  for (uint32_t t = 0; t < TILE; t++) {
    uint32_t chunks = chunks_of(parts + t * groups, offset);
    if (!chunks) return 0;
    if (chunks > most) most = chunks;
  }
  return most == 2 && quads % 4 ? 0 : most;
}

void areole_gemm2_pairs(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y, uint32_t y_stride) {
  uint32_t blocks = (rows + 15) / 16, quads = m->group / 4, tile_bytes = m->groups * m->group * 4 * TILE;
  panel p = {(float *)(void *)in->panel, in->panel + PANEL_BLOCKS * 16 * sizeof(float)};
  for (uint32_t block = 0, some; block < blocks; block += some) {
    some = blocks - block < PANEL_BLOCKS ? blocks - block : PANEL_BLOCKS;
    for (uint32_t g = 0; g < m->groups; g++) {
      look_up(m, block, some, g, &p);
      for (uint32_t t = 0; t < in->tokens; t += TILE) {
        const areole_part *parts = in->parts + t * m->groups + g;
        const int8_t *x = in->quads + (size_t)(t / TILE) * tile_bytes + g * m->group * 4 * TILE;
        float *out = y + (size_t)t * y_stride + 16 * block;
        switch (chunks_of_tile(parts, m->groups, m->levels->offset, quads)) {
          case 1: panel_whole(&p, x, parts, m->groups, m->levels, quads, 2 * some, !g, out, y_stride); break;
          case 2: panel_halves(&p, x, parts, m->groups, m->levels, quads, 2 * some, !g, out, y_stride); break;
          default: panel_steps(&p, x, parts, m->groups, m->levels, quads, 2 * some, !g, out, y_stride);
        }
      }
    }
  }
}

#endif
