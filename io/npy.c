/* NumPy's files of one array (.npy): a header, which is the text of a Python dictionary, and the
 * elements. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "flat.h"
#include "matfile.h"
#include "npy_notes.h"
#include "slice.h"

static const int64_t EXTENT_MAX = INT64_MAX / 32;
static const char magic[] = "\x93NUMPY";

enum { MAGIC_BYTES = sizeof magic - 1, HEADER_MAX = 4096, TYPE_TEXT = 64 };

/* What lies before the elements. */
struct header {
    char text[HEADER_MAX + 1];
    uint64_t bytes; /* from the start of the file to the elements */
};

static int refuse(const struct source *source, const char *why, struct error *err)
{
    return error_add(err, EXIT_INPUT, "%s %s", source->file, why);
}

static int read_header(int descriptor, const struct source *source, struct header *header,
                       struct error *err)
{
    unsigned char start[MAGIC_BYTES + 6] = {0};
    const int known = source_read_bytes(descriptor, start, MAGIC_BYTES + 4, 0);
    if (known > 0)
        return error_add(err, EXIT_INPUT, "%s: %s", source->file, strerror(known));
    if (known || memcmp(start, magic, MAGIC_BYTES) != 0)
        return refuse(source, "is no .npy file: it does not begin as numpy.save writes it", err);
    const int version = start[MAGIC_BYTES];
    const bool is_long = version > 1; /* its length has four bytes, and not two */
    if (version < 1 || version > 3)
        return error_add(err, EXIT_INPUT, "%s has version %d of the .npy format; 1 to 3 are read",
                         source->file, version);
    if (is_long && source_read_bytes(descriptor, start, MAGIC_BYTES + 6, 0))
        return refuse(source, "ends within its header: is it truncated?", err);
    const unsigned char *at = start + MAGIC_BYTES + 2;
    uint32_t length = at[0] | (uint32_t)at[1] << 8;
    if (is_long)
        length |= (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    header->bytes = MAGIC_BYTES + 2u + (is_long ? 4u : 2u);
    if (length > HEADER_MAX)
        return refuse(source, "has a header of more than 4096 bytes: is it damaged?", err);
    if (source_read_bytes(descriptor, header->text, length, header->bytes))
        return refuse(source, "ends within its header: is it truncated?", err);
    header->text[length] = '\0';
    header->bytes += length;
    return 0;
}

/* What follows the key, which Python writes once. */
static const char *value_of(const struct header *header, const char *key)
{
    const char *at = strstr(header->text, key);
    if (!at)
        return "";
    at += strlen(key);
    return at + strspn(at, ": ");
}

/* An extent, up to a comma or parenthesis; Python 2 has written an L behind it.  Negative: it is
 * none. */
static int64_t read_extent(const char **at)
{
    char *end;
    *at += strspn(*at, " ,");
    if (!isdigit((unsigned char)**at))
        return -1;
    const long long extent = strtoll(*at, &end, 10);
    *at = end + (*end == 'L');
    return min_i64(extent, EXTENT_MAX); /* more than any file has */
}

struct shape {
    int rank;
    uint64_t extents[SLICE_RANK];
};

/* The shape: (3, 4). */
static int read_shape(const struct header *header, struct source *source, struct shape *shape,
                      struct error *err)
{
    const char *at = value_of(header, "'shape'");
    int64_t extent, all = 1;
    shape->rank = 0;
    if (*at++ != '(')
        return refuse(source, "has no shape in its header: is it damaged?", err);
    while (shape->rank < SLICE_RANK && (extent = read_extent(&at)) >= 0) {
        shape->extents[shape->rank++] = (uint64_t)extent;
        if (__builtin_mul_overflow(all, extent, &all))
            all = EXTENT_MAX; /* which the file does not have */
    }
    at += strspn(at, " ,");
    if (*at != ')' || shape->rank == 0)
        return refuse(source, "is not an array of one to eight dimensions", err);
    if (all == 0)
        return refuse(source, "is empty", err);
    source->matrix.cols = (int64_t)shape->extents[shape->rank - 1];
    source->matrix.rows = all / source->matrix.cols;
    return 0;
}

/* The type: the order of bytes, the kind and the bytes of an element. */
static int read_type(const struct header *header, struct source *source, struct error *err)
{
    const char *at = value_of(header, "'descr'");
    char text[TYPE_TEXT] = "";
    if (*at == '[')
        return refuse(source, "has elements that are structures, which are not multiplied", err);
    if (sscanf(at, "'%63[a-zA-Z0-9<>|=]", text) != 1)
        return refuse(source, "has no type in its header: is it damaged?", err);
    if (flat_set_type(source, text))
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s has elements of type %s, which are not read from .npy files; save them by "
                     "numpy.save(FILE, x.astype(\"%s8\"))",
                     source->file, text, strchr(text, 'c') ? "<c" : "<f");
}

static int describe_open(int descriptor, struct source *source, struct error *err)
{
    struct header header;
    struct shape shape;
    if (read_header(descriptor, source, &header, err) || read_shape(&header, source, &shape, err) ||
        read_type(&header, source, err))
        return err->code;
    const bool fortran = strncmp(value_of(&header, "'fortran_order'"), "True", 4) == 0;
    if (flat_place(source, descriptor, header.bytes, fortran, err))
        return err->code;
    source->unfinished = npy_is_unfinished(descriptor, source);
    const bool whole = !source->dataset[slice_base(source->dataset)];
    if (shape.rank > 1 || fortran || !whole || !npy_is_packed(descriptor, source))
        return flat_slice(source, shape.rank, shape.extents, err);
    if (slice_of_packed(source, shape.extents[0], err) == 0)
        slice_place(source);
    return err->code;
}

static int describe(struct source *source, struct error *err)
{
    const int descriptor = source_open_file(source->file, false, err);
    if (descriptor < 0)
        return err->code;
    describe_open(descriptor, source, err);
    close(descriptor);
    return err->code;
}

/* Whether the file is a matrix at all. */
static int others(const char *file, const char *dataset, char *text, size_t size, struct error *err)
{
    struct source source;
    if (size > 0)
        text[0] = '\0';
    return format_describe(file, dataset, &source, err);
}

const struct format format_npy = {.name = "NumPy",
                                  .endings = ".npy .npy.part",
                                  .read_bytes_per_s = 1e9,
                                  .describe = describe,
                                  .open = matfile_open_flat,
                                  .close = matfile_close,
                                  .read = matfile_read,
                                  .read_overhead = matfile_read_overhead,
                                  .get_attributes = npy_get_attributes,
                                  .replace_text = npy_replace_text,
                                  .create = npy_create,
                                  .others = others};
