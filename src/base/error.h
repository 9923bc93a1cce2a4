/* Errors as values: complaints gathered in one place, printed once, by one rank.
 *
 * A function that can fail returns 0 or one of the exit codes below and adds one sentence to the
 * `struct error` it was given, at the lowest level that knows the cause.  One place of a program
 * prints them and sets its exit code.  Checks that do not depend on each other all run, so that the
 * user sees every complaint at once; the first one decides the exit code. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum exit_code {
    EXIT_COMPLETE = 0,
    EXIT_RUNTIME = 1,     /* something failed while running */
    EXIT_USAGE = 2,       /* the command line is wrong */
    EXIT_INPUT = 3,       /* a file or matrix is not what it must be */
    EXIT_RESOURCES = 4,   /* not enough memory, disk or GPUs */
    EXIT_VERIFY = 5,      /* the product failed its check */
    EXIT_NOT_CHECKED = 6, /* C is complete, but its check could not have found enough */
    EXIT_STOPPED = 75,    /* stopped as asked; run again to continue */
};

/* In place of a code, without a complaint: another rank has failed, and has the complaint. */
enum { ERROR_ELSEWHERE = -1 };

/* Plain data: may be copied and sent between ranks. */
struct error {
    int code;        /* of the first complaint; 0: none */
    int complaints;  /* how many */
    char text[4000]; /* one line each */
};

/* Whether a call on a file failed with this errno because the disk is full or a quota used up. */
bool error_is_disk_full(int number);

/* The exit code for a failed call on a file: EXIT_RESOURCES where the disk is full or the file may
 * not grow (ulimit -f), otherwise `otherwise`. */
int error_of_disk(int number, int otherwise);

/* Why a call on a file has failed, as strerror says it, and what to do where the disk or a limit is
 * the reason. */
const char *error_disk_text(int number);

/* Add a complaint (no newline at its end).  Returns `code`, which must not be 0. */
int error_add(struct error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Add all complaints of another error, each as a line of its own, or its ERROR_ELSEWHERE. */
void error_append(struct error *err, const struct error *more);

/* Complain (EXIT_RESOURCES) that no host memory is left for `what`, or that a thread for `what`
 * does not start, where pthread_create has returned `status`; both with the remedy.  Return the
 * code. */
int error_no_memory(struct error *err, const char *what);
int error_no_thread(struct error *err, const char *what, int status);

/* Print the complaints, each as a line of the program. */
void error_print(FILE *to, const struct error *err, const char *program);

/* Replace what would steer a terminal, in a text that a file may have brought along. */
void error_make_plain(char *text);
