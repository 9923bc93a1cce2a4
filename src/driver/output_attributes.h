/* What an output says of itself, in attributes of its dataset: how C was made, from what, and its
 * checksum.  Rank 0 alone calls this. */
#pragma once

#include "options.h"
#include "problem.h"

/* The attribute that is the sign of the run that writes the file (format.h). */
#define OUTPUT_SIGN "run"
#define OUTPUT_UNSIGNED "----------------" /* before it, and when C is complete */

enum { ATTRIBUTES = 23, HASH_TEXT = 17 }; /* 16 digits, and the end */

struct output_attributes {
    char formula[128], identity[HASH_TEXT], kernels[KERNELS_TEXT];
    struct format_attribute list[ATTRIBUTES + 1]; /* refers to the texts and to the problem */
};

/* Make the attributes of the product of this identity (journal.h), made from so many parts of k.
 * The checksum, which is not known yet, has a text of its length; the mark says that C is not
 * complete. */
void output_attributes_make(struct output_attributes *attributes, const struct options *options,
                            const struct problem *p, uint64_t identity);

/* Whether a dataset has all of these attributes, with the same values but for the names of the
 * operands' files and the version, and a checksum and a mark that can be replaced: in a damaged
 * file, that would be noticed only at the end. */
bool output_attributes_match(const struct source *source,
                             const struct output_attributes *attributes);

/* Whether it is a checksum or an identity, as attributes have these. */
bool output_is_hash(const char *text);

/* Replace the checksum. */
int output_attributes_record(const struct source *source, uint64_t checksum, struct error *err);

/* What is under the output's name, as seen for a product of this identity. */
enum output_state {
    OUTPUT_OTHER,      /* nothing, or something else */
    OUTPUT_UNFINISHED, /* that product, but an earlier run has not completed it */
    OUTPUT_COMPLETE,   /* that product: its mark says so or, if there is none, its checksum */
};
enum output_state output_state(const struct options *options, uint64_t identity, struct error *err);

/* An existing output, and the checksum in it. */
struct recall {
    struct source source;
    bool ours;         /* made by this program */
    bool has_checksum; /* outputs of other programs have none */
    uint64_t checksum;
    bool has_alpha; /* likewise */
    double alpha;
    struct scaling scaling;
};

/* Complain (EXIT_INPUT) where the product that the options ask for is not the one that was
 * recalled, since it is centred, scaled or divided otherwise. */
void output_compare_standard(const struct recall *recall, const struct problem *p,
                             struct error *err);

/* Complain (EXIT_VERIFY) where an attribute that the product decides is not what the product that
 * was recalled has. */
void output_compare_attributes(const struct recall *recall, const struct options *options,
                               const struct problem *p, struct error *err);

/* Describe the existing output that the options name, and set those options that say how and from
 * what it was made as it says, but for those that the user gave.  Complains (EXIT_INPUT) about
 * those that contradict it, and about operands that are not where it says.  Touches nothing. */
int output_recall(struct options *options, struct recall *recall, struct error *err);
