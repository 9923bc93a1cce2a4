/* A device: memory, and copies, events and kernels on streams.
 *
 * One table of functions has two implementations, CUDA and CPU, so that one pipeline runs on both.
 * The CPU device is asynchronous too (one thread per stream), so that missing synchronisation shows
 * in tests without a GPU.
 *
 * Work on one stream runs in the order of submission; only events order two streams.  An event that
 * was never recorded counts as reached.  All functions may be called from any thread.  They return
 * 0 or an exit code with a message in `err`; an asynchronous failure is reported by a later call,
 * at the latest by sync. */
#pragma once

#include "freivalds.h"
#include "integers.h"
#include "kernel.h"
#include "ozaki.h"
#include "vector.h"

struct error;

enum device_kind { DEVICE_CPU, DEVICE_GPU };

/* STREAM_CLOCK carries no work: an event recorded there is reached at once, with the current
 * time. */
enum stream { STREAM_IN, STREAM_COMPUTE, STREAM_OUT, STREAM_CLOCK, STREAM_COUNT };

struct device_info {
    enum device_kind kind;
    char name[96];
    char pci[16];                     /* a GPU's address, 0000:1B:00.0 */
    char uuid[16];                    /* of the GPU, or of the MIG instance */
    size_t memory_free, memory_total; /* bytes, when this was queried */
    int units;                        /* multiprocessors, or threads */
    int clock_khz;                    /* peak clock; 0: unknown */
    int compute_capability;           /* 90 for sm_90; 0 on the CPU */
};

struct event; /* a point on a stream, with a time stamp */

/* A copy of `rows` rows of `width` bytes; pitches are bytes between the starts of rows. */
struct copy {
    void *dst;
    const void *src;
    size_t dst_pitch, src_pitch, width, rows;
};

struct device {
    struct device_info info;
    /* Free the device; the caller has released its memory and events. */
    void (*close)(struct device *dev);
    /* Device memory; EXIT_RESOURCES, and *memory null, where there is not enough. */
    int (*alloc)(struct device *dev, size_t bytes, void **memory, struct error *err);
    void (*release)(struct device *dev, void *memory);
    /* Page-lock host memory, so that copies from and to it are asynchronous. */
    int (*pin)(struct device *dev, void *host, size_t bytes, struct error *err);
    void (*unpin)(struct device *dev, void *host);

    int (*event_create)(struct device *dev, struct event **event, struct error *err);
    void (*event_destroy)(struct device *dev, struct event *event);
    int (*record)(struct device *dev, struct event *event, enum stream stream, struct error *err);
    /* Make later work of the stream wait for the event's latest record.  Does not block. */
    int (*wait)(struct device *dev, enum stream stream, struct event *event, struct error *err);
    /* Block the calling thread until the event is reached. */
    int (*sync)(struct device *dev, struct event *event, struct error *err);
    /* Whether the event is reached.  Does not block. */
    bool (*reached)(struct device *dev, struct event *event);
    /* Seconds between two reached events; a GPU reports milliseconds as a float.  0 when one of
     * them was never recorded. */
    double (*elapsed)(struct device *dev, struct event *start, struct event *stop);

    /* The functions below enqueue work and return at once (the CPU device blocks while its queue is
     * full).  Copies to the device use STREAM_IN, copies to the host STREAM_OUT. */
    int (*copy)(struct device *dev, enum stream stream, const struct copy *copy, struct error *err);
    int (*gemm)(struct device *dev, const struct gemm *gemm,
                struct error *err); /* STREAM_COMPUTE */
    /* The product in residues (ozaki.h), also on STREAM_COMPUTE, whatever algorithm the device was
     * opened for; what `ozaki` points to outlives it. */
    int (*ozaki)(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                 struct error *err);
    /* The exact product of integers (integers.h), likewise. */
    int (*integers)(struct device *dev, const struct gemm *gemm, const struct integers *integers,
                    struct error *err);
    int (*combine)(struct device *dev, const struct combine *combine,
                   struct error *err); /* STREAM_OUT, which has priority over STREAM_COMPUTE */
    int (*mirror)(struct device *dev, const struct mirror *mirror,
                  struct error *err); /* likewise */
    int (*reflect)(struct device *dev, const struct reflect *reflect,
                   struct error *err); /* likewise */
    int (*recentre)(struct device *dev, const struct recentre *recentre,
                    struct error *err); /* likewise */
    int (*standardize)(struct device *dev, const struct standardize *standardize,
                       struct error *err); /* STREAM_COMPUTE */
    int (*embed)(struct device *dev, const struct embed *embed, struct error *err); /* likewise */
    int (*fold)(struct device *dev, const struct fold *fold, struct error *err);    /* likewise */
    /* The product check (freivalds.h), on STREAM_COMPUTE. */
    int (*sketch)(struct device *dev, const struct sketch *sketch, struct error *err);
    int (*retire)(struct device *dev, const struct retire *retire, struct error *err);
    int (*project)(struct device *dev, const struct project *project, struct error *err);
    int (*norms)(struct device *dev, const struct norms *norms, struct error *err);
    int (*judge)(struct device *dev, const struct judge *judge, struct error *err);
};

/* The number of GPUs that this process can use; 0 without a GPU, a driver or CUDA in the build. */
int device_gpu_count(void);

/* The PCI address of GPU `index`, 0000:1B:00.0, without creating a context on it; empty where it is
 * unknown. */
void device_gpu_address(int index, char address[16]);

/* Why device_gpu_count() is 0: a clause that names the remedy.  Valid until the next call; not for
 * two threads at once. */
const char *device_gpu_absence(void);

/* Describe GPU `index`.  Creates this process's context on it. */
int device_gpu_info(int index, struct device_info *info, struct error *err);

/* Measure how many bytes a second a copy from page-locked memory to GPU `index` moves, in some
 * milliseconds; 0 where that fails, as with too little memory.  Blocking. */
double device_gpu_link(int index);

/* Open GPU `index`, whose gemm runs `algorithm`; for ALGORITHM_OZAKI it has no gemm, only ozaki.
 * On success *dev is the caller's, to be closed by its close; on failure it is null. */
int device_gpu_open(int index, enum algorithm algorithm, struct device **dev, struct error *err);

/* Likewise, but its gemm runs products of real matrices by another library (gemm_cublas.h), to
 * measure it. */
int device_gpu_open_library(int index, const char *library, struct device **dev, struct error *err);

/* Open the CPU as a device whose kernels use `threads` threads.  Ownership as for GPUs. */
int device_cpu_open(int threads, struct device **dev, struct error *err);

/* Host bytes that the CPU device uses besides what is allocated from it.  Pure. */
size_t device_cpu_overhead(int threads);
