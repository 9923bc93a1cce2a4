/* The CPU as a device: a thread a stream, each with a bounded queue of work.
 *
 * It is asynchronous like a GPU, so that the pipeline's ordering is put to the test on any machine.  An
 * event counts how often it was recorded and how often that was reached; waiting means waiting for the
 * recording that was newest at the call, as CUDA has it. */
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "error.h"

enum { QUEUE_SIZE = 64, MEMORY_ALIGNMENT = 4096 };

struct event {
    int64_t recorded, reached; /* how often */
    double time;               /* when it was reached last */
};

enum work_kind { WORK_COPY, WORK_GEMM, WORK_COMBINE, WORK_PROJECT, WORK_RECORD, WORK_WAIT };

struct work {
    enum work_kind kind;
    union {
        struct copy copy;
        struct gemm gemm;
        struct combine combine;
        struct project project;
        struct {
            struct event *event;
            int64_t count;
        } point;
    };
};

struct cpu;

struct queue {
    struct cpu *cpu;
    pthread_t thread;
    bool started;
    struct work work[QUEUE_SIZE];
    int64_t given, done;
};

struct cpu {
    struct device base; /* first, so that a device is the cpu around it */
    void *workspace;
    struct queue queues[STREAM_COUNT];
    bool closing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static struct cpu *cpu_of(struct device *dev)
{
    return (struct cpu *)dev;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy_rows(const struct copy *c)
{
    if (c->dst_pitch == c->width && c->src_pitch == c->width) {
        memcpy(c->dst, c->src, c->width * c->rows);
        return;
    }
    for (size_t row = 0; row < c->rows; row++)
        memcpy((char *)c->dst + row * c->dst_pitch, (const char *)c->src + row * c->src_pitch,
               c->width);
}

/* Called without the lock. */
static void compute(struct cpu *cpu, const struct work *work)
{
    int threads = cpu->base.info.units;
    switch (work->kind) {
    case WORK_COPY: copy_rows(&work->copy); break;
    case WORK_GEMM: gemm_cpu(&work->gemm, threads, cpu->workspace); break;
    case WORK_COMBINE: combine_cpu(&work->combine, threads); break;
    case WORK_PROJECT: project_cpu(&work->project, threads); break;
    default: break;
    }
}

/* Called with the lock held, as the two below. */
static void perform(struct cpu *cpu, const struct work *work)
{
    struct event *event = work->point.event;
    if (work->kind == WORK_WAIT) {
        while (event->reached < work->point.count)
            pthread_cond_wait(&cpu->changed, &cpu->lock);
    } else if (work->kind == WORK_RECORD) {
        event->reached = work->point.count;
        event->time = now();
    } else {
        pthread_mutex_unlock(&cpu->lock);
        compute(cpu, work);
        pthread_mutex_lock(&cpu->lock);
    }
}

static void *run_queue(void *argument)
{
    struct queue *queue = argument;
    struct cpu *cpu = queue->cpu;
    pthread_mutex_lock(&cpu->lock);
    for (;;) {
        while (queue->done == queue->given && !cpu->closing)
            pthread_cond_wait(&cpu->changed, &cpu->lock);
        if (queue->done == queue->given)
            break;
        perform(cpu, &queue->work[queue->done % QUEUE_SIZE]);
        queue->done++;
        pthread_cond_broadcast(&cpu->changed);
    }
    pthread_mutex_unlock(&cpu->lock);
    return NULL;
}

static void give(struct cpu *cpu, enum stream stream, const struct work *work)
{
    struct queue *queue = &cpu->queues[stream];
    while (queue->given - queue->done == QUEUE_SIZE)
        pthread_cond_wait(&cpu->changed, &cpu->lock);
    queue->work[queue->given++ % QUEUE_SIZE] = *work;
    pthread_cond_broadcast(&cpu->changed);
}

static int submit(struct device *dev, enum stream stream, const struct work *work)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->lock);
    give(cpu, stream, work);
    pthread_mutex_unlock(&cpu->lock);
    return 0;
}

static int cpu_copy(struct device *dev, enum stream stream, const struct copy *copy,
                    struct error *err)
{
    (void)err;
    return submit(dev, stream, &(struct work){.kind = WORK_COPY, .copy = *copy});
}

static int cpu_gemm(struct device *dev, const struct gemm *gemm, struct error *err)
{
    (void)err;
    return submit(dev, STREAM_COMPUTE, &(struct work){.kind = WORK_GEMM, .gemm = *gemm});
}

static int cpu_combine(struct device *dev, const struct combine *combine, struct error *err)
{
    (void)err;
    return submit(dev, STREAM_COMPUTE, &(struct work){.kind = WORK_COMBINE, .combine = *combine});
}

static int cpu_project(struct device *dev, const struct project *project, struct error *err)
{
    (void)err;
    return submit(dev, STREAM_COMPUTE, &(struct work){.kind = WORK_PROJECT, .project = *project});
}

static int cpu_record(struct device *dev, struct event *event, enum stream stream,
                      struct error *err)
{
    struct cpu *cpu = cpu_of(dev);
    (void)err;
    pthread_mutex_lock(&cpu->lock);
    struct work work = {.kind = WORK_RECORD, .point = {event, ++event->recorded}};
    give(cpu, stream, &work);
    pthread_mutex_unlock(&cpu->lock);
    return 0;
}

