/* Faults for tests: system calls, allocations and device operations that fail when told to.
 *
 * The linker puts itself between the program and what it calls (--wrap), in a program that only
 * tests build: the product's sources and objects know nothing of it.  What the HDF5 library itself
 * calls is not touched.
 *
 *   DGEMM_OOC_TEST_FAULTS      comma-separated: CALL:FAULT@N the N-th such call, CALL:FAULT@N+ from
 *                              it on, CALL:FAULT%P of 100 calls P, which ones the seed says
 *   DGEMM_OOC_TEST_SEED        a number
 *   DGEMM_OOC_TEST_FAULT_RANK  the only rank that has faults; all have without it
 *   DGEMM_OOC_TEST_FAULT_FILE  of calls on a file's descriptor only those count whose file has this
 *                              in its name
 *   DGEMM_OOC_TEST_FAULT_LOG   a file that each fault adds a line to, and each rank at its end
 *                              "CALL COUNT" for every kind of call that it made
 *
 * CALL: one of the names below, in lower case.  FAULT: the errno by its name in lower case; for
 * what moves bytes also short (half of them, at most), eof (none, with success), flip (one bit is
 * another) and delay; for device operations fail, and for gemm flip (the first sum is another) and
 * bit (one bit of one sum is another, which ones the seed and the call's number say). */
#pragma once

#include <stdint.h>

enum call {
    CALL_PREAD,
    CALL_PREADV,
    CALL_PWRITE,
    CALL_WRITE, /* of the journal */
    CALL_FALLOCATE,
    CALL_SYNC_FILE_RANGE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_RENAME, /* rename, renameat2 */
    CALL_OPEN,
    CALL_FTRUNCATE,
    CALL_MADVISE, /* for pages to write to */
    CALL_MALLOC,  /* malloc, calloc, aligned_alloc, posix_memalign */
    CALL_MMAP,
    CALL_THREAD,
    CALL_ALLOC, /* of the device, as all that follow */
    CALL_PIN,
    CALL_EVENT,
    CALL_RECORD,
    CALL_WAIT,
    CALL_SYNC,
    CALL_COPY,
    CALL_GEMM,
    CALL_COMBINE,
    CALL_SKETCH,
    CALL_RETIRE,
    CALL_PROJECT,
    CALL_NORMS,
    CALL_JUDGE,
    CALL_LINK, /* of the file system */
    CALL_COUNT
};

/* What is to happen to a call instead of, or beside, what it does. */
enum {
    FAULT_SHORT = -1,
    FAULT_EOF = -2,
    FAULT_FLIP = -3,
    FAULT_DELAY = -4,
    FAULT_FAIL = -5,
    FAULT_BIT = -6,
    FAULT_RESIDUE = -7,
};

/* Count a call, and say its fault: 0 for none, one of the above, or an errno. */
int fault_of(enum call call);
int fault_of_file(enum call call, int descriptor);

/* A number by chance: of the seed, the calls so far of this kind, and `which`. */
uint64_t fault_chance(enum call call, uint64_t which);

/* Add a line to the log. */
void fault_log(const char *line);
