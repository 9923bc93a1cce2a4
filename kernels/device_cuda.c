/* The CUDA device.
 *
 * CUDA's current device is a property of the calling thread, and these functions are called from
 * any thread, so each of them selects its GPU first, which costs next to nothing if it is selected
 * already. */
#include "device.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_launch.h"
#include "error.h"
#include "gemm_cublas.h"
#include "gpu_absence.h"
#include "text.h"

#ifndef DGEMM_OOC_ARCHES /* in the emulation */
#define DGEMM_OOC_ARCHES "sm_80"
#endif

struct gpu {
    struct device base; /* first member: gpu_of casts */
    int index;
    cudaStream_t streams[STREAM_COUNT];
    const struct kernel *kernel;
    const struct kernel *of_bytes; /* the fastest one here */
    struct gemm_cublas *cublas;    /* null with all others */
};

static struct gpu *gpu_of(struct device *dev)
{
    return (struct gpu *)dev;
}

/* struct event is opaque: a pointer to it is a cudaEvent_t. */
static cudaEvent_t cuda_event(struct event *event)
{
    return (cudaEvent_t)(void *)event;
}

/* Whether a call failed; then the message goes to err with the exit code `code`. */
static bool failed(int index, int code, cudaError_t status, const char *what, struct error *err)
{
    if (status == cudaSuccess)
        return false;
    cudaGetLastError(); /* clear it, or the next kernel launch would report it */
    error_add(err, code, "GPU %d: %s: %s", index, what, cudaGetErrorString(status));
    return true;
}

/* One CUDA call on GPU `index`: 0, or `code` with a message in err. */
#define ON_GPU(index, code, what, call, err)                                                       \
    (failed((index), (code), cudaSetDevice(index), "selecting it", (err)) ||                       \
             failed((index), (code), (call), (what), (err))                                        \
         ? (code)                                                                                  \
         : 0)

static int gpu_alloc(struct device *dev, size_t bytes, void **memory, struct error *err)
{
    char what[64];
    snprintf(what, sizeof what, "allocating %zu bytes of device memory", bytes);
    *memory = NULL;
    return ON_GPU(gpu_of(dev)->index, EXIT_RESOURCES, what, cudaMalloc(memory, bytes), err);
}

static void gpu_release(struct device *dev, void *memory)
{
    cudaSetDevice(gpu_of(dev)->index);
    cudaFree(memory);
}

static int gpu_pin(struct device *dev, void *host, size_t bytes, struct error *err)
{
    char what[64];
    snprintf(what, sizeof what, "pinning %zu bytes of host memory", bytes);
    return ON_GPU(gpu_of(dev)->index, EXIT_RESOURCES, what,
                  cudaHostRegister(host, bytes, cudaHostRegisterPortable), err);
}

static void gpu_unpin(struct device *dev, void *host)
{
    cudaSetDevice(gpu_of(dev)->index);
    if (cudaHostUnregister(host) != cudaSuccess)
        cudaGetLastError();
}

/* cudaEventBlockingSync: waiting threads sleep and leave the cores to the I/O threads. */
static int gpu_event_create(struct device *dev, struct event **event, struct error *err)
{
    cudaEvent_t created = NULL;
    int rc = ON_GPU(gpu_of(dev)->index, EXIT_RUNTIME, "creating an event",
                    cudaEventCreateWithFlags(&created, cudaEventBlockingSync), err);
    *event = (struct event *)(void *)created;
    return rc;
}

static void gpu_event_destroy(struct device *dev, struct event *event)
{
    cudaSetDevice(gpu_of(dev)->index);
    if (event)
        cudaEventDestroy(cuda_event(event));
}

static int gpu_record(struct device *dev, struct event *event, enum stream stream,
                      struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    return ON_GPU(gpu->index, EXIT_RUNTIME, "recording an event",
                  cudaEventRecord(cuda_event(event), gpu->streams[stream]), err);
}

static int gpu_wait(struct device *dev, enum stream stream, struct event *event, struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    return ON_GPU(gpu->index, EXIT_RUNTIME, "making a stream wait",
                  cudaStreamWaitEvent(gpu->streams[stream], cuda_event(event), 0), err);
}

