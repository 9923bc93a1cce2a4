/* The file driver through which the library reads.
 *
 * A file can refer to others (external links, sources of virtual datasets), which the library opens
 * itself, with the same driver.  It refuses all but regular files, since opening a pipe may block
 * forever and opening a device may have side effects; it delegates everything else to the library's
 * sec2 driver.
 *
 * Where a source of a virtual dataset cannot be opened, read or locked, the library takes it for
 * one that is not there, and gives fill values without an error.  So the driver notes failed calls.
 * A name that leads nowhere is no failure, since the library tries several, unless it has led to a
 * file before.
 *
 * It can record the addresses of raw data instead of reading it (matfile_chunks.c). */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "matfile_impl.h"

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

struct plain_file {
    H5FD_t base;
    H5FD_t *real; /* of the sec2 driver */
    char *name;
};

static const char *name_of(const H5FD_t *file)
{
    const char *name = ((const struct plain_file *)file)->name;
    return name ? name : "a file";
}

static H5FD_t *real_of(const H5FD_t *file)
{
    return ((const struct plain_file *)file)->real;
}

/* Guarded by h5_enter. */
static const void *locate_to; /* null: nowhere */
static haddr_t located;
static format_file_visit *visit_opened; /* may be null */
static void *visit_context;
static char refused[PATH_MAX + 64];
static char failure[PATH_MAX + 256];
static int failure_errno;
static void *opened; /* a tree of the names of all files that were ever opened */

const char *h5_refused(void)
{
    return refused;
}

void h5_forget_refused(void)
{
    refused[0] = '\0';
}

const char *h5_failure(void)
{
    return failure;
}

int h5_failure_code(int otherwise)
{
    const bool few = failure_errno == EMFILE || failure_errno == ENFILE || failure_errno == ENOMEM;
    return few ? EXIT_RESOURCES : otherwise;
}

void h5_forget_failure(void)
{
    failure[0] = '\0';
}

/* Where the library searches for a file, it tries names that lead nowhere, and goes on. */
static bool leads_nowhere(int number)
{
    return number == ENOENT || number == ENOTDIR || number == EACCES || number == EPERM ||
           number == ELOOP || number == ENAMETOOLONG || number == EISDIR;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void remember(const char *name)
{
    char *copy = tfind(name, &opened, by_name) ? NULL : strdup(name);
    if (copy && !tsearch(copy, &opened, by_name))
        free(copy);
}

static const char *remedy(int number, const char *what)
{
    if (number == EMFILE)
        return "; raise their number (ulimit -n)";
    if (number == EAGAIN && strcmp(what, "locked") == 0)
        return ": close it in the program that writes it, or set HDF5_USE_FILE_LOCKING=FALSE if "
               "nothing writes it";
    if (h5_lock_unsupported(number) && strcmp(what, "locked") == 0)
        return ": set HDF5_USE_FILE_LOCKING=FALSE where its file system has no locks";
    return "";
}

/* The first failure of a system call. */
static void note(const char *name, const char *what, int number)
{
    if (number == 0 || failure[0])
        return;
    failure_errno = number;
    snprintf(failure, sizeof failure, "%s cannot be %s: %s%s", name, what, strerror(number),
             remedy(number, what));
}

/* Of a call that finds the file: only a name that has led to one may not lead nowhere. */
static void note_unless_nowhere(const char *name, const char *what, int number)
{
    if (!leads_nowhere(number) || tfind(name, &opened, by_name))
        note(name, what, number);
}

void h5_visit_opened(format_file_visit *visit, void *context)
{
    visit_opened = visit;
    visit_context = context;
}

void h5_locate(const void *to)
{
    locate_to = to;
    located = HADDR_UNDEF;
}

haddr_t h5_located(void)
{
    return located;
}

static bool is_plain(const char *name)
{
    struct stat status;
    if (stat(name, &status)) {
        const int number = errno;
        note_unless_nowhere(name, "examined", number);
        return leads_nowhere(number); /* the library itself reports what does not exist */
    }
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) /* and directories */
        return true;
    snprintf(refused, sizeof refused, "%s is a device or pipe, not a file", name);
    return false;
}

