/* ladder.c: a shorter model out of a model that is loaded: some of its blocks, as if they were all there are.
 *
 * The rung shares the weights; only what depends on a block's place is its own: the lane offsets, which engram
 * belongs to which block, and the rows of the heads. Which blocks make a rung is the host's to say. */
#include "model.h"

void areole_lane_offsets(const areole_block *block, uint32_t place, uint32_t lanes, float *pre, float *post) {
  for (uint32_t i = 0; i < lanes; i++) {
    pre[i] = block->stored_b_pre[i] + (i == place % lanes ? 4.0f : -4.0f);
    post[i] = block->stored_b_post[i] + (i == place % lanes ? 0.0f : -4.0f);
  }
}

/* Rows 0 and layers[i] + 1 of x (outer, rows, width) -> (outer, count + 1, width); null while measuring. */
static const float *gather_rows(areole_arena *a, const float *x, uint32_t outer, uint32_t rows, uint32_t width,
                                const uint32_t *layers, uint32_t count) {
  float *out = arena_take(a, (uint64_t)outer * (count + 1) * width * sizeof(float)), *to = out;
  for (uint32_t o = 0; out && o < outer; o++)
    for (uint32_t r = 0; r <= count; r++, to += width)
      memcpy(to, x + ((size_t)o * rows + (r ? layers[r - 1] + 1 : 0)) * width, width * sizeof(float));
  return out;
}

static void take_head(areole_arena *a, areole_head *head, const uint32_t *layers, uint32_t count) {
  uint32_t rows = head->rows;
  head->rows = count + 1;
  if (!head->query) return;
  head->probes = gather_rows(a, head->probes, 1, rows, head->k * head->d, layers, count);
  head->gain = gather_rows(a, head->gain, 1, rows, head->k, layers, count);
  head->row_bias = gather_rows(a, head->row_bias, head->q, rows, head->k, layers, count);
}

/* Lays the rung out; `rung` is scratch while measuring. */
static void lay_out(areole_arena *a, const areole_model *model, areole_model *rung, const uint32_t *layers,
                    uint32_t count) {
  areole_geometry *g = &rung->g;
  uint32_t n = g->lanes, sites = 0;
  areole_block *blocks = arena_take(a, (uint64_t)count * sizeof(areole_block));
  areole_engram *engrams = arena_take(a, (uint64_t)(g->engram_site_count + 1) * sizeof(areole_engram));
  float *offsets = arena_take(a, (uint64_t)count * 2 * n * sizeof(float));
  for (uint32_t l = 0; blocks && l < count; l++) {
    areole_block *block = &blocks[l];
    *block = model->blocks[layers[l]];
    float *pre = offsets + (size_t)l * 2 * n, *post = pre + n;
    areole_lane_offsets(block, l, n, pre, post);
    block->b_pre = pre, block->b_post = post;
    if (block->site >= 0) {
      engrams[sites] = model->engrams[block->site];
      g->engram_sites[sites] = l;
      block->site = (int32_t)sites++;
    }
  }
  g->layers = count;
  g->engram_site_count = sites;
  rung->blocks = blocks, rung->engrams = engrams;
  for (uint32_t h = 0; h < rung->head_count; h++) take_head(a, &rung->heads[h], layers, count);
}

static int32_t check(const areole_model *model, const uint32_t *layers, uint32_t count) {
  if (!model || model->magic != AREOLE_MODEL_MAGIC || !layers || !count || count > model->g.layers)
    return AREOLE_BAD_ARGUMENT;
  for (uint32_t l = 0; l < count; l++)
    if (layers[l] >= model->g.layers || (l && layers[l] <= layers[l - 1])) return AREOLE_BAD_ARGUMENT;
  return AREOLE_OK;
}

int32_t areole_rung_size(const areole_model *model, const uint32_t *layers, uint32_t count, uint32_t *bytes) {
  int32_t status = check(model, layers, count);
  if (!status && !bytes) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  areole_model rung = *model;
  areole_arena a = {0, 0};
  arena_take(&a, sizeof(areole_model));
  lay_out(&a, model, &rung, layers, count);
  if (a.used > 0x7fffffff) return AREOLE_BAD_GEOMETRY;
  *bytes = (uint32_t)a.used;
  return AREOLE_OK;
}

int32_t areole_rung_init(void *arena, uint32_t arena_bytes, const areole_model *model, const uint32_t *layers,
                         uint32_t count) {
  uint32_t needed;
  int32_t status = areole_rung_size(model, layers, count, &needed);
  if (!status && !arena) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  if (arena_bytes < needed) return AREOLE_TOO_SMALL;
  areole_arena a = {arena, 0};
  areole_model *rung = arena_take(&a, sizeof(areole_model));
  *rung = *model;
  lay_out(&a, model, rung, layers, count);
  return AREOLE_OK;
}
