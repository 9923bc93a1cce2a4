/* Describes a dataset, and decides whether its bytes can be moved without HDF5. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "matfile_impl.h"
#include "slice.h"

static int refuse(const struct source *source, struct error *err, const char *reason)
{
    return error_add(err, EXIT_INPUT, "%s: dataset \"%s\" %s", source->file, source->dataset,
                     reason);
}

int h5_extents(hid_t dataset, struct source *source, struct error *err)
{
    hsize_t extents[H5S_MAX_RANK] = {0};
    hid_t space = H5Dget_space(dataset);
    H5S_class_t class = H5Sget_simple_extent_type(space);
    int rank = class == H5S_SIMPLE ? H5Sget_simple_extent_dims(space, extents, NULL) : 0;
    const uint64_t limit = INT64_MAX / sizeof(double);
    uint64_t rows = 1;
    h5_close(space);

    if (class == H5S_NULL)
        return refuse(source, err, "has no elements at all (null), it is not a matrix");
    if (class == H5S_SCALAR)
        return refuse(source, err, "is a scalar, not a matrix");
    if (rank < 1 || rank > SLICE_RANK)
        return refuse(source, err, "has more than 8 dimensions: store it as rows x columns");
    for (int d = 0; d < rank; d++) {
        if (extents[d] > limit || (extents[d] > 0 && rows > limit / extents[d]))
            return refuse(source, err, "is too large: its size in bytes exceeds 63 bits");
        rows *= d < rank - 1 ? extents[d] : 1;
    }
    source->matrix.rows = (int64_t)rows;
    source->matrix.cols = (int64_t)extents[rank - 1];
    if (h5_is_packed(dataset) && !source->slice.length)
        return slice_of_packed(source, extents[0], err);
    return slice_parse(source, rank, (const uint64_t *)extents, err);
}

/* What is no number, and how to make numbers of it. */
static int refuse_type(hid_t type, const char *text, const struct source *source, struct error *err)
{
    char reason[400], members[256];
    switch (H5Tget_class(type)) {
    case H5T_COMPOUND:
        h5_members_text(type, members, sizeof members);
        snprintf(reason, sizeof reason,
                 "holds a table (%s), not a matrix; store its columns as one, in NumPy "
                 "numpy.lib.recfunctions.structured_to_unstructured(a)",
                 members);
        if (H5Tget_nmembers(type) != 2)
            return refuse(source, err, reason);
        return refuse(source, err,
                      "holds compounds that are no complex numbers; store these as compounds of "
                      "two floats of one type, named r and i, real and imag, re and im or x and y, "
                      "without gaps (h5py does)");
    case H5T_ENUM:
        h5_members_text(type, members, sizeof members);
        snprintf(reason, sizeof reason,
                 "holds an enumeration (%s), not numbers; store it as numbers, in NumPy "
                 "a.astype(\"u1\")",
                 members);
        return refuse(source, err, reason);
    case H5T_BITFIELD:
        return refuse(source, err,
                      "holds bit fields, as which Julia and PyTables store booleans; store it as "
                      "numbers, in Julia UInt8.(A), in NumPy a.astype(\"u1\")");
    case H5T_REFERENCE:
        return refuse(source, err,
                      "holds references to other datasets, as a cell array of MATLAB does; store "
                      "it as one matrix, in MATLAB cell2mat(A)");
    case H5T_STRING:
        return refuse(source, err,
                      "holds strings, not numbers; store it as numbers, in NumPy "
                      "a.astype(\"f8\")");
    default:
        snprintf(reason, sizeof reason,
                 "holds elements of type %s, not numbers; store it as numbers", text);
        return refuse(source, err, reason);
    }
}

