#include "arguments.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "error.h"
#include "format.h"
#include "matname.h"
#include "option_values.h"
#include "option_words.h"
#include "problem_scaling.h"
#include "slice.h"
#include "version.h"

/* The key of an option that has no letter: the member that it sets. */
#define KEY(member) (0x100 + (int)offsetof(struct options, member))
enum { KEY_HELP_ALL = 1, KEY_USAGE = 2 };

static const struct argp_option option_table[] = {
    {0, 0, 0, 0, "Operands (NAME: a dataset of INPUT.h5, FILE.h5:/path or FILE.npy)", 1},
    {"a", 'a', "NAME", 0, "left operand (default A)", 0},
    {"b", 'b', "NAME", 0, "right operand (default B)", 0},
    {"c", 'c', "NAME", 0, "the C to add, with --beta (default C)", 0},
    {"output", 'o', "FILE.h5[:/path]", 0, "where C goes, FILE.npy too (default INPUT-C.h5:/C)", 0},
    {"alpha", KEY(alpha), "X", 0, "default 1", 0},
    {"beta", KEY(beta), "X", 0, "default 0", 0},
    {"transa", KEY(trans[0]), "N|T|C", 0,
     "op(A): A as stored (N, the default), transposed (T) or conjugate transposed (C)", 0},
    {"transb", KEY(trans[1]), "N|T|C", 0, "op(B)", 0},
    {"type", KEY(convert.type), "d|s|z|c", 0,
     "convert the operands while reading: to double (d), float (s), or complex numbers of doubles "
     "(z) or floats (c)",
     0},
    {"type-c", KEY(convert_c.type), "d|s|z|c", 0,
     "the type of C in its file: s (complex: c) rounds sums of doubles to floats, once", 0},
    {0, 0, 0, 0, "Covariance, correlation, kinship", 2},
    {"product", KEY(scaling.product), "cov|cor|gram|cross-cov|cross-cor|normal", 0,
     "covariances or correlations (divisor n - 1, as in NumPy), or plain products, of the rows of "
     "A with each other; cross-: with the rows of B; with --transa T of columns; normal: A^T (A B) "
     "and A B, in one pass over A",
     0},
    {"center", KEY(scaling.center), "none|rows|cols", 0,
     "subtract the mean of each row or column of A, as stored; of B, too, where it is A", 0},
    {"scale", KEY(scaling.scale), "none|rows|cols", 0,
     "divide each by its standard deviation (divisor n - 1)", 0},
    {"nan", KEY(scaling.missing), "error|mean|zero", 0,
     "NaN in A: an error (default), or replaced by the mean of the others, or by 0", 0},
    {0, 0, 0, 0, "Machine", 3},
    {"algo", KEY(algorithm), "NAME", 0,
     "cpu, or ozaki[:N] (floating point from int8 products with N moduli, 6 to 18; default 14, "
     "floats 7, complex 15 and 8, or more if needed)",
     0},
    {"device", KEY(device), "auto|gpu|cpu", 0, "compute on a GPU or on the CPU", 0},
    {"gpu-memory", KEY(resources.gpu_memory), "SIZE", 0,
     "limit of device memory, per rank (512M, 8G; default 95 % of the free memory)", 0},
    {"host-memory", KEY(resources.host_memory), "SIZE", 0,
     "limit of host memory, per rank (default half of the available memory, shared by the ranks)",
     0},
    {"no-bind", KEY(bind), 0, 0, "do not bind threads to CPUs", 0},
    {"io", KEY(io), "auto|direct|buffered|mapped|hdf5", 0, "how files are read and written", 0},
    {0, 0, 0, 0, "Plan", 4},
    {"dry-run", 'n', 0, 0, "print the plan and the predicted time; needs no GPU and no launcher",
     0},
    {"ranks", KEY(resources.ranks), "N", 0, "with --dry-run: plan for N ranks", 0},
    {"ranks-per-node", KEY(resources.ranks_per_node), "R", 0, "with --dry-run: R ranks on a node",
     0},
    {"machine", KEY(resources.machine), "FILE.json", 0,
     "plan for this machine (a file, or the name of a machine that is installed with the program)",
     0},
    {"grid", KEY(plan.grid_rows), "PxQ", 0,
     "use this grid of ranks, over the rows and columns of C", 0},
    {"tile", KEY(plan.tile_rows), "MxNxK", 0, "use this tile of C (MxN) and this step along k", 0},
    {"symmetric", KEY(symmetric), "auto|on|off|lower|packed", 0,
     "compute only half of A A^T, A^T A, A A^H, A^H A, and mirror it (default auto: where faster, "
     "complex ones always); lower: C is 0 above the diagonal; packed: the file has the rest alone, "
     "row by row",
     0},
    {0, 0, 0, 0, "Run", 5},
    {"verify", KEY(check.verify), "off|online|full", 0,
     "check C while it is computed (online, the default), or also read all files back (full)", 0},
    {"check-seed", KEY(check.seed), "N", 0,
     "seed of the check's random vectors (default: a random one)", 0},
    {"check-only", KEY(check_only), 0, 0, "check an existing output, as --verify full does", 0},
    {"restart", KEY(saving.restart), "auto|never|require|trust", 0,
     "resume a stopped or killed run (default auto; trust: without reading C back first)", 0},
    {"checkpoint", KEY(saving.checkpoint_s), "TIME", 0,
     "save a checkpoint at this interval (90s, 10m, 3h50m; default 15m)", 0},
    {"max-time", KEY(saving.max_s), "TIME", 0,
     "save a checkpoint and stop before this time limit (also 1-12:00:00; a plain number: seconds)",
     0},
    {"report", KEY(files.report), "FILE.json", 0,
     "also write the report to this file, as JSON (-: standard output)", 0},
    {"trace", KEY(files.trace), "FILE.json", 0, "write a timeline for Perfetto", 0},
    {"html", KEY(files.html), "FILE.html", 0, "write a page that shows the run in a browser", 0},
    {"from-report", KEY(files.from_report), "FILE.json", 0,
     "with --html: make the page of an earlier run from its report; needs no INPUT.h5", 0},
    {"progress", KEY(show.progress), "auto|always|never", 0,
     "progress display: a live line on a terminal, otherwise a line a minute (always: live)", 0},
    {"force", 'f', 0, 0, "replace an existing output", 0},
    {"quiet", 'q', 0, 0, "print the result line only, of a dry run the predicted time", 0},
    {"verbose", 'v', 0, 0, "print more: all ranks, each rank's times", 0},
    {"help", 'h', 0, 0, "print the common options", -1},
    {"help-all", KEY_HELP_ALL, 0, 0, "print all options", -1},
    {"usage", KEY_USAGE, 0, OPTION_HIDDEN, 0, -1},
    {"version", 'V', 0, 0, "print the version and what it was built with", -1},
    {0, 0, 0, 0, 0, 0},
};

