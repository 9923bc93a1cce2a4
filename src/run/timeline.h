/* How busy every stage of a rank was, and what it moved, over time.  However long the run, the
 * memory is the same: when the bins run out of time, pairs of them become one. */
#ifndef DGEMM_OOC_TIMELINE_H
#define DGEMM_OOC_TIMELINE_H

enum stage {
    STAGE_READ,
    STAGE_CACHE,
    STAGE_NETWORK,
    STAGE_IN,
    STAGE_GEMM,
    STAGE_CHECK,
    STAGE_OUT,
    STAGE_WRITE,
    STAGE_COUNT
};

enum { TIMELINE_BINS = 512 };

struct timeline {
    double start;                              /* on the host's clock */
    double width;                              /* seconds of a bin, of all ranks 1 us times 2^i */
    double busy_s[STAGE_COUNT][TIMELINE_BINS]; /* of each bin */
    double amount[STAGE_COUNT][TIMELINE_BINS]; /* bytes, or floating-point operations */
};

/* Begin now; it is all zero. */
void timeline_begin(struct timeline *timeline, double now);

/* A stage was busy between two times of the host's clock, and got so much done. */
void timeline_add(struct timeline *timeline, enum stage stage, double begin, double end,
                  double amount);

/* Make the bins that wide at least. */
void timeline_widen(struct timeline *timeline, double width);

#endif
