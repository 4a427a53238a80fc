/* model.c: from a table of tensors to a model. One walk in the archive's order both measures and builds. */
#include "model.h"

enum { LEVEL_SLOTS = 25, MOST_ROWS = 1 << 24 }; /* five widths by five group sizes; of a tensor */

typedef struct {
  const areole_tensor *next, *end;
  uint8_t *archive;
  uint32_t archive_bytes;
  areole_arena arena;
  uint8_t *scratch; /* null while measuring */
  uint64_t scratch_needed;
  areole_model *model;
  areole_levels *levels;
  uint32_t level_keys[LEVEL_SLOTS], level_count;
  int32_t status;
} builder;

static uint32_t ceil_log2(uint32_t n) {
  uint32_t bits = 0;
  while ((1u << bits) < n) bits++;
  return bits;
}

static int32_t check_geometry(const areole_geometry *g) {
  const uint32_t limit = 1u << 16;
  if (!g->vocab || g->vocab > 1u << 20 || !g->out_vocab || g->out_vocab > g->vocab) return AREOLE_BAD_GEOMETRY;
  if (!g->d_model || g->d_model > limit || g->d_model % 4) return AREOLE_BAD_GEOMETRY;
  if (!g->kv_heads || g->heads > 1024 || g->heads % g->kv_heads || g->heads < g->kv_heads) return AREOLE_BAD_GEOMETRY;
  if (!g->qk_dim || g->qk_dim > 1024 || g->qk_dim % 2 || !g->v_dim || g->v_dim > 1024) return AREOLE_BAD_GEOMETRY;
  if (!g->layers || g->layers > 64 || !g->lanes || g->lanes > AREOLE_MAX_LANES) return AREOLE_BAD_GEOMETRY;
  if (g->codebook_group < 16 || g->codebook_group > 256) return AREOLE_BAD_GEOMETRY;
  if (!g->max_seq || g->max_seq > AREOLE_LONGEST || g->qkv_taps > 16) return AREOLE_BAD_GEOMETRY;
  if (g->hada_n < g->d_model || g->hada_n < 4 || g->hada_n > limit || (g->hada_n & (g->hada_n - 1)))
    return AREOLE_BAD_GEOMETRY;
  if (g->generation != 2 && g->generation != 3) return AREOLE_BAD_GEOMETRY;
  if (g->generation == 2 && g->hada_n < 16) return AREOLE_BAD_GEOMETRY;
  if (g->kv_bits != 8 && (g->kv_bits < 2 || g->kv_bits > 4)) return AREOLE_BAD_GEOMETRY;
  if (g->engram_site_count > 16 || !(g->rope_theta > 1.0f && g->rope_theta <= 1e12f)) return AREOLE_BAD_GEOMETRY;
  for (uint32_t i = 0; i < 28; i++) {
    float level = i < 4 ? g->cb2[i] : i < 12 ? g->cb3[i - 4] : g->cb4[i - 12];
    if (!(level >= -1.0f && level <= 1.0f)) return AREOLE_BAD_GEOMETRY;
  }
  if (g->engram_site_count) {
    if (!g->engram_order_count || g->engram_order_count > 4 || !g->engram_slots || !g->engram_taps ||
        g->engram_taps > 16 || !g->engram_dilation || g->engram_dilation > 64 || !g->engram_tables ||
        g->engram_tables > 1024 || g->engram_tables % g->engram_order_count ||
        (uint64_t)g->engram_tables * g->engram_sub_dim != g->d_model ||
        (uint64_t)g->engram_tables * g->engram_slots > MOST_ROWS)
      return AREOLE_BAD_GEOMETRY;
    for (uint32_t i = 0; i < g->engram_order_count; i++)
      if (!g->engram_orders[i] || g->engram_orders[i] > 8) return AREOLE_BAD_GEOMETRY;
    for (uint32_t i = 0; i < g->engram_site_count; i++)
      if (g->engram_sites[i] >= g->layers || (i && g->engram_sites[i] <= g->engram_sites[i - 1]))
        return AREOLE_BAD_GEOMETRY;
  }
  return AREOLE_OK;
}

