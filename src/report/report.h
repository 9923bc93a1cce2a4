/* What a run did: time, bytes and memory of every stage over all ranks, planned beside measured;
 * as text, and as JSON for programs. */
#pragma once

#include <stdio.h>

#include <jansson.h>

#include "placement.h"
#include "run.h"
#include "simulate.h"
#include "verify.h"

struct stage_report {
    double busy_s[3]; /* least and mean of the ranks that have tiles; most of any rank */
    double amount;    /* bytes, or floating-point operations, of all ranks */
};

/* Of all pieces (work.h) that this process has begun. */
struct planned {
    int pieces;
    double wall_s;              /* predicted, on rank 0 */
    double busy_s[STAGE_COUNT]; /* of stages that are links of the plan */
    double amount[STAGE_COUNT]; /* bytes, or floating-point operations, of all ranks */
};

/* What comes before the pipeline. */
enum startup {
    STARTUP_RANKS,    /* MPI, and which ranks share a computer */
    STARTUP_DEVICE,   /* the driver, the GPU and its link */
    STARTUP_OPERANDS, /* what the files hold, and what earlier runs have left */
    STARTUP_PROBE,    /* how fast the files are */
    STARTUP_PLAN,
    STARTUP_OUTPUT, /* the journal, what was saved, statistics of operands, C's file */
    STARTUP_MEMORY, /* on the device and the host; threads; each kernel once */
    STARTUP_COUNT
};

/* Plain data; valid on rank 0.  `startup` is this rank's own. */
struct report {
    double startup_s;              /* from the start of the program to the start of the pipeline */
    double startup[STARTUP_COUNT]; /* seconds of it, on this rank */
    double wall_s;                 /* from there until C is complete and durable */
    struct planned planned;
    struct stage_report stages[STAGE_COUNT];
    enum stage limit;                /* the busiest */
    double host_bytes, device_bytes; /* peak of any rank, measured */
    struct findings findings;        /* of the online check */
    uint64_t check_seed;
    int saves;
    double saves_s;                   /* that they took */
    double compared_bytes, compare_s; /* of C, which earlier runs had completed */
    int64_t damaged_rows;             /* of it, that were multiplied again */
    bool trusted;                     /* some of it was not compared */
    bool complete, checked;
    uint64_t checksum;  /* of C, when checked */
    struct verify full; /* judged: C was read back */
    bool same_bits;     /* the algorithm promises them */
    char algorithm[16];
    char advice[160]; /* what would make such a run faster; empty: nothing is known */
    const char *ways[OPERAND_COUNT + 1]; /* how rank 0 moved A, B, C0 and C; null: not at all */
};

/* Remember how much host memory this rank uses before the run's own. */
void report_baseline(void);

/* A piece with this plan begins, which is predicted to take so long. */
void report_plan(const struct plan *plan, double predicted_s, struct report *report);

/* Whether the plan has a link for the stage. */
bool report_is_planned(enum stage stage);

/* Collective.  Add the stages of all ranks to what earlier runs of this process did; startup, wall
 * and algorithm are the caller's to set. */
void report_gather(const struct run *run, struct report *report);

/* Print what a run did in detail, after report_gather: on rank 0 only, on standard output, in at
 * most 80 columns.  screen.h has the few lines for everybody. */
void report_print(FILE *out, const struct report *report, const struct problem *problem,
                  const struct machine *machine, const struct plan *plan);

/* Collective.  Rank 0 prints how long each rank's stages were busy, a line a rank. */
void report_print_ranks(FILE *out, const struct run *run);

extern const char *const report_files[OPERAND_COUNT + 1]; /* "A", "B", "C0", "C" */
extern const char *const report_stages[STAGE_COUNT];      /* in JSON */

/* Warn where a product in residues is slow, for what A and B hold. */
void report_warn_of_running_sums(const struct report *report, const struct problem *problem);

/* All that there is to tell of a run, however it ended; null where nothing is known. */
struct account {
    const char *command;
    const char *ending;      /* "complete", or what else it was when all went well */
    const struct error *err; /* how it ended */
    int verdict;             /* the exit status, when all went well */
    double done;             /* the part of the multiplications that is done and saved */
    const struct report *report;
    const struct simulation *predicted;
    const struct problem *problem;
    const struct statistics *statistics;
    const struct operand_name *output;
    const struct machine *machine;
    const struct plan *plan;            /* of the last piece */
    const struct placement *placements; /* of the machine's ranks */
};

enum { REPORT_SCHEMA = 4 };

/* The account as one JSON object, the caller's to free; null without memory. */
json_t *report_json(const struct account *account);

/* Write it as one JSON object, under a temporary name first. */
int report_write(const char *path, const struct account *account, struct error *err);

/* What the full check found. */
void report_full_check(FILE *out, const struct verify *full);

/* EXIT_COMPLETE; or EXIT_NOT_CHECKED where a check was wanted that had not the power to pass: the
 * online one, or the full one where nothing was left to multiply. */
int report_verdict(const struct report *report);

/* "RESULT: C complete, checked ...: PASSED", of that check. */
void report_print_result(FILE *out, const struct report *report, const struct problem *p);

/* "RESULT: C is checked ...: PASSED", without a run.  The verdict. */
int report_check_result(FILE *out, const struct verify *full, const struct problem *p);
