/* Moduli and constants of products in residues (ozaki.h): an integer below P / 2 in magnitude,
 * where P is the product of N pairwise coprime moduli of at most 8 bits, is known by its N balanced
 * residues, and comes back from them by the Chinese remainder theorem.
 *
 * Moduli of complex integers have a root s of -1.  Then x = re + i im has two residues, those of
 * re + s im and re - s im; that of a product is the product of either, and re and im come back as
 * half of the sum, and of the difference by s.
 *
 * All constants are made from exact integers, so they are the same on every machine. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { RESIDUES_LEAST = 6, RESIDUES_MOST = 18, RESIDUES_PARTS = 4 };

struct modulus {
    int p;
    float inverse;      /* 1 / p: a quotient of what is below 2^18 in magnitude */
    int32_t inverse_37; /* 2^37 / p, rounded: of what is at most 2^28 */
    int32_t powers[2];  /* 256^i mod p, balanced: a byte each, the lowest first */
    /* Of complex integers, by a root s of -1 modulo p: s 256^i likewise, and 1/2 and 1/(2 s),
     * balanced; else 0. */
    int32_t turned[2];
    int half, half_turned;
    /* The weight, (P / p) ((P / p)^-1 mod p), is the sum of these parts.  A part has 42 bits, so
     * that sums of parts times residues are exact in double. */
    double weight[RESIDUES_PARTS];
};

struct residues {
    int count, parts; /* moduli, and parts of P; other parts are 0 */
    bool complex;     /* the integers are the parts of complex ones */
    struct modulus moduli[RESIDUES_MOST];
    double product[RESIDUES_PARTS]; /* P, in parts that end at the bits where those of weights do */
    double inverse;                 /* 1 / P */
    /* P/2 (1 - 2^-7), rounded down, is from limit_top 2^(limit_log2 - 31) on, and less than one in
     * the last place of that more; limit_top is from 2^31 to 2^32 - 1. */
    int limit_log2;
    uint32_t limit_top;
};

#ifdef __cplusplus
extern "C" {
#endif

/* Those of the first `count` moduli, RESIDUES_LEAST to RESIDUES_MOST, of real or complex
 * integers. */
void residues_make(int count, bool complex, struct residues *residues);

#ifdef __cplusplus
}
#endif
