/* The command line of dgemm_ooc. */
#pragma once

#include "error.h"
#include "options.h"

/* Parse the environment (DGEMM_OOC_<OPTION>) and then the command line, which takes precedence.
 * For --help, --help-all and --version it prints the text, unless it is `silent`, as on all ranks
 * but one, and exits with 0.  Complains about all that is wrong: EXIT_USAGE, or EXIT_INPUT where
 * the system does not say whether a file exists. */
int arguments_parse(int argc, char **argv, bool silent, struct options *options, struct error *err);
