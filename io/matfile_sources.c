/* Finds the files that a dataset is read from: the targets of links, and the files of virtual and
 * external datasets.
 *
 * While it reads a virtual dataset, the library opens its sources recursively, endlessly where one
 * is drawn from itself; so all of them are checked before. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "matfile_impl.h"
#include "quantity.h"

enum {
    DEPTH_MAX = 16,        /* levels of virtual datasets */
    SOURCES_MAX = 1 << 16, /* in all */
    DESCRIPTORS = 64,      /* that the program needs for all else */
};

struct search {
    const struct source *source;
    format_file_visit *visit; /* may be null */
    void *context;
    struct error *err;
    hid_t kept;    /* the file of the last source, kept open: likely that of the next one too */
    int64_t count; /* datasets visited */
    struct virtual_sources found;
    void *files; /* a tree of those that are in found.files, by their status */
};

/* A dataset on the path from the matrix to the one that is visited. */
struct source_step {
    const struct source_step *before;
    const char *file, *dataset;
    struct stat status;
    int depth;
};

/* A reference from a dataset to another file, and for a virtual dataset to a dataset in it. */
struct named {
    struct search *search;
    const struct source_step *from;
    const char *file, *dataset;
    const char *prefixes; /* environment variable: the folders that the library searches first */
    bool external, found;
    uint64_t bytes; /* of an external file that was found */
};

static int refuse(const struct search *s, const char *why, const char *name)
{
    return error_add(s->err, EXIT_INPUT, "%s: dataset \"%s\" %s%s", s->source->file,
                     s->source->dataset, why, name);
}

static int by_file(const void *a, const void *b)
{
    const struct stat *x = a, *y = b;
    if (x->st_dev != y->st_dev)
        return x->st_dev < y->st_dev ? -1 : 1;
    return x->st_ino < y->st_ino ? -1 : x->st_ino > y->st_ino;
}

/* Count a file, once. */
static void count_file(struct search *s, const struct stat *status)
{
    if (tfind(status, &s->files, by_file))
        return;
    struct stat *copy = malloc(sizeof *copy);
    if (copy)
        *copy = *status;
    if (copy && tsearch(copy, &s->files, by_file))
        s->found.files++;
    else
        error_add(s->err, EXIT_RESOURCES, "no memory for the sources of %s", s->source->file);
}

/* Add a source to what all of them are; it has any number of dimensions, of any size. */
static void count_dataset(struct search *s, hid_t dataset, hid_t plist, size_t element_bytes)
{
    const double most = (double)(1ULL << 60);
    hsize_t extents[H5S_MAX_RANK], sides[H5S_MAX_RANK];
    hid_t space = H5Dget_space(dataset);
    int rank = H5Sget_simple_extent_dims(space, extents, NULL);
    double chunk = (double)element_bytes, row = 1, rows = 1;
    h5_close(space);
    s->found.datasets++;
    if (H5Pget_layout(plist) != H5D_CHUNKED || H5Pget_chunk(plist, H5S_MAX_RANK, sides) != rank)
        return;
    for (int i = 0; i < rank; i++) {
        chunk *= (double)sides[i];
        *(i > 0 ? &row : &rows) *= ceil((double)extents[i] / (double)sides[i]);
    }
    s->found.chunks += (int64_t)fmin(rows * row, most / SOURCES_MAX);
    s->found.chunk_bytes = max_u64(s->found.chunk_bytes, (uint64_t)fmin(chunk, most));
    s->found.row_bytes = max_u64(s->found.row_bytes, (uint64_t)fmin(chunk * row, most));
}

static bool is_same(const struct source_step *a, const struct source_step *b)
{
    return a->status.st_dev == b->status.st_dev && a->status.st_ino == b->status.st_ino &&
           strcmp(a->dataset + strspn(a->dataset, "/"), b->dataset + strspn(b->dataset, "/")) == 0;
}

