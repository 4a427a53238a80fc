/* model.h: a model as the core sees it, shared by model.c (which builds it) and session.c (which runs it). */
#ifndef AREOLE_MODEL_H
#define AREOLE_MODEL_H

#include <stddef.h>

#include "kernels.h"

/* A bump allocator over a caller's arena. With a null base it only measures. */
typedef struct {
  uint8_t *base;
  uint64_t used;
} areole_arena;

AREOLE_INLINE void *arena_take(areole_arena *a, uint64_t bytes) {
  void *p = a->base ? a->base + a->used : 0;
  a->used += (bytes + 63) & ~(uint64_t)63;
  return p;
}

typedef struct {
  const float *norm_in, *q_taps, *k_taps, *v_taps, *q_norm, *k_norm, *post_norm, *pre_hada;
  float attn_gate; /* sigmoid taken */
  areole_matrix q_proj, k_proj, v_proj, gate_proj, out_proj;
  areole_monarch mlp; /* of generation 3 */
  areole_walsh walsh; /* of generation 2 */
  areole_matrix phi_pre, phi_post, phi_res;
  const float *b_pre, *b_post, *b_res; /* with the lane offsets added to b_pre and b_post */
  const float *stored_b_pre, *stored_b_post;
  float a_pre, a_post, a_res;
  int32_t site; /* index of this block's engram, or -1 */
  int32_t global;
} areole_block;

typedef struct {
  areole_table tables;
  areole_matrix key_proj, value_proj;
  const float *taps; /* (engram_taps, d_model) */
} areole_engram;

struct areole_model {
  areole_geometry g;
  uint32_t magic;
  uint32_t level_count;
  areole_levels *levels;
  areole_matrix embedding;
  areole_block *blocks;
  areole_engram *engrams;
  const float *final_norm;
  const float *rope_frequencies; /* (qk_dim / 2,) */
  const float *kv_values;        /* (2^kv_bits,) for groups of AREOLE_KV_GROUP; null for 8 bits */
  uint32_t head_count;
  areole_head heads[AREOLE_MAX_HEADS];
};

/* ---- ladder.c ---- */

/* b_pre and b_post (lanes,) of the block that runs at `place` among the model's blocks. */
void areole_lane_offsets(const areole_block *block, uint32_t place, uint32_t lanes, float *pre, float *post);

enum { AREOLE_MODEL_MAGIC = 0x41524d31, AREOLE_SESSION_MAGIC = 0x41525331 };

#endif
