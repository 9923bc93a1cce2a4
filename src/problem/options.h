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
enum symmetric { SYMMETRIC_AUTO, SYMMETRIC_ON, SYMMETRIC_OFF, SYMMETRIC_LOWER, SYMMETRIC_PACKED };
enum { ALGORITHM_AUTO = -1 };

struct operand_name {
    char file[PATH_MAX];
    char dataset[DATASET_NAME_MAX];
};

/* What op(A) is changed to before it is multiplied, or a name that stands for that. */
struct scaling_options {
    enum named_product product;
    enum axis center, scale; /* NONE, or the same axis */
    bool crossed;            /* an output says so: B, too */
    enum missing missing;
};

struct conversion {
    bool wanted; /* --type, --type-c given: to `type` */
    enum scalar type;
    bool complex; /* likewise: to complex numbers of it */
};

/* What a rank may use, and what a dry run takes the machine for. */
struct resources {
    uint64_t gpu_memory, host_memory; /* bytes a rank; 0: from the machine */
    int ranks, ranks_per_node;        /* of the machine that a dry run describes; 0: this one */
    char machine[PATH_MAX];           /* its file, or its name; empty: this one */
};

/* What the planner is not to choose; 0: it chooses. */
struct plan_options {
    int grid_rows, grid_cols;
    int64_t tile_rows, tile_cols, slab;
};

struct check_options {
    enum verification verify;
    uint64_t seed; /* of the check's vectors; 0: drawn */
};

/* Between runs of one product. */
struct saving {
    enum restart restart;
    double checkpoint_s, max_s; /* between two saves; until the run is to stop, 0: no end */
};

/* What is written beside C; empty names: nothing. */
struct file_options {
    char report[PATH_MAX];
    char trace[PATH_MAX];
    char html[PATH_MAX];
    char from_report[PATH_MAX]; /* of an earlier run, whose page it is to be */
};

struct show_options {
    enum progress_choice progress;
    bool quiet, verbose;
};

struct options {
    struct operand_name a, b, c, output;
    double alpha, beta, alpha_i, beta_i; /* _i: imaginary parts */
    bool trans[2], conjugate[2];         /* of A, of B */
    struct {
        bool a, b, c, output, alpha, beta, trans_a, trans_b, scaling, missing;
    } given; /* by the user, not by default */
    struct scaling_options scaling;
    struct conversion convert, convert_c; /* of the operands; of C, on its way to its file */
    int algorithm;                        /* enum algorithm or ALGORITHM_AUTO */
    int moduli;                           /* of ALGORITHM_OZAKI; 0: as many as suit the type */
    enum symmetric symmetric;
    enum device_choice device;
    bool bind; /* each rank's threads near its GPU */
    enum store_way io;
    struct resources resources;
    struct plan_options plan;
    struct check_options check;
    struct saving saving;
    struct file_options files;
    struct show_options show;
    bool check_only; /* check an output that is there */
    bool dry_run;
    bool force;
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
    o->check.verify = VERIFY_ONLINE;
    o->saving.checkpoint_s = 900;
    o->convert.type = SCALAR_DOUBLE;
}

/* Whether beta is not 0. */
static inline bool options_add_c(const struct options *o)
{
    return o->beta != 0 || o->beta_i != 0;
}
