/* threads.h: a batch's steps shared with helper threads, in builds that have them (AREOLE_THREADS), and what such a
 * build exports beyond areole.h. Elsewhere a step is one straight call.
 *
 * A helper is another instance of the same module over the same memory, on a stack of its own, in a thread that the
 * host made. It never blocks the thread that feeds tokens: a step is cut into parts, any thread claims the next one,
 * and what a helper makes of a part lies in its own room until the feeding thread takes it over. A part that a helper
 * has claimed and does not finish in about the time it should take is computed again, to the same bits; what the helper
 * then still writes goes to its own room and is never looked at.
 *
 * For this to hold while a late helper still runs, a part writes nothing but its room, and reads pointers and sizes
 * only from the copy of the job that was made when it was claimed, or from the model, which must live on until the
 * helpers have been stopped. Numbers that it reads from a session that is gone may be anything. */
#ifndef AREOLE_THREADS_H
#define AREOLE_THREADS_H

#include "areole.h"
#include "simd.h"

enum { AREOLE_MAX_HELPERS = 7, AREOLE_MAX_PARTS = 64, AREOLE_JOB_BYTES = 1024 };

typedef struct areole_threads areole_threads;

/* Does units [first, last) of a job. `room` is the helper's, null for the feeding thread, whose results go where they
 * belong. */
typedef void areole_part_of(const void *job, uint32_t first, uint32_t last, void *room);
/* Copies what a helper made of units [first, last) from its room to where it belongs. */
typedef void areole_take_part(const void *job, uint32_t first, uint32_t last, void *room);

typedef struct {
  areole_part_of *run;
  areole_take_part *take;
  uint32_t units, grain; /* a part is whole grains of so many units */
  uint32_t ns;           /* about what a unit takes: how large parts should be, and how long a helper's is waited for */
} areole_step;

#ifdef AREOLE_THREADS

/* Does all of a step. `job` is plain data of at most AREOLE_JOB_BYTES; without threads everything is done here. */
void areole_share(areole_threads *threads, const void *job, uint32_t job_bytes, areole_step step);

/* Bytes of the memory that helpers need (64-byte aligned): rooms and stacks. 1 to AREOLE_MAX_HELPERS helpers. */
AREOLE_API int32_t areole_threads_size(uint32_t helpers, uint32_t *bytes);
AREOLE_API int32_t areole_threads_init(void *arena, uint32_t arena_bytes, uint32_t helpers);

/* Where the stack of a helper begins (it grows downwards): its instance's __stack_pointer before any call. */
AREOLE_API uint32_t areole_threads_stack(areole_threads *threads, uint32_t helper);

/* A helper's life: returns after areole_threads_stop. Spins for a moment after each part, then sleeps. */
AREOLE_API int32_t areole_threads_help(areole_threads *threads, uint32_t helper);
AREOLE_API int32_t areole_threads_stop(areole_threads *threads);

/* For tests: from here on each helper dawdles `turns` turns in one of `every` parts; 0 turns: no more. */
AREOLE_API int32_t areole_threads_hinder(areole_threads *threads, uint32_t turns, uint32_t every);

/* How many parts helpers have finished in time (0), or were computed again (1), modulo 2^31. */
AREOLE_API int32_t areole_threads_count(const areole_threads *threads, uint32_t redone);

/* The threads that the session's calls use from here on; null for none. TOO_SMALL: its batches do not fit a helper's
 * room, and it stays without. */
AREOLE_API int32_t areole_session_use_threads(areole_session *session, areole_threads *threads);

/* What areole_prefill would refuse, without feeding: for a host that feeds in pieces. */
AREOLE_API int32_t areole_prefill_check(const areole_session *session, const uint32_t *tokens, uint32_t count,
                                        uint32_t flags, const float *logits);

#else

AREOLE_INLINE void areole_share(areole_threads *threads, const void *job, uint32_t job_bytes, areole_step step) {
  (void)threads, (void)job_bytes;
  step.run(job, 0, step.units, 0);
}

#endif

/* Bytes of a helper's room. */
enum { AREOLE_ROOM_BYTES = 3 << 20 };

#endif
