/* Matrices in HDF5 files: the only module that calls the HDF5 library.
 *
 * A contiguous dataset of native floats, doubles or integers of up to 64 bits is only described
 * here; its bytes are then moved by offset on a file descriptor (store.h).  So are the chunks of a
 * chunked dataset, if all of its filters are in chunk.h.  Everything else that HDF5 can read goes
 * through H5Dread (matfile_read), which is correct in all cases.  A mutex serialises all calls of
 * the library, since its parallel builds are not thread-safe.
 *
 * These are the functions of format_hdf5; format.h says what each of them does. */
#pragma once

#include "format.h"

void matfile_own_process(void);
int matfile_describe(struct source *source, struct error *err);
int matfile_each(const char *file, format_visit *visit, void *context, struct error *err);
int matfile_each_file(const struct source *source, format_file_visit *visit, void *context,
                      struct error *err);
int matfile_lookup(const char *file, const char *name, struct format_found *found,
                   struct error *err);

int matfile_open(const struct source *source, bool write, void **file, struct error *err);
void matfile_close(void *file);

/* Open the elements of another format's file, which lie at an offset, one behind the other: the
 * library converts them. */
int matfile_open_flat(const struct source *source, bool write, void **file, struct error *err);
int matfile_read(void *file, enum scalar type, const struct block *block, void *to,
                 struct error *err);
int matfile_write(void *file, enum scalar type, const struct block *block, const void *from,
                  struct error *err);
int matfile_sync(void *file, struct error *err);
int matfile_list_chunks(const struct source *source, struct format_chunk *chunks,
                        struct error *err);
size_t matfile_read_overhead(const struct matrix *matrix);
size_t matfile_list_overhead(const struct matrix *matrix);

int matfile_get_attributes(const struct source *source, struct format_value *values,
                           struct error *err);
int matfile_replace_text(const struct source *source, const char *name, const char *text,
                         struct error *err);
int matfile_create(struct source *source, bool new_file, const struct format_layout *layout,
                   const struct format_attribute *attributes, struct error *err);
int matfile_add_vector(const struct source *of, const struct format_vector *vector,
                       struct error *err);
int matfile_fill_vector(const struct source *of, const struct format_vector *vector,
                        struct error *err);
int matfile_compare_vector(const struct source *of, const struct format_vector *vector,
                           struct error *err);
int matfile_others(const char *file, const char *dataset, char *text, size_t size,
                   struct error *err);
int matfile_rename(const struct source *made, const char *to, bool replace, struct error *err);
int matfile_retract(const struct source *made, const char *missing, struct error *err);
void matfile_remove(const char *file, const char *dataset);
