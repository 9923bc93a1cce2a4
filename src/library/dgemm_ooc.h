/* dgemm_ooc: C = alpha op(A) op(B) + beta C of matrices larger than memory, from file to file, in a
 * program of your own.
 *
 *     dgemm_ooc *product;
 *     int ranks = MPI_Comm_c2f(MPI_COMM_WORLD);
 *     if (dgemm_ooc_create(&product, &ranks) == DGEMM_OOC_OK &&
 *         dgemm_ooc_set(product, "a", "in.h5:/A") == DGEMM_OOC_OK &&
 *         dgemm_ooc_set(product, "b", "in.h5:/B") == DGEMM_OOC_OK &&
 *         dgemm_ooc_set(product, "o", "out.h5:/C") == DGEMM_OOC_OK)
 *         dgemm_ooc_run(product);
 *     puts(dgemm_ooc_error(product));
 *     dgemm_ooc_destroy(product);
 *
 * The library does what the program `dgemm_ooc` does, whose manual describes the options, files,
 * checkpoints and the check.  Variables DGEMM_OOC_... count for it, too.  It never ends the
 * process, handles no signal, prints nothing, and leaves environment, locale, working folder and
 * the binding of threads as they are.  Two exceptions: where a rank has not even the memory to tell
 * the others that it failed, it ends all; and while a file is made that is to replace an output,
 * the umask is that of a private file.
 *
 * Functions that are marked "collective" are to be called by all ranks of the product, and block
 * until the work is done.  All return a status.  After an error the process goes on, and may use
 * the product again.  Strings that are handed in are copied.
 *
 * Threads: a product belongs to one thread at a time, but for dgemm_ooc_stop.  One product of a
 * process is at work at a time; a second one is refused, without any MPI.  While one is, other
 * threads must call neither HDF5, unless it was built thread-safe, nor MPI, unless it gives
 * MPI_THREAD_MULTIPLE. */
#ifndef DGEMM_OOC_H
#define DGEMM_OOC_H

#ifdef __cplusplus
extern "C" {
#endif

/* major * 10000 + minor * 100 + patch.  Programs go on working with a library of the same major. */
#define DGEMM_OOC_VERSION 100

typedef struct dgemm_ooc dgemm_ooc;

/* What the program's exit statuses are. */
enum dgemm_ooc_status {
    DGEMM_OOC_OK = 0,
    DGEMM_OOC_FAILED = 1,      /* something failed while it ran */
    DGEMM_OOC_USAGE = 2,       /* an option, or the order of calls, is wrong */
    DGEMM_OOC_INPUT = 3,       /* a file or matrix is not what it must be */
    DGEMM_OOC_RESOURCES = 4,   /* not enough memory, disk or GPUs */
    DGEMM_OOC_WRONG = 5,       /* C has failed its check */
    DGEMM_OOC_NOT_CHECKED = 6, /* C is complete, but the check could not have found enough */
    DGEMM_OOC_STOPPED = 75     /* saved and stopped, as asked: run again to go on */
};

/* The version of the library that is loaded; and as text, with the compiler, MPI, HDF5 and CUDA
 * that it was built with. */
int dgemm_ooc_version(void);
const char *dgemm_ooc_version_text(void);

/* Collective.  A new product.  `ranks` is MPI_Comm_c2f of its ranks' communicator, which stays the
 * caller's; it is copied.  MPI must have been started with MPI_THREAD_SERIALIZED or more.  Null:
 * this process alone, without MPI.  After an error, too, dgemm_ooc_error says why and
 * dgemm_ooc_destroy is due; *product is null where no memory was left for it. */
enum dgemm_ooc_status dgemm_ooc_create(dgemm_ooc **product, const int *ranks);

/* Collective.  Null is no product.  To be called before MPI_Finalize. */
void dgemm_ooc_destroy(dgemm_ooc *product);

/* An option of the program by its name without dashes, with its value, or null where it has none:
 * ("a", "in.h5:/A"), ("gpu-memory", "8G"), ("force", 0).  The last value counts.  Or words as on
 * the command line, without the program's name.  All ranks must set the same.  Mistakes are found
 * by the next plan, run or check. */
enum dgemm_ooc_status dgemm_ooc_set(dgemm_ooc *product, const char *option, const char *value);
enum dgemm_ooc_status dgemm_ooc_set_arguments(dgemm_ooc *product, int count,
                                              const char *const *words);

/* Collective.  Plan the product and predict its time, as --dry-run does; multiply, or go on where
 * an earlier run was stopped or killed; check a C that is there, as --check-only does. */
enum dgemm_ooc_status dgemm_ooc_plan(dgemm_ooc *product);
enum dgemm_ooc_status dgemm_ooc_run(dgemm_ooc *product);
enum dgemm_ooc_status dgemm_ooc_check(dgemm_ooc *product);

/* Ask for a stop: the run saves what is done and returns DGEMM_OOC_STOPPED, on all ranks.  One rank
 * is enough, of any thread or signal handler.  Where none is at work the next run stops as soon as
 * it can; one that is done before that is complete. */
void dgemm_ooc_stop(dgemm_ooc *product);

/* Rank 0, some times a second, from a thread of the library: what the run does now, which share of
 * that is done, and how many seconds it will still take; negative: nobody knows.  Anything but 0
 * asks for a stop.  The function may call dgemm_ooc_stop only.  Null: nobody is told. */
typedef int dgemm_ooc_progress(void *user, const char *phase, double share, double seconds_left);
void dgemm_ooc_on_progress(dgemm_ooc *product, dgemm_ooc_progress *function, void *user);

/* What the program would print, line by line: on rank 0 what it says of the run, on any rank
 * warnings, perhaps from a thread of the library.  Without a function nothing is said. */
enum dgemm_ooc_level { DGEMM_OOC_WARNING, DGEMM_OOC_INFO };
typedef void dgemm_ooc_message(void *user, enum dgemm_ooc_level level, const char *line);
void dgemm_ooc_on_message(dgemm_ooc *product, dgemm_ooc_message *function, void *user);

/* Of the newest call, until the next one: what was wrong, a sentence with its remedy a line, the
 * same on all ranks; "" after success.  Rank 0: the report, as JSON, as --report writes it; null
 * elsewhere, and where nothing was planned.  And one of its numbers, by the names that lead to it:
 * "wall_s", "predicted.wall_s", "findings.floor". */
const char *dgemm_ooc_error(const dgemm_ooc *product);
const char *dgemm_ooc_report(const dgemm_ooc *product);
enum dgemm_ooc_status dgemm_ooc_number(const dgemm_ooc *product, const char *name, double *number);

#ifdef __cplusplus
}
#endif

#endif
