/* What the user asked for.  Plain data: rank 0's is sent to all ranks. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernel.h"
#include "scaling.h"
#include "store.h"

enum device_choice { CHOOSE_AUTO, CHOOSE_GPU, CHOOSE_CPU };
enum verification { VERIFY_OFF, VERIFY_ONLINE, VERIFY_FULL };
enum progress_choice { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };
enum restart { RESTART_AUTO, RESTART_NEVER, RESTART_REQUIRE, RESTART_TRUST };
enum symmetric { SYMMETRIC_AUTO, SYMMETRIC_ON, SYMMETRIC_OFF, SYMMETRIC_LOWER };
enum { ALGORITHM_AUTO = -1 };

struct operand_name {
    char file[PATH_MAX];
    char dataset[MATFILE_NAME_MAX];
};

struct options {
    struct operand_name a, b, c, output;
    double alpha, beta, alpha_i, beta_i; /* _i: imaginary parts */
    bool trans_a, trans_b, conjugate_a, conjugate_b;
    struct {
        bool a, b, c, output, alpha, beta, trans_a, trans_b, scaling, missing;
    } given; /* by the user, not by default */
    enum named_product product;
    enum axis center, scale; /* NONE, or the same axis */
    enum missing missing;
    bool convert; /* --type given: operands are converted to `type` */
    enum scalar type;
    bool complex;  /* likewise: to complex numbers of it */
    int algorithm; /* enum algorithm or ALGORITHM_AUTO */
    int moduli;    /* of ALGORITHM_OZAKI; 0: as many as suit the type */
    enum symmetric symmetric;
    enum device_choice device;
    bool bind;                        /* each rank's threads near its GPU */
    uint64_t gpu_memory, host_memory; /* bytes a rank; 0: from the machine */
    int grid_rows, grid_cols;         /* 0: planned */
    int layers;                       /* parts of k, 1 unless given; 0: planned */
    int64_t tile_rows, tile_cols, slab;
    enum store_way io;
    enum verification verify;
    uint64_t check_seed; /* of the check's vectors; 0: drawn */
    enum restart restart;
    double checkpoint_s, max_s; /* between two saves; until the run is to stop, 0: no end */
    bool check_only;            /* check an output that is there */
    bool dry_run;
    int ranks, ranks_per_node; /* of the machine that a dry run describes; 0: this one */
    char machine[PATH_MAX];
    char report[PATH_MAX];
    char trace[PATH_MAX];
    char html[PATH_MAX];
    char from_report[PATH_MAX]; /* of an earlier run, whose page it is to be */
    enum progress_choice progress;
    bool force;
    bool quiet, verbose;
    bool about; /* nothing but --help or the like was asked for, and is printed */
};

/* What holds where the user says nothing; all else is 0, padding and all, since ranks compare their
 * options byte by byte. */
static inline void options_begin(struct options *o)
{
    memset(o, 0, sizeof *o);
    o->alpha = 1;
    o->algorithm = ALGORITHM_AUTO;
    o->bind = true;
    o->layers = 1;
    o->verify = VERIFY_ONLINE;
    o->checkpoint_s = 900;
    o->type = SCALAR_DOUBLE;
}

/* Whether beta is not 0. */
static inline bool options_add_c(const struct options *o)
{
    return o->beta != 0 || o->beta_i != 0;
}
