/* Fault injection for tests: system calls, allocations and device operations fail on demand.
 *
 * The linker interposes these functions (--wrap) in a program that only tests build, so the
 * product's sources and objects contain nothing of it.  Calls that the HDF5 library makes itself
 * are not intercepted.
 *
 *   DGEMM_OOC_TEST_FAULTS      a comma-separated list: CALL:FAULT@N for the N-th such call,
 *                              CALL:FAULT@N+ for the N-th and all later ones, CALL:FAULT%P for P %
 *                              of the calls, which the seed selects
 *   DGEMM_OOC_TEST_SEED        the seed, a number
 *   DGEMM_OOC_TEST_FAULT_RANK  the only rank with faults; by default all ranks have them
 *   DGEMM_OOC_TEST_FAULT_FILE  calls on a file count only if this is in its name, which is the old
 *                              one where it gets another
 *   DGEMM_OOC_TEST_FAULT_LOG   a file to which each fault appends a line, and each rank at exit
 *                              "CALL COUNT" for every kind of call that it made
 *
 * CALL is one of the names below, in lower case.  FAULT is the name of an errno in lower case.
 * Calls that move bytes also accept short (at most half of the bytes), eof (no bytes, but success),
 * flip (one bit is inverted) and delay.  Device operations accept fail; copies and kernels accept
 * delay, too.  gemm and fold also accept flip (the first element is wrong), and gemm bit (one bit
 * of one element is inverted; the seed and the call's number select it) and residue (a wrong
 * residue is counted). */
#pragma once

#include <stdint.h>

enum call {
    CALL_PREAD,
    CALL_PREADV,
    CALL_PWRITE,
    CALL_WRITE, /* to the journal */
    CALL_FALLOCATE,
    CALL_SYNC_FILE_RANGE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_RENAME, /* rename, renameat2 */
    CALL_OPEN,
    CALL_FTRUNCATE,
    CALL_MADVISE, /* only MADV_POPULATE_WRITE */
    CALL_MALLOC,  /* malloc, calloc, aligned_alloc, posix_memalign */
    CALL_MMAP,
    CALL_THREAD,
    CALL_ALLOC, /* on the device, like all that follow up to CALL_JUDGE */
    CALL_PIN,
    CALL_EVENT,
    CALL_RECORD,
    CALL_WAIT,
    CALL_SYNC,
    CALL_COPY,
    CALL_GEMM,
    CALL_COMBINE,
    CALL_MIRROR,
    CALL_RECENTRE,
    CALL_STANDARDIZE,
    CALL_EMBED,
    CALL_FOLD,
    CALL_SKETCH,
    CALL_RETIRE,
    CALL_PROJECT,
    CALL_NORMS,
    CALL_JUDGE,
    CALL_LINK, /* in the file system */
    CALL_STAT, /* stat, lstat, fstat, access: what is asked of a file */
    CALL_COUNT
};

/* The faults that are not an errno. */
enum {
    FAULT_SHORT = -1,
    FAULT_EOF = -2,
    FAULT_FLIP = -3,
    FAULT_DELAY = -4,
    FAULT_FAIL = -5,
    FAULT_BIT = -6,
    FAULT_RESIDUE = -7,
};

/* Count a call and return its fault: 0 for none, one of the above, or an errno. */
int fault_of(enum call call);
int fault_of_file(enum call call, int descriptor);
int fault_of_path(enum call call, const char *path);

/* A pseudo-random number, determined by the seed, the number of calls of this kind so far, and
 * `which`. */
uint64_t fault_chance(enum call call, uint64_t which);

/* Add a line to the log. */
void fault_log(const char *line);
