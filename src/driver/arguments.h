/* The command line of dgemm_ooc. */
#ifndef DGEMM_OOC_ARGUMENTS_H
#define DGEMM_OOC_ARGUMENTS_H

#include "options.h"

/* Parse the environment (DGEMM_OOC_<OPTION>) and then the command line, which wins.  Prints
 * --help, --help-all and --version and exits; bad usage prints all that is wrong, a sentence each,
 * and exits with EXIT_USAGE, or exits with 0 and no word when `silent`, as all ranks but one
 * are. */
void arguments_parse(int argc, char **argv, bool silent, struct options *options);

#endif
