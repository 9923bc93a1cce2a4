/* h5mat: make, describe and compare matrices in HDF5 files. */
#include "h5mat.h"

#include <stdio.h>
#include <string.h>

#include "common_options.h"
#include "error.h"
#include "file.h"
#include "format.h"
#include "rlimits.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv, struct error *err);
};

static const struct command commands[] = {
    {"gen", h5mat_gen}, {"info", h5mat_info}, {"diff", h5mat_diff}};

static const char doc[] =
    "Make, describe and compare matrices in HDF5 files.\v"
    "Commands:\n"
    "  gen FILE.h5[:/path]                  make a matrix\n"
    "  info FILE.h5[:/path]                 list the matrices of a file\n"
    "  diff FILE1.h5[:/path] FILE2.h5[:/path] compare two matrices\n"
    "\n"
    "h5mat COMMAND --help lists its options.  Exit codes: 0 done, 1 failed while running, 2 usage, "
    "3 bad input, 4 not enough memory or disk, 5 the matrices differ.";

struct command_line {
    const struct command *command;
    int first; /* index of the command's name in argv */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command_line *line = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (strcmp(arg, commands[i].name) == 0)
                line->command = &commands[i];
        if (!line->command)
            argp_error(state, "\"%s\" is not a command; give gen, info or diff", arg);
        line->first = state->next - 1;
        state->next = state->argc; /* the rest is the command's */
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "the command is missing: gen, info or diff"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "h5mat %s (%s)\n", DGEMM_OOC_RELEASE, format_versions());
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.parser = parse_option,
                                     .args_doc = "COMMAND [ARGUMENT...]",
                                     .doc = doc,
                                     .children = common_options};
    struct command_line line = {0};
    struct error err = {0};
    static char program[] = "h5mat";
    file_fill_streams();
    format_own_process();
    if (rlimits_raise(&err)) {
        error_print(stderr, &err, "h5mat");
        return err.code;
    }
    argv[0] = program; /* in front of errors, however it was called */
    argp_err_exit_status = EXIT_USAGE;
    argp_program_version_hook = print_version;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER | ARGP_NO_HELP, NULL, &line);

    char name[32];
    snprintf(name, sizeof name, "h5mat %s", line.command->name);
    argv[line.first] = name;
    int code = line.command->run(argc - line.first, argv + line.first, &err);
    error_print(stderr, &err, "h5mat");
    if (fflush(stdout) || ferror(stdout)) {
        perror("h5mat: standard output");
        code = code ? code : EXIT_RUNTIME;
    }
    return code;
}