static const char example[] = "Usage: dgemm_ooc [OPTION...] INPUT.h5\n"
                              "Example: h5mat gen input.h5:/A --rows 3000 --cols 2000\n"
                              "         h5mat gen input.h5:/B --rows 2000 --cols 1000\n"
                              "         dgemm_ooc input.h5     # C = A B, into input-C.h5\n";

#define ENVIRONMENT                                                                                \
    "OMP_NUM_THREADS=N: threads of a rank. DGEMM_OOC_GPU_MEMORY=SIZE: --gpu-memory.\n"
#define EXIT_STATUSES                                                                              \
    "Exit status: 0 complete; 1 failed; 2 usage; 3 bad input; 4 not enough memory,\n"              \
    "disk or GPUs; 5 verification failed; 6 not checked; 75 stopped, to be continued.\n"

/* One screen of 80 x 24.  All options are those of the table. */
static const char short_help[] =
    "Usage: dgemm_ooc [OPTION...] INPUT.h5    also after srun -n N, mpirun -n N ...\n"
    "C = alpha op(A) op(B) + beta C, from HDF5 file to HDF5 file, larger than memory.\n"
    "\n"
    "  -a, -b, -c NAME        a dataset, FILE.h5:/path or FILE.npy (default A, B, C)\n"
    "  -o FILE.h5[:/path]     where C goes (default INPUT-C.h5:/C); -f replaces it\n"
    "  --alpha=X, --beta=X    default 1 and 0\n"
    "  --transa=T, --transb=T multiply by the transpose of A, of B\n"
    "  --product=cov|cor|gram covariances, correlations, products of A's rows with\n"
    "                         each other, cross-cov|cross-cor with B's; --transa=T\n"
    "  --gpu-memory=SIZE      limit of device memory per rank (default 95 % of free)\n"
    "  --host-memory=SIZE     limit of host memory per rank (default: shares half)\n"
    "  -n, --dry-run          only plan and predict, here or for --machine=FILE.json\n"
    "  --verify=full          check C, then read all files back and check them, too\n"
    "  --max-time=TIME        save and stop before this: 90s, 3h50m, 1-12:00:00\n"
    "  --report=FILE.json     a report for programs; --trace=FILE.json: a timeline\n"
    "  --html=FILE.html       a page that shows the run in a browser\n"
    "  -q, -v                 less, or more; --progress=never: no progress display\n"
    "  --help-all, --version  all options; what it was built with\n"
    "\n"
    "To resume a stopped or killed run, give the same command again.\n" ENVIRONMENT EXIT_STATUSES;

