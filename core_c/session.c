/* session.c: a conversation's state, and the walk of a batch of tokens through the blocks.
 *
 * The key-value cache has slots for the pinned prefix and a ring for the newest positions: kv_window of them plus a
 * batch, so that a batch can be stored before its first token has looked at the oldest position it may see. For the
 * same reason a draft's keys and values may lie there before it is known whether they stay: what else a token
 * changes (histories, pools, position) is kept aside until the draft is accepted. */
#include "model.h"
#include "threads.h"

enum { RECENT = 8 };

/* What a snapshot begins with; the fields after `magic` up to `window` must match the session it is loaded into. */
typedef struct {
  uint32_t magic, layers, d_model, capacity, max_tokens, window;
  uint32_t position, pinned;
  uint32_t recent[RECENT]; /* the newest tokens, newest first; 0 before the start */
} session_state;

/* What the steps of a batch read and write, by token. A helper's room has what helpers write: see threads.h. */
typedef struct {
  float *lanes, *u, *x, *z, *maps, *tapped, *attention, *cell;
  float *rotate_work, *mlp_work;
  void *attention_work;
  areole_input input;
} buffers;

struct areole_session {
  session_state *state; /* first of the bytes that a snapshot copies: state, histories, pools */
  uint32_t state_bytes, ring_base, ring, slots, magic;
  const areole_model *model;
  areole_threads *threads;
  areole_cache *caches; /* (layers,) */
  float *histories;     /* (layers, qkv_taps - 1, q + k + v), oldest first */
  float *engram_values; /* (sites, engram history, d_model), oldest first */
  float *pools[AREOLE_MAX_HEADS];
  /* Scratch of one batch. */
  buffers own;
  uint32_t padded, groups; /* of the largest rotated input */
  float *qkv, *gate, *out, *hash_rows, *engram_key, *engram_value;
  float *cosine, *sine, *logits, *pool_work;
  /* A draft: its tokens, and what accepting them adds. */
  uint32_t drafted, draft_tokens[AREOLE_DRAFT];
  float *draft_rows;   /* (layers, AREOLE_DRAFT, q + k + v) */
  float *draft_values; /* (sites, AREOLE_DRAFT, d_model) */
  float *draft_cells;  /* (layers + 1, AREOLE_DRAFT, d_model) */
};

typedef struct {
  uint32_t q, k, v, all, out, history, engram_history, maps;
} widths;

static widths widths_of(const areole_geometry *g) {
  widths w;
  w.q = g->heads * g->qk_dim;
  w.k = g->kv_heads * g->qk_dim;
  w.v = g->kv_heads * g->v_dim;
  w.all = w.q + w.k + w.v;
  w.out = g->heads * g->v_dim;
  w.history = g->qkv_taps ? g->qkv_taps - 1 : 0;
  w.engram_history = g->engram_site_count ? (g->engram_taps - 1) * g->engram_dilation : 0;
  w.maps = 2 * g->lanes + g->lanes * g->lanes;
  return w;
}

static void cover(const areole_matrix *m, uint32_t *padded, uint32_t *groups) {
  if (m->groups * m->group > *padded) *padded = m->groups * m->group;
  if (m->groups > *groups) *groups = m->groups;
}

/* The largest rotated input: the lanes side by side, or the heads' outputs. */
static void input_size(const areole_model *model, uint32_t *padded, uint32_t *groups) {
  *padded = *groups = 0;
  cover(&model->embedding, padded, groups);
  for (uint32_t l = 0; l < model->g.layers; l++) {
    const areole_block *b = &model->blocks[l];
    const areole_matrix *all[] = {&b->q_proj,   &b->k_proj,  &b->v_proj,   &b->gate_proj,
                                  &b->out_proj, &b->phi_pre, &b->phi_post, &b->phi_res};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) cover(all[i], padded, groups);
  }
  for (uint32_t s = 0; s < model->g.engram_site_count; s++) {
    cover(&model->engrams[s].key_proj, padded, groups);
    cover(&model->engrams[s].value_proj, padded, groups);
  }
}

/* The buffers of a batch of up to AREOLE_BATCH tokens. */
static void lay_out_buffers(areole_arena *a, const areole_geometry *g, uint32_t slots, uint32_t padded, uint32_t groups,
                            buffers *own) {
  widths w = widths_of(g);
  uint32_t d = g->d_model, m = AREOLE_BATCH;
  own->input.panel = arena_take(a, AREOLE_PANEL_BYTES);
  own->lanes = arena_take(a, (uint64_t)m * g->lanes * d * 4);
  own->u = arena_take(a, (uint64_t)m * d * 4);
  own->x = arena_take(a, (uint64_t)m * d * 4);
  own->z = arena_take(a, (uint64_t)m * d * 4);
  own->maps = arena_take(a, (uint64_t)m * w.maps * 4);
  own->tapped = arena_take(a, (uint64_t)m * w.all * 4);
  own->attention = arena_take(a, (uint64_t)m * w.out * 4);
  own->cell = arena_take(a, (uint64_t)m * d * 4);
  own->rotate_work = arena_take(a, 2048);
  own->mlp_work = arena_take(a, (uint64_t)4 * g->hada_n * 4);
  own->attention_work = arena_take(a, areole_attention_work(slots, g->heads / g->kv_heads, g->qk_dim, g->v_dim));
  own->input.quads = arena_take(a, (uint64_t)m * padded * 4);
  own->input.parts = arena_take(a, (uint64_t)m * groups * sizeof(areole_part));
}

