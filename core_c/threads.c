/* threads.c: parts of a job claimed by whoever is free; see threads.h for what is promised.
 *
 * One word holds the job's number and how many of its parts nobody has claimed yet; a part is claimed by lowering it
 * from exactly what was seen. The feeding thread writes a job's description only when every part of the one before is
 * claimed, so a description that was copied before a successful claim is whole. All words are sequentially consistent.
 *
 * A word that another core has written takes a quarter of a microsecond to come over, and steps of a single token last
 * tens of them. So their parts are few: a large one for each thread, of which the feeding thread's own is not even
 * claimed, and small ones for whoever is first. */
#include "threads.h"

#ifdef AREOLE_THREADS

enum { STACK_BYTES = 1 << 16, IDLE_SPINS = 20000, PATIENCE = 2000, LEFT_BITS = 8 };
enum { SHORT_NS = 150000, PART_NS = 20000 }; /* a step that is longer is cut into parts of this length */

/* How a job is cut: `large` parts of large_units each, then small ones. */
typedef struct {
  areole_step step;
  uint32_t parts, large, large_units, small_units, job_bytes;
} cut;

typedef struct {
  cut cut;
  _Alignas(16) uint8_t job[AREOLE_JOB_BYTES];
} description;

struct areole_threads {
  uint32_t helpers, magic, finished, redone;
  _Alignas(64) uint64_t claim; /* job's number << LEFT_BITS | parts left; a helper sleeps on its low half */
  _Alignas(64) uint32_t sleepers;
  uint32_t stop, dawdle, dawdle_every;
  _Alignas(64) uint64_t done[AREOLE_MAX_PARTS]; /* by part: job's number << LEFT_BITS | helper that finished it */
  _Alignas(64) description now;
};

enum { MAGIC = 0x41525431, HEAD_BYTES = (sizeof(areole_threads) + 63) / 64 * 64 };

#define LOAD(p) __atomic_load_n(p, __ATOMIC_SEQ_CST)
#define STORE(p, value) __atomic_store_n(p, value, __ATOMIC_SEQ_CST)

static void *room_of(const areole_threads *t, uint32_t helper) {
  return (uint8_t *)(uintptr_t)t + HEAD_BYTES + (size_t)helper * (AREOLE_ROOM_BYTES + STACK_BYTES);
}

static int valid(const areole_threads *t) { return t && t->magic == MAGIC; }

int32_t areole_threads_size(uint32_t helpers, uint32_t *bytes) {
  if (!bytes || !helpers || helpers > AREOLE_MAX_HELPERS) return AREOLE_BAD_ARGUMENT;
  *bytes = HEAD_BYTES + helpers * (AREOLE_ROOM_BYTES + STACK_BYTES);
  return AREOLE_OK;
}

int32_t areole_threads_init(void *arena, uint32_t arena_bytes, uint32_t helpers) {
  uint32_t needed;
  int32_t status = areole_threads_size(helpers, &needed);
  if (!status && !arena) status = AREOLE_BAD_ARGUMENT;
  if (status) return status;
  if (arena_bytes < needed) return AREOLE_TOO_SMALL;
  areole_threads *t = arena;
  memset(t, 0, sizeof *t);
  t->helpers = helpers;
  t->magic = MAGIC;
  return AREOLE_OK;
}

uint32_t areole_threads_stack(areole_threads *t, uint32_t helper) {
  return valid(t) && helper < t->helpers ? (uint32_t)(uintptr_t)room_of(t, helper + 1) : 0;
}

int32_t areole_threads_hinder(areole_threads *t, uint32_t turns, uint32_t every) {
  if (!valid(t) || !every) return AREOLE_BAD_ARGUMENT;
  t->dawdle_every = every;
  STORE(&t->dawdle, turns);
  return AREOLE_OK;
}

int32_t areole_threads_count(const areole_threads *t, uint32_t redone) {
  if (!valid(t)) return AREOLE_BAD_ARGUMENT;
  return (int32_t)((redone ? t->redone : t->finished) & 0x7fffffff);
}

/* Shows a new job, and wakes who sleeps. */
static void announce(areole_threads *t, uint64_t claim) {
  STORE(&t->claim, claim);
  if (LOAD(&t->sleepers) && __atomic_exchange_n(&t->sleepers, 0, __ATOMIC_SEQ_CST))
    __builtin_wasm_memory_atomic_notify((int *)&t->claim, AREOLE_MAX_HELPERS);
}

int32_t areole_threads_stop(areole_threads *t) {
  if (!valid(t)) return AREOLE_BAD_ARGUMENT;
  STORE(&t->stop, 1);
  announce(t, ((LOAD(&t->claim) >> LEFT_BITS) + 1) << LEFT_BITS);
  return AREOLE_OK;
}

/* ---- the feeding thread ---- */