static void parse_option(int key, char *arg, struct parse *p)
{
    struct options *o = p->options;
    switch (key) {
    case 'a': p->a = arg; break;
    case 'b': p->b = arg; break;
    case 'c':
        p->c = arg;
        p->c_given_by = p->from_environment ? "DGEMM_OOC_C" : "-c";
        break;
    case 'o': p->output = arg; break;
    case KEY(alpha): parse_complex(arg, &o->alpha, &o->alpha_i, p); break;
    case KEY(beta): parse_complex(arg, &o->beta, &o->beta_i, p); break;
    case KEY(trans[0]): parse_trans(arg, &o->trans[0], &o->conjugate[0], p); break;
    case KEY(trans[1]): parse_trans(arg, &o->trans[1], &o->conjugate[1], p); break;
    case KEY(convert.type): o->convert.type = parse_type(arg, &o->convert.complex, p); break;
    case KEY(convert_c.type): o->convert_c.type = parse_type(arg, &o->convert_c.complex, p); break;
    case KEY(scaling.product):
        o->scaling.product = (enum named_product)(PRODUCT_COV + parse_word(arg, p));
        break;
    case KEY(scaling.center): o->scaling.center = (enum axis)parse_word(arg, p); break;
    case KEY(scaling.scale): o->scaling.scale = (enum axis)parse_word(arg, p); break;
    case KEY(scaling.missing): o->scaling.missing = (enum missing)parse_word(arg, p); break;
    case KEY(algorithm): o->algorithm = parse_algorithm(arg, &o->moduli, p); break;
    case KEY(device): o->device = (enum device_choice)parse_word(arg, p); break;
    case KEY(resources.gpu_memory): o->resources.gpu_memory = parse_bytes(arg, p); break;
    case KEY(resources.host_memory): o->resources.host_memory = parse_bytes(arg, p); break;
    case KEY(bind): o->bind = false; break;
    case KEY(io): o->io = (enum store_way)parse_word(arg, p); break;
    case 'n': o->dry_run = true; break;
    case KEY(resources.ranks): o->resources.ranks = parse_count(arg, p); break;
    case KEY(resources.ranks_per_node): o->resources.ranks_per_node = parse_count(arg, p); break;
    case KEY(resources.machine): copy_path(o->resources.machine, arg, p); break;
    case KEY(plan.grid_rows): parse_grid(arg, p); break;
    case KEY(plan.tile_rows): parse_tile(arg, p); break;
    case KEY(symmetric): o->symmetric = (enum symmetric)parse_word(arg, p); break;
    case KEY(check.verify): o->check.verify = (enum verification)parse_word(arg, p); break;
    case KEY(check.seed): o->check.seed = parse_seed(arg, p); break;
    case KEY(saving.restart): o->saving.restart = (enum restart)parse_word(arg, p); break;
    case KEY(saving.checkpoint_s): o->saving.checkpoint_s = parse_time(arg, p); break;
    case KEY(saving.max_s): o->saving.max_s = parse_time(arg, p); break;
    case KEY(check_only): o->check_only = true; break;
    case KEY(files.report): copy_path(o->files.report, arg, p); break;
    case KEY(files.trace): copy_path(o->files.trace, arg, p); break;
    case KEY(files.html): copy_path(o->files.html, arg, p); break;
    case KEY(files.from_report): copy_path(o->files.from_report, arg, p); break;
    case KEY(show.progress): o->show.progress = (enum progress_choice)parse_word(arg, p); break;
    case 'f': o->force = true; break;
    case 'q': /* of the two the last one counts */
    case 'v':
        o->show.quiet = key == 'q';
        o->show.verbose = key == 'v';
        break;
    }
}

