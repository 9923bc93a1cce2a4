#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "error.h"
#include "matfile_impl.h"
#include "quantity.h"

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
static bool entered, owned;
static H5E_auto2_t saved_printer;
static void *saved_printer_data;

/* The reason of the last failure; guarded by the mutex. */
static char why[512];
static int why_errno;

void matfile_own_process(void)
{
    owned = true;
}

void h5_enter(void)
{
    pthread_mutex_lock(&library);
    if (!entered && owned)
        H5dont_atexit();
    entered = true;
    h5_forget_refused();
    h5_forget_failure();
    H5Eget_auto2(H5E_DEFAULT, &saved_printer, &saved_printer_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void h5_leave(void)
{
    H5Eset_auto2(H5E_DEFAULT, saved_printer, saved_printer_data);
    pthread_mutex_unlock(&library);
}

int h5_settle(int rc, const char *file, struct error *err)
{
    if (rc || !h5_failure()[0])
        return rc;
    return error_add(err, h5_failure_code(EXIT_INPUT), "%s: %s", file, h5_failure());
}

static herr_t take_innermost(unsigned depth, const H5E_error2_t *entry, void *context)
{
    (void)context;
    if (depth == 0 && entry->desc)
        snprintf(why, sizeof why, "%s", entry->desc);
    return 0;
}

/* Shortens the library's lengthy reports of failed system calls to the system's message. */
const char *h5_why(void)
{
    snprintf(why, sizeof why, "no reason given");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_innermost, NULL);
    const char *number = strstr(why, "errno = ");
    why_errno = number ? atoi(number + strlen("errno = ")) : 0;
    if (why_errno)
        snprintf(why, sizeof why, "%s", error_disk_text(why_errno));
    if (strstr(why, "bad version number for datatype message"))
        snprintf(why, sizeof why,
                 "it has a type of a newer HDF5 (complex numbers: 2.0) than this build's %d.%d.%d, "
                 "or is damaged; build with that version, or store complex numbers as h5py does",
                 H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
    else if (strstr(why, "bad version number") || strstr(why, "bad superblock version"))
        h5_append(why, sizeof why,
                  ": damaged, or written by a newer HDF5 than %d.%d.%d of this build, whose "
                  "h5repack --high=2 writes what 1.10 reads",
                  H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
    if (h5_refused()[0])
        snprintf(why, sizeof why, "%s", h5_refused());
    return why;
}

int h5_errno(void)
{
    return why_errno;
}

int h5_exit_code(int otherwise)
{
    return error_of_disk(why_errno, otherwise);
}

void h5_append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void h5_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

hid_t h5_file_access(enum h5_mode mode, bool locking)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (mode == H5_READ) /* with both drivers addresses are offsets in one file */
        h5_set_driver(access);
    else
        H5Pset_fapl_sec2(access);
    if (mode == H5_WRITE_ALIGNED)
        H5Pset_alignment(access, 64 << 10, 1 << 20);
#if (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 12, 0)) || H5_VERSION_GE(1, 12, 1)
    H5Pset_file_locking(access, locking, true);
#else
    (void)locking;
#endif
    return access;
}

/* The first bytes of other file formats, and advice on each, in which %s is the file. */
static const struct {
    const char *beginning;
    size_t length;
    const char *advice;
} kinds[] = {
    {"version https://git-lfs", 23, "but a pointer of Git LFS; git lfs pull brings the file"},
    {"<!DOCTYPE", 9, "but a web page, perhaps a login or an error; download the file again"},
    {"<html", 5, "but a web page, perhaps a login or an error; download the file again"},
    {"\223NUMPY", 6, "but a NumPy array; give it a name with .npy at its end, as %s.npy"},
    {"MATLAB 5.0 MAT-file", 19, "but an older MATLAB file; save it in MATLAB with -v7.3"},
    {"CDF\1", 4, "but classic netCDF; nccopy -k nc4 converts it"},
    {"CDF\2", 4, "but classic netCDF; nccopy -k nc4 converts it"},
    {"CDF\5", 4, "but classic netCDF; nccopy -k nc4 converts it"},
    {"\16\3\23\1", 4, "but HDF4; h4toh5 converts it"},
    {"\37\213", 2, "but compressed by gzip; gunzip decompresses it"},
    {"BZh", 3, "but compressed by bzip2; bunzip2 decompresses it"},
    {"\3757zXZ", 5, "but compressed by xz; unxz decompresses it"},
    {"\50\265\57\375", 4, "but compressed by zstd; unzstd decompresses it"},
    {"PAR1", 4,
     "but Parquet; store it with h5py: file[\"A\"] = pandas.read_parquet(\"%s\").to_numpy()"},
    {"ARROW1", 6,
     "but Arrow; store it with h5py: file[\"A\"] = pandas.read_feather(\"%s\").to_numpy()"},
    {"SIMPLE  =", 9, "but FITS; store it with h5py: file[\"A\"] = astropy.io.fits.getdata(\"%s\")"},
    {"%%MatrixMarket", 14,
     "but Matrix Market; store it dense with h5py: file[\"A\"] = "
     "scipy.io.mmread(\"%s\").toarray()"},
    {"X\n\0\0\0", 5, "but R data; in R: rhdf5::h5write(readRDS(\"%s\"), \"input.h5\", \"A\")"},
    {"RDX", 3, "but R data; load(\"%s\") in R, and store it with rhdf5::h5write"},
    {"II*\0", 4, "but TIFF; store it with h5py: file[\"A\"] = tifffile.imread(\"%s\")"},
    {"MM\0*", 4, "but TIFF; store it with h5py: file[\"A\"] = tifffile.imread(\"%s\")"},
    {"\200\4\225", 3, "but a Python pickle; store what is in it with h5py"},
    {"\200\5\225", 3, "but a Python pickle; store what is in it with h5py"},
    {"PK\3\4", 4, "but a ZIP archive (.npz, .zip); store what is in it with h5py"},
};

/* The advice on a file that is not HDF5, by its first bytes; null if the format is unknown. */
static const char *other_kind(const char *bytes, size_t count)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (count >= kinds[i].length && memcmp(bytes, kinds[i].beginning, kinds[i].length) == 0)
            return kinds[i].advice;
    size_t text = 0;
    while (text < count &&
           (isprint((unsigned char)bytes[text]) || isspace((unsigned char)bytes[text])))
        text++;
    return count > 0 && text == count ? "but text; store it with h5py: file[\"A\"] = "
                                        "numpy.loadtxt(\"%s\", delimiter=\",\")"
                                      : NULL;
}

static int complain_of_kind(int descriptor, const char *file, uint64_t bytes, struct error *err)
{
    char first[256];
    size_t count = bytes < sizeof first ? bytes : sizeof first;
    const char *kind = NULL;
    if (count > 0 && source_read_bytes(descriptor, first, count, 0) == 0)
        kind = other_kind(first, count);
    char advice[PATH_MAX + 128] = "";
    if (kind || bytes > 0)
        snprintf(advice, sizeof advice,
                 kind ? kind
                      : "of elements and nothing else say which (f2, f4, f8, c8, c16, b1, i1 to "
                        "i8, u1 to u4), as %s:f8:3000x2000",
                 file);
    return error_add(err, EXIT_INPUT, "%s is not an HDF5 file%s%s", file,
                     bytes == 0 ? " (it is empty)"
                     : kind     ? ", "
                                : "; ",
                     advice);
}

/* The format signature is at byte 0, or after a user block of 512, 1024, 2048, ... bytes. */
static int check_signature(int descriptor, const char *file, uint64_t bytes, struct error *err)
{
    for (uint64_t at = 0; at + 8 <= bytes; at = at ? 2 * at : 512) {
        char found[8];
        int number = source_read_bytes(descriptor, found, sizeof found, at);
        if (number > 0)
            return error_add(err, EXIT_RUNTIME, "%s: reading at byte %" PRIu64 " failed: %s", file,
                             at, strerror(number));
        if (number == 0 && memcmp(found, "\211HDF\r\n\032\n", sizeof found) == 0)
            return 0;
    }
    return complain_of_kind(descriptor, file, bytes, err);
}

/* Of version 2, an array or a group, or of version 3. */
static bool is_zarr(int directory)
{
    return faccessat(directory, ".zarray", F_OK, 0) == 0 ||
           faccessat(directory, ".zgroup", F_OK, 0) == 0 ||
           faccessat(directory, "zarr.json", F_OK, 0) == 0;
}

/* Open the file once without the library, since the system's errors say more. */
static int check_plain_file(const char *file, bool write, struct error *err)
{
    int rc = 0, descriptor = source_open_file(file, write, err);
    if (descriptor < 0)
        return err->code;
    struct stat status;
    if (fstat(descriptor, &status))
        rc = error_add(err, EXIT_INPUT, "%s cannot be examined: %s", file, strerror(errno));
    else if (S_ISDIR(status.st_mode) && is_zarr(descriptor))
        rc = error_add(err, EXIT_INPUT,
                       "%s is a Zarr store, not an HDF5 file; store it with dask: "
                       "dask.array.from_zarr(\"%s\").to_hdf5(\"input.h5\", \"/A\")",
                       file, file);
    else if (!S_ISREG(status.st_mode))
        rc = error_add(err, EXIT_INPUT, "%s is a %s, not a file; name an HDF5 file", file,
                       S_ISDIR(status.st_mode) ? "directory" : "device or pipe");
    else
        rc = check_signature(descriptor, file, (uint64_t)status.st_size, err);
    close(descriptor);
    return rc;
}

/* Linux's errors for file systems without locks; some NFS servers leak ENOTSUPP (524). */
bool h5_lock_unsupported(int number)
{
    return number == ENOLCK || number == ENOSYS || number == EOPNOTSUPP || number == EINVAL ||
           number == 524;
}

static hid_t try_open(const char *file, enum h5_mode mode, bool locking)
{
    hid_t access = h5_file_access(mode, locking);
    hid_t id = H5Fopen(file, mode == H5_READ ? H5F_ACC_RDONLY : H5F_ACC_RDWR, access);
    if (id < 0)
        h5_why();
    H5Pclose(access);
    return id;
}

hid_t h5_open_file(const char *file, enum h5_mode mode, struct error *err)
{
    if (check_plain_file(file, mode != H5_READ, err))
        return -1;
    hid_t id = try_open(file, mode, true);
    if (id < 0 && h5_lock_unsupported(why_errno)) {
        h5_forget_failure();
        id = try_open(file, mode, false);
    }
    if (id >= 0)
        return id;
    if (why_errno == EAGAIN)
        error_add(err, EXIT_INPUT,
                  "%s is open %s elsewhere: close it there, or set "
                  "HDF5_USE_FILE_LOCKING=FALSE if nothing %s it",
                  file, mode == H5_READ ? "for writing" : "or being read",
                  mode == H5_READ ? "writes" : "reads or writes");
    else if (h5_lock_unsupported(why_errno))
        error_add(err, EXIT_INPUT,
                  "%s is on a file system without file locks: set "
                  "HDF5_USE_FILE_LOCKING=FALSE",
                  file);
    else if (strstr(why, "h5clear"))
        error_add(err, EXIT_INPUT,
                  "%s is marked as open for writing: close it in the program that writes it (SWMR "
                  "too); only if that died, h5clear -s %s removes the mark",
                  file, file);
    else if (strstr(why, "truncated file"))
        error_add(err, EXIT_INPUT, "%s is cut short; copy it again", file);
    else
        error_add(err, EXIT_INPUT, "%s: HDF5 cannot open it: %s", file, why);
    return -1;
}

int h5_check_room(const char *file, uint64_t bytes, struct error *err)
{
    char place[PATH_MAX];
    const char *slash = strrchr(file, '/');
    if (access(file, F_OK) == 0)
        snprintf(place, sizeof place, "%s", file);
    else
        snprintf(place, sizeof place, "%.*s", slash ? (int)(slash - file + 1) : 1,
                 slash ? file : ".");
    struct statvfs status;
    if (statvfs(place, &status) || status.f_blocks == 0)
        return 0;
    uint64_t free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
    if (free_bytes >= bytes)
        return 0;
    return error_add(err, EXIT_RESOURCES,
                     "%s needs %s, but %s are free in its file system; make room there, or choose "
                     "another directory",
                     file, quantity_bytes((double)bytes), quantity_bytes((double)free_bytes));
}

int h5_sync(hid_t file, const char *name, struct error *err)
{
    void *handle = NULL;
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 || H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0) {
        const char *text = h5_why();
        return error_add(err, h5_exit_code(EXIT_RUNTIME), "%s: flushing the file failed: %s", name,
                         text);
    }
    if (fsync(*(int *)handle))
        return error_add(err, error_of_disk(errno, EXIT_RUNTIME),
                         "%s: syncing the file to disk failed: %s", name, error_disk_text(errno));
    return 0;
}
