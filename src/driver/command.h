/* The command line: what one invocation of the program has, and what it prints of it. */
#pragma once

#include "advice.h"
#include "job.h"

struct invocation {
    char *text;       /* as it was given */
    FILE *out;        /* of the result and the report */
    bool guest;       /* in a process of somebody else's, of which nothing may change */
    struct options options;
    struct comm comm;
    struct caller caller;    /* who asks for the product */
    struct file_names names; /* of the output */
    struct hardware hardware;
    struct job job;
    struct outlook outlook;
    struct record record;
    double done;       /* the part of the product that is done and saved, at the end */
    int exit_code;     /* EXIT_COMPLETE or EXIT_NOT_CHECKED, unless there is an error */
    double started;    /* clock_now */
    double step_ended; /* likewise, of the newest step of the start */
    struct error err;
};

/* The words in a form that can be printed, the caller's to free; null after a complaint. */
char *command_join(int count, char *const *words, struct error *err);

/* Collective.  Run the program from the parsed command line to the printed result.  What follows,
 * up to comm_close, is the caller's, since other ranks may still watch this process. */
int command_run(struct invocation *command);

/* Plan for a machine that need not be there, and simulate the run on it: no MPI, no GPU, no
 * output. */
int command_dry_run(struct invocation *command);

/* Make the page of a report that an earlier run has written: no MPI, no run.  Prints errors. */
int command_show_report(const struct options *options, struct error *err);

/* Rank 0, at the end, however it came: write the report file. */
void command_report(struct invocation *command);

/* Rank 0, at the end: what the report file would say; the caller's to free, null without memory. */
json_t *command_account(const struct invocation *command);

/* The rest is for the command itself.
 *
 * Collective.  One command line for all ranks, and one folder for its relative names. */
int command_agree(struct invocation *command);

/* Rank 0: print what is to be done. */
void command_print_begin(const struct invocation *command);

/* Rank 0: print where the ranks are, and advice on the plan. */
void command_print_places(const struct invocation *command);

/* Rank 0, at the end: print what a run that was stopped did, and how much is done. */
void command_print_stopped(struct invocation *command);

/* Collective.  Print what the run did and its result, and write the page. */
int command_print_report(struct invocation *command);

/* Rank 0: warn where a page or trace was asked for and nothing was multiplied that it could
 * show. */
void command_warn_unwritten(const char *what, const char *path);

/* Warn where the plan takes more host memory than is available now on this computer, which has so
 * many ranks: the limits that were given may be too high.  To be called on one rank. */
void command_warn_of_memory(const struct invocation *command, int local_ranks);