static void name_operand(struct parse *p, const char *text, const char *dataset,
                         struct operand_name *name)
{
    const char *input = p->input;
    struct error err = {0};
    if (text && !names_file(text)) { /* a dataset of the input file */
        dataset = text;
        text = NULL;
    }
    if (!text && !input)
        return;
    if (!dataset[0])
        usage_error(p, "an operand's name is empty; give a dataset of INPUT.h5, or FILE.h5:/path");
    else if (matname_split(text ? text : input, dataset, name->file, name->dataset, &err))
        error_add(&p->err, err.code, "%s", err.text);
    else if (!text && snprintf(name->dataset, sizeof name->dataset, "%s", dataset) >=
                          (int)sizeof name->dataset)
        usage_error(p, "the dataset name %.40s... is too long", dataset);
}

/* input.h5 -> input-C.h5, beside the input. */
static void name_output(struct parse *p, struct operand_name *output)
{
    char name[PATH_MAX];
    const char *text = p->output, *input = p->input;
    struct error err = {0};
    if (!text) {
        const char *slash = strrchr(input, '/');
        const char *dot = strrchr(slash ? slash : input, '.');
        int stem = (int)(dot ? (size_t)(dot - input) : strlen(input));
        const char *end = dot && !matname_is_foreign(dot) ? dot : ".h5";
        if (snprintf(name, sizeof name, "%.*s-C%s", stem, input, end) >= PATH_MAX)
            usage_error(p, "the path %.40s... is too long", input);
        text = name;
    }
    if (strcmp(text, "-") == 0)
        usage_error(p, "--output -: C is a file, which is written in no order; name it");
    else if (matname_split(text, "C", output->file, output->dataset, &err))
        error_add(&p->err, err.code, "--output: %s", err.text);
    else if (p->output && strstr(output->file, ".h5:"))
        usage_error(p, "--output %s: write FILE.h5:/path for a dataset of a new file", text);
    else if (output->file[slice_base(output->file)] || output->dataset[slice_base(output->dataset)])
        usage_error(p, "--output %s names a slice, and C is a whole dataset: name FILE.h5:/path",
                    text);
    else if (!p->options->check_only && format_check_new(output->file, output->dataset, &err))
        error_add(&p->err, err.code, "--output %s", err.text);
}

/* B is A, unless there are to be two matrices.  One of them is transposed: B, so that C is of the
 * rows of A, unless A is.  Of a complex matrix it is conjugated, too. */
static void name_product(struct parse *p)
{
    struct options *o = p->options;
    if (o->scaling.product == PRODUCT_PLAIN)
        return;
    if (o->scaling.product == PRODUCT_NORMAL)
        return;
    if (!p->b && !scaling_is_crossed(o->scaling.product))
        p->b = p->a ? p->a : "A";
    if (!o->given.trans_b)
        o->trans[1] = !o->trans[0];
    o->conjugate[0] = o->trans[0];
    o->conjugate[1] = o->trans[1];
}

/* INPUT is a file, of which no one dataset is multiplied.  False after a complaint. */
static bool check_input(struct parse *p)
{
    char file[PATH_MAX], dataset[DATASET_NAME_MAX];
    struct error err = {0};
    if (matname_split(p->input, "A", file, dataset, &err))
        error_add(&p->err, err.code, "%s", err.text);
    else if (format_is_one_matrix(file) && !p->b && !p->options->check_only)
        usage_error(
            p, "%s is one matrix: name the other one behind it, or by -b, and the output by -o",
            file);
    else if (strcmp(file, p->input) != 0)
        usage_error(p, "%s names a dataset, and INPUT.h5 is a file: give -a %s, and %s as INPUT.h5",
                    p->input, p->input, file);
    else
        return true;
    return false;
}

