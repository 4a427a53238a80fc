/* kernels.h: what the core's files offer each other. Each group names the file that defines it. */
#ifndef AREOLE_KERNELS_H
#define AREOLE_KERNELS_H

#include "areole.h"
#include "fmath.h"
#include "simd.h"

/* LLVM unrolls the kernels' inner loops by itself, hoists the loads and spills; these keep a loop as written. */
#ifdef __clang__
#define AREOLE_NO_UNROLL _Pragma("clang loop unroll(disable)")
#define AREOLE_OPAQUE(p) __asm__("" : "+r"(p))
#else
#define AREOLE_NO_UNROLL
#define AREOLE_OPAQUE(p) (void)(p)
#endif

/* A read that starts the cache miss of weights to come. Only where reading past a matrix cannot fault: in a wasm
 * memory the arenas lie after the weights. */
#if defined(__wasm__)
#define AREOLE_TOUCH(p) __asm__ volatile("" ::"r"(*(const volatile int *)(p)))
#else
#define AREOLE_TOUCH(p) (void)(p)
#endif

/* Tokens go through the batched kernels in tiles: of 6 by dots, of 4 by pairs. A batch is whole tiles of either. */
enum { AREOLE_TILE = 6, AREOLE_PAIRS_TILE = 4, AREOLE_TILES = 12, AREOLE_BATCH = 48 };
enum { AREOLE_PANEL_BYTES = 64 * (256 + 4) }; /* 64 rows of a group at most: see pairs.c */
enum { AREOLE_MAX_LANES = 8, AREOLE_MAX_HEADS = 3 };
enum { AREOLE_LONGEST = 65536 }; /* positions that attention's integer sums have room for */

AREOLE_INLINE uint32_t round_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }

/* ---- hadamard.c ---- */

float areole_inverse_sqrt(uint32_t n);

/* x (group,) rotated by the normalised matrix -> out (group,), natural order. work (group,). */
void areole_unrotate(const float *x, uint32_t group, float *work, float *out);

/* What the kernels need to know of one rotated group of one token. For 2-bit codes an i16 lane of pair sums adds up
 * the first or the last eight of every sixteen columns: a side. `pairs` and `reach` tell whether i16 will do: pairs.c.
 */
typedef struct {
  float scale;
  int32_t sum;                  /* of the int8 values */
  int32_t pairs[2];             /* by half of the group: the sums of both sides, as two i16 */
  int32_t reach, reach_of_half; /* no less than the sum of the values' sizes on a side, of the group or of a half */
} areole_part;

/* x (columns,) rotated and quantised per group for codes of `width` bits. A quad of four values is stored four
 * times over (16 bytes), `stride` bytes from one quad to the next; parts (groups,). The scales are multiplied by
 * `multiplier`. work (2 * group,). */
void areole_rotate(const float *x, uint32_t columns, uint32_t group, uint32_t width, float multiplier, float *work,
                   int8_t *out, uint32_t stride, areole_part *parts);

/* ---- cq.c ---- */

/* The levels of a codebook: as floats, and as integers in [-most, most] times one unit, kept with an offset that
 * makes them unsigned 7-bit operands. */
typedef struct {
  uint8_t low[16], high[16]; /* width 2: level of the low and the high code of a nibble; width 4: low only */
  uint8_t nibble[16];        /* 15s: a mask from memory, see exp_constants */
  float value[16];           /* by code */
  float unit;
  int32_t offset;
  uint32_t width; /* bits of a code as stored for the kernels: 2 or 4 */
  uint32_t pairs; /* products by i16 pair sums, where the build has them: the same bits, faster on some processors */
} areole_levels;

/* A CQ matrix (rows, columns) in the kernels' layout: rows in blocks of 16, then of 4, then single; inside a block
 * the rows' 4-byte words are interleaved, and their norms too. */
typedef struct {
  uint8_t *codes;
  uint16_t *norms;
  const areole_levels *levels;
  uint32_t rows, columns, group, groups;
  uint32_t row_bytes; /* bytes of one row's codes, padded to whole groups */
} areole_matrix;

