/* The words of an option, as values.  Errors are added to the `struct parse`; then any value is
 * returned that the option can have. */
#pragma once

#include <argp.h>

#include "error.h"
#include "options.h"

/* What arguments_parse gathers. */
struct parse {
    struct options *options;
    const char *a, *b, *c, *output, *input;
    const char *c_given_by; /* -c, or its variable */
    bool left_out;          /* wrong words were, so that the others may be misunderstood */
    bool pair;              /* A and B are words of the command line, in the place of INPUT.h5 */
    int about;              /* the key of --help or the like; 0: none was asked for */
    const struct argp_option *option; /* that is being parsed, */
    bool from_environment;            /* of a variable */
    struct error err;                 /* all that is wrong (arguments.h) */
};

/* Whether an operand's name names a file, and not a dataset of INPUT.h5 alone. */
bool names_file(const char *text);

/* Complain. */
__attribute__((format(printf, 2, 3))) void usage_error(struct parse *p, const char *format, ...);

/* A number, or a complex one: 1.5-2i, -i, 3. */
void parse_complex(const char *text, double *real, double *imaginary, struct parse *p);

/* From 1 to 2^24. */
int parse_count(const char *text, struct parse *p);

/* From 1 to 2^64 - 1, in decimal. */
uint64_t parse_seed(const char *text, struct parse *p);

/* Bytes, above 0: "512M" (quantity_parse_bytes). */
uint64_t parse_bytes(const char *text, struct parse *p);

/* Seconds, above 0: "3h50m" (quantity_parse_time). */
double parse_time(const char *text, struct parse *p);

/* The index of `text` in the words that the option's table entry lists: "one|two|three". */
int parse_word(const char *text, struct parse *p);

/* N, T or C. */
void parse_trans(const char *text, bool *trans, bool *conjugate, struct parse *p);

/* The type that a word names: d, double, s, single or float, in either case, or complex numbers of
 * them: z or c; false for another. */
bool type_named(const char *text, enum scalar *type, bool *complex);

/* The type that a word names. */
enum scalar parse_type(const char *text, bool *complex, struct parse *p);

/* An enum algorithm that this build has, or ALGORITHM_AUTO; *moduli: those of "ozaki:14", or 0. */
int parse_algorithm(const char *text, int *moduli, struct parse *p);

/* Copy a path that fits. */
void copy_path(char to[PATH_MAX], const char *from, struct parse *p);

/* "2x4", into the options' grid; "4000x3000x512", into their tile and slab. */
void parse_grid(const char *text, struct parse *p);
void parse_tile(const char *text, struct parse *p);

/* A word that is no option: the input, if it is the first one. */
void take_input(const char *value, struct parse *p);

/* 0: the planner chooses; 1: off. */
