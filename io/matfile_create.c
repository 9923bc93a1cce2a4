/* Creates, renames and removes datasets. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "matfile_impl.h"
#include "quantity.h"

/* Create a file that all versions since 1.8 can read.  After a failure, a file that the library has
 * created is removed; one that existed before is not. */
static hid_t try_create(const char *file, enum h5_mode mode, bool locking, const char **why)
{
    struct stat made;
    const bool gone = lstat(file, &made) != 0 && errno == ENOENT;
    hid_t access = h5_file_access(mode, locking);
    H5Pset_libver_bounds(access, H5F_LIBVER_EARLIEST, H5F_LIBVER_V110);
    hid_t id = H5Fcreate(file, H5F_ACC_EXCL, H5P_DEFAULT, access);
    if (id < 0) {
        *why = h5_why();
        if (gone && h5_errno() != EEXIST && lstat(file, &made) == 0 && made.st_size == 0)
            unlink(file);
    }
    H5Pclose(access);
    return id;
}

static hid_t create_file(const char *file, enum h5_mode mode, struct error *err)
{
    const char *why;
    hid_t id = try_create(file, mode, true, &why);
    if (id < 0 && h5_lock_unsupported(h5_errno()))
        id = try_create(file, mode, false, &why);
    if (id < 0 && h5_errno() == ENOTDIR)
        source_complain_missing(file, err);
    else if (id < 0)
        error_add(err, EXIT_INPUT, "%s cannot be created: %s", file,
                  h5_errno() == ENOENT ? "its directory does not exist; make it" : why);
    return id;
}

int h5_close_written(hid_t id, const char *file, struct error *err)
{
    if (H5Fclose(id) >= 0)
        return 0;
    const char *why = h5_why();
    return error_add(err, h5_exit_code(EXIT_RUNTIME), "%s: writing the file failed: %s", file, why);
}

static int complain(const struct source *source, const char *what, struct error *err)
{
    const char *why = h5_why();
    return error_add(err, h5_exit_code(EXIT_INPUT), "%s: %s \"%s\" failed: %s", source->file, what,
                     source->dataset, why);
}

/* A dataset without elements gets a contiguous layout. */
static hid_t creation_plist(const struct source *source, const struct format_layout *layout,
                            struct error *err)
{
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[2] = {(hsize_t)min_i64(layout->chunk_rows, source->matrix.rows),
                        (hsize_t)min_i64(layout->chunk_cols, matrix_cols(&source->matrix))};
    bool chunked = chunk[0] > 0 && chunk[1] > 0;
    bool ok = H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER) >= 0 &&
              H5Pset_obj_track_times(plist, false) >= 0;
    if (!chunked)
        ok = ok && H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY) >= 0;
    else
        ok = ok && H5Pset_chunk(plist, 2, chunk) >= 0 &&
             (!layout->shuffle || H5Pset_shuffle(plist) >= 0) &&
             (!layout->gzip_level || H5Pset_deflate(plist, (unsigned)layout->gzip_level) >= 0);
    if (ok)
        return plist;
    complain(source, "setting up dataset", err);
    h5_close(plist);
    return -1;
}

static int make_dataset(hid_t file, const struct source *source, const struct format_layout *layout,
                        const struct format_attribute *attributes, struct error *err)
{
    hid_t plist = creation_plist(source, layout, err);
    if (plist < 0)
        return err->code;
    int rc = 0;
    const struct matrix *m = &source->matrix;
    const bool packed = m->packed;
    const int64_t triangle = matrix_before(m, m->rows) / (m->complex ? 2 : 1);
    hsize_t extents[2] = {(hsize_t)(packed ? triangle : m->rows), (hsize_t)matrix_cols(m)};
    hid_t type = h5_memory_type(source, source->matrix.elements);
    hid_t space = H5Screate_simple(packed ? 1 : 2, extents, NULL),
          links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    hid_t dataset = H5Dcreate2(file, source->dataset, type, space, links, plist, H5P_DEFAULT);
    if (dataset < 0)
        rc = complain(source, "creating dataset", err);
    for (; attributes && attributes->name && !rc; attributes++)
        if (h5_write_attribute(dataset, attributes) < 0)
            rc = complain(source, "writing the attributes of dataset", err);
    h5_close(dataset);
    h5_close(links);
    h5_close(space);
    h5_close(type);
    h5_close(plist);
    return rc;
}