/* The rows from `row` on, a multiple of 16, as a matrix. */
AREOLE_INLINE areole_matrix areole_matrix_from(const areole_matrix *m, uint32_t row) {
  areole_matrix rest = *m;
  rest.codes += (size_t)row * m->row_bytes;
  rest.norms += (size_t)row * m->groups;
  rest.rows -= row;
  return rest;
}

/* A CQ table whose rows are only looked up: kept as it is in the archive. */
typedef struct {
  const uint8_t *codes;
  const uint16_t *norms;
  const areole_levels *levels;
  uint32_t rows, columns, group, groups, row_bytes, bits;
} areole_table;

/* Rotated int8 input of one batch for matrices of one (group, width): (tokens, columns). Quads of a tile's tokens lie
 * next to each other: (tiles, columns / 4, tile, 16). Rooms are for tokens in whole dozens. */
typedef struct {
  int8_t *quads;      /* 4 * padded columns bytes a token */
  areole_part *parts; /* (tokens, groups) */
  uint8_t *panel;     /* scratch of the products, AREOLE_PANEL_BYTES */
  uint32_t tokens, group, width, tile;
} areole_input;

void areole_levels_init(areole_levels *levels, const float *values, uint32_t bits);

/* Bytes of codes per row as the archive stores them. */
uint32_t areole_stored_row_bytes(uint32_t padded, uint32_t bits);

/* Lays a matrix out for the kernels: in place where the archive's width is the kernels', else from `stored` into
 * `codes`. work: row_bytes * 16 bytes, and at least 64 * groups. */
int32_t areole_matrix_init(areole_matrix *m, const areole_levels *levels, uint8_t *stored, uint8_t *codes,
                           uint16_t *norms, uint32_t rows, uint32_t columns, uint32_t group, uint32_t bits, void *work);

/* Row `row`, dense, natural order (padded columns,). work (2 * group,). */
void areole_matrix_row(const areole_matrix *m, uint32_t row, float *work, float *out);
void areole_table_row(const areole_table *t, uint32_t row, float *work, float *out);

/* How many tokens a tile of a batch's input holds for matrices of these levels. */
uint32_t areole_tile(const areole_levels *levels);

/* Prepares x (tokens, columns) with `stride` floats between rows as the input of matrices like m; multipliers
 * (tokens,) scale each token, null for 1. work (512,). */
void areole_input_prepare(areole_input *in, const areole_matrix *m, const float *x, uint32_t stride, uint32_t tokens,
                          const float *multipliers, float *work);

/* y (tokens, rows) with y_stride floats between tokens = input times the matrix's first `rows` rows transposed. Rows
 * are computed in whole blocks of 16 and tokens in whole tiles, so y has room for both (dozens of tokens will do). */
void areole_matmul(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y, uint32_t y_stride);

/* Four f16 norms as f32. They are never negative (the archive's reader refuses such), so no sign to move. */
AREOLE_INLINE vec areole_norms4(const uint16_t *p) {
  return v_mul(v_shl_i32(v_widen_u16(p), 13), v_splat(5.192296858534828e33f));
}

/* One row quad's epilogue of one group. */
AREOLE_INLINE vec areole_add_group(vec y, vec dot, vec norm, vec scale) {
  return v_add(y, v_mul(v_float(dot), v_mul(norm, scale)));
}

#ifdef AREOLE_PAIRS
/* ---- pairs.c: the rows of a 2-bit matrix that lie in whole blocks of 16, times one token or tiles of four ---- */

void areole_gemv2_pairs(const uint8_t *w, const uint16_t *norms, const areole_levels *levels, const int8_t *quads,
                        const areole_part *parts, uint32_t blocks, uint32_t groups, uint32_t steps, float *y);
void areole_gemm2_pairs(const areole_matrix *m, const areole_input *in, uint32_t rows, float *y, uint32_t y_stride);
#endif

/* ---- norm.c ---- */

void areole_norm(const float *x, const float *scale, uint32_t n, float *out);

/* ---- attention.c ---- */

/* The int8 cache of one layer. Slots come in fours: keys [slot / 4][qk_dim / 2][4 slots][2 dims], values
 * [slot / 2][v_padded / 4][4 dims][2 slots], scales [slot]; one after the other by key-value head. */
typedef struct {
  int8_t *keys, *values;
  float *key_scales, *value_scales;
  uint32_t slots, qk_dim, v_dim, v_padded;
} areole_cache;

