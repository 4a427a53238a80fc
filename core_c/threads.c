/* threads.c: parts of a job claimed by whoever is free; see threads.h for what is promised.
 *
 * One word holds the job's number and how many of its parts nobody has claimed yet; a part is claimed by lowering it
 * from exactly what was seen. The feeding thread writes a job's description only when every part of the one before is
 * claimed, so a description that was copied before a successful claim is whole. All words are sequentially consistent.
 */
#include "threads.h"

#ifdef AREOLE_THREADS

enum { STACK_BYTES = 1 << 16, IDLE_SPINS = 40000, SPINS = 2000, LEFT_BITS = 8 };

struct areole_threads {
  uint32_t helpers, magic;
  uint32_t finished, redone;
  uint32_t dawdle, dawdle_every;
  _Alignas(64) uint64_t claim; /* job's number << LEFT_BITS | parts left */
  _Alignas(64) uint32_t bell;  /* changes with each job and at the end: what a helper sleeps on */
  uint32_t sleepers, stop;
  _Alignas(64) uint64_t done[AREOLE_MAX_PARTS]; /* by part: job's number << LEFT_BITS | helper that finished it */
  _Alignas(64) areole_step step;
  uint32_t job_bytes, per_part;
  _Alignas(64) uint8_t job[AREOLE_JOB_BYTES];
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

static void wake(areole_threads *t) {
  __atomic_fetch_add(&t->bell, 1, __ATOMIC_SEQ_CST);
  if (LOAD(&t->sleepers) && __atomic_exchange_n(&t->sleepers, 0, __ATOMIC_SEQ_CST))
    __builtin_wasm_memory_atomic_notify((int *)&t->bell, AREOLE_MAX_HELPERS);
}

int32_t areole_threads_stop(areole_threads *t) {
  if (!valid(t)) return AREOLE_BAD_ARGUMENT;
  STORE(&t->stop, 1);
  wake(t);
  return AREOLE_OK;
}

/* ---- the feeding thread ---- */

/* Lowers the parts left of job `number` by one; gives how many there were, 0 for none. */
static uint32_t claim_part(areole_threads *t, uint64_t number) {
  for (uint64_t seen = LOAD(&t->claim);;) {
    uint32_t left = (uint32_t)(seen & ((1 << LEFT_BITS) - 1));
    if (seen >> LEFT_BITS != number || !left) return 0;
    if (__atomic_compare_exchange_n(&t->claim, &seen, seen - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return left;
  }
}

static uint32_t last_of(const areole_step *step, uint32_t per_part, uint32_t part) {
  uint32_t last = (part + 1) * per_part;
  return last < step->units ? last : step->units;
}

AREOLE_NOINLINE void areole_share(areole_threads *t, const void *job, uint32_t job_bytes, areole_step step) {
  uint32_t most = (step.units + AREOLE_MAX_PARTS - 1) / AREOLE_MAX_PARTS;
  uint32_t per_part = step.grain > most ? step.grain : most;
  if (!t || step.units <= per_part || job_bytes > AREOLE_JOB_BYTES) {
    step.run(job, 0, step.units, 0);
    return;
  }
  uint32_t parts = (step.units + per_part - 1) / per_part;
  uint64_t number = (LOAD(&t->claim) >> LEFT_BITS) + 1, mine = 0;
  memcpy(t->job, job, job_bytes);
  t->step = step;
  t->job_bytes = job_bytes;
  t->per_part = per_part;
  STORE(&t->claim, number << LEFT_BITS | parts);
  wake(t);
  for (uint32_t left; (left = claim_part(t, number));) {
    mine |= 1ull << (left - 1);
    step.run(job, (left - 1) * per_part, last_of(&step, per_part, left - 1), 0);
  }
  /* A turn takes about a nanosecond. All parts together are waited for so long, since they are done side by side. */
  uint32_t patience = SPINS + 3 * per_part * step.ns;
  for (uint32_t part = parts; part-- > 0;) {
    if (mine >> part & 1) continue;
    uint32_t first = part * per_part, last = last_of(&step, per_part, part);
    uint64_t done = LOAD(&t->done[part]);
    for (; done >> LEFT_BITS != number && patience; patience--) done = LOAD(&t->done[part]);
    if (done >> LEFT_BITS == number) {
      step.take(job, first, last, room_of(t, (uint32_t)(done & ((1 << LEFT_BITS) - 1))));
      t->finished++;
    } else {
      step.run(job, first, last, 0);
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

/* Claims and does one part of what is there; 0 when there was none. */
static AREOLE_NOINLINE int help_once(areole_threads *t, uint32_t helper, uint64_t *known, uint32_t *parts, uint8_t *job,
                                     areole_step *step, uint32_t *per_part) {
  uint64_t seen = LOAD(&t->claim), number = seen >> LEFT_BITS;
  uint32_t left = (uint32_t)(seen & ((1 << LEFT_BITS) - 1));
  if (!left) return 0;
  if (number != *known) {
    uint32_t bytes = t->job_bytes;
    memcpy(job, t->job, bytes < AREOLE_JOB_BYTES ? bytes : AREOLE_JOB_BYTES);
    *step = t->step;
    *per_part = t->per_part;
    *known = number;
  }
  if (!__atomic_compare_exchange_n(&t->claim, &seen, seen - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return 1;
  dawdle(t, ++*parts);
  step->run(job, (left - 1) * *per_part, last_of(step, *per_part, left - 1), room_of(t, helper));
  STORE(&t->done[left - 1], number << LEFT_BITS | helper);
  return 1;
}

int32_t areole_threads_help(areole_threads *t, uint32_t helper) {
  if (!valid(t) || helper >= t->helpers) return AREOLE_BAD_ARGUMENT;
  _Alignas(16) uint8_t job[AREOLE_JOB_BYTES];
  areole_step step;
  uint64_t known = 0;
  uint32_t per_part = 0, parts = 0, idle = 0;
  while (!LOAD(&t->stop)) {
    int bell = (int)LOAD(&t->bell);
    if (help_once(t, helper, &known, &parts, job, &step, &per_part)) {
      idle = 0;
    } else if (++idle > IDLE_SPINS) {
      __atomic_fetch_add(&t->sleepers, 1, __ATOMIC_SEQ_CST);
      __builtin_wasm_memory_atomic_wait32((int *)&t->bell, bell, -1);
      idle = 0;
    }
  }
  return AREOLE_OK;
}

#endif
