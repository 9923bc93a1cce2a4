/* The library: an invocation of the program that is a guest in somebody else's process. */
#include <jansson.h>
#include <locale.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "atomic_file.h"
#include "comm_impl.h"
#include "command.h"
#include "dgemm_ooc.h"
#include "error.h"
#include "meter.h"
#include "nodes.h"
#include "notice.h"
#include "phase.h"
#include "process.h"
#include "stop.h"
#include "version.h"

enum { LINE_BYTES = 4096 };

/* A stream whose lines become messages of one level. */
struct listener {
    FILE *stream;
    dgemm_ooc *product;
    enum dgemm_ooc_level level;
    size_t used;
    char text[LINE_BYTES];
};

struct dgemm_ooc {
    struct invocation command; /* of the newest call */
    bool created;
    MPI_Comm ranks; /* MPI_COMM_NULL: this process alone */
    pid_t process;
    atomic_bool stops; /* the run at work, or the next one */
    int count;         /* of the words */
    char **words;      /* of the command line, the program's name first */
    dgemm_ooc_message *message;
    dgemm_ooc_progress *progress;
    void *message_user, *progress_user;
    struct listener out, warnings;
    json_t *account;
    char *report;
};

static _Atomic(dgemm_ooc *) at_work; /* in this process */

int dgemm_ooc_version(void)
{
    return DGEMM_OOC_VERSION;
}

static char version[512];

static void keep_version(void)
{
    snprintf(version, sizeof version, "%s", version_text());
}

const char *dgemm_ooc_version_text(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, keep_version);
    return version;
}

/* Where a rank cannot tell the others that it failed. */
static void __attribute__((noreturn)) end_all(int code)
{
    if (process_has_mpi())
        MPI_Abort(MPI_COMM_WORLD, code);
    abort();
}

/* A line that is longer comes in parts. */
static ssize_t take_text(void *cookie, const char *text, size_t bytes)
{
    struct listener *lines = cookie;
    const dgemm_ooc *p = lines->product;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != '\n')
            lines->text[lines->used++] = text[i];
        if (text[i] != '\n' && lines->used < LINE_BYTES - 1)
            continue;
        lines->text[lines->used] = '\0';
        lines->used = 0;
        if (p->message)
            p->message(p->message_user, lines->level, lines->text);
    }
    return (ssize_t)bytes;
}

static bool open_lines(dgemm_ooc *product, enum dgemm_ooc_level level, struct listener *lines)
{
    const cookie_io_functions_t functions = {.write = take_text};
    lines->product = product;
    lines->level = level;
    lines->stream = fopencookie(lines, "w", functions);
    if (lines->stream)
        setvbuf(lines->stream, NULL, _IOLBF, 0);
    return lines->stream;
}

static void close_lines(struct listener *lines)
{
    if (lines->stream)
        fclose(lines->stream);
}

/* Add a copy of a word.  There is always room for the null that ends them. */
static bool add_word(dgemm_ooc *product, const char *word)
{
    char *copy = strdup(word);
    char **words = realloc(product->words, ((size_t)product->count + 2) * sizeof *product->words);
    if (words)
        product->words = words;
    if (!words || !copy) {
        free(copy);
        return false;
    }
    words[product->count++] = copy;
    words[product->count] = NULL;
    return true;
}

static void drop_words(dgemm_ooc *product, int count)
{
    while (product->count > count)
        free(product->words[--product->count]);
    if (product->words)
        product->words[product->count] = NULL;
}

static int no_memory(dgemm_ooc *product)
{
    return error_no_memory(&product->command.err, "a product");
}

/* Take the ranks, where MPI can be used. */
static void take_ranks(dgemm_ooc *product, int handle)
{
    struct error *err = &product->command.err;
    int provided;
    if (!process_has_mpi()) {
        error_add(err, EXIT_USAGE,
                  "MPI is not started, or has ended: call MPI_Init_thread before dgemm_ooc_create, "
                  "or give no ranks");
        return;
    }
    MPI_Query_thread(&provided);
    MPI_Comm ranks = MPI_Comm_f2c((MPI_Fint)handle);
    if (provided < MPI_THREAD_SERIALIZED)
        error_add(err, EXIT_USAGE,
                  "MPI was started without MPI_THREAD_SERIALIZED: ask MPI_Init_thread for it");
    else if (ranks == MPI_COMM_NULL)
        error_add(err, EXIT_USAGE, "the ranks are MPI_COMM_NULL: only their members may call this");
    else
        MPI_Comm_dup(ranks, &product->ranks);
}