int h5_type(hid_t dataset, struct source *source, char text[H5_TYPE_TEXT], struct error *err)
{
    int rc = 0;
    hid_t whole = H5Dget_type(dataset);
    hid_t type = h5_part_type(whole, source->parts);
    h5_type_text(whole, text);
    source->matrix.complex = source->parts[0][0] != '\0';
    source->matrix.element_bytes = H5Tget_size(type);
    source->matrix.swapped = H5Tget_order(type) != H5Tget_order(H5T_NATIVE_DOUBLE);
    source->matrix.elements = h5_scalar(type);
    source->matrix.integers = H5Tget_class(type) == H5T_INTEGER;
    if (!h5_is_number(type))
        rc = refuse_type(whole, text, source, err);
    else if (source->matrix.element_bytes == 0)
        rc = refuse(source, err, "has elements of no size: is it damaged?");
    else if (source->matrix.element_bytes > H5_ELEMENT_MAX)
        rc = refuse(source, err, "has elements of more bytes than any number: is it damaged?");
    h5_close(type);
    h5_close(whole);
    return rc;
}

/* A complex matrix is described as a real one of twice the columns. */
static int count_parts(struct source *source, struct error *err)
{
    int64_t limit = INT64_MAX / (int64_t)sizeof(double) / 2;
    if (!source->matrix.complex)
        return 0;
    if (source->matrix.cols > 0 && source->matrix.rows > limit / source->matrix.cols)
        return refuse(source, err, "is too large: its size in bytes exceeds 63 bits");
    source->matrix.cols *= 2;
    return 0;
}

static int read_chunks(hid_t plist, struct source *source, char *text, size_t size,
                       const char **reason, struct error *err)
{
    const struct slice *s = &source->slice;
    hsize_t extents[SLICE_RANK] = {0};
    double fill[2];
    bool possible = H5Pget_chunk(plist, SLICE_RANK, extents) == s->rank;
    source->matrix.chunk_bytes = source->matrix.element_bytes;
    for (int d = 0; d < s->rank && possible; d++) {
        possible = extents[d] > 0 &&
                   !__builtin_mul_overflow(source->matrix.chunk_bytes, extents[d],
                                           &source->matrix.chunk_bytes) &&
                   source->matrix.chunk_bytes <= INT64_MAX / 16;
        h5_append(text, size, "%s%llu", d ? "x" : "chunked ", (unsigned long long)extents[d]);
    }
    if (!possible)
        return error_add(err, EXIT_INPUT, "%s:%s has chunks of an impossible size: is it damaged?",
                         source->file, source->dataset);
    source->matrix.chunk_rows = s->axes[0] < 0 ? 1 : (int64_t)extents[s->axes[0]];
    source->matrix.chunk_cols = s->axes[1] < 0 ? 1 : (int64_t)extents[s->axes[1]];
    h5_fill_value(plist, source, SCALAR_DOUBLE, fill);
    source->fill = fill[0];
    if (source->matrix.complex) {
        source->matrix.chunk_cols *= 2;
        source->matrix.chunk_bytes *= 2;
        if (fill[0] != fill[1])
            *reason = "filled by a complex number";
    }
    int rc = h5_filters(plist, source, text, size, reason, err);
    if (!*reason)
        *reason = h5_why_not_by_chunks(plist, &source->matrix);
    return rc;
}

/* Compare the storage with the extents, which not all versions of the library do. */
static int check_storage(hid_t dataset, const struct source *source, struct error *err)
{
    uint64_t stored = H5Dget_storage_size(dataset), wanted = 0;
    if (!__builtin_mul_overflow((uint64_t)(source->matrix.rows * source->matrix.cols),
                                source->matrix.element_bytes, &wanted) &&
        (stored == 0 || stored == wanted))
        return 0;
    return error_add(err, EXIT_INPUT,
                     "%s: dataset \"%s\" has %" PRIu64 " bytes of storage for %" PRIu64
                     " of elements: is it damaged?",
                     source->file, source->dataset, stored, wanted);
}

/* The value of integers that were never written, which a double might round. */
static int64_t fill_integer(hid_t plist, const struct source *source)
{
    int64_t value = 0;
    H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
    H5Pfill_value_defined(plist, &defined);
    if (source->matrix.integers && defined != H5D_FILL_VALUE_UNDEFINED)
        H5Pget_fill_value(plist, H5T_NATIVE_INT64, &value);
    return value;
}