static int gpu_sync(struct device *dev, struct event *event, struct error *err)
{
    return ON_GPU(gpu_of(dev)->index, EXIT_RUNTIME, "waiting for an event",
                  cudaEventSynchronize(cuda_event(event)), err);
}

static bool gpu_reached(struct device *dev, struct event *event)
{
    cudaSetDevice(gpu_of(dev)->index);
    bool reached = cudaEventQuery(cuda_event(event)) != cudaErrorNotReady;
    if (!reached)
        cudaGetLastError(); /* cudaErrorNotReady is no error */
    return reached;
}

static double gpu_elapsed(struct device *dev, struct event *start, struct event *stop)
{
    float ms = 0;
    cudaSetDevice(gpu_of(dev)->index);
    if (cudaEventElapsedTime(&ms, cuda_event(start), cuda_event(stop)) == cudaSuccess)
        return ms * 1e-3;
    cudaGetLastError();
    return 0;
}

static int gpu_copy(struct device *dev, enum stream stream, const struct copy *c, struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    cudaStream_t on = gpu->streams[stream];
    bool dense = c->rows == 1 || (c->dst_pitch == c->width && c->src_pitch == c->width);
    if (c->width == 0 || c->rows == 0)
        return 0;
    if (dense)
        return ON_GPU(gpu->index, EXIT_RUNTIME, "copying",
                      cudaMemcpyAsync(c->dst, c->src, c->width * c->rows, cudaMemcpyDefault, on),
                      err);
    return ON_GPU(gpu->index, EXIT_RUNTIME, "copying rows",
                  cudaMemcpy2DAsync(c->dst, c->dst_pitch, c->src, c->src_pitch, c->width, c->rows,
                                    cudaMemcpyDefault, on),
                  err);
}

static int gpu_gemm(struct device *dev, const struct gemm *gemm, struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    if (gpu->cublas)
        return gemm_cublas_run(gpu->cublas, gemm, err);
    return ON_GPU(gpu->index, EXIT_RUNTIME, "GEMM",
                  gpu->kernel->code->multiply(gemm, gpu->streams[STREAM_COMPUTE]), err);
}

static int gpu_ozaki(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                     struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    struct ozaki how = *ozaki;
    how.kernel = how.kernel ? how.kernel : gpu->of_bytes;
    return ON_GPU(gpu->index, EXIT_RUNTIME, "multiplying in residues",
                  ozaki_cuda(gemm, &how, gpu->streams[STREAM_COMPUTE]), err);
}

static int gpu_integers(struct device *dev, const struct gemm *gemm,
                        const struct integers *integers, struct error *err)
{
    struct gpu *gpu = gpu_of(dev);
    struct integers how = *integers;
    how.kernel = how.kernel ? how.kernel : gpu->of_bytes;
    return ON_GPU(gpu->index, EXIT_RUNTIME, "multiplying integers",
                  integers_cuda(gemm, &how, gpu->streams[STREAM_COMPUTE]), err);
}

/* Operations whose kernels are started by a function of that name. */
#define ENQUEUES(name, stream, what)                                                               \
    static int gpu_##name(struct device *dev, const struct name *name, struct error *err)          \
    {                                                                                              \
        struct gpu *gpu = gpu_of(dev);                                                             \
        return ON_GPU(gpu->index, EXIT_RUNTIME, what, name##_cuda(name, gpu->streams[stream]),     \
                      err);                                                                        \
    }
ENQUEUES(combine, STREAM_OUT, "combining a tile")
ENQUEUES(mirror, STREAM_OUT, "transposing a tile")
ENQUEUES(reflect, STREAM_OUT, "mirroring a square")
ENQUEUES(recentre, STREAM_OUT, "centring sums")
ENQUEUES(standardize, STREAM_COMPUTE, "centring a panel")
ENQUEUES(embed, STREAM_COMPUTE, "embedding complex numbers")
ENQUEUES(fold, STREAM_COMPUTE, "adding sums")
ENQUEUES(sketch, STREAM_COMPUTE, "check: sketching a matrix")
ENQUEUES(retire, STREAM_COMPUTE, "check: excluding columns")
ENQUEUES(project, STREAM_COMPUTE, "check: projecting a panel")
ENQUEUES(norms, STREAM_COMPUTE, "check: computing norms")
ENQUEUES(judge, STREAM_COMPUTE, "check: judging a tile")