/* Whether C itself says where the operands are that are not named with their files. */
static bool recalls_operands(const struct parse *p)
{
    return p->options->check_only && (!p->a || names_file(p->a)) && (!p->b || names_file(p->b)) &&
           (!p->c || names_file(p->c));
}

static void name_files(struct parse *p)
{
    struct options *o = p->options;
    if (p->input && !check_input(p))
        return;
    bool operands = names_file(p->a) && names_file(p->b) && (!options_add_c(o) || names_file(p->c));
    if (!p->input && !((operands || recalls_operands(p)) && p->output)) {
        if (!p->left_out)
            usage_error(p, "INPUT.h5 is missing; name it, or %s",
                        operands ? "give -o FILE.h5 or FILE.npy for the output"
                                 : "name files by -a FILE.h5:/path, -b FILE.h5:/path (-c too, with "
                                   "--beta) and -o FILE.h5");
        return;
    }
    name_operand(p, p->a, "A", &o->a);
    name_operand(p, p->b, "B", &o->b);
    name_operand(p, p->c, "C", &o->c);
    name_output(p, &o->output);
}

/* Complain about options of centred and scaled products that do not go together. */
static void check_standard(struct parse *p)
{
    const struct options *o = p->options;
    const bool named = scaling_is_statistic(o->scaling.product);
    const bool centers = named || o->scaling.center, changes = centers || o->scaling.scale;
    if (named && o->given.scaling)
        usage_error(p, "--product cov and cor centre the variables, and cor scales them: leave out "
                       "--center and --scale, or give --product gram");
    if (named && (o->given.alpha || o->given.beta))
        usage_error(p,
                    "--product cov and cor have their own alpha, 1 / (n - 1), and no C is added: "
                    "leave out --alpha and --beta, or give --product gram");
    if (!named && o->scaling.center && o->scaling.scale && o->scaling.center != o->scaling.scale)
        usage_error(p, "--center %s and --scale %s: both are of rows, or both of cols",
                    axis_names[o->scaling.center], axis_names[o->scaling.scale]);
    if (o->given.missing && !changes && !o->check_only)
        usage_error(p, "--nan goes with --center, --scale or --product cov or cor: give one of "
                       "these, or leave it out");
    else if (o->scaling.missing == MISSING_MEAN && !centers && !o->check_only)
        usage_error(p, "--nan mean goes with --center, after which a mean is 0");
    if (o->scaling.product == PRODUCT_NORMAL && o->given.beta)
        usage_error(p, "--product normal adds no C: leave --beta out");
    if (changes && o->algorithm == ALGORITHM_OZAKI && o->moduli == 0)
        usage_error(p, "--algo ozaki looks at A as it is stored, which is not what is multiplied: "
                       "give the number of moduli, as in ozaki:14");
}

/* Complain about options that are each right, but not together. */
static void check_together(struct parse *p)
{
    struct options *o = p->options;
    if (p->c && !options_add_c(o) && (o->given.beta || !o->check_only))
        usage_error(p,
                    "%s %s names the C that is added, which is read only if beta is not 0: give "
                    "such a --beta, or name the result's file with --output",
                    p->c_given_by, p->c);
    if (!o->dry_run && (o->resources.ranks || o->resources.ranks_per_node))
        usage_error(p, "--ranks and --ranks-per-node describe a machine for --dry-run; start the "
                       "ranks of a run by mpirun -n N or srun -n N");
    if (o->check_only && o->dry_run)
        usage_error(p, "--check-only needs an output, --dry-run none: give one of them");
    if ((o->check_only || o->dry_run) && (o->files.html[0] || o->files.trace[0]))
        usage_error(p, "%s shows a run: it cannot be given with %s",
                    o->files.html[0] ? "--html" : "--trace",
                    o->dry_run ? "--dry-run" : "--check-only");
    check_standard(p);
    const struct kernel *kernel = o->algorithm == ALGORITHM_AUTO ? NULL : kernels[o->algorithm];
    if (kernel && !kernel->on_cpu && o->device == CHOOSE_CPU)
        usage_error(p, "--algo %s runs on a GPU, but --device is cpu", kernel->name);
    if (kernel && !kernel->on_gpu && o->device == CHOOSE_GPU)
        usage_error(p, "--algo %s runs on the CPU, but --device is gpu", kernel->name);
}

