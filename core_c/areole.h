/* areole.h: the whole ABI of the core, and the one contract between it and its hosts. (The threaded build has a few
 * functions more: threads.h.)
 *
 * The core does arithmetic and nothing else: it never parses a file, never allocates and never prints. A host
 * (Python under Pyodide, wasmtime or cffi) reads the archive, checks every number in it, and passes offsets; it
 * also provides the memory: one arena per model and one per session, sized by the *_size calls. A call that
 * fails returns a negative status and has changed nothing, unless its text says otherwise.
 *
 * Results are the same bits in every build: integer dot products, a fixed order of float additions, no fused
 * multiply-add, and an exp of our own.
 *
 * This header is parsed to make the hosts' table of functions, so it holds plain declarations only: fixed-width
 * integers, floats, pointers and structs of them. Shapes are (rows, columns), row-major; sizes are bytes. */
#ifndef AREOLE_H
#define AREOLE_H

#include <stdint.h>

#define AREOLE_API __attribute__((used, visibility("default")))

/* Statuses. Negative is failure; what a count means is said at each call. */
enum areole_status {
  AREOLE_OK = 0,
  AREOLE_BAD_ARGUMENT = -1, /* a null pointer, a zero count, an unknown flag */
  AREOLE_BAD_GEOMETRY = -2, /* a dimension the kernels cannot run; see areole_geometry */
  AREOLE_BAD_TENSOR = -3,   /* a tensor record that does not fit the geometry or the archive's bytes */
  AREOLE_BAD_TOKEN = -4,    /* a token id outside the vocabulary */
  AREOLE_CONTEXT_FULL = -5, /* more tokens than the session or its pinned prefix can hold */
  AREOLE_TOO_SMALL = -6,    /* an arena or buffer smaller than the matching *_size call asked for */
  AREOLE_NO_HEAD = -7,      /* the archive has no such probe head */
  AREOLE_BAD_SNAPSHOT = -8  /* a snapshot of another model, geometry or session size */
};

/* How the module was built; `areole_flavor` returns one of these. */
enum areole_flavors { AREOLE_PLAIN = 0, AREOLE_SIMD128 = 1, AREOLE_RELAXED_SIMD = 2 };

/* Flags of areole_prefill. */
enum areole_prefill_flags {
  AREOLE_PIN = 1,         /* these tokens join the pinned prefix: every later token sees them */
  AREOLE_LOGITS_LAST = 2, /* write the last token's logits: (1, out_vocab) */
  AREOLE_LOGITS_ALL = 4   /* write every token's logits: (count, out_vocab) */
};

/* What the header of an archive says. d_model must be a multiple of 4 and qk_dim even. */
typedef struct {
  uint32_t vocab, out_vocab, d_model, heads, kv_heads, layers;
  uint32_t qk_dim, v_dim, max_seq, hada_n, lanes;
  uint32_t sliding_window, global_mask_lo, global_mask_hi, qkv_taps;
  uint32_t engram_slots, engram_sub_dim, engram_tables, engram_taps, engram_dilation, engram_seed_heads;
  uint32_t engram_order_count, engram_orders[4];
  uint32_t engram_site_count, engram_sites[16];
  uint32_t kv_window;
  uint32_t kv_bits;    /* 8, or 2 to 4: keys and values also go through the codebook of this width */
  uint32_t generation; /* 2 or 3: another MLP, other heads, and no hada_p1 and hada_p2 in 2 */
  float rope_theta;
  uint32_t codebook_group;       /* the group size whose square root the codebooks are divided by */
  float cb2[4], cb3[8], cb4[16]; /* the shared codebooks */
} areole_geometry;

enum areole_dtypes { AREOLE_F16 = 1, AREOLE_F32 = 2, AREOLE_CQ = 3 };

/* One tensor: where it lies in the archive. Dense tensors have group = bits = 0; rows and columns of a dense
 * tensor multiply to its element count. bits is 1, 2, 3, 4, or 5 for ternary. */
typedef struct {
  uint32_t dtype, offset, nbytes, rows, columns, group, bits;
} areole_tensor;

/* 3 for this header; a host refuses any other. */
AREOLE_API int32_t areole_abi_version(void);

/* How the module was built (enum areole_flavors). */
AREOLE_API int32_t areole_flavor(void);

typedef struct areole_model areole_model;
typedef struct areole_session areole_session;

/* Bytes of the arena that areole_model_init needs, written to *bytes. `tensors` (count,) in the archive's order,
 * without the tokenizer. The heads' manifest is given as tensors like the rest. BAD_GEOMETRY, BAD_TENSOR. */
AREOLE_API int32_t areole_model_size(const areole_geometry *geometry, const areole_tensor *tensors, uint32_t count,
                                     const uint8_t *archive, uint32_t archive_bytes, uint32_t *bytes);

/* Builds a model in `arena` (64-byte aligned). Matrices of 2 and 4 bits and ternary ones are repacked inside
 * their own bytes of `archive`, which must stay where it is, be writable and be initialised only once; 1 and 3
 * bits are widened into the arena, and dense tensors converted to f32 there. The model starts at `arena`. */