static int32_t lay_out(areole_session *s, areole_arena *a, const areole_model *model, uint32_t capacity,
                       uint32_t max_tokens, uint32_t window) {
  const areole_geometry *g = &model->g;
  widths w = widths_of(g);
  uint32_t d = g->d_model, m = AREOLE_BATCH, most_rows = 0;
  input_size(model, &s->padded, &s->groups);
  arena_take(a, sizeof(areole_session));
  s->model = model;
  s->ring_base = round_up(capacity, 4);
  s->ring = round_up(max_tokens, 4);
  /* Four slots more than a window and a batch: two runs of a wrapped ring never share a group of four. */
  if (window && round_up(window + m, 4) + 4 < s->ring) s->ring = round_up(window + m, 4) + 4;
  s->slots = s->ring_base + s->ring;
  uint64_t start = a->used;
  s->state = arena_take(a, sizeof(session_state));
  s->histories = arena_take(a, (uint64_t)g->layers * w.history * w.all * 4);
  s->engram_values = arena_take(a, (uint64_t)g->engram_site_count * w.engram_history * d * 4);
  for (uint32_t h = 0; h < model->head_count; h++) {
    s->pools[h] = arena_take(a, (uint64_t)areole_pool_floats(&model->heads[h]) * 4);
    uint32_t rows = model->heads[h].rows * model->heads[h].k;
    if (rows > most_rows) most_rows = rows;
  }
  s->state_bytes = (uint32_t)(a->used - start);
  s->caches = arena_take(a, sizeof(areole_cache) * g->layers);
  uint32_t v_padded = round_up(g->v_dim, 4);
  for (uint32_t l = 0; l < g->layers; l++) {
    areole_cache c = {0, 0, 0, 0, s->slots, g->qk_dim, g->v_dim, v_padded};
    c.keys = arena_take(a, (uint64_t)g->kv_heads * s->slots * g->qk_dim);
    c.values = arena_take(a, (uint64_t)g->kv_heads * s->slots * v_padded);
    c.key_scales = arena_take(a, (uint64_t)g->kv_heads * s->slots * 4);
    c.value_scales = arena_take(a, (uint64_t)g->kv_heads * s->slots * 4);
    if (s->caches) s->caches[l] = c;
  }
  lay_out_buffers(a, g, s->slots, s->padded, s->groups, &s->own);
  s->qkv = arena_take(a, (uint64_t)(m + w.history) * w.all * 4);
  s->gate = arena_take(a, (uint64_t)m * w.out * 4);
  s->out = arena_take(a, (uint64_t)m * d * 4);
  s->hash_rows = arena_take(a, (uint64_t)m * (d + 256) * 4);
  s->engram_key = arena_take(a, (uint64_t)m * d * 4);
  s->engram_value = arena_take(a, (uint64_t)(m + w.engram_history) * d * 4);
  s->cosine = arena_take(a, (uint64_t)m * g->qk_dim / 2 * 4);
  s->sine = arena_take(a, (uint64_t)m * g->qk_dim / 2 * 4);
  s->logits = arena_take(a, (uint64_t)round_up(AREOLE_DRAFT, AREOLE_TILES) * round_up(g->out_vocab, 16) * 4);
  s->pool_work = arena_take(a, (uint64_t)most_rows * (d + 1) * 4);
  s->draft_rows = arena_take(a, (uint64_t)g->layers * AREOLE_DRAFT * w.all * 4);
  s->draft_values = arena_take(a, (uint64_t)g->engram_site_count * AREOLE_DRAFT * d * 4);
  s->draft_cells = arena_take(a, (uint64_t)(g->layers + 1) * AREOLE_DRAFT * d * 4);
  return a->used > 0x7fffffff ? AREOLE_BAD_GEOMETRY : AREOLE_OK;
}

static int32_t check_options(const areole_model *model, uint32_t capacity, uint32_t max_tokens, uint32_t window) {
  if (!model || model->magic != AREOLE_MODEL_MAGIC) return AREOLE_BAD_ARGUMENT;
  if (!max_tokens || max_tokens > model->g.max_seq || capacity > max_tokens || window > model->g.max_seq)
    return AREOLE_BAD_ARGUMENT;
  return AREOLE_OK;
}

int32_t areole_session_size(const areole_model *model, uint32_t prefix_capacity, uint32_t max_tokens,
                            uint32_t kv_window, uint32_t *bytes) {
  areole_session s;
  areole_arena a = {0, 0};
  int32_t status = check_options(model, prefix_capacity, max_tokens, kv_window);
  if (!status && !bytes) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  memset(&s, 0, sizeof s);
  status = lay_out(&s, &a, model, prefix_capacity, max_tokens, kv_window);
  if (!status) *bytes = (uint32_t)a.used;
  return status;
}

int32_t areole_session_init(void *arena, uint32_t arena_bytes, const areole_model *model, uint32_t prefix_capacity,
                            uint32_t max_tokens, uint32_t kv_window) {
  uint32_t needed;
  int32_t status = areole_session_size(model, prefix_capacity, max_tokens, kv_window, &needed);
  if (!status && !arena) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  if (arena_bytes < needed) return AREOLE_TOO_SMALL;
  areole_session *s = arena;
  areole_arena a = {arena, 0};
  memset(s, 0, sizeof *s);
  lay_out(s, &a, model, prefix_capacity, max_tokens, kv_window);
  session_state state = {
      AREOLE_SESSION_MAGIC, model->g.layers, model->g.d_model, prefix_capacity, max_tokens, kv_window, 0, 0, {0}};
  *s->state = state;
  s->magic = AREOLE_SESSION_MAGIC;
  /* A batch that does not fill its last tile runs whatever the tile held. */
  memset(s->own.input.quads, 0, (size_t)AREOLE_BATCH * s->padded * 4);
  memset(s->own.input.parts, 0, (size_t)AREOLE_BATCH * s->groups * sizeof(areole_part));
  /* Lanes of a group of four that no position fills yet are read and masked; their scales must be finite. */
  for (uint32_t l = 0; l < model->g.layers; l++) {
    memset(s->caches[l].key_scales, 0, (size_t)model->g.kv_heads * s->slots * 4);
    memset(s->caches[l].value_scales, 0, (size_t)model->g.kv_heads * s->slots * 4);
  }
  return areole_session_reset(s);
}

static int valid(const areole_session *s) { return s && s->magic == AREOLE_SESSION_MAGIC; }

int32_t areole_session_reset(areole_session *s) {
  if (!valid(s)) return AREOLE_BAD_ARGUMENT;
  const areole_geometry *g = &s->model->g;
  widths w = widths_of(g);
  s->state->position = s->state->pinned = s->drafted = 0;
  memset(s->state->recent, 0, sizeof s->state->recent);
  memset(s->histories, 0, (size_t)g->layers * w.history * w.all * 4);
  memset(s->engram_values, 0, (size_t)g->engram_site_count * w.engram_history * g->d_model * 4);
  for (uint32_t h = 0; h < s->model->head_count; h++) areole_pool_reset(&s->model->heads[h], s->pools[h]);
  return AREOLE_OK;
}