/* The next tensor, checked to have this type and this shape; 0 rows or columns leaves them free. */
static const areole_tensor *expect(builder *b, int dense, uint32_t rows, uint32_t columns) {
  if (b->status) return 0;
  b->status = AREOLE_BAD_TENSOR;
  if (b->next == b->end) return 0;
  const areole_tensor *t = b->next++;
  uint64_t bytes;
  if (!t->rows || !t->columns || t->rows > MOST_ROWS || t->columns > MOST_ROWS) return 0;
  if (dense) {
    if (t->dtype != AREOLE_F16 && t->dtype != AREOLE_F32) return 0;
    bytes = (uint64_t)t->rows * t->columns * (t->dtype == AREOLE_F16 ? 2 : 4);
    if (rows && columns && (uint64_t)t->rows * t->columns != (uint64_t)rows * columns) return 0;
    if (bytes > b->archive_bytes) return 0;
  } else {
    if (t->dtype != AREOLE_CQ || t->bits < 1 || t->bits > 5) return 0;
    if (t->group < 16 || t->group > 256 || (t->group & (t->group - 1))) return 0;
    uint32_t padded = round_up(t->columns, t->group);
    bytes = (uint64_t)t->rows * (areole_stored_row_bytes(padded, t->bits) + padded / t->group * 2);
    if ((rows && t->rows != rows) || (columns && t->columns != columns)) return 0;
  }
  if (t->nbytes != bytes || t->offset % 4 || t->offset > b->archive_bytes || bytes > b->archive_bytes - t->offset)
    return 0;
  b->status = AREOLE_OK;
  return t;
}

/* A dense tensor as f32 in the arena; null while measuring. */
static float *dense(builder *b, uint32_t rows, uint32_t columns) {
  const areole_tensor *t = expect(b, 1, rows, columns);
  if (!t) return 0;
  uint32_t n = t->rows * t->columns;
  float *out = arena_take(&b->arena, (uint64_t)n * 4);
  if (!out) return 0;
  if (t->dtype == AREOLE_F32)
    memcpy(out, b->archive + t->offset, (size_t)n * 4);
  else
    for (uint32_t i = 0; i < n; i++) {
      uint16_t half;
      memcpy(&half, b->archive + t->offset + 2 * i, 2);
      out[i] = f16_value(half);
    }
  return out;
}

/* A square factor, transposed in place. */
static float *dense_transposed(builder *b, uint32_t n) {
  float *a = dense(b, n, n);
  for (uint32_t i = 0; a && i < n; i++)
    for (uint32_t j = 0; j < i; j++) {
      float swap = a[i * n + j];
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = swap;
    }
  return a;
}

static void need_scratch(builder *b, uint64_t bytes) {
  if (bytes > b->scratch_needed) b->scratch_needed = bytes;
}

/* The levels of (bits, group). 2, 3 and 4 bits are the header's, brought to this group; binary and ternary are
 * analytic in the group. */
static const areole_levels *levels_for(builder *b, uint32_t bits, uint32_t group) {
  uint32_t key = bits << 16 | group;
  for (uint32_t i = 0; i < b->level_count; i++)
    if (b->level_keys[i] == key) return b->levels ? &b->levels[i] : 0;
  b->level_keys[b->level_count] = key;
  areole_levels *out = b->levels ? &b->levels[b->level_count] : 0;
  b->level_count++;
  if (!out) return 0;
  const areole_geometry *g = &b->model->g;
  const float *shared = bits == 2 ? g->cb2 : bits == 3 ? g->cb3 : g->cb4;
  float root = areole_inverse_sqrt(group), values[16] = {0};
  if (bits == 1)
    values[0] = -0.7978845608f * root, values[1] = 0.7978845608f * root;
  else if (bits == 5)
    values[1] = 1.2240064f * root, values[3] = -1.2240064f * root;
  else
    for (uint32_t i = 0; i < 1u << bits; i++)
      values[i] = group == g->codebook_group ? shared[i] : shared[i] * (sqrtf((float)g->codebook_group) * root);
  areole_levels_init(out, values, bits);
  return out;
}