/* `reason`: why the layout prevents moving bytes without HDF5; unchanged if it does not. */
static int read_layout(hid_t dataset, struct source *source, char *text, size_t size,
                       const char **reason, struct error *err)
{
    int rc = 0;
    size_t sources = 0;
    hid_t plist = H5Dget_create_plist(dataset);
    H5D_layout_t layout = H5Pget_layout(plist);
    int external = H5Pget_external_count(plist);
    source->fill_integer = fill_integer(plist, source);
    if (layout == H5D_CHUNKED) {
        rc = read_chunks(plist, source, text, size, reason, err);
    } else if (layout == H5D_COMPACT) {
        h5_append(text, size, "compact");
        *reason = "stored in the object header";
        rc = check_storage(dataset, source, err);
    } else if (layout == H5D_VIRTUAL) {
        H5Pget_virtual_count(plist, &sources);
        rc = h5_check_sources(dataset, source, &source->matrix.sources, err);
        h5_append(text, size, "virtual, with %zu source%s", sources, sources == 1 ? "" : "s");
        *reason = "virtual dataset";
    } else if (external > 0) {
        h5_append(text, size, "contiguous in %d external file%s", external,
                  external > 1 ? "s" : "");
        *reason = "external storage";
        rc = h5_check_sources(dataset, source, &source->matrix.sources, err);
    } else {
        h5_append(text, size, "contiguous");
        rc = check_storage(dataset, source, err);
    }
    h5_close(plist);
    return rc;
}

/* Where the dataset is, behind all links. */
static void find_object(hid_t dataset, struct source *source)
{
    char file[PATH_MAX];
    struct stat status;
    ssize_t length = H5Fget_name(dataset, file, PATH_MAX);
#if H5_VERSION_GE(1, 12, 0)
    H5O_info2_t object;
    bool found = H5Oget_info3(dataset, &object, H5O_INFO_BASIC) >= 0;
    const void *address = &object.token;
#else
    H5O_info_t object;
    bool found = H5Oget_info(dataset, &object) >= 0;
    const void *address = &object.addr;
#endif
    if (!found || length <= 0 || length >= PATH_MAX || stat(file, &status))
        return;
    source->matrix.object[0] = status.st_dev;
    source->matrix.object[1] = status.st_ino;
    memcpy(&source->matrix.object[2], address, sizeof source->matrix.object[2]);
}

const char *h5_own_name(const struct source *source, char name[DATASET_NAME_MAX])
{
    const size_t length = source->slice.length ? (size_t)source->slice.length : DATASET_NAME_MAX;
    snprintf(name, DATASET_NAME_MAX, "%.*s", (int)length, source->dataset);
    return name;
}

hid_t h5_open_dataset(hid_t file, const struct source *source, hid_t access)
{
    char name[DATASET_NAME_MAX];
    return H5Dopen2(file, h5_own_name(source, name), access);
}

void h5_identify(hid_t file, struct source *source)
{
    hid_t dataset = h5_open_dataset(file, source, H5P_DEFAULT);
    memset(source->matrix.object, 0, sizeof source->matrix.object);
    if (dataset >= 0)
        find_object(dataset, source);
    h5_close(dataset);
}

static bool is_at(const char *file, const char *path, haddr_t address)
{
    struct error ignored = {0};
    hid_t id = h5_open_file(file, H5_READ, &ignored);
    hid_t dataset = id < 0 ? -1 : H5Dopen2(id, path, H5P_DEFAULT);
    bool same = dataset >= 0 && H5Dget_offset(dataset) == address;
    h5_close(dataset);
    h5_close(id);
    return same;
}

static bool is_behind_external_link(hid_t dataset, const struct source *source, char file[PATH_MAX],
                                    struct error *err)
{
    ssize_t length = H5Fget_name(dataset, file, PATH_MAX);
    return length <= 0 || length >= PATH_MAX || !file_is_same(file, source->file, err);
}

/* If the dataset is behind an external link, replace the names in `source` by those of the target,
 * so that its file is opened to move the bytes.  The library's path is not always valid in that
 * file, so it is tested. */
