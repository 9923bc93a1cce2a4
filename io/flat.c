#include "flat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "slice.h"

static const struct kind {
    const char *name;
    enum scalar scalar;
    bool complex;
} kinds[] = {
    {"f8", SCALAR_DOUBLE, false}, {"f4", SCALAR_FLOAT, false},  {"f2", SCALAR_FLOAT16, false},
    {"c16", SCALAR_DOUBLE, true}, {"c8", SCALAR_FLOAT, true},   {"i1", SCALAR_INT8, false},
    {"u1", SCALAR_UINT8, false},  {"i2", SCALAR_INT16, false},  {"u2", SCALAR_UINT16, false},
    {"i4", SCALAR_INT32, false},  {"u4", SCALAR_UINT32, false}, {"i8", SCALAR_INT64, false},
    {"b1", SCALAR_UINT8, false},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

bool flat_set_type(struct source *source, const char *type)
{
    struct matrix *m = &source->matrix;
    const bool ordered = *type && strchr("<>|=", *type);
    for (int i = 0; i < KINDS; i++)
        if (strcmp(type + ordered, kinds[i].name) == 0) {
            matrix_set_type(m, kinds[i].scalar);
            m->complex = kinds[i].complex;
            m->element_bytes = scalar_size(m->elements);
            m->swapped = *type == '>' && m->element_bytes > 1;
            return true;
        }
    return false;
}

const char *flat_type(enum scalar elements, bool complex)
{
    int i = 0;
    while (kinds[i].scalar != elements || kinds[i].complex != complex)
        i++;
    return kinds[i].name;
}

int flat_place(struct source *source, int descriptor, uint64_t offset, bool fortran,
               struct error *err)
{
    static const char names[2][PART_NAME_MAX] = {"r", "i"};
    struct matrix *m = &source->matrix;
    struct stat status;
    uint64_t bytes;
    m->cols *= m->complex ? 2 : 1;
    m->turned = fortran;
    *m = matrix_seen(m);
    if (fstat(descriptor, &status))
        return error_add(err, EXIT_INPUT, "%s: %s", source->file, strerror(errno));
    if (__builtin_mul_overflow((uint64_t)m->rows, (uint64_t)m->cols, &bytes) ||
        __builtin_mul_overflow(bytes, m->element_bytes, &bytes) ||
        bytes > (uint64_t)status.st_size || offset > (uint64_t)status.st_size - bytes)
        return error_add(err, EXIT_INPUT, "%s ends before its elements do: is it truncated?",
                         source->file);
    if (m->complex)
        memcpy(source->parts, names, sizeof names);
    source->offset = offset;
    source->file_bytes = (uint64_t)status.st_size;
    m->by_offset = !m->swapped;
    m->object[0] = status.st_dev;
    m->object[1] = status.st_ino;
    m->object[2] = offset;
    snprintf(source->layout, sizeof source->layout, "%s %s%s%s", format_of_matrix(m)->name,
             flat_type(m->elements, m->complex), fortran ? ", in Fortran's order" : "",
             m->swapped ? ", in the other byte order: read by HDF5" : "");
    return 0;
}

/* From the dimensions that the user sees to those of the file. */
static void turn(struct slice *s)
{
    const struct slice seen = *s;
    for (int i = 0; i < 2; i++) {
        s->axes[i] = seen.axes[1 - i] < 0 ? -1 : 1 - seen.axes[1 - i];
        s->counts[i] = seen.counts[1 - i];
        s->extents[i] = seen.extents[1 - i];
        s->first[i] = seen.first[1 - i];
        s->steps[i] = seen.steps[1 - i];
    }
}

int flat_slice(struct source *source, int rank, const uint64_t *extents, struct error *err)
{
    const size_t own = slice_base(source->dataset), length = strlen(source->layout);
    source->slice.length = source->dataset[own] ? (int)own : 0;
    if (rank != 2 && source->matrix.turned)
        return error_add(
            err, EXIT_INPUT,
            "%s is in Fortran's order, and has %d dimensions, not two: store it in C's "
            "order",
            source->file, rank);
    if (rank != 2 && !source->slice.length)
        return error_add(err, EXIT_INPUT, "%s has %d dimension%s, not two: write %s%s for %s",
                         source->file, rank, rank == 1 ? "" : "s", source->file,
                         rank == 1 ? "[:, None]" : "[0]",
                         rank == 1 ? "a column of it" : "the first part of it");
    if (slice_parse(source, rank, extents, err))
        return err->code;
    if (source->matrix.turned)
        turn(&source->slice);
    if (slice_place(source) && !source->matrix.swapped)
        snprintf(source->layout + length, sizeof source->layout - length,
                 ": read by HDF5 (columns apart)");
    return 0;
}