/* Append the path from one step to another, as text. */
static void describe_path(const struct source_step *from, const struct source_step *to, char *text,
                          size_t size)
{
    if (to != from)
        describe_path(from, to->before, text, size);
    h5_append(text, size, "%s%s:/%s", to == from ? "" : ", from ", to->file,
              to->dataset + strspn(to->dataset, "/"));
}

static int check_step(const struct search *s, const struct source_step *step)
{
    for (const struct source_step *before = step->before; before; before = before->before)
        if (is_same(before, step)) {
            char text[1500] = "";
            describe_path(before, step, text, sizeof text);
            error_make_plain(text);
            return refuse(s, "is a virtual dataset of itself: ", text);
        }
    if (step->depth > DEPTH_MAX)
        return refuse(s, "has virtual sources nested too deep", "");
    if (s->count > SOURCES_MAX)
        return refuse(s, "has too many virtual sources", "");
    return 0;
}

static int look_at(struct search *s, hid_t dataset, const struct source_step *step);

/* Visit the dataset that is referred to, if it exists.  False if its file cannot be opened. */
static bool follow(struct named *n, const char *path, const struct stat *status)
{
    struct search *s = n->search;
    h5_forget_refused();
    hid_t access = h5_file_access(H5_READ, true);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    hid_t dataset = file < 0 ? -1 : H5Dopen2(file, n->dataset, H5P_DEFAULT);
    struct source_step step = {n->from, path, n->dataset, *status, n->from->depth + 1};
    h5_close(access);
    n->found |= dataset >= 0;
    if (file >= 0)
        count_file(s, status);
    if (dataset >= 0)
        look_at(s, dataset, &step);
    else if (h5_refused()[0])
        refuse(s, "cannot be read: ", h5_refused());
    h5_close(dataset);
    if (file >= 0) {
        h5_close(s->kept);
        s->kept = file;
    }
    return file >= 0;
}

/* Whether the search ends at this path: the library uses the first file that it can open. */
static bool try_path(struct named *n, const char *path)
{
    struct search *s = n->search;
    struct stat status;
    if (s->err->code)
        return true;
    if (!file_leads(path, &status, s->err))
        return s->err->code;
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
        refuse(s, "leads to a device or pipe: ", path);
        return true;
    }
    if (S_ISREG(status.st_mode) && s->visit)
        s->visit(path, s->context);
    n->found |= n->external;
    n->bytes = (uint64_t)status.st_size;
    return n->external || follow(n, path, &status);
}

static bool try_in(struct named *n, const char *folder, int length, const char *name)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%.*s%s%s", length, folder,
             length > 0 && folder[length - 1] != '/' ? "/" : "", name);
    return try_path(n, path);
}

static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* Try the folders of a list separated by ":"; ${ORIGIN} is the folder of the referring file. */
static bool try_prefixes(struct named *n, const char *name)
{
    static const char origin[] = "${ORIGIN}";
    const char *prefix = getenv(n->prefixes), *holder = n->from->file;
    bool ends = false;
    while (prefix && *prefix && !ends) {
        char folder[2 * PATH_MAX];
        int length = (int)strcspn(prefix, ":"), skipped = 0;
        if (strncmp(prefix, origin, sizeof origin - 1) == 0)
            skipped = (int)sizeof origin - 1;
        snprintf(folder, sizeof folder, "%.*s%.*s", skipped ? folder_length(holder) : 0, holder,
                 length - skipped, prefix + skipped);
        ends = length > 0 && try_in(n, folder, (int)strlen(folder), name);
        prefix += length + (prefix[length] == ':');
    }
    return ends;
}

/* Try all paths in the library's order.  It does not look for external files beside the referring
 * file. */