static int cpu_wait(struct device *dev, enum stream stream, struct event *event, struct error *err)
{
    struct cpu *cpu = cpu_of(dev);
    (void)err;
    pthread_mutex_lock(&cpu->lock);
    struct work work = {.kind = WORK_WAIT, .point = {event, event->recorded}};
    give(cpu, stream, &work);
    pthread_mutex_unlock(&cpu->lock);
    return 0;
}

static int cpu_sync(struct device *dev, struct event *event, struct error *err)
{
    struct cpu *cpu = cpu_of(dev);
    (void)err;
    pthread_mutex_lock(&cpu->lock);
    for (int64_t count = event->recorded; event->reached < count;)
        pthread_cond_wait(&cpu->changed, &cpu->lock);
    pthread_mutex_unlock(&cpu->lock);
    return 0;
}

static double cpu_elapsed(struct device *dev, struct event *start, struct event *stop)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->lock);
    double seconds = start->reached && stop->reached ? stop->time - start->time : 0;
    pthread_mutex_unlock(&cpu->lock);
    return seconds;
}

static int cpu_event_create(struct device *dev, struct event **event, struct error *err)
{
    (void)dev;
    *event = calloc(1, sizeof **event);
    return *event ? 0 : error_add(err, EXIT_RESOURCES, "out of host memory");
}

static void cpu_event_destroy(struct device *dev, struct event *event)
{
    (void)dev;
    free(event);
}

static int cpu_alloc(struct device *dev, size_t bytes, void **memory, struct error *err)
{
    (void)dev;
    if (posix_memalign(memory, MEMORY_ALIGNMENT, bytes ? bytes : 1) == 0)
        return 0;
    return error_add(err, EXIT_RESOURCES, "cannot allocate %zu bytes of host memory", bytes);
}

static void cpu_release(struct device *dev, void *memory)
{
    (void)dev;
    free(memory);
}

static int cpu_pin(struct device *dev, void *host, size_t bytes, struct error *err)
{
    (void)dev, (void)host, (void)bytes, (void)err;
    return 0;
}

static void cpu_unpin(struct device *dev, void *host)
{
    (void)dev, (void)host;
}

/* Also closes what device_cpu_open left half open.  All work that was given is done first. */
static void cpu_close(struct device *dev)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->lock);
    cpu->closing = true;
    pthread_cond_broadcast(&cpu->changed);
    pthread_mutex_unlock(&cpu->lock);
    for (int i = 0; i < STREAM_COUNT; i++)
        if (cpu->queues[i].started)
            pthread_join(cpu->queues[i].thread, NULL);
    pthread_mutex_destroy(&cpu->lock);
    pthread_cond_destroy(&cpu->changed);
    free(cpu->workspace);
    free(cpu);
}

static const struct device cpu_functions = {
    .close = cpu_close,
    .alloc = cpu_alloc,
    .release = cpu_release,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .record = cpu_record,
    .wait = cpu_wait,
    .sync = cpu_sync,
    .elapsed = cpu_elapsed,
    .copy = cpu_copy,
    .gemm = cpu_gemm,
    .combine = cpu_combine,
    .project = cpu_project,
};

static void describe(struct device_info *info, int threads)
{
    char line[256];
    FILE *cpuinfo = fopen("/proc/cpuinfo", "re");
    *info = (struct device_info){.kind = DEVICE_CPU, .units = threads, .name = "CPU"};
    info->memory_total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    info->memory_free = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    while (cpuinfo && fgets(line, sizeof line, cpuinfo))
        if (sscanf(line, "model name : %95[^\n]", info->name) == 1)
            break;
    if (cpuinfo)
        fclose(cpuinfo);
}

static bool start_queue(struct queue *queue, struct cpu *cpu)
{
    queue->cpu = cpu;
    queue->started = pthread_create(&queue->thread, NULL, run_queue, queue) == 0;
    return queue->started;
}

int device_cpu_open(int threads, struct device **dev, struct error *err)
{
    struct cpu *cpu = calloc(1, sizeof *cpu);
    *dev = NULL;
    if (!cpu)
        return error_add(err, EXIT_RESOURCES, "out of host memory");
    cpu->base = cpu_functions;
    describe(&cpu->base.info, threads);
    pthread_mutex_init(&cpu->lock, NULL);
    pthread_cond_init(&cpu->changed, NULL);
    bool opened =
        posix_memalign(&cpu->workspace, MEMORY_ALIGNMENT, gemm_cpu_workspace(threads)) == 0;
    for (int i = 0; i < STREAM_COUNT && opened; i++)
        opened = start_queue(&cpu->queues[i], cpu);
    if (!opened) {
        cpu_close(&cpu->base);
        return error_add(err, EXIT_RESOURCES, "cannot start the CPU device: out of host memory");
    }
    *dev = &cpu->base;
    return 0;
}

size_t device_cpu_overhead(int threads)
{
    return gemm_cpu_workspace(threads) + sizeof(struct cpu) + (size_t)threads * (64 << 10);
}
