/* engram.c: which row of an engram table the newest tokens hash to. The rest of an engram is matrix products and
 * taps, which session.c walks with the other kernels. */
#include "kernels.h"

uint32_t areole_engram_slot(const uint32_t *tokens, uint32_t order, uint32_t table, uint32_t slots) {
  uint32_t hash = 0x9E3779B9u * (table + 1);
  for (uint32_t j = 0; j < order; j++) hash = (hash ^ tokens[j]) * 0x01000193u;
  hash ^= hash >> 15;
  return hash % slots;
}
