/* The command line of dgemm_ooc. */
#pragma once

#include <stdio.h>

#include "error.h"
#include "options.h"

/* Parse the environment (DGEMM_OOC_<OPTION>) and then the command line, which takes precedence.
 * For --help, --help-all and --version it prints the text to `out`, null on all ranks but one, and
 * sets options->about.  Complains about all that is wrong: EXIT_USAGE, or EXIT_INPUT where the
 * system does not say whether a file exists. */
int arguments_parse(int argc, char **argv, FILE *out, struct options *options, struct error *err);