static bool follow_external_link(hid_t dataset, haddr_t address, struct source *source,
                                 struct error *err)
{
    char file[PATH_MAX], path[DATASET_NAME_MAX];
    if (!is_behind_external_link(dataset, source, file, err))
        return true;
    ssize_t path_length = H5Iget_name(dataset, path, sizeof path);
    const char *slice = source->slice.length ? source->dataset + source->slice.length : "";
    if (path_length <= 0 || path_length + (ssize_t)strlen(slice) >= (ssize_t)sizeof path ||
        !is_at(file, path, address))
        return false;
    strcat(path, slice);
    source->slice.length = slice[0] ? (int)path_length : 0;
    memcpy(source->file, file, sizeof file);
    memcpy(source->dataset, path, sizeof path);
    return true;
}

static const char *why_not_by_offset(hid_t dataset, struct source *source, struct error *err)
{
    char parts[2][PART_NAME_MAX];
    hid_t whole = H5Dget_type(dataset), type = h5_part_type(whole, parts);
    bool native = h5_is_native(type, source->matrix.elements);
    h5_close(type);
    h5_close(whole);
    uint64_t bytes = (uint64_t)source->matrix.rows * (uint64_t)source->matrix.cols *
                     source->matrix.element_bytes;
    if (!native)
        return "converted";
    if (bytes == 0)
        return NULL;
    haddr_t address = H5Dget_offset(dataset);
    source->matrix.never_written = address == HADDR_UNDEF || H5Dget_storage_size(dataset) != bytes;
    if (source->matrix.never_written)
        return "never written";
    if (!follow_external_link(dataset, address, source, err))
        return "behind an external link";
    source->offset = address;
    return NULL;
}

static const char *why_not_by_chunks(hid_t dataset, const struct source *source, struct error *err)
{
    char file[PATH_MAX];
    return is_behind_external_link(dataset, source, file, err) ? "behind an external link" : NULL;
}

static void check_not_truncated(const struct source *source, struct error *err)
{
    uint64_t bytes = (uint64_t)source->matrix.rows * (uint64_t)source->matrix.cols *
                     source->matrix.element_bytes;
    if (source->matrix.by_offset && bytes > 0 &&
        (bytes > source->file_bytes || source->offset > source->file_bytes - bytes))
        error_add(err, EXIT_INPUT,
                  "%s is cut short, copy it again: dataset \"%s\" ends at byte %" PRIu64
                  ", the file at byte %" PRIu64,
                  source->file, source->dataset, source->offset + bytes, source->file_bytes);
}

int h5_describe(hid_t dataset, struct source *source, struct error *err)
{
    char layout[sizeof source->layout] = "", type[H5_TYPE_TEXT];
    const char *reason = NULL;
    const int before = err->complaints;
    struct stat status;
    struct error shape = {0}; /* less than a complaint about the type: tables have one dimension */
    int rc = h5_matlab(dataset, source, err);
    h5_extents(dataset, source, &shape);
    if (!rc)
        rc = h5_type(dataset, source, type, err);
    if (!rc && shape.code) {
        error_append(err, &shape);
        rc = shape.code;
    }
    if (!rc)
        rc = count_parts(source, err);
    if (!rc)
        rc = read_layout(dataset, source, layout, sizeof layout, &reason, err);
    if (rc)
        return rc;
    if (!reason)
        reason = source->matrix.chunk_rows ? why_not_by_chunks(dataset, source, err)
                                           : why_not_by_offset(dataset, source, err);
    source->matrix.by_offset = !reason && source->matrix.chunk_rows == 0;
    source->matrix.by_chunks = !reason && source->matrix.chunk_rows > 0;
    source->file_bytes = file_leads(source->file, &status, err) ? (uint64_t)status.st_size : 0;
    h5_netcdf(dataset, source);
    source->unfinished = h5_is_unfinished(dataset);
    find_object(dataset, source);
    check_not_truncated(source, err);
    const char *odd = slice_place(source);
    if (!reason)
        reason = odd;
    h5_append(layout, sizeof layout, " %s", type);
    if (reason)
        h5_append(layout, sizeof layout, ": read by HDF5 (%s)", reason);
    else if (source->matrix.by_chunks)
        h5_append(layout, sizeof layout, ": read as raw chunks%s",
                  source->matrix.pipeline.count ? ", decoded here" : "");
    memcpy(source->layout, layout, sizeof layout);
    return err->complaints > before ? err->code : 0;
}