static void try_all(struct named *n)
{
    const char *slash = strrchr(n->file, '/'), *holder = n->from->file;
    const char *last = n->file[0] == '/' && !n->external ? slash + 1 : n->file;
    char *real = NULL;
    if (strcmp(n->file, ".") == 0)
        try_path(n, holder);
    else if (!(n->file[0] == '/' && try_path(n, n->file)) && !try_prefixes(n, last) &&
             !(!n->external && try_in(n, holder, folder_length(holder), last)) &&
             !try_path(n, last) && !n->external && (real = realpath(holder, NULL)))
        try_in(n, real, folder_length(real), last);
    free(real);
}

/* Expand a source name: %b is the number of a block, %% a percent sign.  Returns whether it has
 * %b. */
static bool put_block(const char *name, int64_t block, char *to, size_t size)
{
    bool numbered = false;
    size_t used = 0;
    for (; *name && used + 24 < size; name++) {
        bool number = name[0] == '%' && name[1] == 'b';
        used += (size_t)(number ? sprintf(to + used, "%" PRId64, block)
                                : sprintf(to + used, "%c", *name));
        name += number || (name[0] == '%' && name[1] == '%');
        numbered |= number;
    }
    to[used] = '\0';
    return numbered;
}

static void refuse_missing(const struct search *s, const char *file, const char *dataset)
{
    char name[PATH_MAX + DATASET_NAME_MAX + 48];
    snprintf(name, sizeof name, "%s:/%s", file, dataset + strspn(dataset, "/"));
    error_make_plain(name);
    if (!s->err->code)
        refuse(s, "has a source that does not exist: ", name);
}

/* Visit one source, which must be there, or the numbered blocks of a source up to the first missing
 * one: the library would read elements of a missing source as the fill value. */
static int look_at_source(struct search *s, const struct source_step *step, const char *file_name,
                          const char *dataset_name)
{
    char file[PATH_MAX + 24], dataset[DATASET_NAME_MAX + 24];
    struct named n = {
        .search = s, .from = step, .file = file, .dataset = dataset, .prefixes = "HDF5_VDS_PREFIX"};
    bool numbered = true;
    for (int64_t block = 0; numbered && !s->err->code; block++) {
        bool in_file = put_block(file_name, block, file, sizeof file);
        numbered = put_block(dataset_name, block, dataset, sizeof dataset) || in_file;
        n.found = false;
        try_all(&n);
        if (!n.found && !s->err->code && h5_failure()[0])
            error_add(s->err, h5_failure_code(EXIT_INPUT), "%s: dataset \"%s\": %s",
                      s->source->file, s->source->dataset, h5_failure());
        if (!numbered && !n.found)
            refuse_missing(s, file, dataset);
        numbered &= n.found;
    }
    return s->err->code;
}

static int look_at_virtual(struct search *s, hid_t plist, const struct source_step *step)
{
    char file[PATH_MAX], dataset[DATASET_NAME_MAX];
    size_t sources = 0;
    H5Pget_virtual_count(plist, &sources);
    for (size_t i = 0; i < sources && !s->err->code; i++) {
        ssize_t length = H5Pget_virtual_filename(plist, i, file, sizeof file);
        ssize_t name = H5Pget_virtual_dsetname(plist, i, dataset, sizeof dataset);
        if (length >= PATH_MAX || name >= DATASET_NAME_MAX)
            return refuse(s, "has a source whose name is too long", "");
        if (length <= 0 || name <= 0)
            return refuse(s, "has a source whose name cannot be read", "");
        look_at_source(s, step, file, dataset);
    }
    return s->err->code;
}

static int look_at_external(struct search *s, hid_t plist, int files,
                            const struct source_step *step)
{
    for (int i = 0; i < files && !s->err->code; i++) {
        char file[PATH_MAX] = "";
        off_t offset = 0;
        hsize_t size = 0;
        H5Pget_external(plist, (unsigned)i, sizeof file - 1, file, &offset, &size);
        struct named n = {.search = s,
                          .from = step,
                          .file = file,
                          .prefixes = "HDF5_EXTFILE_PREFIX",
                          .external = true};
        try_all(&n);
        error_make_plain(file);
        if (!n.found && !s->err->code)
            refuse(s, "has an external file that does not exist: ", file);
        else if (n.found && size != H5F_UNLIMITED &&
                 (n.bytes < (uint64_t)offset || n.bytes - (uint64_t)offset < size))
            refuse(s, "has an external file that is too short: ", file);
    }
    return s->err->code;
}