static uint32_t divide_up(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

static cut cut_up(const areole_step *step, uint32_t job_bytes, uint32_t threads) {
  cut c = {*step, 0, 0, 0, 0, job_bytes};
  uint32_t grains = divide_up(step->units, step->grain), grain_ns = step->grain * step->ns;
  uint32_t small = divide_up(grains, AREOLE_MAX_PARTS), large = 4 * grains / (5 * threads);
  if ((uint64_t)grains * grain_ns > SHORT_NS) {
    if (small * grain_ns < PART_NS) small = divide_up(PART_NS, grain_ns);
  } else if (large) {
    c.large = threads;
    c.large_units = large * step->grain;
    small = divide_up(grains - threads * large, threads);
    if (!small) small = 1;
  }
  c.small_units = small * step->grain;
  c.parts = c.large + divide_up(step->units - c.large * c.large_units, c.small_units);
  return c;
}

static uint32_t first_of(const cut *c, uint32_t part) {
  if (part < c->large) return part * c->large_units;
  uint32_t first = c->large * c->large_units + (part - c->large) * c->small_units;
  return first < c->step.units ? first : c->step.units;
}

/* Claims a part of job `number`; gives how many were left, 0 for none. */
static uint32_t claim_part(areole_threads *t, uint64_t number) {
  for (uint64_t seen = LOAD(&t->claim);;) {
    uint32_t left = (uint32_t)(seen & ((1 << LEFT_BITS) - 1));
    if (seen >> LEFT_BITS != number || !left) return 0;
    if (__atomic_compare_exchange_n(&t->claim, &seen, seen - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return left;
  }
}

AREOLE_NOINLINE void areole_share(areole_threads *t, const void *job, uint32_t job_bytes, areole_step step) {
  if (!t || step.units <= step.grain || job_bytes > AREOLE_JOB_BYTES) {
    step.run(job, 0, step.units, 0);
    return;
  }
  cut c = cut_up(&step, job_bytes, t->helpers + 1);
  uint64_t number = (LOAD(&t->claim) >> LEFT_BITS) + 1, mine = 1;
  memcpy(t->now.job, job, job_bytes);
  t->now.cut = c;
  announce(t, number << LEFT_BITS | (c.parts - 1));
  step.run(job, 0, first_of(&c, 1), 0);
  for (uint32_t left; (left = claim_part(t, number));) {
    uint32_t part = c.parts - left;
    mine |= 1ull << part;
    step.run(job, first_of(&c, part), first_of(&c, part + 1), 0);
  }
  /* A turn takes about a nanosecond. All parts together are waited for so long, since they are done side by side. */
  uint32_t most = c.large_units > c.small_units ? c.large_units : c.small_units;
  uint32_t patience = PATIENCE + 3 * most * step.ns;
  for (uint32_t part = 1; part < c.parts; part++) {
    if (mine >> part & 1) continue;
    uint64_t done = LOAD(&t->done[part]);
    for (; done >> LEFT_BITS != number && patience; patience--) done = LOAD(&t->done[part]);
    if (done >> LEFT_BITS == number) {
      void *room = room_of(t, (uint32_t)(done & ((1 << LEFT_BITS) - 1)));
      step.take(job, first_of(&c, part), first_of(&c, part + 1), room);
      t->finished++;
    } else {
      step.run(job, first_of(&c, part), first_of(&c, part + 1), 0);
      t->redone++;
    }
  }
}

/* ---- a helper ---- */

static AREOLE_NOINLINE void dawdle(areole_threads *t, uint32_t parts) {
  uint32_t turns = LOAD(&t->dawdle);
  if (!turns || parts % t->dawdle_every) return;
  for (; turns; turns--) (void)LOAD(&t->stop);
}

typedef struct {
  uint64_t known; /* number of the job that was copied */
  uint32_t parts;
  description copy;
} helping;

/* Claims and does one part of what `seen` says is there. */
static AREOLE_NOINLINE void help_once(areole_threads *t, uint32_t helper, uint64_t seen, helping *h) {
  uint64_t number = seen >> LEFT_BITS;
  uint32_t left = (uint32_t)(seen & ((1 << LEFT_BITS) - 1));
  const cut *c = &h->copy.cut;
  if (number != h->known) {
    h->copy.cut = t->now.cut;
    memcpy(h->copy.job, t->now.job, c->job_bytes < AREOLE_JOB_BYTES ? c->job_bytes : AREOLE_JOB_BYTES);
    h->known = number;
  }
  if (!__atomic_compare_exchange_n(&t->claim, &seen, seen - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  uint32_t part = c->parts - left;
  dawdle(t, ++h->parts);
  c->step.run(h->copy.job, first_of(c, part), first_of(c, part + 1), room_of(t, helper));
  STORE(&t->done[part], number << LEFT_BITS | helper);
}

int32_t areole_threads_help(areole_threads *t, uint32_t helper) {
  if (!valid(t) || helper >= t->helpers) return AREOLE_BAD_ARGUMENT;
  helping h;
  h.known = h.parts = 0;
  for (uint32_t idle = 0; !LOAD(&t->stop);) {
    uint64_t seen = LOAD(&t->claim);
    if (seen & ((1 << LEFT_BITS) - 1)) {
      help_once(t, helper, seen, &h);
      idle = 0;
    } else if (++idle > IDLE_SPINS) {
      __atomic_fetch_add(&t->sleepers, 1, __ATOMIC_SEQ_CST);
      /* Returns at once where the word is another one by now. Only job numbers 2^24 apart look the same here, and the
       * one between wakes whoever is counted as asleep. */
      __builtin_wasm_memory_atomic_wait32((int *)&t->claim, (int)(uint32_t)seen, -1);
      idle = 0;
    }
  }
  return AREOLE_OK;
}

#endif