/* A run of visible slots. */
typedef struct {
  uint32_t first, count;
} areole_run;

/* Stores one position's key (qk_dim,) and value (v_dim,) of a key-value head, rounded to int8. */
void areole_cache_store(const areole_cache *cache, uint32_t kv_head, uint32_t slot, const float *key,
                        const float *value);

/* Attention of `heads` query heads (heads, qk_dim) that share a key-value head over the runs -> out (heads, v_dim).
 * work: areole_attention_work bytes. */
void areole_attention(const areole_cache *cache, uint32_t kv_head, const areole_run *runs, uint32_t run_count,
                      const float *queries, uint32_t heads, void *work, float *out);
uint32_t areole_attention_work(uint32_t slots, uint32_t heads, uint32_t qk_dim, uint32_t v_dim);

/* cos and sin (half,) of position * frequency[i], and the frequencies theta^(-i / half). */
void areole_rope_frequencies(uint32_t half, float theta, float *frequencies);
void areole_rope_angles(uint32_t position, uint32_t half, const float *frequencies, float *cosine, float *sine);

/* ---- monarch.c ---- */

typedef struct {
  uint32_t n, a, b, rank;                         /* a * b = n; rank of the conditioner, padded to 4 */
  const float *d1, *d2, *b2, *d3, *d4;            /* (n,) */
  const float *w1a, *w1b, *w2a, *w2b, *w3a, *w3b; /* A factors transposed (a, a), B factors (b, b) */
  const float *cond_v, *cond_u;                   /* (d, rank), (rank, n) */
  uint32_t true_rank;
  const uint32_t *p1, *p2; /* (n,) gathers, shared by the layers */
} areole_monarch;

void areole_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim, float *work,
                 float *out);

/* x (d,) += the MLP of z (d,). work (4 * n,). */
void areole_monarch_add(const areole_monarch *m, const float *z, uint32_t d, float *work, float *x);

/* ---- walsh.c ---- */

/* The MLP of generation 2. */
typedef struct {
  uint32_t n;
  const float *d1, *d2, *d3; /* (n,) */
} areole_walsh;

/* x (d,) += the MLP of z (d,). work (2 * n,). */
void areole_walsh_add(const areole_walsh *m, const float *z, uint32_t d, float *work, float *x);

/* ---- kvround.c ---- */

enum { AREOLE_KV_GROUP = 64 };

/* x (n,) as a KV cache of codebook values (2^bits,) keeps it. work (128,). */
void areole_kv_round(const float *values, uint32_t bits, float *x, uint32_t n, float *work);

/* ---- lanes.c ---- */

void areole_sinkhorn(const float *logits, uint32_t n, float *out);

/* u (d,) = sum_i weights[i] * lanes[i]; lanes (n, d). */
void areole_lanes_gather(const float *lanes, const float *weights, uint32_t n, uint32_t d, float *u);

/* lanes[i] = sum_j mix[i, j] * lanes[j] + post[i] * (x - u), and mean (d,) over the lanes after it. */
void areole_lanes_update(float *lanes, const float *mix, const float *post, const float *x, const float *u, uint32_t n,
                         uint32_t d, float *mean);

/* ---- engram.c ---- */

/* The row of table (order_index, head) that the newest `order` tokens hash to; tokens[0] is the newest. */
uint32_t areole_engram_slot(const uint32_t *tokens, uint32_t order, uint32_t table, uint32_t slots);

/* ---- probes.c ---- */

/* One probe head: probes (rows * k, d) and query (q, d) dense, the rest f32. A head of generation 2 has the same k = q
 * probes (k, d) for all rows, and no gain, query and row_bias. */
typedef struct {
  uint32_t code, rows, k, q, d, outputs;
  const float *probes, *gain, *query, *row_bias, *proj, *bias;
} areole_head;

/* Running softmax pools of a head: per (row, probe) the maximum, the sum, and the weighted cells (d,). */
uint32_t areole_pool_floats(const areole_head *head);
void areole_pool_reset(const areole_head *head, float *state);
void areole_pool_add(const areole_head *head, float *state, uint32_t row, const float *cell);
void areole_pool_finish(const areole_head *head, const float *state, float *work, float *pooled, float *output);

#endif