/* Rows [first, first + rows) of tensor t as a matrix of their own. */
static void matrix_rows(builder *b, const areole_tensor *t, uint32_t first, uint32_t rows, areole_matrix *m) {
  uint32_t padded = round_up(t->columns, t->group), stored = areole_stored_row_bytes(padded, t->bits);
  const areole_levels *levels = levels_for(b, t->bits, t->group);
  uint32_t width = t->bits == 3 || t->bits == 4 ? 4 : 2;
  int widened = t->bits == 1 || t->bits == 3;
  uint8_t *codes = widened ? arena_take(&b->arena, (uint64_t)rows * padded * width / 8) : 0;
  need_scratch(b, (uint64_t)16 * padded * width / 8 + 64 * (padded / t->group));
  if (!b->scratch) return;
  uint8_t *source = b->archive + t->offset + (size_t)first * stored;
  uint16_t *norms =
      (uint16_t *)(void *)(b->archive + t->offset + (size_t)t->rows * stored) + (size_t)first * (padded / t->group);
  areole_matrix_init(m, levels, source, widened ? codes : source, norms, rows, t->columns, t->group, t->bits,
                     b->scratch);
}

static void matrix(builder *b, uint32_t rows, uint32_t columns, areole_matrix *m) {
  const areole_tensor *t = expect(b, 0, rows, columns);
  if (t) matrix_rows(b, t, 0, t->rows, m);
}

static void table(builder *b, const areole_tensor *t, areole_table *out) {
  if (!t) return;
  const areole_levels *levels = levels_for(b, t->bits, t->group);
  uint32_t padded = round_up(t->columns, t->group), stored = areole_stored_row_bytes(padded, t->bits);
  need_scratch(b, (uint64_t)padded * 4 + 4096);
  if (!b->scratch) return;
  const uint8_t *codes = b->archive + t->offset;
  areole_table filled = {codes,
                         (const uint16_t *)(const void *)(codes + (size_t)t->rows * stored),
                         levels,
                         t->rows,
                         t->columns,
                         t->group,
                         padded / t->group,
                         stored,
                         t->bits};
  *out = filled;
}

/* A CQ tensor decoded to f32 (rows, columns) in the arena, for the small matrices of the heads. */
static float *decoded(builder *b, uint32_t rows, uint32_t columns, uint32_t *got_rows) {
  const areole_tensor *t = expect(b, 0, rows, columns);
  areole_table source;
  if (!t) return 0;
  table(b, t, &source);
  if (got_rows) *got_rows = t->rows;
  float *out = arena_take(&b->arena, (uint64_t)t->rows * t->columns * 4);
  if (!out) return 0;
  float *work = (float *)(void *)b->scratch, *row = work + 512;
  for (uint32_t r = 0; r < t->rows; r++) {
    areole_table_row(&source, r, work, row);
    memcpy(out + (size_t)r * t->columns, row, t->columns * sizeof(float));
  }
  return out;
}

static void build_mlp(builder *b, areole_monarch *m) {
  const areole_geometry *g = &b->model->g;
  uint32_t n = g->hada_n, bits = ceil_log2(n);
  m->n = n;
  m->a = 1u << (bits / 2);
  m->b = n / m->a;
  m->d1 = dense(b, 1, n);
  m->d2 = dense(b, 1, n);
  m->b2 = dense(b, 1, n);
  m->d3 = dense(b, 1, n);
  m->d4 = dense(b, 1, n);
  m->w1a = dense_transposed(b, m->a);
  m->w1b = dense(b, m->b, m->b);
  m->w2a = dense_transposed(b, m->a);
  m->w2b = dense(b, m->b, m->b);
  m->w3a = dense_transposed(b, m->a);
  m->w3b = dense(b, m->b, m->b);
  const areole_tensor *v = b->next;
  m->true_rank = v < b->end ? v->columns : 0;
  m->rank = round_up(m->true_rank, 4);
  if (!b->status && (!m->true_rank || m->rank > n || v->rows != g->d_model)) b->status = AREOLE_BAD_TENSOR;
  float *narrow = dense(b, g->d_model, m->true_rank);
  m->cond_v = narrow;
  if (!b->status && m->rank != m->true_rank) {
    float *wide = arena_take(&b->arena, (uint64_t)g->d_model * m->rank * 4);
    for (uint32_t i = 0; wide && i < g->d_model; i++)
      for (uint32_t r = 0; r < m->rank; r++)
        wide[i * m->rank + r] = r < m->true_rank ? narrow[i * m->true_rank + r] : 0.0f;
    m->cond_v = wide;
  }
  m->cond_u = dense(b, m->true_rank, n);
}