static int add_dataset(hid_t file, struct source *source, const struct format_layout *layout,
                       const struct format_attribute *attributes, char missing[DATASET_NAME_MAX],
                       struct error *err)
{
    const htri_t absent = h5_first_missing(file, source->dataset, missing);
    if (absent < 0)
        return complain(source, "looking for", err);
    if (!absent)
        return error_add(err, EXIT_INPUT, "%s already holds \"%s\": name another dataset",
                         source->file, source->dataset);
    int rc = make_dataset(file, source, layout, attributes, err);
    if (rc && H5Lexists(file, missing, H5P_DEFAULT) > 0)
        H5Ldelete(file, missing, H5P_DEFAULT);
    h5_identify(file, source);
    return rc;
}

/* Whether nobody has added to a new file, by a look that opens nothing. */
static bool is_as_written(const char *file, const struct stat *written)
{
    struct stat now;
    return lstat(file, &now) == 0 && now.st_ino == written->st_ino &&
           now.st_dev == written->st_dev && now.st_size == written->st_size &&
           memcmp(&now.st_mtim, &written->st_mtim, sizeof now.st_mtim) == 0;
}

int matfile_create(struct source *source, bool new_file, const struct format_layout *layout,
                   const struct format_attribute *attributes, struct error *err)
{
    char missing[DATASET_NAME_MAX];
    enum h5_mode mode = layout->chunk_rows ? H5_WRITE : H5_WRITE_ALIGNED;
    if (h5_check_room(source->file, H5_ROOM, err))
        return err->code;
    h5_enter();
    hid_t id =
        new_file ? create_file(source->file, mode, err) : h5_open_file(source->file, mode, err);
    int rc = id < 0 ? err->code : add_dataset(id, source, layout, attributes, missing, err);
    if (id >= 0) {
        int close_rc = h5_close_written(id, source->file, err);
        rc = rc ? rc : close_rc;
    }
    struct stat written;
    if (lstat(source->file, &written))
        written.st_ino = 0;
    if (rc && new_file && id >= 0)
        unlink(source->file);
    h5_leave();

    struct source made;
    struct error ignored = {0};
    if (rc)
        return rc;
    rc = format_describe(source->file, source->dataset, &made, err);
    if (!rc)
        *source = made;
    else if (new_file && is_as_written(source->file, &written))
        unlink(source->file);
    else
        matfile_retract(source, new_file ? "" : missing, &ignored);
    return rc;
}

static int make_vector(hid_t file, const struct format_vector *vector)
{
    const struct format_attribute statistic = {.name = FORMAT_STATISTIC, .text = vector->statistic};
    hsize_t extent = (hsize_t)vector->count;
    hid_t space = H5Screate_simple(1, &extent, NULL), plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plist, false);
    hid_t dataset = H5Dcreate2(file, vector->dataset, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, plist,
                               H5P_DEFAULT);
    bool ok = dataset >= 0 && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                       vector->values) >= 0;
    ok = ok && h5_write_attribute(dataset, &statistic) >= 0;
    h5_close(dataset);
    h5_close(plist);
    h5_close(space);
    return ok ? 0 : -1;
}

int matfile_add_vector(const struct source *of, const struct format_vector *vector,
                       struct error *err)
{
    uint64_t bytes = (uint64_t)vector->count * sizeof(double);
    if (h5_check_room(of->file, H5_ROOM + bytes, err))
        return err->code;
    h5_enter();
    hid_t file = h5_open_file(of->file, H5_WRITE, err);
    int rc = file < 0 ? err->code : 0;
    if (!rc && make_vector(file, vector)) {
        const char *why = h5_why();
        rc = error_add(err, h5_exit_code(EXIT_RUNTIME), "%s: creating dataset \"%s\" failed: %s",
                       of->file, vector->dataset, why);
    }
    if (file >= 0) {
        int close_rc = h5_close_written(file, of->file, err);
        rc = rc ? rc : close_rc;
    }
    h5_leave();
    return rc;
}

