"""The core's ABI as values. Made by core_c/abi.py from core_c/areole.h: change that, not this."""

from __future__ import annotations

ABI_VERSION = 4

FUNCTIONS: dict[str, str] = {
    "areole_abi_version": "",
    "areole_flavor": "",
    "areole_model_size": "ppupup",
    "areole_model_init": "puppupu",
    "areole_model_use_pairs": "pu",
    "areole_kernel_race": "puupu",
    "areole_kernel_race_size": "pp",
    "areole_rung_size": "ppup",
    "areole_rung_init": "puppu",
    "areole_session_size": "puuup",
    "areole_session_init": "pupuuu",
    "areole_session_reset": "p",
    "areole_session_position": "p",
    "areole_session_pinned": "p",
    "areole_prefill": "ppuup",
    "areole_decode": "pup",
    "areole_draft": "ppup",
    "areole_accept": "pu",
    "areole_snapshot_size": "pp",
    "areole_snapshot_save": "ppu",
    "areole_snapshot_load": "ppu",
    "areole_pool": "pupp",
    "areole_top": "puupp",
    "areole_log_sum_exp": "pup",
    "areole_kernel_exp": "pup",
    "areole_kernel_sigmoid": "pup",
    "areole_kernel_norm": "ppup",
    "areole_kernel_rotate": "puuppppu",
    "areole_kernel_matmul": "puuuuuuppuppu",
    "areole_kernel_matmul_size": "uuuuup",
    "areole_kernel_kron": "pppuupp",
    "areole_kernel_walsh": "pppupupp",
    "areole_kernel_kv_round": "pupup",
    "areole_kernel_sinkhorn": "pup",
    "areole_kernel_attention": "ppuupuuuppu",
    "areole_kernel_attention_size": "uuuup",
    "areole_kernel_lanes": "pppppuupp",
    "areole_kernel_rope": "uufpp",
}
"""Exported function -> its parameters: p an address, u an unsigned integer, f a float. All return an int."""

STRUCTS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "areole_geometry": (
        ("vocab", "I", 1),
        ("out_vocab", "I", 1),
        ("d_model", "I", 1),
        ("heads", "I", 1),
        ("kv_heads", "I", 1),
        ("layers", "I", 1),
        ("qk_dim", "I", 1),
        ("v_dim", "I", 1),
        ("max_seq", "I", 1),
        ("hada_n", "I", 1),
        ("lanes", "I", 1),
        ("sliding_window", "I", 1),
        ("global_mask_lo", "I", 1),
        ("global_mask_hi", "I", 1),
        ("qkv_taps", "I", 1),
        ("engram_slots", "I", 1),
        ("engram_sub_dim", "I", 1),
        ("engram_tables", "I", 1),
        ("engram_taps", "I", 1),
        ("engram_dilation", "I", 1),
        ("engram_seed_heads", "I", 1),
        ("engram_order_count", "I", 1),
        ("engram_orders", "I", 4),
        ("engram_site_count", "I", 1),
        ("engram_sites", "I", 16),
        ("kv_window", "I", 1),
        ("kv_bits", "I", 1),
        ("generation", "I", 1),
        ("rope_theta", "f", 1),
        ("codebook_group", "I", 1),
        ("cb2", "f", 4),
        ("cb3", "f", 8),
        ("cb4", "f", 16),
    ),
    "areole_tensor": (
        ("dtype", "I", 1),
        ("offset", "I", 1),
        ("nbytes", "I", 1),
        ("rows", "I", 1),
        ("columns", "I", 1),
        ("group", "I", 1),
        ("bits", "I", 1),
    ),
}
"""Struct -> fields in order: name, struct-module type, count. All fields are 4 bytes, little-endian."""

STATUSES: dict[str, int] = {
    "bad_snapshot": -8,
    "no_head": -7,
    "too_small": -6,
    "context_full": -5,
    "bad_token": -4,
    "bad_tensor": -3,
    "bad_geometry": -2,
    "bad_argument": -1,
    "ok": 0,
}

FLAVORS: dict[str, int] = {
    "relaxed_simd": 2,
    "simd128": 1,
    "plain": 0,
}

FLAGS: dict[str, int] = {
    "logits_all": 4,
    "logits_last": 2,
    "pin": 1,
}

DTYPES: dict[str, int] = {
    "cq": 3,
    "f32": 2,
    "f16": 1,
}

LIMITS: dict[str, int] = {
    "draft": 8,
}

