/* Memory, copies and events of the emulated GPU.  Every allocation lies between two guard pages.
 * Writes to the padding between its end and the second one are detected when it is freed.  Work is
 * done when it is enqueued, but cudaEventQuery says so after some calls only, as if the GPU were
 * busy. */
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>

#include "cuda_runtime_api.h"

enum : size_t { PAGE = 4096, ALIGNMENT = 256, MEMORY = (size_t)20 << 30, FILL_MAX = 1 << 20 };

enum { MULTIPROCESSORS = 2, MAJOR = 8, MINOR = 0 }; /* ptx.cuh is written for sm_80 */

enum { QUERIES_MAX = 12 }; /* of an event, before it is reached */

struct emulated_event {
    bool recorded;
    double seconds;
    std::atomic<int> queries; /* before it is reached */
};

struct emulated_stream {
    char unused;
};

struct allocation {
    unsigned char *base;
    size_t mapped, bytes, room;
};

static std::mutex lock; /* protects the next three */
static std::map<void *, allocation> allocations;
static size_t allocated;
static std::map<unsigned char *, size_t> pinned;
static std::atomic<cudaError_t> last_error; /* shared: thread-local memory is poisoned */

static cudaError_t result(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError()
{
    return last_error.exchange(cudaSuccess);
}

const char *cudaGetErrorString(cudaError_t error)
{
    static thread_local char text[32];
    snprintf(text, sizeof text, "CUDA error %d", (int)error);
    return text;
}

static const char *launcher_rank()
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? rank : getenv("PMI_RANK");
}

/* DGEMM_OOC_TEST_GPUS=N: N GPUs that all ranks see; "own": each rank sees only its own GPU, as a
 * launcher may arrange; "first": only the first rank sees one; "driver": none, since the driver is
 * too old; "old": one of compute capability 7. */
static int device_count()
{
    const char *gpus = getenv("DGEMM_OOC_TEST_GPUS"), *rank = launcher_rank();
    if (gpus && strcmp(gpus, "driver") == 0)
        return 0;
    if (gpus && strcmp(gpus, "first") == 0)
        return !rank || atoi(rank) == 0;
    return gpus && atoi(gpus) > 0 ? atoi(gpus) : 1;
}

cudaError_t cudaSetDevice(int index)
{
    return result(index < device_count() ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *index)
{
    *index = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *gpus = getenv("DGEMM_OOC_TEST_GPUS");
    *count = device_count();
    if (*count > 0)
        return cudaSuccess;
    return result(gpus && strcmp(gpus, "driver") == 0 ? cudaErrorInsufficientDriver
                                                      : cudaErrorNoDevice);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 11040;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *prop, int index)
{
    const char *gpus = getenv("DGEMM_OOC_TEST_GPUS"), *rank = launcher_rank();
    bool own = gpus && rank && strcmp(gpus, "own") == 0;
    *prop = {"emulated", MULTIPROCESSORS, MAJOR, MINOR, {{(char)(own ? atoi(rank) : index)}}};
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int)
{
    const char *gpus = getenv("DGEMM_OOC_TEST_GPUS");
    bool old = gpus && strcmp(gpus, "old") == 0;
    *value = attribute == cudaDevAttrMultiProcessorCount      ? MULTIPROCESSORS
             : attribute == cudaDevAttrComputeCapabilityMajor ? (old ? MAJOR - 1 : MAJOR)
                                                              : MINOR; /* the clock too is 0 */
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *address, int bytes, int)
{
    snprintf(address, bytes, "0000:00:00.0");
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    const std::lock_guard<std::mutex> hold(lock);
    *total = MEMORY;
    *available = MEMORY - allocated;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    const std::lock_guard<std::mutex> hold(lock);
    if (bytes > MEMORY - allocated)
        return result(cudaErrorMemoryAllocation);
    allocation a = {};
    a.bytes = bytes;
    a.room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t pages = (a.room + PAGE - 1) / PAGE * PAGE;
    a.mapped = pages + 2 * PAGE;
    void *base =
        mmap(nullptr, a.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return result(cudaErrorMemoryAllocation);
    a.base = static_cast<unsigned char *>(base);
    mprotect(a.base + PAGE, pages, PROT_READ | PROT_WRITE);
    unsigned char *begin = a.base + PAGE + pages - a.room;
    memset(a.room < FILL_MAX ? begin : begin + bytes, 0xff,
           a.room < FILL_MAX ? a.room : a.room - bytes);
    allocations[begin] = a;
    allocated += bytes;
    *memory = begin;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (!memory)
        return cudaSuccess;
    const std::lock_guard<std::mutex> hold(lock);
    auto found = allocations.find(memory);
    if (found == allocations.end())
        return result(cudaErrorInvalidValue);
    const allocation &a = found->second;
    for (size_t at = a.bytes; at < a.room; at++)
        if (static_cast<unsigned char *>(memory)[at] != 0xff) {
            fprintf(stderr, "emulation: byte %zu behind an allocation was written\n", at - a.bytes);
            abort();
        }
    munmap(a.base, a.mapped);
    allocated -= a.bytes;
    allocations.erase(found);
    return cudaSuccess;
}

/* There is no link whose rate could be measured. */
cudaError_t cudaHostAlloc(void **memory, size_t, unsigned)
{
    *memory = nullptr;
    return result(cudaErrorNotSupported);
}

cudaError_t cudaFreeHost(void *)
{
    return cudaSuccess;
}

/* Pinning memory twice, or unpinning memory that is not pinned, is an error. */
cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    const std::lock_guard<std::mutex> hold(lock);
    unsigned char *begin = static_cast<unsigned char *>(memory);
    auto next = pinned.lower_bound(begin);
    if (bytes == 0 || (next != pinned.end() && next->first < begin + bytes) ||
        (next != pinned.begin() && std::prev(next)->first + std::prev(next)->second > begin))
        return result(cudaErrorInvalidValue);
    pinned[begin] = bytes;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    const std::lock_guard<std::mutex> hold(lock);
    if (pinned.erase(static_cast<unsigned char *>(memory)) == 0)
        return result(cudaErrorInvalidValue);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind, cudaStream_t)
{
    for (size_t row = 0; row < rows; row++)
        memcpy(static_cast<char *>(to) + row * to_pitch,
               static_cast<const char *>(from) + row * from_pitch, width);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *lowest, int *highest)
{
    *lowest = *highest = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int)
{
    *stream = new emulated_stream();
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new emulated_event();
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    static std::atomic<unsigned> records;
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    event->recorded = true;
    event->seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    event->queries = (int)(records++ % (QUERIES_MAX + 1));
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    event->queries = 0;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->queries > 0 && event->queries-- > 0 ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop)
{
    if (!start->recorded || !stop->recorded)
        return result(cudaErrorInvalidResourceHandle);
    *ms = (float)((stop->seconds - start->seconds) * 1e3);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}
