/* Files of elements and nothing else, of which the dataset's name says what they are: the type, the
 * extents, F for Fortran's order, and the bytes before the elements: f8:3000x2000:F@512. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "flat.h"
#include "matfile.h"

static const int64_t NUMBER_MAX = INT64_MAX / 32;

/* A number of digits alone, which is stepped over; negative: it is none, or too large. */
static int64_t read_number(const char **at)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return -1;
    const long long number = strtoll(*at, &end, 10);
    *at = end;
    return number > NUMBER_MAX ? -1 : number;
}

/* Step over what the text goes on with. */
static bool skip(const char **at, const char *text)
{
    const size_t length = strlen(text);
    const bool found = strncmp(*at, text, length) == 0;
    *at += found ? length : 0;
    return found;
}

/* Set the type that the text begins with, and step over it and the colon behind it. */
static bool take_type(const char **at, struct source *source)
{
    char type[8] = "";
    const size_t length = strcspn(*at, ":");
    memcpy(type, *at, length < sizeof type ? length : 0);
    if (!flat_set_type(source, type))
        return false;
    *at += length;
    return skip(at, ":");
}

static bool is_named_by(const char *dataset)
{
    struct source unused = {0};
    return take_type(&dataset, &unused);
}

static bool parse(struct source *source, bool *fortran, int64_t *offset)
{
    const char *at = source->dataset;
    if (!take_type(&at, source))
        return false;
    source->matrix.rows = read_number(&at);
    source->matrix.cols = skip(&at, "x") ? read_number(&at) : -1;
    *fortran = skip(&at, ":F");
    *offset = skip(&at, "@") ? read_number(&at) : 0;
    return source->matrix.rows > 0 && source->matrix.cols > 0 && *offset >= 0 &&
           (!*at || *at == '[');
}

static int describe(struct source *source, struct error *err)
{
    bool fortran;
    int64_t offset;
    if (!parse(source, &fortran, &offset))
        return error_add(err, EXIT_INPUT,
                         "%s has elements and nothing else: say which, as %s:f8:3000x2000, with :F "
                         "for Fortran's order and @BYTES for what is before them",
                         source->file, source->file);
    const int descriptor = source_open_file(source->file, false, err);
    if (descriptor < 0)
        return err->code;
    const uint64_t extents[] = {(uint64_t)source->matrix.rows, (uint64_t)source->matrix.cols};
    if (flat_place(source, descriptor, (uint64_t)offset, fortran, err) == 0)
        flat_slice(source, 2, extents, err);
    close(descriptor);
    return err->code;
}

const struct format format_raw = {.name = "raw",
                                  .is_named_by = is_named_by,
                                  .read_bytes_per_s = 1e9,
                                  .describe = describe,
                                  .open = matfile_open_flat,
                                  .close = matfile_close,
                                  .read = matfile_read,
                                  .read_overhead = matfile_read_overhead};