CDEF = """\
enum areole_status {
AREOLE_OK = 0,
AREOLE_BAD_ARGUMENT = -1,
AREOLE_BAD_GEOMETRY = -2,
AREOLE_BAD_TENSOR = -3,
AREOLE_BAD_TOKEN = -4,
AREOLE_CONTEXT_FULL = -5,
AREOLE_TOO_SMALL = -6,
AREOLE_NO_HEAD = -7,
AREOLE_BAD_SNAPSHOT = -8
};
enum areole_flavors { AREOLE_PLAIN = 0, AREOLE_SIMD128 = 1, AREOLE_RELAXED_SIMD = 2 };
enum areole_prefill_flags {
AREOLE_PIN = 1,
AREOLE_LOGITS_LAST = 2,
AREOLE_LOGITS_ALL = 4
};
typedef struct {
uint32_t vocab, out_vocab, d_model, heads, kv_heads, layers;
uint32_t qk_dim, v_dim, max_seq, hada_n, lanes;
uint32_t sliding_window, global_mask_lo, global_mask_hi, qkv_taps;
uint32_t engram_slots, engram_sub_dim, engram_tables, engram_taps, engram_dilation, engram_seed_heads;
uint32_t engram_order_count, engram_orders[4];
uint32_t engram_site_count, engram_sites[16];
uint32_t kv_window;
uint32_t kv_bits;
uint32_t generation;
float rope_theta;
uint32_t codebook_group;
float cb2[4], cb3[8], cb4[16];
} areole_geometry;
enum areole_dtypes { AREOLE_F16 = 1, AREOLE_F32 = 2, AREOLE_CQ = 3 };
typedef struct {
uint32_t dtype, offset, nbytes, rows, columns, group, bits;
} areole_tensor;
int32_t areole_abi_version(void);
int32_t areole_flavor(void);
typedef struct areole_model areole_model;
typedef struct areole_session areole_session;
int32_t areole_model_size(const areole_geometry *geometry, const areole_tensor *tensors, uint32_t count,
const uint8_t *archive, uint32_t archive_bytes, uint32_t *bytes);
int32_t areole_model_init(void *arena, uint32_t arena_bytes, const areole_geometry *geometry,
const areole_tensor *tensors, uint32_t count, uint8_t *archive,
uint32_t archive_bytes);
int32_t areole_model_use_pairs(areole_model *model, uint32_t pairs);
int32_t areole_kernel_race(const areole_model *model, uint32_t pairs, uint32_t rounds, void *work,
uint32_t work_bytes);
int32_t areole_kernel_race_size(const areole_model *model, uint32_t *bytes);
int32_t areole_rung_size(const areole_model *model, const uint32_t *layers, uint32_t count, uint32_t *bytes);
int32_t areole_rung_init(void *arena, uint32_t arena_bytes, const areole_model *model,
const uint32_t *layers, uint32_t count);
int32_t areole_session_size(const areole_model *model, uint32_t prefix_capacity, uint32_t max_tokens,
uint32_t kv_window, uint32_t *bytes);
int32_t areole_session_init(void *arena, uint32_t arena_bytes, const areole_model *model,
uint32_t prefix_capacity, uint32_t max_tokens, uint32_t kv_window);
int32_t areole_session_reset(areole_session *session);
int32_t areole_session_position(const areole_session *session);
int32_t areole_session_pinned(const areole_session *session);
int32_t areole_prefill(areole_session *session, const uint32_t *tokens, uint32_t count, uint32_t flags,
float *logits);
int32_t areole_decode(areole_session *session, uint32_t token, float *logits);
enum areole_limits { AREOLE_DRAFT = 8 };
int32_t areole_draft(areole_session *session, const uint32_t *tokens, uint32_t count, float *logits);
int32_t areole_accept(areole_session *session, uint32_t count);
int32_t areole_snapshot_size(const areole_session *session, uint32_t *bytes);
int32_t areole_snapshot_save(const areole_session *session, void *buffer, uint32_t bytes);
int32_t areole_snapshot_load(areole_session *session, const void *buffer, uint32_t bytes);
int32_t areole_pool(const areole_session *session, uint32_t code, float *pooled, float *output);
int32_t areole_top(const float *values, uint32_t n, uint32_t k, uint32_t *ids, float *top);
int32_t areole_log_sum_exp(const float *values, uint32_t n, float *out);
int32_t areole_kernel_exp(const float *x, uint32_t n, float *out);
int32_t areole_kernel_sigmoid(const float *x, uint32_t n, float *out);
int32_t areole_kernel_norm(const float *x, const float *scale, uint32_t n, float *out);
int32_t areole_kernel_rotate(const float *x, uint32_t columns, uint32_t group, int8_t *quantised,
int32_t *sums, float *scales, void *work, uint32_t work_bytes);
int32_t areole_kernel_matmul(uint8_t *blob, uint32_t nbytes, uint32_t rows, uint32_t columns, uint32_t group,
uint32_t bits, uint32_t pairs, const float *levels, const float *x,
uint32_t tokens, float *y, void *work, uint32_t work_bytes);
int32_t areole_kernel_matmul_size(uint32_t rows, uint32_t columns, uint32_t group, uint32_t bits,
uint32_t tokens, uint32_t *work_bytes);
int32_t areole_kernel_kron(const float *at, const float *b, const float *z, uint32_t a_dim, uint32_t b_dim,
float *work, float *out);
int32_t areole_kernel_walsh(const float *d1, const float *d2, const float *d3, uint32_t n, const float *z,
uint32_t d, float *work, float *x);
int32_t areole_kernel_kv_round(const float *levels, uint32_t bits, float *x, uint32_t n, float *work);
int32_t areole_kernel_sinkhorn(const float *logits, uint32_t n, float *out);
int32_t areole_kernel_attention(const float *keys, const float *values, uint32_t count, uint32_t first,
const float *queries, uint32_t heads, uint32_t qk_dim, uint32_t v_dim,
float *out, void *work, uint32_t work_bytes);
int32_t areole_kernel_attention_size(uint32_t count, uint32_t heads, uint32_t qk_dim, uint32_t v_dim,
uint32_t *work_bytes);
int32_t areole_kernel_lanes(float *lanes, const float *weights, const float *mix, const float *post,
const float *x, uint32_t n, uint32_t d, float *u, float *mean);
int32_t areole_kernel_rope(uint32_t position, uint32_t half, float theta, float *cos_out, float *sin_out);
"""
"""The declarations as cffi takes them."""