AREOLE_API int32_t areole_model_init(void *arena, uint32_t arena_bytes, const areole_geometry *geometry,
                                     const areole_tensor *tensors, uint32_t count, uint8_t *archive,
                                     uint32_t archive_bytes);

/* Chooses between two ways to the same products, to the bit: four-way byte dots (0), or i16 pair sums (1), which are
 * faster where the processor has no four-way dot. A host times both with areole_kernel_race. Returns which one is
 * in use from here on; builds without pair sums stay at 0. */
AREOLE_API int32_t areole_model_use_pairs(areole_model *model, uint32_t pairs);

/* Multiplies a block of the model's own weights (rows of the first projection) by a tile of tokens `rounds` times, one
 * way or the other, and writes nothing but work (areole_kernel_race_size bytes). For timing only. */
AREOLE_API int32_t areole_kernel_race(const areole_model *model, uint32_t pairs, uint32_t rounds, void *work,
                                      uint32_t work_bytes);
AREOLE_API int32_t areole_kernel_race_size(const areole_model *model, uint32_t *bytes);

/* A shorter model of `count` of the model's blocks, at ascending indices `layers`: run in this order as if they were
 * all. The rung starts at `arena` (64-byte aligned), shares the weights, which it must not outlive, and serves wherever
 * a model does. Pairs are chosen for both at once. BAD_ARGUMENT, TOO_SMALL. */
AREOLE_API int32_t areole_rung_size(const areole_model *model, const uint32_t *layers, uint32_t count, uint32_t *bytes);
AREOLE_API int32_t areole_rung_init(void *arena, uint32_t arena_bytes, const areole_model *model,
                                    const uint32_t *layers, uint32_t count);

/* Bytes of a session's arena. `prefix_capacity` pinned tokens at most, `max_tokens` in all (at most max_seq),
 * kv_window newest positions visible besides the pinned ones (0: no window, everything is visible). */
AREOLE_API int32_t areole_session_size(const areole_model *model, uint32_t prefix_capacity, uint32_t max_tokens,
                                       uint32_t kv_window, uint32_t *bytes);

/* Builds an empty session at `arena` (64-byte aligned). Several may share one model, one call at a time. */
AREOLE_API int32_t areole_session_init(void *arena, uint32_t arena_bytes, const areole_model *model,
                                       uint32_t prefix_capacity, uint32_t max_tokens, uint32_t kv_window);

/* Back to an empty session. */
AREOLE_API int32_t areole_session_reset(areole_session *session);

/* Tokens in the session so far, and how many of them are pinned. */
AREOLE_API int32_t areole_session_position(const areole_session *session);
AREOLE_API int32_t areole_session_pinned(const areole_session *session);

/* Feeds `count` tokens in batches. `logits` is (1 or count, out_vocab) f32 as the flags say, or null without
 * them. BAD_TOKEN, CONTEXT_FULL, BAD_ARGUMENT (pinning after an unpinned token). */
AREOLE_API int32_t areole_prefill(areole_session *session, const uint32_t *tokens, uint32_t count, uint32_t flags,
                                  float *logits);

/* Feeds one token and writes its logits (out_vocab,) f32. The same bits as areole_prefill. */
AREOLE_API int32_t areole_decode(areole_session *session, uint32_t token, float *logits);

/* Guesses: runs up to AREOLE_DRAFT tokens and writes the logits (count, out_vocab) after each, the same bits as if they
 * had been decoded, but the session stays where it is. areole_accept then moves it past the first `count` of them; what
 * is not accepted is forgotten, as all of it is by a call that feeds, resets or loads. BAD_TOKEN, CONTEXT_FULL,
 * BAD_ARGUMENT (too many; more accepted than were drafted). */
enum areole_limits { AREOLE_DRAFT = 8 };
AREOLE_API int32_t areole_draft(areole_session *session, const uint32_t *tokens, uint32_t count, float *logits);
AREOLE_API int32_t areole_accept(areole_session *session, uint32_t count);

/* A session's state as bytes: keys and values so far, convolution histories, probes, position. */
AREOLE_API int32_t areole_snapshot_size(const areole_session *session, uint32_t *bytes);
AREOLE_API int32_t areole_snapshot_save(const areole_session *session, void *buffer, uint32_t bytes);

/* Brings a session to a saved state. The session must have been made with the same model geometry,
 * prefix_capacity, max_tokens and kv_window. BAD_SNAPSHOT. */
AREOLE_API int32_t areole_snapshot_load(areole_session *session, const void *buffer, uint32_t bytes);

/* The probe pool of head `code` (1 embedding, 2 confidence, 3 router) over every token so far. Returns the
 * number of pooled values, queries * d_model (probes * d_model in generation 2); `pooled` may be null to ask for it.
 * `output` (rows of proj), may be null: proj . pooled + bias. NO_HEAD, BAD_ARGUMENT (no tokens yet). */
AREOLE_API int32_t areole_pool(const areole_session *session, uint32_t code, float *pooled, float *output);

