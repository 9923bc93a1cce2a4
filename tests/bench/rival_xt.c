/* What a user with enough host memory would run: H5Dread of all of A and B, cublasXtDgemm from
 * pinned host memory, and H5Dwrite of all of C.  The times are printed as JSON.
 *
 *     rival_xt INPUT.h5 OUTPUT.h5 BLOCK[,BLOCK...]
 *
 * The product is computed once for each block size of cuBLASXt, after a small warm-up product. */
#include <cublasXt.h>
#include <cuda_runtime_api.h>
#include <hdf5.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meter.h"

enum { GPU = 0, ALIGNMENT = 4096 };

struct matrix {
    size_t rows, cols;
    double *at;
};

static void require(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "rival_xt: %s failed\n", what);
        exit(1);
    }
}

/* Page-locked memory, with which cuBLASXt is fastest. */
static void matrix_alloc(struct matrix *m)
{
    void *memory = NULL;
    size_t bytes = m->rows * m->cols * sizeof *m->at;
    require(posix_memalign(&memory, ALIGNMENT, bytes) == 0, "allocating");
    require(cudaHostRegister(memory, bytes, cudaHostRegisterDefault) == cudaSuccess, "pinning");
    m->at = memory;
}

static hid_t open_dataset(const char *file, const char *name, struct matrix *m)
{
    hsize_t extents[2] = {0};
    hid_t f = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t dataset = H5Dopen(f, name, H5P_DEFAULT);
    hid_t space = H5Dget_space(dataset);
    require(H5Sget_simple_extent_ndims(space) == 2, "opening a matrix");
    H5Sget_simple_extent_dims(space, extents, NULL);
    H5Sclose(space);
    H5Fclose(f); /* it stays open as long as the dataset does */
    m->rows = extents[0];
    m->cols = extents[1];
    return dataset;
}

static void read_dataset(hid_t dataset, const struct matrix *m)
{
    herr_t rc = H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, m->at);
    require(rc >= 0 && H5Dclose(dataset) >= 0, "H5Dread");
}

static void write_matrix(const char *file, const struct matrix *m)
{
    int descriptor = -1, *handle = NULL;
    hid_t f = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(2, (hsize_t[]){m->rows, m->cols}, NULL);
    hid_t dataset =
        H5Dcreate(f, "C", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    herr_t rc = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, m->at);
    require(rc >= 0 && H5Fflush(f, H5F_SCOPE_GLOBAL) >= 0, "H5Dwrite");
    if (H5Fget_vfd_handle(f, H5P_DEFAULT, (void **)&handle) >= 0)
        descriptor = *handle;
    require(fsync(descriptor) == 0, "fsync");
    H5Dclose(dataset);
    H5Sclose(space);
    H5Fclose(f);
}

static cublasXtHandle_t xt_open(void)
{
    cublasXtHandle_t xt;
    int gpus[] = {GPU};
    require(cublasXtCreate(&xt) == CUBLAS_STATUS_SUCCESS &&
                cublasXtDeviceSelect(xt, 1, gpus) == CUBLAS_STATUS_SUCCESS,
            "starting cuBLASXt");
    return xt;
}

/* Seconds for the first rows x cols elements of C = A B with the first k columns of A.  The
 * matrices are row-major, so cuBLAS sees C' = B' A'. */
static double multiply(cublasXtHandle_t xt, const struct matrix *a, const struct matrix *b,
                       const struct matrix *c, const size_t extents[3])
{
    const double one = 1, zero = 0, start = clock_now();
    cublasStatus_t status =
        cublasXtDgemm(xt, CUBLAS_OP_N, CUBLAS_OP_N, extents[1], extents[0], extents[2], &one, b->at,
                      b->cols, a->at, a->cols, &zero, c->at, c->cols);
    require(status == CUBLAS_STATUS_SUCCESS && cudaDeviceSynchronize() == cudaSuccess,
            "cublasXtDgemm");
    return clock_now() - start;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Seconds of the whole product for each block size. */
static json_t *sweep(const struct matrix *a, const struct matrix *b, const struct matrix *c,
                     char *blocks)
{
    cublasXtHandle_t xt = xt_open();
    json_t *seconds = json_object();
    for (char *word = strsep(&blocks, ","); word; word = strsep(&blocks, ",")) {
        size_t block = strtoul(word, NULL, 10);
        const size_t all[3] = {a->rows, b->cols, a->cols};
        const size_t some[3] = {least(2 * block, all[0]), least(2 * block, all[1]),
                                least(2 * block, all[2])};
        require(cublasXtSetBlockDim(xt, (int)block) == CUBLAS_STATUS_SUCCESS, "the block size");
        multiply(xt, a, b, c, some);
        json_object_set_new(seconds, word, json_real(multiply(xt, a, b, c, all)));
    }
    cublasXtDestroy(xt);
    return seconds;
}

int main(int argc, char **argv)
{
    struct matrix a, b, c;
    if (argc != 4) {
        fprintf(stderr, "usage: rival_xt INPUT.h5 OUTPUT.h5 BLOCK[,BLOCK...]\n");
        return 2;
    }
    require(cudaSetDevice(GPU) == cudaSuccess && cudaFree(NULL) == cudaSuccess, "the GPU");
    hid_t dataset_a = open_dataset(argv[1], "A", &a), dataset_b = open_dataset(argv[1], "B", &b);
    require(a.cols == b.rows, "fitting A to B");
    c.rows = a.rows;
    c.cols = b.cols;
    double start = clock_now();
    matrix_alloc(&a);
    matrix_alloc(&b);
    matrix_alloc(&c);
    double pinned = clock_now();
    read_dataset(dataset_a, &a);
    read_dataset(dataset_b, &b);
    double read = clock_now();
    json_t *seconds = sweep(&a, &b, &c, argv[3]);
    double multiplied = clock_now();
    write_matrix(argv[2], &c);
    double written = clock_now();
    json_t *result =
        json_pack("{s:f, s:f, s:o, s:f}", "pin_s", pinned - start, "read_s", read - pinned,
                  "multiply_s", seconds, "write_s", written - multiplied);
    json_dumpf(result, stdout, JSON_COMPACT);
    json_decref(result); /* the memory is freed at exit */
    return 0;
}