static H5FD_t *plain_open(const char *name, unsigned flags, hid_t access, haddr_t limit)
{
    struct plain_file *f = is_plain(name) ? calloc(1, sizeof *f) : NULL;
    hid_t of_real = H5Pcopy(access);
    H5Pset_fapl_sec2(of_real);
    errno = 0;
    if (f)
        f->real = H5FDopen(name, flags, of_real, limit);
    if (f && !f->real)
        note_unless_nowhere(name, "opened", errno);
    H5Pclose(of_real);
    if (f && f->real) {
        if (visit_opened)
            visit_opened(name, visit_context);
        f->name = strdup(name);
        remember(name);
        return &f->base;
    }
    free(f);
    return NULL;
}

/* Keeps the error stack: closing the file would clear the reason why opening it has failed. */
static herr_t plain_close(H5FD_t *file)
{
    hid_t why = H5Eget_current_stack();
    herr_t status = H5FDclose(real_of(file));
    H5Eset_current_stack(why);
    free(((struct plain_file *)file)->name);
    free(file);
    return status;
}

static herr_t plain_get_handle(H5FD_t *file, hid_t access, void **handle)
{
    (void)access;
    return H5FDget_vfd_handle(real_of(file), H5P_DEFAULT, handle);
}

static int plain_cmp(const H5FD_t *a, const H5FD_t *b)
{
    return H5FDcmp(real_of(a), real_of(b));
}

static herr_t plain_query(const H5FD_t *file, unsigned long *flags)
{
    *flags = 0;
    return file ? H5FDquery(real_of(file), flags) : 0;
}

static haddr_t plain_get_eoa(const H5FD_t *file, H5FD_mem_t kind)
{
    return H5FDget_eoa(real_of(file), kind);
}

static herr_t plain_set_eoa(H5FD_t *file, H5FD_mem_t kind, haddr_t allocated)
{
    return H5FDset_eoa(real_of(file), kind, allocated);
}

static haddr_t plain_get_eof(const H5FD_t *file, H5FD_mem_t kind)
{
    return H5FDget_eof(real_of(file), kind);
}

static herr_t plain_read(H5FD_t *file, H5FD_mem_t kind, hid_t transfer, haddr_t address,
                         size_t bytes, void *to)
{
    if (kind == H5FD_MEM_DRAW && to == locate_to) {
        located = address;
        return 0;
    }
    errno = 0;
    herr_t status = H5FDread(real_of(file), kind, transfer, address, bytes, to);
    if (status < 0)
        note(name_of(file), "read", errno);
    return status;
}

static herr_t plain_write(H5FD_t *file, H5FD_mem_t kind, hid_t transfer, haddr_t address,
                          size_t bytes, const void *from)
{
    (void)file, (void)kind, (void)transfer, (void)address, (void)bytes, (void)from;
    return -1;
}

static herr_t plain_lock(H5FD_t *file, hbool_t writing)
{
    errno = 0;
    herr_t status = H5FDlock(real_of(file), writing);
    if (status < 0)
        note(name_of(file), "locked", errno);
    return status;
}

static herr_t plain_unlock(H5FD_t *file)
{
    hid_t why = H5Eget_current_stack();
    herr_t status = H5FDunlock(real_of(file));
    H5Eset_current_stack(why);
    return status;
}

#ifdef H5FD_CLASS_VERSION
#define CLASS_HEAD(number) .version = H5FD_CLASS_VERSION, .value = (H5FD_class_value_t)(number),
#else
#define CLASS_HEAD(number)
#endif

/* The value is in the range that HDF5 leaves to private drivers. */
static const H5FD_class_t plain = {
    CLASS_HEAD(601).name = "plain", .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,    .open = plain_open,
    .close = plain_close,           .cmp = plain_cmp,
    .query = plain_query,           .get_eoa = plain_get_eoa,
    .set_eoa = plain_set_eoa,       .get_eof = plain_get_eof,
    .get_handle = plain_get_handle, .read = plain_read,
    .write = plain_write,           .lock = plain_lock,
    .unlock = plain_unlock,         .fl_map = H5FD_FLMAP_SINGLE,
};

void h5_set_driver(hid_t access)
{
    static hid_t id = -1;
    if (id < 0)
        id = H5FDregister(&plain);
    H5Pset_driver(access, id, NULL);
}