static void build_walsh(builder *b, areole_walsh *m) {
  uint32_t n = b->model->g.hada_n;
  m->n = n;
  m->d1 = dense(b, 1, n);
  m->d2 = dense(b, 1, n);
  m->d3 = dense(b, 1, n);
}

static void build_block(builder *b, uint32_t index, areole_block *block) {
  const areole_geometry *g = &b->model->g;
  uint32_t q = g->heads * g->qk_dim, k = g->kv_heads * g->qk_dim, v = g->kv_heads * g->v_dim, o = g->heads * g->v_dim;
  block->norm_in = dense(b, 1, g->d_model);
  matrix(b, q, g->d_model, &block->q_proj);
  matrix(b, k, g->d_model, &block->k_proj);
  matrix(b, v, g->d_model, &block->v_proj);
  block->q_taps = g->qkv_taps ? dense(b, g->qkv_taps, q) : 0;
  block->k_taps = g->qkv_taps ? dense(b, g->qkv_taps, k) : 0;
  block->v_taps = g->qkv_taps ? dense(b, g->qkv_taps, v) : 0;
  block->q_norm = dense(b, 1, g->qk_dim);
  block->k_norm = dense(b, 1, g->qk_dim);
  matrix(b, o, g->d_model, &block->gate_proj);
  matrix(b, g->d_model, o, &block->out_proj);
  block->post_norm = dense(b, 1, g->d_model);
  float *gate = dense(b, 1, 1);
  block->attn_gate = gate ? f_sigmoid(*gate) : 0.0f;
  block->pre_hada = dense(b, 1, g->d_model);
  if (g->generation == 2)
    build_walsh(b, &block->walsh);
  else
    build_mlp(b, &block->mlp);
  block->site = -1;
  for (uint32_t s = 0; s < g->engram_site_count; s++)
    if (g->engram_sites[s] == index) block->site = (int32_t)s;
  block->global = (index < 32 ? g->global_mask_lo >> index : g->global_mask_hi >> (index - 32)) & 1;
}

/* phi (layers * rows, lanes * d_model): one matrix a block. */
static void build_phi(builder *b, uint32_t rows, areole_block *blocks, size_t member) {
  const areole_geometry *g = &b->model->g;
  const areole_tensor *t = expect(b, 0, g->layers * rows, g->lanes * g->d_model);
  areole_matrix unused;
  for (uint32_t l = 0; t && l < g->layers; l++)
    matrix_rows(b, t, l * rows, rows, blocks ? (areole_matrix *)(void *)((uint8_t *)&blocks[l] + member) : &unused);
}

static void build_lanes(builder *b, areole_block *blocks) {
  const areole_geometry *g = &b->model->g;
  uint32_t n = g->lanes, layers = g->layers;
  float *a_pre = dense(b, 1, layers), *a_post = dense(b, 1, layers), *a_res = dense(b, 1, layers);
  float *b_pre = dense(b, layers, n), *b_post = dense(b, layers, n), *b_res = dense(b, layers, n * n);
  float *offsets = arena_take(&b->arena, (uint64_t)layers * 2 * n * 4);
  for (uint32_t l = 0; b_res && l < layers; l++) {
    areole_block *block = &blocks[l];
    float *pre = offsets + l * 2 * n, *post = pre + n;
    block->a_pre = a_pre[l], block->a_post = a_post[l], block->a_res = a_res[l];
    block->stored_b_pre = b_pre + l * n, block->stored_b_post = b_post + l * n, block->b_res = b_res + l * n * n;
    areole_lane_offsets(block, l, n, pre, post);
    block->b_pre = pre, block->b_post = post;
  }
  build_phi(b, n, blocks, offsetof(areole_block, phi_pre));
  build_phi(b, n, blocks, offsetof(areole_block, phi_post));
  build_phi(b, n * n, blocks, offsetof(areole_block, phi_res));
}