/* Also for a GPU that device_gpu_open has opened in part. */
static void gpu_close(struct device *dev)
{
    struct gpu *gpu = gpu_of(dev);
    cudaSetDevice(gpu->index);
    gemm_cublas_close(gpu->cublas);
    for (int s = 0; s < STREAM_COUNT; s++)
        if (gpu->streams[s])
            cudaStreamDestroy(gpu->streams[s]);
    cudaGetLastError();
    free(gpu);
}

static const struct device gpu_functions = {
    .close = gpu_close,
    .alloc = gpu_alloc,
    .release = gpu_release,
    .pin = gpu_pin,
    .unpin = gpu_unpin,
    .event_create = gpu_event_create,
    .event_destroy = gpu_event_destroy,
    .record = gpu_record,
    .wait = gpu_wait,
    .sync = gpu_sync,
    .reached = gpu_reached,
    .elapsed = gpu_elapsed,
    .copy = gpu_copy,
    .gemm = gpu_gemm,
    .ozaki = gpu_ozaki,
    .integers = gpu_integers,
    .combine = gpu_combine,
    .mirror = gpu_mirror,
    .reflect = gpu_reflect,
    .recentre = gpu_recentre,
    .standardize = gpu_standardize,
    .embed = gpu_embed,
    .fold = gpu_fold,
    .sketch = gpu_sketch,
    .retire = gpu_retire,
    .project = gpu_project,
    .norms = gpu_norms,
    .judge = gpu_judge,
};

/* The lowest compute capability that this build has kernels for. */
static int oldest_capability(void)
{
    int oldest = 0;
    for (const char *arch = DGEMM_OOC_ARCHES; (arch = strstr(arch, "sm_")); arch++) {
        int capability = atoi(arch + strlen("sm_"));
        oldest = oldest && oldest < capability ? oldest : capability;
    }
    return oldest;
}

/* 0 where the query fails; the next call reports why. */
static int capability_of(int index)
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess)
        cudaGetLastError();
    return 10 * major + minor;
}

/* The number of usable GPUs; if 0, `facts` tells why. */
static int count_gpus(struct gpu_facts *facts)
{
    int count = 0;
    *facts = (struct gpu_facts){.visible = getenv("CUDA_VISIBLE_DEVICES"),
                                .oldest = oldest_capability()};
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        cudaGetLastError();
        facts->error = status ? cudaGetErrorString(status) : "no device";
        facts->needs_driver = status == cudaErrorInsufficientDriver;
        cudaDriverGetVersion(&facts->driver);
        cudaRuntimeGetVersion(&facts->runtime);
        return 0;
    }
    for (; facts->index < count; facts->index++) {
        facts->capability = capability_of(facts->index);
        if (facts->capability > 0 && facts->capability < facts->oldest)
            return 0;
    }
    return count;
}

int device_gpu_count(void)
{
    struct gpu_facts ignored;
    return count_gpus(&ignored);
}

const char *device_gpu_absence(void)
{
    char text[512];
    struct gpu_facts facts;
    count_gpus(&facts);
    return text_make("%s", gpu_absence_text(&facts, text, sizeof text));
}

void device_gpu_address(int index, char address[16])
{
    address[0] = '\0';
    if (cudaDeviceGetPCIBusId(address, 16, index) != cudaSuccess) {
        cudaGetLastError();
        address[0] = '\0';
    }
}

int device_gpu_info(int index, struct device_info *info, struct error *err)
{
    struct cudaDeviceProp prop;
    int clock_khz = 0;
    *info = (struct device_info){.kind = DEVICE_GPU};
    int rc = ON_GPU(index, EXIT_RUNTIME, "querying its properties",
                    cudaGetDeviceProperties(&prop, index), err);
    if (rc == 0)
        rc = ON_GPU(index, EXIT_RUNTIME, "querying its free memory",
                    cudaMemGetInfo(&info->memory_free, &info->memory_total), err);
    if (rc != 0)
        return rc;
    /* CUDA 13 removed the clock from cudaDeviceProp; the attribute exists in all versions. */
    if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, index) != cudaSuccess)
        cudaGetLastError();
    device_gpu_address(index, info->pci);
    snprintf(info->name, sizeof info->name, "%.*s", (int)sizeof info->name - 1, prop.name);
    memcpy(info->uuid, &prop.uuid, sizeof info->uuid);
    info->units = prop.multiProcessorCount;
    info->clock_khz = clock_khz;
    info->compute_capability = prop.major * 10 + prop.minor;
    return 0;
}

