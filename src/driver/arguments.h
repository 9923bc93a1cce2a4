/* The command line of dgemm_ooc. */
#pragma once

#include "options.h"

/* Parse the environment (DGEMM_OOC_<OPTION>) and then the command line, which takes precedence.
 * For --help, --help-all and --version it prints the text and exits; on bad usage it prints all
 * errors, a sentence each, and exits with EXIT_USAGE.  When `silent`, as on all ranks but one, it
 * prints nothing and exits with 0 then. */
void arguments_parse(int argc, char **argv, bool silent, struct options *options);