/* Complain about the first value that is not what it was made from. */
static int compare_values(hid_t dataset, const struct source *of,
                          const struct format_vector *vector, struct error *err)
{
    enum { PART = 1024 };
    double part[PART];
    hid_t space = H5Dget_space(dataset);
    for (int64_t first = 0; first < vector->count && !err->code; first += PART) {
        const hsize_t begin = (hsize_t)first;
        const hsize_t count =
            (hsize_t)(vector->count - first < PART ? vector->count - first : PART);
        hid_t memory = H5Screate_simple(1, &count, NULL);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, NULL, &count, NULL);
        if (H5Dread(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, part) < 0)
            error_add(err, EXIT_VERIFY, "%s: \"%s\" cannot be read: %s", of->file, vector->dataset,
                      h5_why());
        for (hsize_t i = 0; i < count && !err->code; i++)
            if (memcmp(&part[i], &vector->values[begin + i], sizeof *part) != 0)
                error_add(err, EXIT_VERIFY,
                          "%s: \"%s\" differs from what was written: line %lld, counted from 0, is "
                          "%.17g there, and %.17g of A",
                          of->file, vector->dataset, (long long)(begin + i), part[i],
                          vector->values[begin + i]);
        h5_close(memory);
    }
    h5_close(space);
    return err->code;
}

static int compare_vector(hid_t file, const struct source *of, const struct format_vector *vector,
                          struct error *err)
{
    struct format_value statistic = {.name = FORMAT_STATISTIC};
    hid_t dataset = H5Lexists(file, vector->dataset, H5P_DEFAULT) > 0
                        ? H5Dopen2(file, vector->dataset, H5P_DEFAULT)
                        : -1;
    if (dataset < 0 && h5_failure()[0])
        return h5_settle(0, of->file, err);
    if (dataset < 0)
        return error_add(err, EXIT_VERIFY, "%s: there is no dataset \"%s\" of the %s", of->file,
                         vector->dataset, vector->statistic);
    hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    hsize_t count = 0;
    h5_read_attribute(dataset, &statistic);
    if (H5Sget_simple_extent_ndims(space) != 1 ||
        H5Sget_simple_extent_dims(space, &count, NULL) < 0 || count != (hsize_t)vector->count ||
        H5Tequal(type, H5T_NATIVE_DOUBLE) <= 0 || strcmp(statistic.text, vector->statistic) != 0)
        error_add(err, EXIT_VERIFY, "%s: \"%s\" is not the %s", of->file, vector->dataset,
                  vector->statistic);
    else
        compare_values(dataset, of, vector, err);
    h5_close(type);
    h5_close(space);
    h5_close(dataset);
    return err->code;
}

int matfile_compare_vector(const struct source *of, const struct format_vector *vector,
                           struct error *err)
{
    h5_enter();
    hid_t file = h5_open_file(of->file, H5_READ, err);
    int rc = file < 0 ? err->code : compare_vector(file, of, vector, err);
    h5_close(file);
    rc = h5_settle(rc, of->file, err);
    h5_leave();
    return rc;
}

static bool is_there(hid_t file, const struct source *made)
{
    struct source now = *made;
    h5_identify(file, &now);
    return matrix_is_same(&now.matrix, &made->matrix);
}

static int rename_in(hid_t file, const struct source *made, const char *to, bool replace,
                     struct error *err)
{
    char missing[DATASET_NAME_MAX];
    const enum format_object there = h5_lookup(file, to, missing);
    if (!is_there(file, made))
        return error_add(err, EXIT_RUNTIME, "%s: another program has removed or replaced \"%s\"",
                         made->file, made->dataset);
    if (there == FORMAT_OTHER || (there == FORMAT_DATASET && !replace))
        return error_add(err, EXIT_INPUT, "%s: another program has created \"%s\" meanwhile",
                         made->file, to);
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    bool ok = there == FORMAT_NOTHING || H5Ldelete(file, to, H5P_DEFAULT) >= 0;
    if (!ok || H5Lmove(file, made->dataset, file, to, links, H5P_DEFAULT) < 0) {
        const char *why = h5_why();
        error_add(err, h5_exit_code(EXIT_RUNTIME), "%s: renaming \"%s\" to \"%s\" failed: %s",
                  made->file, made->dataset, to, why);
    }
    h5_close(links);
    return err->code ? err->code : h5_sync(file, made->file, err);
}

int matfile_rename(const struct source *made, const char *to, bool replace, struct error *err)
{
    if (h5_check_room(made->file, H5_ROOM, err))
        return err->code;
    h5_enter();
    hid_t id = h5_open_file(made->file, H5_WRITE, err);
    int rc = id < 0 ? err->code : rename_in(id, made, to, replace, err);
    if (id >= 0) {
        int close_rc = h5_close_written(id, made->file, err);
        rc = rc ? rc : close_rc;
    }
    h5_leave();
    return rc;
}