int32_t areole_session_position(const areole_session *s) {
  return valid(s) ? (int32_t)s->state->position : AREOLE_BAD_ARGUMENT;
}

int32_t areole_session_pinned(const areole_session *s) {
  return valid(s) ? (int32_t)s->state->pinned : AREOLE_BAD_ARGUMENT;
}

/* ---- one batch ---- */

/* The first rows of a matrix times an input. */
typedef struct {
  const areole_matrix *matrix;
  uint32_t rows, stride;
  float *y; /* (tokens, stride) */
} product;

/* Products with one input: the job that multiplying is, smaller than a batch since it is copied for every few rows. */
typedef struct {
  areole_input input;
  uint32_t count;
  product all[4];
} products;

/* A batch on its way through the blocks, and the job that a step of it is: so all that a part reads of the session is
 * here by value. `s` is the feeding thread's alone. */
typedef struct {
  areole_session *s;
  const areole_model *model;
  const areole_geometry *g;
  const uint32_t *tokens;
  uint32_t count, first, pinned; /* pinned counts this batch's tokens when they join the prefix */
  int draft;
  widths w;
  uint32_t window, ring_base, ring, slots, padded, groups;
  buffers own; /* the session's */
  const float *rows, *gate, *out, *cosine, *sine;
  const areole_block *block;
  areole_cache cache;
  products waiting;
} batch;

_Static_assert(sizeof(batch) <= AREOLE_JOB_BYTES, "a job is copied whole");

/* Whether position t sees t - back through the KV window. */
static int sees(const batch *b, uint32_t t, uint32_t back) {
  return back <= t && (!b->window || back < b->window || t - back < b->pinned);
}

static int sees_in_block(const batch *b, const areole_block *block, uint32_t t, uint32_t back) {
  return sees(b, t, back) && (block->global || !b->g->sliding_window || back < b->g->sliding_window);
}

static uint32_t slot_of(const batch *b, uint32_t position) {
  return position < b->pinned ? position : b->ring_base + (position - b->pinned) % b->ring;
}

/* The visible slots of position t in a block, as at most three runs. */
static uint32_t visible_runs(const batch *b, const areole_block *block, uint32_t t, areole_run *runs) {
  uint32_t count = 0, oldest = 0;
  if (!block->global && b->g->sliding_window && t + 1 > b->g->sliding_window) oldest = t + 1 - b->g->sliding_window;
  uint32_t prefix = b->pinned < t + 1 ? b->pinned : t + 1;
  if (oldest < prefix) runs[count].first = oldest, runs[count++].count = prefix - oldest;
  if (t + 1 <= b->pinned) return count;
  if (b->window && t + 1 > b->window && t + 1 - b->window > oldest) oldest = t + 1 - b->window;
  if (oldest < b->pinned) oldest = b->pinned;
  uint32_t first = slot_of(b, oldest), total = t + 1 - oldest, to_end = b->slots - first;
  runs[count].first = first;
  runs[count++].count = total < to_end ? total : to_end;
  if (total > to_end) runs[count].first = b->ring_base, runs[count++].count = total - to_end;
  return count;
}

/* ---- steps that helpers share ---- */

/* A helper's buffers, laid out in its room; for the feeding thread, which has none, the session's. */
static buffers buffers_in(const batch *b, void *room) {
  buffers own = b->own;
  areole_arena a = {room, 0};
  if (room) lay_out_buffers(&a, b->g, b->slots, b->padded, b->groups, &own);
  return own;
}

static void share(const batch *b, areole_part_of *run, areole_take_part *take, uint32_t units, uint32_t grain,
                  uint32_t ns) {
  areole_step step = {run, take, units, grain, ns};
  areole_share(b->s->threads, b, sizeof *b, step);
}

/* Where a product goes: a helper has them one after the other in its room, behind the panel. */
static float *place_of(const products *p, uint32_t index, void *room, uint32_t *stride) {
  *stride = p->all[index].stride;
  if (!room) return p->all[index].y;
  float *y = (float *)(void *)((uint8_t *)room + AREOLE_PANEL_BYTES);
  for (uint32_t i = 0; i < index; i++)
    y += (size_t)round_up(p->all[i].rows, 16) * round_up(p->input.tokens, AREOLE_TILES);
  *stride = round_up(p->all[index].rows, 16);
  return y;
}

/* The rows of a product that lie in units [first, last), if any. A unit is a block of 16 rows, or what there is beyond
 * whole blocks; the product's first is `before`. */
static int rows_of(const product *p, uint32_t before, uint32_t first, uint32_t last, uint32_t *from, uint32_t *to) {
  *from = first > before ? (first - before) * 16 : 0;
  *to = last > before ? (last - before) * 16 : 0;
  if (*to > p->rows) *to = p->rows;
  return *from < *to;
}

static AREOLE_NOINLINE void multiply(const void *job, uint32_t first, uint32_t last, void *room) {
  const products *p = job;
  areole_input in = p->input;
  if (room) in.panel = room;
  for (uint32_t i = 0, before = 0, from, to, stride; i < p->count; i++) {
    if (rows_of(&p->all[i], before, first, last, &from, &to)) {
      areole_matrix m = areole_matrix_from(p->all[i].matrix, from);
      float *y = place_of(p, i, room, &stride);
      areole_matmul(&m, &in, to - from, y + from, stride);
    }
    before += (p->all[i].rows + 15) / 16;
  }
}

static AREOLE_NOINLINE void take_products(const void *job, uint32_t first, uint32_t last, void *room) {
  const products *p = job;
  for (uint32_t i = 0, before = 0, from, to, stride; i < p->count; i++) {
    if (rows_of(&p->all[i], before, first, last, &from, &to)) {
      const float *y = place_of(p, i, room, &stride);
      for (uint32_t t = 0; t < p->input.tokens; t++)
        memcpy(p->all[i].y + (size_t)t * p->all[i].stride + from, y + (size_t)t * stride + from,
               (to - from) * sizeof(float));
    }
    before += (p->all[i].rows + 15) / 16;
  }
}

/* Multiplies the input, which is prepared, with all that waits for it. */
static void multiply_all(batch *b) {
  products *p = &b->waiting;
  uint32_t units = 0;
  p->input = b->own.input;
  for (uint32_t i = 0; i < p->count; i++) units += (p->all[i].rows + 15) / 16;
  /* About 32 products a nanosecond. */
  areole_step step = {multiply, take_products, units, 1, p->all[0].matrix->columns * p->input.tokens / 2 + 1};
  areole_share(b->s->threads, p, sizeof *p, step);
}

