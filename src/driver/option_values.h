/* The words of an option, as values.  Errors are added to the `struct parse` that is the state's
 * input; then any value is returned that the option can have. */
#ifndef DGEMM_OOC_OPTION_VALUES_H
#define DGEMM_OOC_OPTION_VALUES_H

#include <argp.h>

#include "error.h"
#include "options.h"

/* What arguments_parse gathers. */
struct parse {
    struct options *options;
    const char *a, *b, *c, *output, *input;
    const char *c_given_by; /* -c, or its variable */
    int from_environment;   /* words before those of the command line */
    bool left_out;          /* wrong words were, so that those left may be misunderstood */
    const struct argp_option *option; /* that is being parsed */
    struct error err;                 /* all that is wrong (EXIT_USAGE) */
};

/* Complain. */
__attribute__((format(printf, 2, 3))) void usage_error(struct argp_state *state, const char *format,
                                                       ...);

/* Whether the option that is being parsed comes from the environment. */
bool is_from_environment(const struct argp_state *state);

double parse_number(const char *text, struct argp_state *state);
int parse_count(const char *text, struct argp_state *state);
uint64_t parse_seed(const char *text, struct argp_state *state);
uint64_t parse_bytes(const char *text, struct argp_state *state);
double parse_time(const char *text, struct argp_state *state);

/* The index of `text` in the words that the option's table entry lists: "one|two|three". */
int parse_word(const char *text, struct argp_state *state);

enum scalar parse_type(const char *text, struct argp_state *state);
int parse_algorithm(const char *text, struct argp_state *state);
void copy_path(char to[PATH_MAX], const char *from, struct argp_state *state);
void parse_grid(const char *text, struct options *options, struct argp_state *state);
void parse_tile(const char *text, struct options *options, struct argp_state *state);

/* 0: the planner chooses; 1: off. */
int parse_split(const char *text, struct argp_state *state);

#endif
