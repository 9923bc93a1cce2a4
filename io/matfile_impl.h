/* What the parts of matfile share: entering the library, its errors, and opening files. */
#ifndef DGEMM_OOC_MATFILE_IMPL_H
#define DGEMM_OOC_MATFILE_IMPL_H

#include <hdf5.h>

#include "matfile.h"

/* One thread at a time, and with the library's own printing of errors off.  Everything below is
 * called between the two.  The library's own work at exit is off too: all ids are closed by then,
 * and after a write that failed it would crash. */
void h5_enter(void);
void h5_leave(void);

/* Why the last HDF5 call failed: its innermost message, or the operating system's.  To be called
 * before any other HDF5 call; valid until the next h5_why. */
const char *h5_why(void);

/* The operating system's error number in that message; 0: none. */
int h5_errno(void);

/* EXIT_RESOURCES when the last failure was a full disk, `otherwise` if not. */
int h5_exit_code(int otherwise);

/* Close any kind of id; none when negative. */
void h5_close(hid_t id);

/* Aligned: what is created then starts at a multiple of 1 MiB, unless it is small. */
enum h5_mode { H5_READ, H5_WRITE, H5_WRITE_ALIGNED };

/* Whether that number says that a file system has no locks. */
bool h5_lock_unsupported(int number);

/* Open an existing file.  Negative after a complaint. */
hid_t h5_open_file(const char *file, enum h5_mode mode, struct error *err);

/* Close a file that was written to: only then all of it has been written. */
int h5_close_written(hid_t id, const char *file, struct error *err);

/* Add an attribute to a dataset. */
herr_t h5_write_attribute(hid_t dataset, const struct matfile_attribute *attribute);

/* How this program accesses files. */
hid_t h5_file_access(enum h5_mode mode, bool locking);

/* The drivers of its own: for reading plain files and nothing else; for finding out where the
 * library would read raw data, without reading it. */
enum h5_driver { H5_PLAIN, H5_WITNESS };
void h5_set_driver(hid_t access, enum h5_driver driver);

/* From now on, H5_WITNESS takes down reads of raw data straight to `to` and leaves them out; others
 * are done.  Where the last one was; HADDR_UNDEF: none yet. */
void h5_witness(const void *to);
haddr_t h5_witnessed(void);

/* Which file the library was kept from opening since h5_enter, and why; empty: none. */
const char *h5_refused(void);
void h5_forget_refused(void);

/* From now on, visit every file that the library opens, however it came to it; null: none. */
void h5_visit_opened(matfile_source *visit, void *context);

/* Read so many bytes at an offset, however many calls that takes: 0, an errno, or -1 where the file
 * ends before. */
int h5_read_bytes(int descriptor, void *to, size_t bytes, uint64_t offset);

/* Size of a file by its name; 0 when there is none. */
uint64_t h5_file_bytes(const char *file);

/* Whether the file system has room for so many bytes (EXIT_RESOURCES).  To be asked before writing:
 * when a disk fills up while the library writes its own records, it cannot go back, and may leave a
 * file damaged that was good before. */
enum { H5_ROOM = 1 << 20 }; /* for its records of one dataset without chunks */
int h5_check_room(const char *file, uint64_t bytes, struct error *err);

/* Make a file durable that is open for writing. */
int h5_sync(hid_t file, const char *name, struct error *err);

/* "f64", "i32 big-endian", "complex", ... */
enum { H5_TYPE_TEXT = 48 };
void h5_type_text(hid_t type, char text[H5_TYPE_TEXT]);

/* Classify a type; false when it is not one of real numbers. */
bool h5_type_class(hid_t type, enum element_class *elements);

/* The shortest part of a path that does not exist; false when all of it does. */
bool h5_first_missing(hid_t file, const char *path, char missing[MATFILE_NAME_MAX]);

/* What a dataset is; names info->file and info->dataset are set. */
int h5_describe(hid_t dataset, struct matrix_info *info, struct error *err);

/* Bytes of the largest number that there is. */
enum { H5_ELEMENT_MAX = 16 };

/* Complain where a virtual or external dataset leads to what cannot be read; say how many datasets
 * a virtual one is drawn from, and those in their turn. */
int h5_check_sources(hid_t dataset, const struct matrix_info *info, int64_t *found,
                     struct error *err);

/* Parts of that: rows and cols; elements and element_bytes, with the type's name in `text`. */
int h5_extents(hid_t dataset, struct matrix_info *info, struct error *err);
int h5_type(hid_t dataset, struct matrix_info *info, char text[H5_TYPE_TEXT], struct error *err);

/* Parts of read_layout, for a chunked dataset.  Name its filters in `text` and put them into the
 * pipeline; `reason` is set when one is not for us to undo; complains about those that the library
 * cannot undo either. */
int h5_filters(hid_t plist, struct matrix_info *info, char *text, size_t size, const char **reason,
               struct error *err);

/* Why its chunks cannot be read without HDF5, apart from their filters; null when they can. */
const char *h5_why_not_by_chunks(hid_t plist, const struct matrix_info *info);

/* What netCDF says of a dataset. */
void h5_netcdf(hid_t dataset, struct matrix_info *info);

/* What is read where nothing was written. */
double h5_fill_value(hid_t plist);

/* printf to the end of a string. */
void h5_append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The type in memory and in new datasets. */
hid_t h5_native(enum scalar type);

#endif
