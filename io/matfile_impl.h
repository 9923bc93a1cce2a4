/* The internal interface of the matfile files: entering the library, its errors, opening files. */
#pragma once

#include <hdf5.h>

#include "matfile.h"

/* Lock and unlock the library, for one thread at a time, with its printing of errors switched off.
 * Everything below is called between the two, unless it says otherwise.  The library's exit handler
 * is disabled: all ids are closed by then, and after a failed write it would crash. */
void h5_enter(void);
void h5_leave(void);

/* Why the last HDF5 call failed: the innermost message of the error stack, or the operating
 * system's.  Call it before any other HDF5 call; the text is valid until the next h5_why. */
const char *h5_why(void);

/* The errno in that message; 0: none. */
int h5_errno(void);

/* EXIT_RESOURCES if the last failure (h5_why) was a full disk, else `otherwise`. */
int h5_exit_code(int otherwise);

/* Close an id of any kind; does nothing if it is negative. */
void h5_close(hid_t id);

/* ALIGNED: objects of 64 KiB or more are allocated at multiples of 1 MiB. */
enum h5_mode { H5_READ, H5_WRITE, H5_WRITE_ALIGNED };

/* Whether this errno means that the file system does not support locks.  Pure. */
bool h5_lock_unsupported(int number);

/* Open an existing file.  Returns a negative id after a complaint. */
hid_t h5_open_file(const char *file, enum h5_mode mode, struct error *err);

/* Close a file that was written to.  Complains if its last data cannot be written. */
int h5_close_written(hid_t id, const char *file, struct error *err);

/* Create an attribute of a dataset.  Negative after a failure, explained by h5_why. */
herr_t h5_write_attribute(hid_t dataset, const struct format_attribute *attribute);

/* Whether the attributes of a dataset say that it is unfinished. */
bool h5_is_unfinished(hid_t dataset);

/* Read an attribute, if it is there. */
void h5_read_attribute(hid_t dataset, struct format_value *value);

/* The attribute of what matfile_add_vector has made. */

/* A file access property list, to be closed by the caller.  `locking`: lock the file. */
hid_t h5_file_access(enum h5_mode mode, bool locking);

/* Let the library read through the file driver of this program, which reads regular files only. */
void h5_set_driver(hid_t access);

/* From now on, record the address of a read of raw data directly to `to`, and skip it, but not all
 * other reads; null: none.  h5_located returns the last address; HADDR_UNDEF: none yet. */
void h5_locate(const void *to);
haddr_t h5_located(void);

/* The file that a driver has refused to open since h5_enter or h5_forget_refused, and why, as a
 * clause; empty: none. */
const char *h5_refused(void);
void h5_forget_refused(void);

/* The first call on a file that has failed in our drivers since h5_enter or h5_forget_failure, as a
 * clause, and its exit code: the library may have given fill values.  Empty: none. */
const char *h5_failure(void);
int h5_failure_code(int otherwise);
void h5_forget_failure(void);

/* The end of a use of the library: rc, or if that is 0 the complaint about a noted failure, which
 * the library has made something else of. */
int h5_settle(int rc, const char *file, struct error *err);

/* From now on, call `visit` for every file that the library opens with our drivers; null: stop. */
void h5_visit_opened(format_file_visit *visit, void *context);

/* Complain (EXIT_RESOURCES) unless the file system has `bytes` bytes free.  Check this before
 * writing: if the disk fills up while the library writes metadata, it cannot roll back, and may
 * damage a file that was intact.  H5_ROOM covers the metadata of a dataset without chunks.  May be
 * called outside of h5_enter. */
enum { H5_ROOM = 1 << 20 };
int h5_check_room(const char *file, uint64_t bytes, struct error *err);

/* Flush an open file and sync it to disk. */
int h5_sync(hid_t file, const char *name, struct error *err);

/* The name of a type: "f64", "i32 big-endian", "complex", ... */
enum { H5_TYPE_TEXT = 48 };
void h5_type_text(hid_t type, char text[H5_TYPE_TEXT]);

/* Whether it is a type of real numbers. */
bool h5_is_number(hid_t type);

/* List the names of the members of an enumeration or compound, at most the first few. */
void h5_members_text(hid_t type, char *text, size_t size);

/* The type of the real and of the imaginary part of complex numbers, whose names go to `parts`; the
 * integers of booleans; of any other type a copy.  To be closed. */