/* The fastest of some copies, each between two events; 0 where any step fails. */
static double fastest_copy(void *to, const void *from, size_t bytes, cudaEvent_t begin,
                           cudaEvent_t end)
{
    enum { COPIES = 4 }; /* the first ones wake the link up */
    float least_ms = INFINITY;
    for (int i = 0; i < COPIES; i++) {
        float ms = 0;
        if (cudaEventRecord(begin, NULL) != cudaSuccess ||
            cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, NULL) != cudaSuccess ||
            cudaEventRecord(end, NULL) != cudaSuccess || cudaEventSynchronize(end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
            return 0;
        least_ms = fminf(least_ms, ms);
    }
    return least_ms > 0 ? (double)bytes / (1e-3 * (double)least_ms) : 0;
}

double device_gpu_link(int index)
{
    const size_t bytes = (size_t)32 << 20;
    void *from = NULL, *to = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    double rate = 0;
    if (cudaSetDevice(index) == cudaSuccess &&
        cudaHostAlloc(&from, bytes, cudaHostAllocDefault) == cudaSuccess &&
        cudaMalloc(&to, bytes) == cudaSuccess &&
        cudaEventCreateWithFlags(&begin, cudaEventBlockingSync) == cudaSuccess &&
        cudaEventCreateWithFlags(&end, cudaEventBlockingSync) == cudaSuccess)
        rate = fastest_copy(to, from, bytes, begin, end);
    if (end)
        cudaEventDestroy(end);
    if (begin)
        cudaEventDestroy(begin);
    cudaFree(to);
    cudaFreeHost(from);
    cudaGetLastError(); /* whatever failed is no reason to stop */
    return rate;
}

/* STREAM_OUT has the highest priority: the epilogue of a strip that is drained runs before queued
 * products. */
static int create_streams(struct gpu *gpu, struct error *err)
{
    int lowest = 0, highest = 0;
    int rc = ON_GPU(gpu->index, EXIT_RUNTIME, "querying its stream priorities",
                    cudaDeviceGetStreamPriorityRange(&lowest, &highest), err);
    for (int s = 0; s < STREAM_COUNT && rc == 0; s++)
        rc = ON_GPU(gpu->index, EXIT_RUNTIME, "creating a stream",
                    cudaStreamCreateWithPriority(&gpu->streams[s], cudaStreamNonBlocking,
                                                 s == STREAM_OUT ? highest : lowest),
                    err);
    return rc;
}

/* `library`: as gemm_cublas_open has it. */
static int open_gpu(int index, enum algorithm algorithm, const char *library, struct device **dev,
                    struct error *err)
{
    *dev = NULL;
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu)
        return error_add(err, EXIT_RESOURCES, "GPU %d: no host memory to open it", index);
    gpu->base = gpu_functions;
    gpu->index = index;
    gpu->kernel = kernels[algorithm];

    int rc = device_gpu_info(index, &gpu->base.info, err);
    gpu->of_bytes = kernels[algorithm_auto(gpu->base.info.compute_capability, SCALAR_INT8)];
    if (rc == 0)
        rc = create_streams(gpu, err);
    if (rc == 0 && algorithm == ALGORITHM_CUBLAS)
        rc = gemm_cublas_open(index, gpu->streams[STREAM_COMPUTE], library, &gpu->cublas, err);
    else if (rc == 0 && !gpu->kernel->code && algorithm != ALGORITHM_OZAKI)
        rc = error_add(err, EXIT_USAGE, "GPU %d: this --algo has no GPU kernel", index);
    if (rc == 0)
        *dev = &gpu->base;
    else
        gpu_close(&gpu->base);
    return rc;
}

int device_gpu_open(int index, enum algorithm algorithm, struct device **dev, struct error *err)
{
    return open_gpu(index, algorithm, NULL, dev, err);
}

int device_gpu_open_library(int index, const char *library, struct device **dev, struct error *err)
{
    return open_gpu(index, ALGORITHM_CUBLAS, library, dev, err);
}
