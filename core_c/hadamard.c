/* hadamard.c: the Walsh-Hadamard rotation of a group, and the int8 activations that the CQ kernels read.
 *
 * A CQ matrix stores each group of weights rotated, so a product needs its input rotated once instead of the
 * weights rotated back: ((level * norm) H) . x = (level * norm) . (H x). The input is rotated first and rounded to
 * int8 once per (token, group); the scale carries 1 / sqrt(group). */
#include "kernels.h"

AREOLE_INLINE void butterfly(vec *a, vec *b) {
  vec sum = v_add(*a, *b);
  *b = v_sub(*a, *b);
  *a = sum;
}

/* Strides 4, 8, then 1, 2 inside 16 floats. Vector q leaves with lane j = element 4j + q: "quad order". */
AREOLE_INLINE void rotate16(vec *v) {
  butterfly(&v[0], &v[1]);
  butterfly(&v[2], &v[3]);
  butterfly(&v[0], &v[2]);
  butterfly(&v[1], &v[3]);
  v_transpose4(&v[0], &v[1], &v[2], &v[3]);
  butterfly(&v[0], &v[1]);
  butterfly(&v[2], &v[3]);
  butterfly(&v[0], &v[2]);
  butterfly(&v[1], &v[3]);
}

/* x (group,) -> out (group,) rotated without the factor 1/sqrt(group), each 16 in quad order. */
AREOLE_INLINE void rotate_group(const float *x, uint32_t group, float *out) {
  AREOLE_NO_UNROLL
  for (uint32_t i = 0; i < group; i += 16) {
    vec v[4];
    for (int q = 0; q < 4; q++) v[q] = v_load(x + i + 4 * q);
    rotate16(v);
    for (int q = 0; q < 4; q++) v_store(out + i + 4 * q, v[q]);
  }
  if (group == 128) {
    /* Strides 16, 32, 64 of the common group size in registers; the same additions as below. */
    AREOLE_NO_UNROLL
    for (uint32_t q = 0; q < 16; q += 4) {
      vec a[8];
      for (int i = 0; i < 8; i++) a[i] = v_load(out + q + 16 * i);
      for (int i = 0; i < 8; i += 2) butterfly(&a[i], &a[i + 1]);
      for (int i = 0; i < 8; i += 4) butterfly(&a[i], &a[i + 2]), butterfly(&a[i + 1], &a[i + 3]);
      for (int i = 0; i < 4; i++) butterfly(&a[i], &a[i + 4]);
      for (int i = 0; i < 8; i++) v_store(out + q + 16 * i, a[i]);
    }
    return;
  }
  for (uint32_t stride = 16; stride < group; stride *= 2)
    for (uint32_t base = 0; base < group; base += 2 * stride)
      for (uint32_t i = 0; i < stride; i += 4) {
        vec a = v_load(out + base + i), b = v_load(out + base + stride + i);
        butterfly(&a, &b);
        v_store(out + base + i, a);
        v_store(out + base + stride + i, b);
      }
}

float areole_inverse_sqrt(uint32_t n) { return 1.0f / sqrtf((float)n); }

void areole_unrotate(const float *x, uint32_t group, float *work, float *out) {
  vec scale = v_splat(areole_inverse_sqrt(group));
  rotate_group(x, group, work);
  for (uint32_t i = 0; i < group; i += 16) {
    vec v[4];
    for (int q = 0; q < 4; q++) v[q] = v_mul(v_load(work + i + 4 * q), scale);
    v_transpose4(&v[0], &v[1], &v[2], &v[3]);
    for (int q = 0; q < 4; q++) v_store(out + i + 4 * q, v[q]);
  }
}

/* x rounded down; what is larger than any i16, or no number, is 32768. */
AREOLE_INLINE int32_t reach_of(float x) { return x < 32768.0f ? (int32_t)x : 32768; }

/* Sums of a group from those of its halves' lanes, where a lane is four columns of every sixteen. A group of 16 has
 * no halves: the first comes with all of it, and only totals are right. */
AREOLE_INLINE void describe_group(uint32_t sums[2][4], float sizes[2][4], uint32_t group, float factor,
                                  areole_part *part) {
  /* Every value carries the bits of the magic number; sums are taken modulo 2^32 and it comes off again. */
  uint32_t magic = group / 4 * (uint32_t)AREOLE_MAGIC_BITS, sum = 0;
  float chunks[2];
  for (int c = 0; c < 2; c++) {
    uint32_t low = sums[c][0] + sums[c][1] - magic, high = sums[c][2] + sums[c][3] - magic;
    sum += low + high;
    part->pairs[c] = (int32_t)((low & 0xffff) | high << 16);
    float left = sizes[c][0] + sizes[c][1], right = sizes[c][2] + sizes[c][3];
    chunks[c] = left > right ? left : right;
  }
  part->sum = (int32_t)sum;
  /* Rounding adds at most a half to a value, and one more goes for the sums' own rounding. */
  float larger = chunks[0] > chunks[1] ? chunks[0] : chunks[1];
  part->reach = reach_of((chunks[0] + chunks[1]) * factor) + (int32_t)(group / 4) + 1;
  part->reach_of_half = reach_of(larger * factor) + (int32_t)(group / 8) + 1;
}