/* The k largest of values (n,) by value, ties to the smaller index: ids and their values, largest first.
 * Returns how many were written, min(k, n). k is at most 256. */
AREOLE_API int32_t areole_top(const float *values, uint32_t n, uint32_t k, uint32_t *ids, float *top);

/* log(sum(exp(values))) of (n,) f32, written to *out. */
AREOLE_API int32_t areole_log_sum_exp(const float *values, uint32_t n, float *out);

/* ---- Kernels one by one, for tests against their scalar twins and for the bench. ---- */

/* x (n,) -> exp, and sigmoid, elementwise. n is a multiple of 4. */
AREOLE_API int32_t areole_kernel_exp(const float *x, uint32_t n, float *out);
AREOLE_API int32_t areole_kernel_sigmoid(const float *x, uint32_t n, float *out);

/* x (n,) / sqrt(mean(x^2) + 1e-6) * (1 + scale). n is a multiple of 4. */
AREOLE_API int32_t areole_kernel_norm(const float *x, const float *scale, uint32_t n, float *out);

/* x (columns,) rotated by the unnormalised Walsh-Hadamard matrix per group, then int8 per group: quantised
 * (padded columns,) in the order of columns, sums and scales (groups,). A quantised value times its scale is the
 * value rotated by the normalised matrix. work: 8 * padded columns + 64 * groups + 4096 bytes. */
AREOLE_API int32_t areole_kernel_rotate(const float *x, uint32_t columns, uint32_t group, int8_t *quantised,
                                        int32_t *sums, float *scales, void *work, uint32_t work_bytes);

/* x (tokens, columns) times a CQ matrix's transpose -> y (tokens, rows), through the layout the model uses: codes
 * are repacked in place in `blob` (nbytes). One token takes the matrix-vector kernel, more the batched one.
 * levels (2^width,) with width 2, 3 or 4 (1 and 5 are given as two and four levels). pairs as in
 * areole_model_use_pairs. */
AREOLE_API int32_t areole_kernel_matmul(uint8_t *blob, uint32_t nbytes, uint32_t rows, uint32_t columns, uint32_t group,
                                        uint32_t bits, uint32_t pairs, const float *levels, const float *x,
                                        uint32_t tokens, float *y, void *work, uint32_t work_bytes);
AREOLE_API int32_t areole_kernel_matmul_size(uint32_t rows, uint32_t columns, uint32_t group, uint32_t bits,
                                             uint32_t tokens, uint32_t *work_bytes);

/* z (a, b) -> transpose(A) z B, with At (a, a) given transposed and B (b, b). work: 4 * a * b bytes. */
AREOLE_API int32_t areole_kernel_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim,
                                      float *work, float *out);

/* z (d,) through the MLP of generation 2, added to x (d,): d1, d2, d3 (n,), n a power of two from 16, at least d.
 * d is a multiple of 4. work: 8 * n bytes. */
AREOLE_API int32_t areole_kernel_walsh(const float *d1, const float *d2, const float *d3, uint32_t n, const float *z,
                                       uint32_t d, float *work, float *x);

/* x (n,) in place, each 64 of it (the rest filled up with zeros) rotated, brought to the nearest of the levels
 * (2^bits,) times its length as f16, and rotated back: what a KV cache of 2 to 4 bits keeps. work: 512 bytes. */
AREOLE_API int32_t areole_kernel_kv_round(const float *levels, uint32_t bits, float *x, uint32_t n, float *work);

/* Row and column normalisation of exp(logits) (n, n), 20 rounds. n is at most 8. */
AREOLE_API int32_t areole_kernel_sinkhorn(const float *logits, uint32_t n, float *out);

/* Attention of queries (heads, qk_dim) that share a key-value head, over the positions from `first` on -> out
 * (heads, v_dim). keys (count, qk_dim) and values (count, v_dim) are rounded to int8 and stored in work first; with
 * keys null, those of the last call with this work are taken, whose sizes must have been the same. qk_dim is even. */
AREOLE_API int32_t areole_kernel_attention(const float *keys, const float *values, uint32_t count, uint32_t first,
                                           const float *queries, uint32_t heads, uint32_t qk_dim, uint32_t v_dim,
                                           float *out, void *work, uint32_t work_bytes);
AREOLE_API int32_t areole_kernel_attention_size(uint32_t count, uint32_t heads, uint32_t qk_dim, uint32_t v_dim,
                                                uint32_t *work_bytes);

/* What the residual lanes (n, d) go through in a block: u (d,) is their sum by weights (n,); then each becomes its sum
 * of all by its row of mix (n, n) plus post (n,) times x - u; mean (d,) is over them after that. n is at most 8, d a
 * multiple of 4. */
AREOLE_API int32_t areole_kernel_lanes(float *lanes, const float *weights, const float *mix, const float *post,
                                       const float *x, uint32_t n, uint32_t d, float *u, float *mean);

/* cos and sin of position * frequency for `half` frequencies theta^(-i/half). */
AREOLE_API int32_t areole_kernel_rope(uint32_t position, uint32_t half, float theta, float *cos_out, float *sin_out);

#endif
