/* The output file: created under a temporary name (names.part), locked, and given its final name
 * when it is complete and durable.  Rank 0 alone calls this; it tells the others where the bytes
 * go. */
#pragma once

#include "file_names.h"
#include "output_attributes.h"
#include "output_check.h"
#include "statistics.h"

struct output {
    struct file_names names;             /* set by the caller, on all ranks */
    const struct statistics *statistics; /* likewise: written beside C; null: there are none */
    struct source source;                /* of the part file: what the ranks write to */
    struct source beside; /* of a normal product, in the same file: where op(B) goes */
    enum left_part left;  /* rank 0: by an earlier run */
    int lock;             /* descriptor that holds the part file's lock; -1: none */
};

/* Whether there is a part file.  Complains of one that this process may not read and write. */
bool output_part_exists(const struct file_names *names, struct error *err);

/* Create the part file and lock it; when `resumed`, take the one that an earlier run has left,
 * which must be of the same product and intact.  output_check has found nothing wrong before. */
int output_create(struct output *output, const struct options *options, const struct problem *p,
                  const struct output_attributes *attributes, bool resumed, struct error *err);

/* Write a random text into the part file, by which the ranks that write to it know it. */
int output_sign(struct output *output, struct error *err);

/* Describe op(B) of a normal product, beside C.  Complains where it is not there, or is no such
 * matrix. */
int output_describe_inner(const struct source *c, const struct problem *p, struct source *inner,
                          struct error *err);

/* Record the checksum of C in the part file, when all is written and durable. */
int output_record(const struct output *output, uint64_t checksum, struct error *err);

/* NAME_mean, NAME_deviation and those of B are NaN in an output that is created before they are
 * known, as of some products (scaling_shifts): write what they are where they still are NaN. */
int output_fill_statistics(const struct output *output, const struct problem *p, struct error *err);

/* Compare them, beside C, bit by bit, with the statistics of the problem.  Complains (EXIT_VERIFY)
 * where they differ or, unless C `may_be_alone`, are not there. */
int output_compare_statistics(const struct source *c, const struct statistics *statistics,
                              const struct problem *p, bool may_be_alone, struct error *err);

/* Likewise, of the part file, which is locked meanwhile. */
int output_compare_part(const struct output *output, const struct problem *p, struct error *err);

/* Make the part file durable, and then its mark, which says that C is complete.  Complains where it
 * is no longer this run's. */
int output_complete(const struct output *output, struct error *err);

/* Give the durable part file its final name.  A file that has got that name since output_check is
 * replaced only with --force, and only where output_check_replaced allows it. */
int output_publish(struct output *output, const struct options *options, struct error *err);

/* Give the lock of the part file back: another run can go on with it.  Or remove it, and all else
 * that was registered as leftovers. */
void output_leave(struct output *output);
void output_drop(struct output *output);