enum dgemm_ooc_status dgemm_ooc_create(dgemm_ooc **product, const int *ranks)
{
    dgemm_ooc *p = *product = calloc(1, sizeof *p);
    if (!p && ranks && process_has_mpi())
        end_all(EXIT_RESOURCES);
    if (!p)
        return DGEMM_OOC_RESOURCES;
    p->process = getpid();
    p->ranks = MPI_COMM_NULL;
    if (ranks)
        take_ranks(p, *ranks);
    p->created = !p->command.err.code;
    if (!open_lines(p, DGEMM_OOC_INFO, &p->out) ||
        !open_lines(p, DGEMM_OOC_WARNING, &p->warnings) || !add_word(p, "dgemm_ooc"))
        no_memory(p);
    return (enum dgemm_ooc_status)p->command.err.code;
}

static void forget_report(dgemm_ooc *product)
{
    json_decref(product->account);
    free(product->report);
    product->account = NULL;
    product->report = NULL;
}

void dgemm_ooc_destroy(dgemm_ooc *product)
{
    if (!product)
        return;
    if (product->ranks != MPI_COMM_NULL && product->process == getpid() && process_has_mpi())
        MPI_Comm_free(&product->ranks);
    drop_words(product, 0);
    free(product->words);
    forget_report(product);
    close_lines(&product->out);
    close_lines(&product->warnings);
    free(product);
}

enum dgemm_ooc_status dgemm_ooc_set_arguments(dgemm_ooc *product, int count,
                                              const char *const *words)
{
    const int before = product->count;
    product->command.err = (struct error){0};
    for (int i = 0; i < count; i++)
        if (!add_word(product, words[i])) {
            drop_words(product, before);
            return (enum dgemm_ooc_status)no_memory(product);
        }
    return DGEMM_OOC_OK;
}

enum dgemm_ooc_status dgemm_ooc_set(dgemm_ooc *product, const char *option, const char *value)
{
    char *name = NULL;
    product->command.err = (struct error){0};
    if (asprintf(&name, strlen(option) == 1 ? "-%s" : "--%s", option) < 0)
        return (enum dgemm_ooc_status)no_memory(product);
    const char *const words[] = {name, value};
    enum dgemm_ooc_status status = dgemm_ooc_set_arguments(product, value ? 2 : 1, words);
    free(name);
    return status;
}

void dgemm_ooc_on_progress(dgemm_ooc *product, dgemm_ooc_progress *function, void *user)
{
    product->progress = function;
    product->progress_user = user;
}

void dgemm_ooc_on_message(dgemm_ooc *product, dgemm_ooc_message *function, void *user)
{
    product->message = function;
    product->message_user = user;
}

void dgemm_ooc_stop(dgemm_ooc *product)
{
    product->stops = true;
    if (at_work == product)
        stop_request();
}

static void tell_progress(void *user, const struct phase_now *now)
{
    dgemm_ooc *p = user;
    if (p->progress(p->progress_user, now->what, now->share, now->seconds_left))
        dgemm_ooc_stop(p);
}

/* What only a program can do, which has the process for itself. */
static void refuse_options(const struct options *o, struct error *err)
{
    if (o->about || o->files.from_report[0])
        error_add(err, EXIT_USAGE, "options that only print or convert are for the program alone");
    if (atomic_file_is_stdout(o->files.report) || atomic_file_is_stdout(o->files.trace) ||
        atomic_file_is_stdout(o->files.html))
        error_add(err, EXIT_USAGE,
                  "a library does not print: name files for report, trace and page");
}

/* The words become options. */
static void parse(struct invocation *c, int count, char **words)
{
    struct options *o = &c->options;
    arguments_parse(count, words, NULL, o, &c->err);
    refuse_options(o, &c->err);
    o->bind = false;
    if (o->dry_run && !o->resources.ranks && !o->resources.machine[0]) {
        o->resources.ranks = c->comm.size;
        o->resources.ranks_per_node = c->comm.local_size;
    }
}

/* Collective.  The ranks of one call: what has gone wrong on them before is forgotten. */
static void open_ranks(dgemm_ooc *product)
{
    struct invocation *c = &product->command;
    if (product->ranks == MPI_COMM_NULL) {
        comm_open_alone(&c->comm, end_all);
    } else {
        comm_open(&c->comm, product->ranks, end_all);
        nodes_form(&c->comm, &c->err);
    }
}