static void add_product(batch *b, const areole_matrix *m, uint32_t rows, float *y, uint32_t stride) {
  product p = {m, rows, stride, y};
  b->waiting.all[b->waiting.count++] = p;
}

/* Prepares x (tokens, columns) as the input of matrices like m. */
static void prepare(batch *b, const areole_matrix *m, const float *x, uint32_t stride, uint32_t tokens) {
  areole_input_prepare(&b->own.input, m, x, stride, tokens, 0, b->own.rotate_work);
  b->waiting.count = 0;
}

/* y = x times m transposed, after what was applied to the same input, unless m needs it prepared in another way. */
static void apply(batch *b, const areole_matrix *m, const float *x, uint32_t stride, float *y, uint32_t y_stride) {
  const areole_input *in = &b->own.input;
  if (in->group != m->group || in->width != m->levels->width) {
    multiply_all(b);
    prepare(b, m, x, stride, b->count);
  }
  add_product(b, m, m->rows, y, y_stride);
}

static void pool_cells(areole_session *s, uint32_t row, const float *cells, uint32_t count) {
  for (uint32_t h = 0; h < s->model->head_count; h++)
    for (uint32_t t = 0; t < count; t++)
      areole_pool_add(&s->model->heads[h], s->pools[h], row, cells + (size_t)t * s->model->g.d_model);
}

static void add_cells(batch *b, uint32_t row, const float *cells) {
  uint32_t d = b->g->d_model;
  if (b->draft)
    memcpy(b->s->draft_cells + (size_t)row * AREOLE_DRAFT * d, cells, (size_t)b->count * d * 4);
  else
    pool_cells(b->s, row, cells, b->count);
}

/* The newest `history` of past (history, width) and `count` rows after it become past. */
static void push_rows(float *past, uint32_t history, uint32_t width, const float *rows, uint32_t count) {
  uint32_t kept = count < history ? history - count : 0, fresh = history - kept;
  memmove(past, past + (size_t)fresh * width, (size_t)kept * width * 4);
  memcpy(past + (size_t)kept * width, rows + (size_t)(count - fresh) * width, (size_t)fresh * width * 4);
}

static AREOLE_NOINLINE void embed(batch *b) {
  uint32_t d = b->g->d_model;
  vec root = v_splat(sqrtf((float)d));
  for (uint32_t t = 0; t < b->count; t++) {
    float *cell = b->own.cell + (size_t)t * d, *row = b->s->hash_rows;
    areole_matrix_row(&b->model->embedding, b->tokens[t], b->own.rotate_work, row);
    for (uint32_t i = 0; i < d; i += 4) {
      vec value = v_mul(v_load(row + i), root);
      v_store(cell + i, value);
      for (uint32_t lane = 0; lane < b->g->lanes; lane++)
        v_store(b->own.lanes + ((size_t)t * b->g->lanes + lane) * d + i, value);
    }
  }
  add_cells(b, 0, b->own.cell);
}

/* Token t - back of the sequence, 0 before its start. */
static uint32_t token_before(const batch *b, uint32_t index, uint32_t back) {
  if (back <= index) return b->tokens[index - back];
  return back - index - 1 < RECENT ? b->s->state->recent[back - index - 1] : 0;
}

/* out = out + tap * past, elementwise over n; the first tap starts it. */
static AREOLE_NOINLINE void tap_row(const float *tap, const float *past, uint32_t n, int first, float *out) {
  uint32_t i = 0;
  if (first) {
    for (; i + 4 <= n; i += 4) v_store(out + i, v_mul(v_load(tap + i), v_load(past + i)));
    for (; i < n; i++) out[i] = tap[i] * past[i];
  } else {
    for (; i + 4 <= n; i += 4) v_store(out + i, v_add(v_load(out + i), v_mul(v_load(tap + i), v_load(past + i))));
    for (; i < n; i++) out[i] = out[i] + tap[i] * past[i];
  }
}

/* out (columns,) = sum_j taps[j] * rows[t - j * dilation] over what position t sees; row is t's. */
static void add_taps(const batch *b, const areole_block *block, uint32_t t, const float *row, uint32_t stride,
                     uint32_t columns, const float *taps, uint32_t tap_count, uint32_t dilation, float *out) {
  tap_row(taps, row, columns, 1, out);
  for (uint32_t j = 1; j < tap_count; j++) {
    uint32_t back = j * dilation;
    if (block ? sees_in_block(b, block, t, back) : sees(b, t, back))
      tap_row(taps + (size_t)j * columns, row - (size_t)back * stride, columns, 0, out);
  }
}

/* x += sigmoid(rms(u) . rms(key) / sqrt(d)) * value at a block's engram site; x is u on entry. */
static AREOLE_NOINLINE void add_engram(batch *b, uint32_t site) {
  const areole_geometry *g = b->g;
  const areole_engram *e = &b->model->engrams[site];
  areole_session *s = b->s;
  uint32_t d = g->d_model, history = b->w.engram_history, heads = g->engram_tables / g->engram_order_count;
  uint32_t stride = g->engram_seed_heads ? g->engram_seed_heads : heads;
  for (uint32_t t = 0; t < b->count; t++) {
    uint32_t newest[RECENT], table = 0;
    float *row = s->hash_rows + (size_t)t * d;
    for (uint32_t j = 0; j < RECENT; j++) newest[j] = token_before(b, t, j);
    for (uint32_t o = 0; o < g->engram_order_count; o++)
      for (uint32_t h = 0; h < heads; h++, table++) {
        uint32_t order = g->engram_orders[o];
        float *part = row + (size_t)table * g->engram_sub_dim;
        if (!sees(b, b->first + t, order - 1)) {
          memset(part, 0, g->engram_sub_dim * sizeof(float));
          continue;
        }
        uint32_t slot = areole_engram_slot(newest, order, o * stride + h, g->engram_slots);
        areole_table_row(&e->tables, table * g->engram_slots + slot, b->own.rotate_work, s->out);
        memcpy(part, s->out, g->engram_sub_dim * sizeof(float));
      }
  }
  float *past = s->engram_values + (size_t)site * history * d, *values = s->engram_value;
  memcpy(values, past, (size_t)history * d * 4);
  prepare(b, &e->key_proj, s->hash_rows, d, b->count);
  apply(b, &e->key_proj, s->hash_rows, d, s->engram_key, d);
  apply(b, &e->value_proj, s->hash_rows, d, values + (size_t)history * d, d);
  multiply_all(b);
  for (uint32_t t = 0; t < b->count; t++) {
    const float *u = b->own.u + (size_t)t * d, *key = s->engram_key + (size_t)t * d;
    float *x = b->own.x + (size_t)t * d, *value = s->out;
    float score = f_dot(u, key, d) * f_inverse_rms(u, d) * f_inverse_rms(key, d) * areole_inverse_sqrt(d);
    vec alpha = v_splat(f_sigmoid(score));
    add_taps(b, 0, b->first + t, values + (size_t)(history + t) * d, d, d, e->taps, g->engram_taps, g->engram_dilation,
             value);
    for (uint32_t i = 0; i < d; i += 4) v_store(x + i, v_add(v_load(u + i), v_mul(alpha, v_load(value + i))));
  }
  if (b->draft)
    memcpy(s->draft_values + (size_t)site * AREOLE_DRAFT * d, values + (size_t)history * d, (size_t)b->count * d * 4);
  else
    push_rows(past, history, d, values + (size_t)history * d, b->count);
}