/* One group, quantised and laid out for codes of `width` bits; `stride` bytes between one quad and the next. */
AREOLE_INLINE void quantise_group(const float *rotated, uint32_t group, uint32_t width, int8_t *out, uint32_t stride,
                                  areole_part *part) {
  vec top = v_zero();
  float sizes[2][4];
  for (uint32_t c = 0, i = 0; c < 2; c++) {
    vec sum = v_zero();
    for (; i < group / 2 * (c + 1); i += 4) {
      vec size = v_abs(v_load(rotated + i));
      top = v_max(top, size);
      sum = v_add(sum, size);
    }
    v_store(sizes[c], sum);
  }
  float most = v_lane0(v_max_lanes(top)), factor = most > 0.0f ? 127.0f / most : 0.0f;
  vec inverse = v_splat(factor), magic = v_splat(AREOLE_MAGIC);
  uint32_t sums[2][4];
  for (uint32_t c = 0, i = 0; c < 2; c++) {
    vec total = v_zero();
    AREOLE_NO_UNROLL
    for (; i < group / 2 * (c + 1); i += 16) {
      vec v[4];
      for (int q = 0; q < 4; q++) {
        v[q] = v_add(v_mul(v_load(rotated + i + 4 * q), inverse), magic);
        total = v_add_i32(total, v[q]);
      }
      if (width == 2) {
        for (int q = 0; q < 4; q++)
          v_store(out + q * stride, v_shuffle8(v[q], v[q], 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12));
      } else {
        /* Nibbles: quad 0 is columns 0 2 4 6, quad 1 is 1 3 5 7, quads 2 and 3 the same of the upper eight. */
        v_store(out, v_shuffle8(v[0], v[2], 0, 16, 4, 20, 0, 16, 4, 20, 0, 16, 4, 20, 0, 16, 4, 20));
        v_store(out + stride, v_shuffle8(v[1], v[3], 0, 16, 4, 20, 0, 16, 4, 20, 0, 16, 4, 20, 0, 16, 4, 20));
        v_store(out + 2 * stride, v_shuffle8(v[0], v[2], 8, 24, 12, 28, 8, 24, 12, 28, 8, 24, 12, 28, 8, 24, 12, 28));
        v_store(out + 3 * stride, v_shuffle8(v[1], v[3], 8, 24, 12, 28, 8, 24, 12, 28, 8, 24, 12, 28, 8, 24, 12, 28));
      }
      out += 4 * stride;
    }
    v_store(sums[c], total);
  }
  describe_group(sums, sizes, group, factor, part);
  part->scale = most * (1.0f / 127.0f) * areole_inverse_sqrt(group);
}

AREOLE_NOINLINE void areole_rotate(const float *x, uint32_t columns, uint32_t group, uint32_t width, float multiplier,
                                   float *work, int8_t *out, uint32_t stride, areole_part *parts) {
  for (uint32_t at = 0; at < columns; at += group, parts++) {
    const float *source = x + at;
    if (columns - at < group) {
      memset(work + group, 0, group * sizeof(float));
      memcpy(work + group, source, (columns - at) * sizeof(float));
      source = work + group;
    }
    rotate_group(source, group, work);
    quantise_group(work, group, width, out, stride, parts);
    parts->scale = parts->scale * multiplier;
    out += stride * (group / 4);
  }
}

int32_t areole_kernel_rotate(const float *x, uint32_t columns, uint32_t group, int8_t *quantised, int32_t *sums,
                             float *scales, void *work, uint32_t work_bytes) {
  if (!x || !quantised || !sums || !scales || !work || !columns) return AREOLE_BAD_ARGUMENT;
  if (group < 16 || group > 256 || (group & (group - 1))) return AREOLE_BAD_GEOMETRY;
  uint32_t padded = (columns + group - 1) / group * group;
  if (work_bytes < 8 * padded + 64 * (padded / group) + 4096) return AREOLE_TOO_SMALL;
  int8_t *quads = (int8_t *)work + 4096;
  areole_part *parts = (areole_part *)(void *)(quads + 4 * padded);
  areole_rotate(x, columns, group, 2, 1.0f, work, quads, 16, parts);
  for (uint32_t i = 0; i < padded; i++) quantised[i] = quads[(i & ~15u) * 4 + (i & 3) * 16 + ((i >> 2) & 3)];
  for (uint32_t g = 0; g < padded / group; g++) sums[g] = parts[g].sum, scales[g] = parts[g].scale;
  return AREOLE_OK;
}