/* Collective.  Parse the words, and do what they ask for. */
static void execute(struct invocation *c, int count, char **words)
{
    parse(c, count, words);
    if (!c->options.dry_run)
        command_run(c);
    else if (comm_agree(&c->comm, &c->err) == 0 && c->comm.rank == 0)
        command_dry_run(c);
    if (c->comm.rank == 0)
        command_report(c);
    comm_agree(&c->comm, &c->err);
    comm_share(&c->comm, &c->exit_code, sizeof c->exit_code, 0);
}

/* Rank 0 keeps the report of what was described. */
static void keep_report(dgemm_ooc *product)
{
    const struct invocation *c = &product->command;
    if (c->comm.rank > 0 || !c->job.described)
        return;
    product->account = command_account(c);
    product->report = json_dumps(product->account, JSON_INDENT(2));
}

/* Collective.  Do what the words say, which are `text`, with streams and requests of this call. */
static void perform(dgemm_ooc *product, char *text)
{
    struct invocation *c = &product->command;
    c->text = text;
    c->out = product->out.stream;
    stop_forget();
    if (product->stops)
        stop_request();
    notice_to(product->warnings.stream);
    if (product->progress && c->comm.rank == 0)
        phases_open_to(tell_progress, product);
    execute(c, product->count, product->words);
    phases_close();
    keep_report(product);
    fflush(product->out.stream);
    notice_to(NULL);
    free(c->hardware.placements);
    if (!c->options.dry_run && c->err.code != EXIT_USAGE)
        product->stops = false;
}

/* A file that may not grow is an error like a full disk, and no signal: neither for this thread nor
 * for those that it starts. */
static void block_signals(sigset_t *blocked, sigset_t *before)
{
    sigemptyset(blocked);
    sigaddset(blocked, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, blocked, before);
}

static void restore_signals(const sigset_t *blocked, const sigset_t *before)
{
    const struct timespec now = {0};
    while (!sigismember(before, SIGXFSZ) && sigtimedwait(blocked, NULL, &now) > 0)
        continue;
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Collective.  A call of its own. */
static void call(dgemm_ooc *product)
{
    struct invocation *c = &product->command;
    sigset_t blocked, before;
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), callers = uselocale(plain);
    block_signals(&blocked, &before);
    c->guest = true;
    c->started = c->step_ended = clock_now();
    char *text = command_join(product->count, product->words, &c->err);
    open_ranks(product);
    if (comm_agree(&c->comm, &c->err) == 0)
        perform(product, text);
    comm_close(&c->comm);
    free(text);
    restore_signals(&blocked, &before);
    uselocale(callers);
    freelocale(plain);
}

/* Collective.  Work with one more word, if it is not null; one product of a process at a time. */
static enum dgemm_ooc_status work(dgemm_ooc *product, const char *word)
{
    struct error *err = &product->command.err;
    const int count = product->count;
    dgemm_ooc *nobody = NULL;
    forget_report(product);
    product->command = (struct invocation){0};
    if (!product->created || product->process != getpid())
        return (enum dgemm_ooc_status)error_add(
            err, EXIT_USAGE, "this product was not created in this process: call dgemm_ooc_create");
    if (!atomic_compare_exchange_strong(&at_work, &nobody, product))
        return (enum dgemm_ooc_status)error_add(
            err, EXIT_USAGE, "another product of this process is at work: wait until it ends");
    if (word && !add_word(product, word))
        no_memory(product);
    call(product);
    at_work = NULL;
    drop_words(product, count);
    return (enum dgemm_ooc_status)(err->code ? err->code : product->command.exit_code);
}

enum dgemm_ooc_status dgemm_ooc_plan(dgemm_ooc *product)
{
    return work(product, "--dry-run");
}

enum dgemm_ooc_status dgemm_ooc_run(dgemm_ooc *product)
{
    return work(product, NULL);
}

enum dgemm_ooc_status dgemm_ooc_check(dgemm_ooc *product)
{
    return work(product, "--check-only");
}

const char *dgemm_ooc_error(const dgemm_ooc *product)
{
    return product ? product->command.err.text : "no memory is left for a product";
}

const char *dgemm_ooc_report(const dgemm_ooc *product)
{
    return product ? product->report : NULL;
}

enum dgemm_ooc_status dgemm_ooc_number(const dgemm_ooc *product, const char *name, double *number)
{
    json_t *at = product ? product->account : NULL;
    char part[LINE_BYTES];
    while (at && *name) {
        const size_t length = strcspn(name, ".");
        snprintf(part, sizeof part, "%.*s", (int)length, name);
        at = json_object_get(at, part);
        name += length + (name[length] == '.');
    }
    if (!json_is_number(at))
        return DGEMM_OOC_USAGE;
    *number = json_number_value(at);
    return DGEMM_OOC_OK;
}
