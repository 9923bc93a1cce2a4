/* A device: memory, copies, events and kernels, in order on streams.
 *
 * Two implementations, CUDA and CPU, behind one table of functions, so that one pipeline runs on
 * both. The CPU device really is asynchronous (a thread a stream), so that what works on it is
 * ordered right.
 *
 * Work on one stream runs in the order in which it was given; nothing orders two streams but
 * events. An event that was never recorded counts as reached.  Calls may come from any thread; a
 * device that failed asynchronously says so at the next call that waits. */
#ifndef DGEMM_OOC_DEVICE_H
#define DGEMM_OOC_DEVICE_H

#include "freivalds.h"
#include "gemm.h"
#include "ozaki.h"
#include "vector.h"

struct error;

enum device_kind { DEVICE_CPU, DEVICE_GPU };

/* That of the clock has no work, so that an event recorded there is reached at once. */
enum stream { STREAM_IN, STREAM_COMPUTE, STREAM_OUT, STREAM_CLOCK, STREAM_COUNT };

struct device_info {
    enum device_kind kind;
    char name[96];
    char pci[16];                     /* a GPU's address, 0000:1B:00.0 */
    char uuid[16];                    /* bytes that no other GPU, or part of one, has */
    size_t memory_free, memory_total; /* bytes, now */
    int units;                        /* multiprocessors, or threads */
    int clock_khz;                    /* 0: not known */
    int compute_capability;           /* 90 for sm_90; 0 on the CPU */
};

struct event; /* a point on a stream, with its time */

/* Bytes of a row-major block: `rows` rows of `width` bytes; pitches are bytes between rows. */
struct copy {
    void *dst;
    const void *src;
    size_t dst_pitch, src_pitch, width, rows;
};

struct device {
    struct device_info info;
    void (*close)(struct device *dev);
    int (*alloc)(struct device *dev, size_t bytes, void **memory, struct error *err);
    void (*release)(struct device *dev, void *memory);
    /* Page-lock host memory so that copies from and to it run asynchronously. */
    int (*pin)(struct device *dev, void *host, size_t bytes, struct error *err);
    void (*unpin)(struct device *dev, void *host);

    int (*event_create)(struct device *dev, struct event **event, struct error *err);
    void (*event_destroy)(struct device *dev, struct event *event);
    int (*record)(struct device *dev, struct event *event, enum stream stream, struct error *err);
    /* The stream waits, the host goes on. */
    int (*wait)(struct device *dev, enum stream stream, struct event *event, struct error *err);
    /* The host waits. */
    int (*sync)(struct device *dev, struct event *event, struct error *err);
    /* Whether it would not have to. */
    bool (*reached)(struct device *dev, struct event *event);
    /* Seconds between two reached events, on a GPU rounded to a float of milliseconds; 0 when one
     * of them was never recorded. */
    double (*elapsed)(struct device *dev, struct event *start, struct event *stop);

    /* STREAM_IN carries host to device, STREAM_OUT device to host. */
    int (*copy)(struct device *dev, enum stream stream, const struct copy *copy, struct error *err);
    int (*gemm)(struct device *dev, const struct gemm *gemm,
                struct error *err); /* STREAM_COMPUTE */
    /* The product in residues (ozaki.h), also on STREAM_COMPUTE; `ozaki` outlives it. */
    int (*ozaki)(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                 struct error *err);
    int (*combine)(struct device *dev, const struct combine *combine,
                   struct error *err); /* STREAM_OUT, ahead of queued work on STREAM_COMPUTE */
    /* The product check (freivalds.h), on STREAM_COMPUTE. */
    int (*sketch)(struct device *dev, const struct sketch *sketch, struct error *err);
    int (*retire)(struct device *dev, const struct retire *retire, struct error *err);
    int (*project)(struct device *dev, const struct project *project, struct error *err);
    int (*norms)(struct device *dev, const struct norms *norms, struct error *err);
    int (*judge)(struct device *dev, const struct judge *judge, struct error *err);
};

/* How many GPUs this process can use; 0 without a GPU, a driver or a build for GPUs. */
int device_gpu_count(void);

/* The PCI address of one of them, 0000:1B:00.0, without taking anything of it; empty where it is
 * not known. */
void device_gpu_address(int index, char address[16]);

/* Why it can use none: a clause that names the remedy, valid until the next call. */
const char *device_gpu_absence(void);

/* Describe GPU `index`; from then on this process holds it. */
int device_gpu_info(int index, struct device_info *info, struct error *err);

/* Open GPU `index`; algorithm names the kernel that its gemm runs. */
int device_gpu_open(int index, enum algorithm algorithm, struct device **dev, struct error *err);

/* Open the CPU as a device that computes on `threads` threads. */
int device_cpu_open(int threads, struct device **dev, struct error *err);

/* Host bytes that the CPU device takes for itself, beside what is allocated from it. */
size_t device_cpu_overhead(int threads);

#endif