/* Nothing is multiplied, so the options of a run would be ignored. */
static void check_from_report(struct parse *p)
{
    const struct options *o = p->options;
    if (!o->files.html[0])
        usage_error(p, "--from-report %s: name the page with --html", o->files.from_report);
    if (p->input || o->check_only || o->dry_run || o->files.report[0] || o->files.trace[0])
        usage_error(p, "--from-report shows an earlier run: it goes with --html alone");
}

static void finish(struct parse *p)
{
    bool right = !p->err.code;
    if (p->options->files.from_report[0]) {
        check_from_report(p);
        return;
    }
    name_product(p);
    name_files(p);
    if (right)
        check_together(p);
}

/* Note that an option was given, where that makes a difference. */
static void note_given(int key, struct options *o)
{
    o->given.a |= key == 'a';
    o->given.b |= key == 'b';
    o->given.c |= key == 'c';
    o->given.output |= key == 'o';
    o->given.alpha |= key == KEY(alpha);
    o->given.beta |= key == KEY(beta);
    o->given.trans_a |= key == KEY(trans[0]);
    o->given.trans_b |= key == KEY(trans[1]);
    o->given.scaling |= key == KEY(scaling.center) || key == KEY(scaling.scale);
    o->given.missing |= key == KEY(scaling.missing);
    o->convert.wanted |= key == KEY(convert.type);
    o->convert_c.wanted |= key == KEY(convert_c.type);
}

static const char doc[] =
    "C = alpha op(A) op(B) + beta C for matrices larger than memory, from HDF5 file to HDF5 file.\v"
    "Run it as it is, or on N ranks: mpirun -n N dgemm_ooc INPUT.h5, srun -n N dgemm_ooc "
    "INPUT.h5.\n" ENVIRONMENT "\n" EXIT_STATUSES;

/* The text of --algo begins with the kernels of GPUs; argp frees it. */
static char *help_text(int key, const char *text, void *input)
{
    char *all = NULL;
    (void)input;
    if (key != KEY(algorithm) || asprintf(&all, "auto, %s, %s", algorithm_ladder(), text) < 0)
        return (char *)text;
    return all;
}

static const struct argp argp = {option_table, NULL, "INPUT.h5", doc, 0, help_text, 0};

static void print_about(int key, FILE *out)
{
    switch (key) {
    case 'h': fputs(short_help, out); break;
    case 'V': fprintf(out, "dgemm_ooc %s\n", version_text()); break;
    case KEY_USAGE: argp_help(&argp, out, ARGP_HELP_USAGE, program_invocation_short_name); break;
    default:
        argp_help(&argp, out, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK,
                  program_invocation_short_name);
    }
}

/* An option, or the input. */
static void take(const struct argp_option *option, char *value, void *context)
{
    struct parse *p = context;
    if (!option) {
        take_input(value, p);
        return;
    }
    if (option->group < 0) {
        p->about = p->about ? p->about : option->key;
        return;
    }
    p->option = option;
    note_given(option->key, p->options);
    parse_option(option->key, value, p);
}

/* Note which options the command line gives: the environment's count where it does not. */
static void take_note(const struct argp_option *option, char *value, void *context)
{
    bool *given = context;
    (void)value;
    if (option)
        given[option - option_table] = true;
}

int arguments_parse(int argc, char **argv, FILE *out, struct options *options, struct error *err)
{
    struct parse parse = {.options = options};
    bool given[sizeof option_table / sizeof *option_table] = {0};
    struct error known = {0};
    options_begin(options);
    option_words(option_table, argv + 1, take_note, given, &parse.err);
    parse.left_out = parse.err.code;
    parse.from_environment = true;
    environment_options(option_table, given, take, &parse, &parse.err);
    parse.from_environment = false;
    option_words(option_table, argv + 1, take, &parse, &known);
    options->about = parse.about != 0;
    if (parse.about && out)
        print_about(parse.about, out);
    if (parse.about)
        return 0;
    finish(&parse);
    if (parse.err.code)
        options->files.report[0] = '\0'; /* there is nothing to report */
    if (out && argc == 1)
        fputs(example, stderr);
    error_append(err, &parse.err);
    return err->code;
}