/* Visit a dataset and all that it is drawn from. */
static int look_at(struct search *s, hid_t dataset, const struct source_step *step)
{
    s->count++;
    if (check_step(s, step))
        return s->err->code;
    char parts[2][PART_NAME_MAX];
    hid_t whole = H5Dget_type(dataset), type = h5_part_type(whole, parts);
    hid_t plist = H5Dget_create_plist(dataset);
    int external = H5Pget_external_count(plist);
    if (step->before)
        count_dataset(s, dataset, plist, H5Tget_size(whole));
    if (H5Tget_size(type) > H5_ELEMENT_MAX)
        refuse(s, "has elements of more bytes than any number: is it damaged?", "");
    else if (step->before && h5_is_unfinished(dataset))
        refuse(s, "has a source that is an unfinished output of dgemm_ooc: ", step->file);
    else if (H5Pget_layout(plist) == H5D_VIRTUAL)
        look_at_virtual(s, plist, step);
    else if (external > 0)
        look_at_external(s, plist, external, step);
    h5_close(plist);
    h5_close(type);
    h5_close(whole);
    return s->err->code;
}

/* The library keeps the sources that it has read open until the virtual dataset is closed. */
static void check_limit(const struct search *s)
{
    struct rlimit limit;
    const uint64_t files = (uint64_t)s->found.files + DESCRIPTORS;
    if (!s->err->code && getrlimit(RLIMIT_NOFILE, &limit) == 0 && files > limit.rlim_cur)
        error_add(
            s->err, EXIT_RESOURCES,
            "%s: dataset \"%s\" has sources in %" PRId64 " files, but only %" PRIu64
            " may be open here: Too many open files; raise their number (ulimit -n) to %" PRIu64,
            s->source->file, s->source->dataset, s->found.files, (uint64_t)limit.rlim_cur, files);
}

static int look_at_all(struct search *s, hid_t dataset)
{
    char holder[PATH_MAX], name[DATASET_NAME_MAX];
    struct source_step first = {.file = holder, .dataset = h5_own_name(s->source, name)};
    ssize_t length = H5Fget_name(dataset, holder, sizeof holder);
    if (length <= 0 || length >= (ssize_t)sizeof holder)
        return refuse(s, "is in a file whose name cannot be read", "");
    if (!file_leads(holder, &first.status, s->err))
        return s->err->code;
    s->kept = -1;
    look_at(s, dataset, &first);
    h5_close(s->kept);
    check_limit(s);
    tdestroy(s->files, free);
    return s->err->code;
}

int h5_check_sources(hid_t dataset, const struct source *source, struct virtual_sources *found,
                     struct error *err)
{
    struct search search = {.source = source, .err = err};
    look_at_all(&search, dataset);
    *found = search.found;
    return h5_settle(err->code, source->file, err);
}

int matfile_each_file(const struct source *source, format_file_visit *visit, void *context,
                      struct error *err)
{
    struct search search = {.source = source, .visit = visit, .context = context, .err = err};
    h5_enter();
    visit(source->file, context);
    h5_visit_opened(visit, context);
    hid_t file = h5_open_file(source->file, H5_READ, err);
    hid_t dataset = file < 0 ? -1 : h5_open_dataset(file, source, H5P_DEFAULT);
    if (dataset >= 0)
        look_at_all(&search, dataset);
    else if (file >= 0)
        error_add(err, EXIT_INPUT, "%s: dataset \"%s\" cannot be opened: %s", source->file,
                  source->dataset, h5_why());
    h5_close(dataset);
    h5_close(file);
    h5_visit_opened(NULL, NULL);
    h5_settle(err->code, source->file, err);
    h5_leave();
    return err->code;
}