/* Rotates the two halves of a head by the position's angles. */
static void rotate_halves(float *x, uint32_t half, const float *cosine, const float *sine) {
  uint32_t i = 0;
  for (; i + 4 <= half; i += 4) {
    vec first = v_load(x + i), second = v_load(x + half + i), c = v_load(cosine + i), s = v_load(sine + i);
    v_store(x + i, v_sub(v_mul(first, c), v_mul(second, s)));
    v_store(x + half + i, v_add(v_mul(second, c), v_mul(first, s)));
  }
  for (; i < half; i++) {
    float first = x[i], second = x[half + i];
    x[i] = first * cosine[i] - second * sine[i];
    x[half + i] = second * cosine[i] + first * sine[i];
  }
}

/* Taps, norms and angles: rows (tokens, q + k + v) -> tapped, likewise. A unit is a token. */
static AREOLE_NOINLINE void tap(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  const areole_geometry *g = b->g;
  const areole_block *block = b->block;
  buffers own = buffers_in(b, room);
  uint32_t all = b->w.all, qk = g->qk_dim, half = qk / 2;
  for (uint32_t t = first; t < last; t++) {
    const float *row = b->rows + (size_t)t * all, *cosine = b->cosine + t * half, *sine = b->sine + t * half;
    float *q = own.tapped + (size_t)t * all, *k = q + b->w.q, *v = k + b->w.k;
    if (g->qkv_taps) {
      add_taps(b, block, b->first + t, row, all, b->w.q, block->q_taps, g->qkv_taps, 1, q);
      add_taps(b, block, b->first + t, row + b->w.q, all, b->w.k, block->k_taps, g->qkv_taps, 1, k);
      add_taps(b, block, b->first + t, row + b->w.q + b->w.k, all, b->w.v, block->v_taps, g->qkv_taps, 1, v);
    } else {
      memcpy(q, row, all * sizeof(float));
    }
    for (uint32_t h = 0; h < g->heads + g->kv_heads; h++) {
      areole_norm(q + h * qk, h < g->heads ? block->q_norm : block->k_norm, qk, q + h * qk);
      rotate_halves(q + h * qk, half, cosine, sine);
    }
    for (uint32_t h = 0; b->model->kv_values && h < g->kv_heads; h++) {
      areole_kv_round(b->model->kv_values, g->kv_bits, k + h * qk, qk, own.rotate_work);
      areole_kv_round(b->model->kv_values, g->kv_bits, v + h * g->v_dim, g->v_dim, own.rotate_work);
    }
  }
}

static void take_tapped(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  size_t at = (size_t)first * b->w.all;
  memcpy(b->own.tapped + at, buffers_in(b, room).tapped + at, (size_t)(last - first) * b->w.all * sizeof(float));
}

/* Gated attention. A unit is a token's key-value head. */
static AREOLE_NOINLINE void look(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  const areole_geometry *g = b->g;
  buffers own = buffers_in(b, room);
  uint32_t group = g->heads / g->kv_heads, n = group * g->v_dim;
  exp_constants constants = load_exp();
  for (uint32_t unit = first; unit < last; unit++) {
    uint32_t t = unit / g->kv_heads, h = unit % g->kv_heads, i = 0;
    areole_run runs[3];
    uint32_t count = visible_runs(b, b->block, b->first + t, runs);
    float *out = own.attention + (size_t)t * b->w.out + h * n;
    const float *gate = b->gate + (size_t)t * b->w.out + h * n;
    areole_attention(&b->cache, h, runs, count, b->own.tapped + (size_t)t * b->w.all + h * group * g->qk_dim, group,
                     own.attention_work, out);
    for (; i + 4 <= n; i += 4) v_store(out + i, v_mul(v_load(out + i), v_sigmoid_with(v_load(gate + i), &constants)));
    for (; i < n; i++) out[i] = out[i] * f_sigmoid(gate[i]);
  }
}

static void take_attention(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  uint32_t n = b->w.out / b->g->kv_heads;
  memcpy(b->own.attention + (size_t)first * n, buffers_in(b, room).attention + (size_t)first * n,
         (size_t)(last - first) * n * sizeof(float));
}

