/* Conversions to a smaller type, in which a finite element may be too large.  The library makes it
 * infinite, as if the file had said so.  Instead its place gets a mark, by which it is found. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "error.h"
#include "matfile_impl.h"

/* A NaN that is no result of anything. */
static const union {
    uint32_t of_float;
    uint64_t of_double;
} marks[] = {
    [SCALAR_FLOAT] = {.of_float = 0x7fc0d9e3}, [SCALAR_DOUBLE] = {.of_double = 0x7ff8d9e3d9e3d9e3}};

void h5_put_mark(enum scalar type, void *to)
{
    memcpy(to, &marks[type], scalar_size(type));
}

static bool has_mark(enum scalar type, const void *matrix, int64_t index)
{
    const size_t size = scalar_size(type);
    return memcmp((const char *)matrix + (size_t)index * size, &marks[type], size) == 0;
}

/* Of types that the processor has the library says the same of infinite elements. */
static bool is_infinite(hid_t type, const void *element)
{
    double value;
    long double longer;
    if (H5Tequal(type, H5T_NATIVE_DOUBLE) > 0) {
        memcpy(&value, element, sizeof value);
        return isinf(value);
    }
    if (H5Tequal(type, H5T_NATIVE_LDOUBLE) > 0) {
        memcpy(&longer, element, sizeof longer);
        return isinf(longer);
    }
    return false;
}

static H5T_conv_ret_t mark_too_large(H5T_conv_except_t what, hid_t from, hid_t to, void *element,
                                     void *converted, void *context)
{
    (void)to;
    struct h5_narrowing *n = context;
    if ((what != H5T_CONV_EXCEPT_RANGE_HI && what != H5T_CONV_EXCEPT_RANGE_LOW) ||
        is_infinite(from, element))
        return H5T_CONV_UNHANDLED;
    h5_put_mark(n->type, converted);
    n->marked = true;
    return H5T_CONV_HANDLED;
}

hid_t h5_watch_narrowing(const struct matrix *matrix, struct h5_narrowing *n)
{
    hid_t plist = H5Pcreate(H5P_DATASET_XFER);
    if (!matrix->integers && (matrix->elements == SCALAR_OTHER ||
                              scalar_largest(matrix->elements) > scalar_largest(n->type)))
        H5Pset_type_conv_cb(plist, mark_too_large, n);
    return plist;
}

int h5_check_marks(const struct source *source, enum scalar type, const struct block *block,
                   const void *matrix, struct error *err)
{
    for (int64_t i = 0; i < block->rows * block->cols; i++)
        if (has_mark(type, matrix, i))
            return source_complain_too_large(source, type, block->row + i / block->cols,
                                             block->col + i % block->cols, err);
    return 0;
}