static herr_t stop_at_attribute(hid_t object, const char *name, const H5A_info_t *info,
                                void *context)
{
    (void)object, (void)name, (void)info, (void)context;
    return 1;
}

static bool is_empty(hid_t file, const char *path)
{
    H5G_info_t info;
    hid_t group = H5Gopen2(file, path, H5P_DEFAULT);
    bool empty = group >= 0 && H5Gget_info(group, &info) >= 0 && info.nlinks == 0 &&
                 H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, NULL, stop_at_attribute, NULL) == 0;
    h5_close(group);
    return empty;
}

/* The file is removed while it is open: meanwhile nobody adds to it. */
static void retract_from(hid_t file, const struct source *made, const char *missing)
{
    char path[DATASET_NAME_MAX];
    snprintf(path, sizeof path, "%s", made->dataset);
    bool gone = is_there(file, made) && H5Ldelete(file, path, H5P_DEFAULT) >= 0;
    for (char *slash; gone && (slash = strrchr(path, '/')) && slash > path;) {
        *slash = '\0';
        if (strlen(path) < strlen(missing) || !is_empty(file, path))
            break;
        H5Ldelete(file, path, H5P_DEFAULT);
    }
    if (gone && !missing[0] && is_empty(file, "/"))
        unlink(made->file);
}

int matfile_retract(const struct source *made, const char *missing, struct error *err)
{
    h5_enter();
    hid_t id = h5_open_file(made->file, H5_WRITE, err);
    if (id >= 0)
        retract_from(id, made, missing);
    int rc = id < 0 ? err->code : h5_close_written(id, made->file, err);
    h5_leave();
    return rc;
}

void matfile_remove(const char *file, const char *dataset)
{
    struct error ignored = {0};
    h5_enter();
    hid_t id = h5_open_file(file, H5_WRITE, &ignored);
    if (id >= 0 && H5Lexists(id, dataset, H5P_DEFAULT) > 0)
        H5Ldelete(id, dataset, H5P_DEFAULT);
    h5_close(id);
    h5_leave();
}

/* Where the vector's values lie in the file; HADDR_UNDEF if they are not there. */
static haddr_t vector_address(const struct source *of, const struct format_vector *vector,
                              struct error *err)
{
    haddr_t address = HADDR_UNDEF;
    h5_enter();
    hid_t file = h5_open_file(of->file, H5_READ, err);
    hid_t dataset = file >= 0 && H5Lexists(file, vector->dataset, H5P_DEFAULT) > 0
                        ? H5Dopen2(file, vector->dataset, H5P_DEFAULT)
                        : -1;
    if (dataset >= 0 && H5Dget_storage_size(dataset) == (hsize_t)vector->count * sizeof(double))
        address = H5Dget_offset(dataset);
    h5_close(dataset);
    h5_close(file);
    h5_settle(0, of->file, err);
    h5_leave();
    return address;
}

/* Replace NaN by values, from an address in the file on.  False, with errno, where that fails. */
static bool fill(int descriptor, off_t address, const struct format_vector *vector)
{
    enum { PART = 1024 };
    double part[PART];
    for (int64_t first = 0; first < vector->count; first += PART) {
        const int64_t count = vector->count - first < PART ? vector->count - first : PART;
        const size_t bytes = (size_t)count * sizeof *part;
        const off_t at = address + (off_t)first * (off_t)sizeof *part;
        if (pread(descriptor, part, bytes, at) != (ssize_t)bytes)
            return false;
        for (int64_t i = 0; i < count; i++)
            part[i] = part[i] == part[i] ? part[i] : vector->values[first + i];
        if (lseek(descriptor, at, SEEK_SET) < 0 ||
            !file_write(descriptor, (const char *)part, bytes))
            return false;
    }
    return true;
}

int matfile_fill_vector(const struct source *of, const struct format_vector *vector,
                        struct error *err)
{
    const haddr_t address = vector_address(of, vector, err);
    if (address == HADDR_UNDEF)
        return err->code;
    const int descriptor = file_open_own(of->file, O_RDWR);
    if (descriptor < 0 || !fill(descriptor, (off_t)address, vector))
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "%s: writing \"%s\" failed: %s",
                  of->file, vector->dataset, error_disk_text(errno));
    if (descriptor >= 0)
        close(descriptor);
    return err->code;
}