/* Attention of one block: z (count, d) -> out (count, d). */
static AREOLE_NOINLINE void attend(batch *b, uint32_t layer) {
  const areole_geometry *g = b->g;
  const areole_block *block = b->block;
  areole_session *s = b->s;
  uint32_t d = g->d_model, all = b->w.all, history = b->w.history;
  float *past = s->histories + (size_t)layer * history * all, *rows = s->qkv + (size_t)history * all;
  memcpy(s->qkv, past, (size_t)history * all * 4);
  prepare(b, &block->q_proj, b->own.z, d, b->count);
  apply(b, &block->q_proj, b->own.z, d, rows, all);
  apply(b, &block->k_proj, b->own.z, d, rows + b->w.q, all);
  apply(b, &block->v_proj, b->own.z, d, rows + b->w.q + b->w.k, all);
  apply(b, &block->gate_proj, b->own.z, d, s->gate, b->w.out);
  multiply_all(b);
  if (b->draft)
    memcpy(s->draft_rows + (size_t)layer * AREOLE_DRAFT * all, rows, (size_t)b->count * all * 4);
  else
    push_rows(past, history, all, rows, b->count);
  b->rows = rows;
  share(b, tap, take_tapped, b->count, 2, 5000);
  /* Keys and values of the whole batch before any token looks at them. */
  b->cache = s->caches[layer];
  for (uint32_t t = 0; t < b->count; t++)
    for (uint32_t h = 0; h < g->kv_heads; h++) {
      const float *key = b->own.tapped + (size_t)t * all + b->w.q + h * g->qk_dim;
      const float *value = b->own.tapped + (size_t)t * all + b->w.q + b->w.k + h * g->v_dim;
      areole_cache_store(&b->cache, h, slot_of(b, b->first + t), key, value);
    }
  share(b, look, take_attention, b->count * g->kv_heads, 1, 10000);
  prepare(b, &block->out_proj, b->own.attention, b->w.out, b->count);
  apply(b, &block->out_proj, b->own.attention, b->w.out, s->out, d);
  multiply_all(b);
}

/* One stream out of the lanes: lanes (tokens, n, d) -> maps and u, and without an engram z, which is what comes next. A
 * unit is a token. */
static AREOLE_NOINLINE void read_lanes(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  const areole_block *block = b->block;
  const areole_matrix *phi[] = {&block->phi_pre, &block->phi_post, &block->phi_res};
  buffers own = buffers_in(b, room);
  uint32_t d = b->g->d_model, n = b->g->lanes, flat = n * d, maps = b->w.maps;
  const float *lanes = b->own.lanes + (size_t)first * flat;
  float multipliers[AREOLE_BATCH], *out = own.maps + (size_t)first * maps;
  /* The norm over all lanes only scales the rotated input, so it goes into the input's scales. */
  for (uint32_t t = 0; t < last - first; t++) multipliers[t] = f_inverse_rms(lanes + (size_t)t * flat, flat);
  for (uint32_t i = 0; i < 3; i++) {
    if (!i || own.input.group != phi[i]->group || own.input.width != phi[i]->levels->width)
      areole_input_prepare(&own.input, phi[i], lanes, flat, last - first, multipliers, own.rotate_work);
    areole_matmul(phi[i], &own.input, phi[i]->rows, out + i * n, maps);
  }
  for (uint32_t t = first; t < last; t++) {
    float *map = own.maps + (size_t)t * maps, *u = own.u + (size_t)t * d;
    for (uint32_t i = 0; i < n; i++) {
      map[i] = f_sigmoid(block->a_pre * map[i] + block->b_pre[i]);
      map[n + i] = 2.0f * f_sigmoid(block->a_post * map[n + i] + block->b_post[i]);
    }
    float logits[AREOLE_MAX_LANES * AREOLE_MAX_LANES];
    for (uint32_t i = 0; i < n * n; i++) logits[i] = block->a_res * map[2 * n + i] + block->b_res[i];
    areole_sinkhorn(logits, n, map + 2 * n);
    areole_lanes_gather(b->own.lanes + (size_t)t * flat, map, n, d, u);
    if (block->site < 0) areole_norm(u, block->norm_in, d, own.z + (size_t)t * d);
  }
}

static void take_streams(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  buffers own = buffers_in(b, room);
  uint32_t d = b->g->d_model, maps = b->w.maps;
  size_t at = (size_t)first * d, bytes = (size_t)(last - first) * d * sizeof(float);
  memcpy(b->own.maps + (size_t)first * maps, own.maps + (size_t)first * maps, (last - first) * maps * sizeof(float));
  memcpy(b->own.u + at, own.u + at, bytes);
  if (b->block->site < 0) memcpy(b->own.z + at, own.z + at, bytes);
}

/* The attention's output, the MLP, and the lanes with both mixed in: x, out, maps, u, lanes -> lanes, cell. A unit is a
 * token. */
static AREOLE_NOINLINE void mix(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  const areole_block *block = b->block;
  buffers own = buffers_in(b, room);
  uint32_t d = b->g->d_model, n = b->g->lanes, flat = n * d;
  vec gate = v_splat(block->attn_gate);
  for (uint32_t t = first; t < last; t++) {
    const float *before = b->own.x + (size_t)t * d, *map = b->own.maps + (size_t)t * b->w.maps;
    float *x = own.x + (size_t)t * d, *z = own.z + (size_t)t * d, *lanes = own.lanes + (size_t)t * flat;
    areole_norm(b->out + (size_t)t * d, block->post_norm, d, z);
    for (uint32_t i = 0; i < d; i += 4) v_store(x + i, v_add(v_load(before + i), v_mul(gate, v_load(z + i))));
    areole_norm(x, block->pre_hada, d, z);
    if (b->g->generation == 2)
      areole_walsh_add(&block->walsh, z, d, own.mlp_work, x);
    else
      areole_monarch_add(&block->mlp, z, d, own.mlp_work, x);
    if (room) memcpy(lanes, b->own.lanes + (size_t)t * flat, flat * sizeof(float));
    areole_lanes_update(lanes, map + 2 * n, map + n, x, b->own.u + (size_t)t * d, n, d, own.cell + (size_t)t * d);
  }
}

static void take_lanes(const void *job, uint32_t first, uint32_t last, void *room) {
  const batch *b = job;
  buffers own = buffers_in(b, room);
  uint32_t d = b->g->d_model, flat = b->g->lanes * d;
  memcpy(b->own.lanes + (size_t)first * flat, own.lanes + (size_t)first * flat,
         (size_t)(last - first) * flat * sizeof(float));
  memcpy(b->own.cell + (size_t)first * d, own.cell + (size_t)first * d, (size_t)(last - first) * d * sizeof(float));
}

static AREOLE_NOINLINE void run_block(batch *b, uint32_t layer) {
  const areole_block *block = b->block = &b->model->blocks[layer];
  uint32_t d = b->g->d_model;
  share(b, read_lanes, take_streams, b->count, AREOLE_TILE, 10000);
  if (block->site >= 0) {
    add_engram(b, (uint32_t)block->site);
    for (uint32_t t = 0; t < b->count; t++)
      areole_norm(b->own.x + (size_t)t * d, block->norm_in, d, b->own.z + (size_t)t * d);
  } else {
    memcpy(b->own.x, b->own.u, (size_t)b->count * d * 4);
  }
  attend(b, layer);
  share(b, mix, take_lanes, b->count, 2, 25000);
  add_cells(b, layer + 1, b->own.cell);
}