hid_t h5_part_type(hid_t type, char parts[2][PART_NAME_MAX]);

/* The HDF5 type of the matrix's elements as `type`: the native one or, of a complex matrix, a pair
 * of them.  To be closed. */
hid_t h5_memory_type(const struct source *source, enum scalar type);

/* Likewise, of its elements as the file has them, which are of a type of the table. */
hid_t h5_stored_type(const struct source *source);

/* Write the shortest prefix of a path that does not exist to `missing`; 0 if all of it exists,
 * negative if the library cannot tell. */
htri_t h5_first_missing(hid_t file, const char *path, char missing[DATASET_NAME_MAX]);

/* What kind of object a name denotes: OTHER, too, if the library cannot tell.  `missing`: of
 * NOTHING, as above. */
enum format_object h5_lookup(hid_t file, const char *name, char missing[DATASET_NAME_MAX]);

/* The dataset's own name, without a slice; and the dataset, open or negative. */
const char *h5_own_name(const struct source *source, char name[DATASET_NAME_MAX]);
hid_t h5_open_dataset(hid_t file, const struct source *source, hid_t access);

/* Find which object `source->dataset` is now, for matrix_is_same. */
void h5_identify(hid_t file, struct source *source);

/* Describe an open dataset in `source`, where file and dataset are set. */
int h5_describe(hid_t dataset, struct source *source, struct error *err);

/* Bytes of the largest type of real numbers. */
enum { H5_ELEMENT_MAX = 16 };

/* Check the files of a virtual or external dataset, recursively, and say what they are.  Complains
 * about those that cannot be read, and (EXIT_RESOURCES) about more than may be open. */
int h5_check_sources(hid_t dataset, const struct source *source, struct virtual_sources *found,
                     struct error *err);

/* Parts of h5_describe: h5_extents sets the slice, and rows and cols of all of the dataset, as HDF5
 * counts them (slice_place); h5_type sets elements,
 * complex, parts, element_bytes and swapped, and writes the type's name to `text`. */
int h5_extents(hid_t dataset, struct source *source, struct error *err);
int h5_type(hid_t dataset, struct source *source, char text[H5_TYPE_TEXT], struct error *err);

/* Whether the dataset is a packed triangle (matrix.h). */
bool h5_is_packed(hid_t dataset);

/* Read the filters of a chunked dataset: append their names to `text` and the filters to the
 * pipeline.  *reason is set if chunk.h cannot undo one of them.  Complains about those that the
 * library cannot undo either. */
int h5_filters(hid_t plist, struct source *source, char *text, size_t size, const char **reason,
               struct error *err);

/* Why the chunks cannot be read without HDF5, apart from their filters; null if they can. */
const char *h5_why_not_by_chunks(hid_t plist, const struct matrix *matrix);

/* Set the netCDF members of `source` from the dataset's attributes. */
void h5_netcdf(hid_t dataset, struct source *source);

/* Whether MATLAB has stored the dataset, which `source` gets to know.  Complains where its elements
 * are not those of a matrix. */
int h5_matlab(hid_t dataset, struct source *source, struct error *err);

/* What a group stands for, as a clause, if that is known, and what to do then; else null. */
const char *h5_group_meaning(hid_t group, const char **advice);

/* The value, as `type`, of the matrix's elements that were never written: of a real and of an
 * imaginary part, which are the same where the matrix is real. */
void h5_fill_value(hid_t plist, const struct source *source, enum scalar type, void *pair);

/* A read that converts to `type`: whether elements that are too large for it were marked. */
struct h5_narrowing {
    enum scalar type;
    bool marked;
};

/* A list of properties for a read of the matrix that marks such elements; to be closed. */
hid_t h5_watch_narrowing(const struct matrix *matrix, struct h5_narrowing *narrowing);

/* Mark an element, and complain (EXIT_INPUT) about the first of a block that is marked. */
void h5_put_mark(enum scalar type, void *to);
int h5_check_marks(const struct source *source, enum scalar type, const struct block *block,
                   const void *matrix, struct error *err);

/* Append to a string in a buffer of `size` bytes, as by printf; truncates. */
void h5_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The HDF5 type of real numbers in memory, as the table of types says.  To be closed. */
hid_t h5_native(enum scalar type);
bool h5_is_native(hid_t type, enum scalar scalar);

/* The type whose numbers a type of a file has, in either byte order; SCALAR_OTHER where there is
 * none. */
enum scalar h5_scalar(hid_t type);