/* A gather of n indices, kept in the archive as f32. Checked while measuring already. */
static uint32_t *build_gather(builder *b, uint32_t n) {
  const areole_tensor *t = expect(b, 1, 1, n);
  uint32_t *indices = arena_take(&b->arena, (uint64_t)n * 4);
  if (t && t->dtype != AREOLE_F32) b->status = AREOLE_BAD_TENSOR;
  for (uint32_t i = 0; !b->status && i < n; i++) {
    float value;
    memcpy(&value, b->archive + t->offset + 4 * i, 4);
    if (!(value >= 0.0f) || value >= (float)n)
      b->status = AREOLE_BAD_TENSOR;
    else if (indices)
      indices[i] = (uint32_t)value;
  }
  return indices;
}

static void build_engram(builder *b, areole_engram *e) {
  const areole_geometry *g = &b->model->g;
  const areole_tensor *tables = expect(b, 0, g->engram_tables * g->engram_slots, g->engram_sub_dim);
  table(b, tables, &e->tables);
  matrix(b, g->d_model, g->d_model, &e->key_proj);
  matrix(b, g->d_model, g->d_model, &e->value_proj);
  e->taps = dense(b, g->engram_taps, g->d_model);
}

static void build_head(builder *b, uint32_t code, areole_head *head) {
  const areole_geometry *g = &b->model->g;
  uint32_t rows = g->layers + 1, total = 0;
  head->code = code;
  head->rows = rows;
  head->d = g->d_model;
  head->probes = decoded(b, 0, g->d_model, &total);
  if (b->status) return;
  head->k = total / rows;
  if (!head->k || total % rows) b->status = AREOLE_BAD_TENSOR;
  head->gain = dense(b, rows, head->k);
  head->query = decoded(b, 0, g->d_model, &head->q);
  head->row_bias = dense(b, head->q, rows * head->k);
  head->proj = decoded(b, 0, head->q * g->d_model, &head->outputs);
  head->bias = dense(b, 1, head->outputs);
  if (code == 3) dense(b, 1, 3); /* the router's calibration: not the core's to apply */
}

/* A head of generation 2: probes (k, d), proj (outputs, k * d), bias (outputs,), all dense. */
static void build_flat_head(builder *b, uint32_t code, areole_head *head) {
  const areole_tensor *probes = b->next, *proj = b->next + 1;
  head->code = code;
  head->rows = b->model->g.layers + 1;
  head->d = b->model->g.d_model;
  head->probes = dense(b, 0, 0);
  if (b->status || proj == b->end) {
    b->status = AREOLE_BAD_TENSOR;
    return;
  }
  head->k = head->q = probes->rows;
  head->outputs = proj->rows;
  if (probes->columns != head->d || probes->rows > 1u << 10 || proj->columns != head->k * head->d)
    b->status = AREOLE_BAD_TENSOR;
  head->gain = head->query = head->row_bias = 0;
  head->proj = dense(b, 0, 0);
  head->bias = dense(b, 1, head->outputs);
}

static void build_heads(builder *b) {
  if (b->status || b->next == b->end) return;
  const areole_tensor *manifest = expect(b, 1, 0, 0);
  if (!manifest) return;
  uint32_t count = manifest->rows * manifest->columns;
  if (count > AREOLE_MAX_HEADS || manifest->dtype != AREOLE_F16) b->status = AREOLE_BAD_TENSOR;
  for (uint32_t i = 0; !b->status && i < count; i++) {
    uint16_t half;
    memcpy(&half, b->archive + manifest->offset + 2 * i, 2);
    float code = f16_value(half);
    if (code != 1.0f && code != 2.0f && code != 3.0f)
      b->status = AREOLE_BAD_TENSOR;
    else if (b->model->g.generation == 2)
      build_flat_head(b, (uint32_t)code, &b->model->heads[i]);
    else
      build_head(b, (uint32_t)code, &b->model->heads[i]);
  }
  b->model->head_count = count;
}

