#include "checksum.h"

#include <stdlib.h>

#include "error.h"
#include "mix.h"

typedef uint32_t __attribute__((may_alias)) word;

/* A bijection of 31 bits, made odd. */
static uint32_t weight_of(int64_t place)
{
    const uint32_t mask = 0x7fffffff;
    uint32_t z = ((uint32_t)place + 0x2545f491u) & mask;
    z = ((z ^ (z >> 15)) * 0x2c1b3c6du) & mask;
    z = ((z ^ (z >> 13)) * 0x297a2d39u) & mask;
    return 2 * (z ^ (z >> 16)) + 1;
}

size_t checksum_bytes(enum scalar type, int64_t cols)
{
    return (size_t)cols * scalar_size(type);
}

int checksum_open(struct checksum *c, enum scalar type, int64_t cols, struct error *err)
{
    *c = (struct checksum){.words = (int64_t)(scalar_size(type) / sizeof(word)),
                           .weights = malloc(checksum_bytes(type, cols))};
    if (!c->weights)
        return error_no_memory(err, "the checksum of C");
    for (int64_t i = 0; i < cols * c->words; i++)
        c->weights[i] = weight_of(i);
    return 0;
}

struct checksum checksum_of(const struct checksum *c, enum scalar type)
{
    return (struct checksum){(int64_t)(scalar_size(type) / sizeof(word)), c->weights};
}

void checksum_close(struct checksum *c)
{
    free(c->weights);
    *c = (struct checksum){0};
}

/* Compiled for several instruction sets, of which the loader takes the best. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define FOR_THIS_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_THIS_CPU
#endif

FOR_THIS_CPU static uint64_t sum_row(const word *words, const uint32_t *weights, int64_t count)
{
    uint64_t sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (uint64_t)words[i] * weights[i];
    return sum;
}

uint64_t checksum_block(const struct checksum *c, const struct block *block, const void *memory)
{
    uint64_t sum = 0;
    int64_t count = block->cols * c->words;
    const uint32_t *weights = c->weights + block->col * c->words;
    for (int64_t i = 0; i < block->rows; i++) {
        const word *words = (const word *)memory + i * count;
        sum += (mix_number(0, (uint64_t)(block->row + i)) | 1) * sum_row(words, weights, count);
    }
    return sum;
}
