#include "common_options.h"

#include <stdlib.h>

enum { KEY_USAGE = 0x1000 };

static const struct argp_option option_table[] = {
    {"help", 'h', 0, 0, "print this help", -1},
    {"usage", KEY_USAGE, 0, OPTION_HIDDEN, 0, -1},
    {"version", 'V', 0, 0, "print the version and what it was built with", -1},
    {0, 0, 0, 0, 0, 0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    (void)arg;
    switch (key) {
    case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
    case KEY_USAGE: argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK); return 0;
    case 'V': argp_program_version_hook(stdout, state); exit(EXIT_SUCCESS);
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {option_table, parse_option, 0, 0, 0, 0, 0};
const struct argp_child common_options[] = {{&argp, 0, 0, 0}, {0, 0, 0, 0}};