static int32_t walk(builder *b) {
  const areole_geometry *g = &b->model->g;
  areole_block *blocks = arena_take(&b->arena, sizeof(areole_block) * g->layers);
  areole_engram *engrams = arena_take(&b->arena, sizeof(areole_engram) * (g->engram_site_count + 1));
  areole_block unused_block;
  areole_engram unused_engram;
  b->levels = arena_take(&b->arena, sizeof(areole_levels) * LEVEL_SLOTS);
  b->model->blocks = blocks;
  b->model->engrams = engrams;
  matrix(b, g->vocab, g->d_model, &b->model->embedding);
  for (uint32_t l = 0; l < g->layers; l++) build_block(b, l, blocks ? &blocks[l] : &unused_block);
  build_lanes(b, blocks);
  if (g->generation == 3) {
    uint32_t *p1 = build_gather(b, g->hada_n), *p2 = build_gather(b, g->hada_n);
    for (uint32_t l = 0; blocks && l < g->layers; l++) blocks[l].mlp.p1 = p1, blocks[l].mlp.p2 = p2;
  }
  for (uint32_t s = 0; s < g->engram_site_count; s++) build_engram(b, engrams ? &engrams[s] : &unused_engram);
  b->model->final_norm = dense(b, 1, g->d_model);
  build_heads(b);
  float *frequencies = arena_take(&b->arena, g->qk_dim / 2 * 4);
  if (frequencies) areole_rope_frequencies(g->qk_dim / 2, g->rope_theta, frequencies);
  b->model->rope_frequencies = frequencies;
  const areole_levels *kv = g->kv_bits < 8 ? levels_for(b, g->kv_bits, AREOLE_KV_GROUP) : 0;
  b->model->kv_values = kv ? kv->value : 0;
  b->model->levels = b->levels;
  b->model->level_count = b->level_count;
  if (!b->status && b->next != b->end) b->status = AREOLE_BAD_TENSOR;
  return b->status;
}

static int32_t measure(const areole_geometry *geometry, const areole_tensor *tensors, uint32_t count, uint8_t *archive,
                       uint32_t archive_bytes, uint64_t *model_bytes, uint64_t *scratch_bytes) {
  int32_t status = check_geometry(geometry);
  if (status) return status;
  areole_model model;
  builder b;
  memset(&model, 0, sizeof model);
  memset(&b, 0, sizeof b);
  model.g = *geometry;
  b.next = tensors;
  b.end = tensors + count;
  b.archive = archive;
  b.archive_bytes = archive_bytes;
  b.model = &model;
  arena_take(&b.arena, sizeof(areole_model));
  status = walk(&b);
  *model_bytes = b.arena.used;
  *scratch_bytes = (b.scratch_needed + 63) & ~(uint64_t)63;
  if (!status && b.arena.used + b.scratch_needed > 0x7fffffff) status = AREOLE_BAD_GEOMETRY;
  return status;
}

int32_t areole_model_size(const areole_geometry *geometry, const areole_tensor *tensors, uint32_t count,
                          const uint8_t *archive, uint32_t archive_bytes, uint32_t *bytes) {
  uint64_t model_bytes = 0, scratch_bytes = 0;
  if (!geometry || !tensors || !archive || !bytes) return AREOLE_BAD_ARGUMENT;
  int32_t status =
      measure(geometry, tensors, count, (uint8_t *)(uintptr_t)archive, archive_bytes, &model_bytes, &scratch_bytes);
  if (!status) *bytes = (uint32_t)(model_bytes + scratch_bytes);
  return status;
}