/* Logits (count, out_vocab) of the batch's tokens from `first` on; at most AREOLE_DRAFT of them. */
static AREOLE_NOINLINE void head(batch *b, uint32_t first, uint32_t count, float *logits) {
  areole_session *s = b->s;
  const areole_matrix *m = &b->model->embedding;
  uint32_t d = b->g->d_model, vocab = b->g->out_vocab, stride = round_up(vocab, 16);
  for (uint32_t t = 0; t < count; t++)
    areole_norm(b->own.cell + (size_t)(first + t) * d, b->model->final_norm, d, b->own.z + (size_t)t * d);
  prepare(b, m, b->own.z, d, count);
  add_product(b, m, vocab, s->logits, stride);
  multiply_all(b);
  for (uint32_t t = 0; t < count; t++)
    memcpy(logits + (size_t)t * vocab, s->logits + (size_t)t * stride, vocab * sizeof(float));
}

static batch batch_of(areole_session *s, const uint32_t *tokens, uint32_t count, int pin, int draft) {
  uint32_t pinned = s->state->pinned + (pin ? count : 0);
  batch b = {.s = s,
             .model = s->model,
             .g = &s->model->g,
             .tokens = tokens,
             .count = count,
             .first = s->state->position,
             .pinned = pinned,
             .draft = draft,
             .w = widths_of(&s->model->g),
             .window = s->state->window,
             .ring_base = s->ring_base,
             .ring = s->ring,
             .slots = s->slots,
             .padded = s->padded,
             .groups = s->groups,
             .own = s->own,
             .gate = s->gate,
             .out = s->out,
             .cosine = s->cosine,
             .sine = s->sine};
  return b;
}

/* Walks up to AREOLE_BATCH tokens through the blocks. */
static void run_batch(batch *b) {
  areole_session *s = b->s;
  uint32_t half = b->g->qk_dim / 2;
  for (uint32_t t = 0; t < b->count; t++)
    areole_rope_angles(b->first + t, half, b->model->rope_frequencies, s->cosine + t * half, s->sine + t * half);
  embed(b);
  for (uint32_t l = 0; l < b->g->layers; l++) run_block(b, l);
}

static void move_on(batch *b) {
  areole_session *s = b->s;
  uint32_t newest[RECENT];
  for (uint32_t j = 0; j < RECENT; j++) newest[j] = token_before(b, b->count - 1, j);
  memcpy(s->state->recent, newest, sizeof newest);
  s->state->position += b->count;
  s->state->pinned = b->pinned;
}

static int32_t check_tokens(const areole_session *s, const uint32_t *tokens, uint32_t count) {
  if (count > s->state->max_tokens - s->state->position) return AREOLE_CONTEXT_FULL;
  for (uint32_t i = 0; i < count; i++)
    if (tokens[i] >= s->model->g.vocab) return AREOLE_BAD_TOKEN;
  return AREOLE_OK;
}

static int32_t check_prefill(const areole_session *s, const uint32_t *tokens, uint32_t count, uint32_t flags,
                             const float *logits) {
  if (!valid(s) || !tokens || !count || flags > 7) return AREOLE_BAD_ARGUMENT;
  int pin = (flags & AREOLE_PIN) != 0;
  if ((flags & (AREOLE_LOGITS_ALL | AREOLE_LOGITS_LAST)) && !logits) return AREOLE_BAD_ARGUMENT;
  if (pin && s->state->position != s->state->pinned) return AREOLE_BAD_ARGUMENT;
  if (pin && count > s->state->capacity - s->state->pinned) return AREOLE_CONTEXT_FULL;
  return check_tokens(s, tokens, count);
}

#ifdef AREOLE_THREADS
int32_t areole_prefill_check(const areole_session *s, const uint32_t *tokens, uint32_t count, uint32_t flags,
                             const float *logits) {
  return check_prefill(s, tokens, count, flags, logits);
}
#endif

int32_t areole_prefill(areole_session *s, const uint32_t *tokens, uint32_t count, uint32_t flags, float *logits) {
  int32_t status = check_prefill(s, tokens, count, flags, logits);
  if (status) return status;
  int all = (flags & AREOLE_LOGITS_ALL) != 0, last = (flags & AREOLE_LOGITS_LAST) != 0, pin = (flags & AREOLE_PIN) != 0;
  s->drafted = 0;
  for (uint32_t at = 0, step; at < count; at += step) {
    step = count - at < AREOLE_BATCH ? count - at : AREOLE_BATCH;
    batch b = batch_of(s, tokens + at, step, pin, 0);
    run_batch(&b);
    for (uint32_t t = 0, few; all && t < step; t += few) {
      few = step - t < AREOLE_DRAFT ? step - t : AREOLE_DRAFT;
      head(&b, t, few, logits + (size_t)(at + t) * b.g->out_vocab);
    }
    if (last && !all && at + step == count) head(&b, step - 1, 1, logits);
    move_on(&b);
  }
  return AREOLE_OK;
}

int32_t areole_decode(areole_session *s, uint32_t token, float *logits) {
  return areole_prefill(s, &token, 1, AREOLE_LOGITS_LAST, logits);
}

int32_t areole_draft(areole_session *s, const uint32_t *tokens, uint32_t count, float *logits) {
  if (!valid(s) || !tokens || !count || count > AREOLE_DRAFT || !logits) return AREOLE_BAD_ARGUMENT;
  int32_t status = check_tokens(s, tokens, count);
  if (status) return status;
  batch b = batch_of(s, tokens, count, 0, 1);
  run_batch(&b);
  head(&b, 0, count, logits);
  memcpy(s->draft_tokens, tokens, count * sizeof *tokens);
  s->drafted = count;
  return AREOLE_OK;
}

