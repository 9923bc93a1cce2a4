/* The options of every tool here: -h, --help, --usage, -V and --version. */
#pragma once

#include <argp.h>

/* For `struct argp`.children, with ARGP_NO_HELP: argp by itself calls help -? and not -h.  The
 * version is what argp_program_version_hook prints. */
extern const struct argp_child common_options[];