int32_t areole_model_init(void *arena, uint32_t arena_bytes, const areole_geometry *geometry,
                          const areole_tensor *tensors, uint32_t count, uint8_t *archive, uint32_t archive_bytes) {
  uint64_t model_bytes = 0, scratch_bytes = 0;
  if (!arena || !geometry || !tensors || !archive) return AREOLE_BAD_ARGUMENT;
  /* The whole walk once without touching anything, so that a bad table leaves the archive unrepacked. */
  int32_t status = measure(geometry, tensors, count, archive, archive_bytes, &model_bytes, &scratch_bytes);
  if (status) return status;
  if (arena_bytes < model_bytes + scratch_bytes) return AREOLE_TOO_SMALL;
  areole_model *model = arena;
  builder b;
  memset(model, 0, sizeof *model);
  memset(&b, 0, sizeof b);
  model->g = *geometry;
  b.next = tensors;
  b.end = tensors + count;
  b.archive = archive;
  b.archive_bytes = archive_bytes;
  b.arena.base = arena;
  b.model = model;
  b.scratch = (uint8_t *)arena + model_bytes;
  arena_take(&b.arena, sizeof(areole_model));
  status = walk(&b);
  if (!status) model->magic = AREOLE_MODEL_MAGIC;
  return status;
}

int32_t areole_abi_version(void) { return 4; }

int32_t areole_flavor(void) {
#if defined(AREOLE_RELAXED)
  return AREOLE_RELAXED_SIMD;
#elif defined(__wasm_simd128__)
  return AREOLE_SIMD128;
#else
  return AREOLE_PLAIN;
#endif
}

int32_t areole_model_use_pairs(areole_model *model, uint32_t pairs) {
  if (!model || model->magic != AREOLE_MODEL_MAGIC) return AREOLE_BAD_ARGUMENT;
#ifndef AREOLE_PAIRS
  pairs = 0;
#endif
  for (uint32_t i = 0; i < model->level_count; i++) model->levels[i].pairs = pairs != 0;
  return pairs != 0;
}

/* The race's input and output: a dozen tokens of zeros, whose products take as long as any. */
int32_t areole_kernel_race_size(const areole_model *model, uint32_t *bytes) {
  if (!model || model->magic != AREOLE_MODEL_MAGIC || !bytes) return AREOLE_BAD_ARGUMENT;
  const areole_matrix *m = &model->blocks[0].q_proj;
  uint32_t a_token = m->groups * (m->group * 4 + (uint32_t)sizeof(areole_part)) + round_up(m->rows, 16) * 4;
  *bytes = AREOLE_TILES * a_token + (uint32_t)sizeof(areole_levels) + AREOLE_PANEL_BYTES + 256;
  return AREOLE_OK;
}

int32_t areole_kernel_race(const areole_model *model, uint32_t pairs, uint32_t rounds, void *work,
                           uint32_t work_bytes) {
  uint32_t needed;
  int32_t status = areole_kernel_race_size(model, &needed);
  if (!status && (!work || !rounds)) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  if (work_bytes < needed) return AREOLE_TOO_SMALL;
  memset(work, 0, needed);
  areole_matrix m = model->blocks[0].q_proj;
  areole_arena a = {work, 0};
  areole_levels *levels = arena_take(&a, sizeof(areole_levels));
  areole_input in = {0, 0, 0, AREOLE_TILES, m.group, m.levels->width, 0};
  in.quads = arena_take(&a, (uint64_t)AREOLE_TILES * m.groups * m.group * 4);
  in.parts = arena_take(&a, (uint64_t)AREOLE_TILES * m.groups * sizeof(areole_part));
  in.panel = arena_take(&a, AREOLE_PANEL_BYTES);
  float *y = arena_take(&a, (uint64_t)AREOLE_TILES * round_up(m.rows, 16) * 4);
  *levels = *m.levels;
  levels->pairs = pairs != 0;
  m.levels = levels;
  in.tile = areole_tile(levels);
  for (; rounds; rounds--) areole_matmul(&m, &in, m.rows, y, round_up(m.rows, 16));
  return AREOLE_OK;
}