int32_t areole_accept(areole_session *s, uint32_t count) {
  if (!valid(s) || count > s->drafted) return AREOLE_BAD_ARGUMENT;
  const areole_geometry *g = &s->model->g;
  batch b = batch_of(s, s->draft_tokens, count, 0, 1);
  s->drafted = 0;
  if (!count) return AREOLE_OK;
  uint32_t d = g->d_model, all = b.w.all;
  for (uint32_t l = 0; l < g->layers; l++)
    push_rows(s->histories + (size_t)l * b.w.history * all, b.w.history, all,
              s->draft_rows + (size_t)l * AREOLE_DRAFT * all, count);
  for (uint32_t site = 0; site < g->engram_site_count; site++)
    push_rows(s->engram_values + (size_t)site * b.w.engram_history * d, b.w.engram_history, d,
              s->draft_values + (size_t)site * AREOLE_DRAFT * d, count);
  for (uint32_t row = 0; row <= g->layers; row++)
    pool_cells(s, row, s->draft_cells + (size_t)row * AREOLE_DRAFT * d, count);
  move_on(&b);
  return AREOLE_OK;
}

#ifdef AREOLE_THREADS
/* What a helper multiplies at most at once. */
static uint64_t most_products(const areole_geometry *g) {
  widths w = widths_of(g);
  uint64_t rows = round_up(w.q, 16) + round_up(w.k, 16) + round_up(w.v, 16) + round_up(w.out, 16);
  if (rows < 2 * (uint64_t)round_up(g->d_model, 16)) rows = 2 * (uint64_t)round_up(g->d_model, 16);
  uint64_t head = (uint64_t)round_up(AREOLE_DRAFT, AREOLE_TILES) * round_up(g->out_vocab, 16);
  return rows * AREOLE_BATCH > head ? rows * AREOLE_BATCH : head;
}

int32_t areole_session_use_threads(areole_session *s, areole_threads *threads) {
  if (!valid(s)) return AREOLE_BAD_ARGUMENT;
  areole_arena room = {0, 0};
  buffers own;
  s->threads = 0;
  if (!threads) return AREOLE_OK;
  lay_out_buffers(&room, &s->model->g, s->slots, s->padded, s->groups, &own);
  if (room.used > AREOLE_ROOM_BYTES) return AREOLE_TOO_SMALL;
  if (AREOLE_PANEL_BYTES + 4 * most_products(&s->model->g) > AREOLE_ROOM_BYTES) return AREOLE_TOO_SMALL;
  s->threads = threads;
  return AREOLE_OK;
}
#endif

/* ---- snapshots ---- */

/* Walks the stored cache: pinned slots, then the ring's used ones, for each layer and key-value head. Copies to or
 * from `bytes`, or only counts when it is null. */
static uint32_t cache_bytes(const areole_session *s, const session_state *state, uint8_t *bytes, int load) {
  const areole_geometry *g = &s->model->g;
  uint32_t recent = state->position - state->pinned, used[2][2], total = 0;
  used[0][0] = 0, used[0][1] = round_up(state->pinned, 4);
  used[1][0] = s->ring_base, used[1][1] = round_up(recent < s->ring ? recent : s->ring, 4);
  for (uint32_t l = 0; l < g->layers; l++) {
    const areole_cache *c = &s->caches[l];
    for (uint32_t h = 0; h < g->kv_heads; h++)
      for (int part = 0; part < 2; part++) {
        uint32_t first = used[part][0], n = used[part][1];
        uint8_t *sources[4] = {(uint8_t *)c->keys + ((size_t)h * c->slots + first) * c->qk_dim,
                               (uint8_t *)c->values + ((size_t)h * c->slots + first) * c->v_padded,
                               (uint8_t *)(c->key_scales + (size_t)h * c->slots + first),
                               (uint8_t *)(c->value_scales + (size_t)h * c->slots + first)};
        uint32_t sizes[4] = {n * c->qk_dim, n * c->v_padded, n * 4, n * 4};
        for (int i = 0; i < 4; i++) {
          if (bytes && load)
            memcpy(sources[i], bytes + total, sizes[i]);
          else if (bytes)
            memcpy(bytes + total, sources[i], sizes[i]);
          total += sizes[i];
        }
      }
  }
  return total;
}

int32_t areole_snapshot_size(const areole_session *s, uint32_t *bytes) {
  if (!valid(s) || !bytes) return AREOLE_BAD_ARGUMENT;
  *bytes = s->state_bytes + cache_bytes(s, s->state, 0, 0);
  return AREOLE_OK;
}

int32_t areole_snapshot_save(const areole_session *s, void *buffer, uint32_t bytes) {
  uint32_t needed;
  int32_t status = areole_snapshot_size(s, &needed);
  if (!status && !buffer) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  if (bytes < needed) return AREOLE_TOO_SMALL;
  memcpy(buffer, s->state, s->state_bytes);
  cache_bytes(s, s->state, (uint8_t *)buffer + s->state_bytes, 0);
  return AREOLE_OK;
}

int32_t areole_snapshot_load(areole_session *s, const void *buffer, uint32_t bytes) {
  session_state state;
  if (!valid(s) || !buffer) return AREOLE_BAD_ARGUMENT;
  if (bytes < s->state_bytes) return AREOLE_BAD_SNAPSHOT;
  memcpy(&state, buffer, sizeof state);
  if (memcmp(&state, s->state, offsetof(session_state, position))) return AREOLE_BAD_SNAPSHOT;
  if (state.position > state.max_tokens || state.pinned > state.position || state.pinned > state.capacity)
    return AREOLE_BAD_SNAPSHOT;
  if (bytes != s->state_bytes + cache_bytes(s, &state, 0, 0)) return AREOLE_BAD_SNAPSHOT;
  memcpy(s->state, buffer, s->state_bytes);
  s->drafted = 0;
  cache_bytes(s, &state, (uint8_t *)(uintptr_t)buffer + s->state_bytes, 1);
  return AREOLE_OK;
}

/* ---- what is read from a session ---- */

int32_t areole_pool(const areole_session *s, uint32_t code, float *pooled, float *output) {
  if (!valid(s)) return AREOLE_BAD_ARGUMENT;
  for (uint32_t h = 0; h < s->model->head_count; h++) {
    const areole_head *found = &s->model->heads[h];
    if (found->code != code) continue;
    if (!pooled) return (int32_t)(found->q * found->d);
    if (!s->state->position) return AREOLE_BAD_ARGUMENT;
    areole_pool_finish(found, s->pools[h], s->pool_work, pooled, output);
    return (int32_t)(found->q * found->d);
  }
  return AREOLE_NO_HEAD;
}
