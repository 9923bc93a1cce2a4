/* The CPU as a device: one thread per stream, each with a bounded queue of operations.
 *
 * An operation waits only for operations submitted before it, so the oldest of all can always run:
 * a full queue blocks the submitter, but there is no deadlock.  One mutex and one condition
 * variable serve the whole device, since operations take milliseconds. */
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "error.h"
#include "meter.h"
#include "proc.h"

enum { QUEUE_DEPTH = 128, ALIGNMENT = 4096 };

struct event {
    uint64_t submitted, completed; /* records; record n is reached when completed >= n */
    double seconds;                /* time of the latest completed record */
    int users;                     /* queued operations that refer to this event */
};

enum action {
    ACTION_COPY,
    ACTION_GEMM,
    ACTION_OZAKI,
    ACTION_INTEGERS,
    ACTION_COMBINE,
    ACTION_MIRROR,
    ACTION_REFLECT,
    ACTION_RECENTRE,
    ACTION_STANDARDIZE,
    ACTION_EMBED,
    ACTION_FOLD,
    ACTION_SKETCH,
    ACTION_RETIRE,
    ACTION_PROJECT,
    ACTION_NORMS,
    ACTION_JUDGE,
    ACTION_RECORD,
    ACTION_WAIT
};

struct operation {
    enum action action;
    union {
        struct copy copy;
        struct gemm gemm;
        struct {
            struct gemm product;
            union {
                struct ozaki ozaki;
                struct integers integers;
            };
        };
        struct combine combine;
        struct mirror mirror;
        struct reflect reflect;
        struct recentre recentre;
        struct standardize standardize;
        struct embed embed;
        struct fold fold;
        struct sketch sketch;
        struct retire retire;
        struct project project;
        struct norms norms;
        struct judge judge;
        struct {
            struct event *event;
            uint64_t number; /* of the record */
        };
    };
};

struct queue {
    struct cpu *cpu;
    pthread_t thread;
    bool started;
    int first, count;
    struct operation operations[QUEUE_DEPTH]; /* a ring; the first one may be running */
};

struct cpu {
    struct device base; /* first member: cpu_of casts */
    int threads;
    void *workspace;
    bool closing;
    pthread_mutex_t mutex; /* guards events and queues, but not the operations that run */
    pthread_cond_t changed;
    struct queue queues[STREAM_COUNT];
};

static struct cpu *cpu_of(struct device *dev)
{
    return (struct cpu *)dev;
}

/* The stream threads */

static void copy_run(const struct copy *copy)
{
    if (copy->dst_pitch == copy->width && copy->src_pitch == copy->width) {
        memcpy(copy->dst, copy->src, copy->width * copy->rows);
        return;
    }
    for (size_t row = 0; row < copy->rows; row++)
        memcpy((char *)copy->dst + row * copy->dst_pitch,
               (const char *)copy->src + row * copy->src_pitch, copy->width);
}

/* Waiters are woken when the operation is removed from its queue. */
static void event_reach(struct cpu *cpu, struct event *event, uint64_t number)
{
    pthread_mutex_lock(&cpu->mutex);
    if (event->completed < number) {
        event->completed = number;
        event->seconds = clock_now();
    }
    pthread_mutex_unlock(&cpu->mutex);
}

static void event_await(struct cpu *cpu, const struct event *event, uint64_t number)
{
    pthread_mutex_lock(&cpu->mutex);
    while (event->completed < number)
        pthread_cond_wait(&cpu->changed, &cpu->mutex);
    pthread_mutex_unlock(&cpu->mutex);
}

static void operation_run(struct cpu *cpu, const struct operation *o)
{
    switch (o->action) {
    case ACTION_COPY: copy_run(&o->copy); break;
    case ACTION_GEMM: gemm_cpu(&o->gemm, cpu->threads, cpu->workspace); break;
    case ACTION_OZAKI: ozaki_cpu(&o->product, &o->ozaki, cpu->threads); break;
    case ACTION_INTEGERS: integers_cpu(&o->product, &o->integers, cpu->threads); break;
    case ACTION_COMBINE: combine_cpu(&o->combine, cpu->threads); break;
    case ACTION_MIRROR: mirror_cpu(&o->mirror, cpu->threads); break;
    case ACTION_REFLECT: reflect_cpu(&o->reflect, cpu->threads); break;
    case ACTION_RECENTRE: recentre_cpu(&o->recentre, cpu->threads); break;
    case ACTION_STANDARDIZE: standardize_cpu(&o->standardize, cpu->threads); break;
    case ACTION_EMBED: embed_cpu(&o->embed, cpu->threads); break;
    case ACTION_FOLD: fold_cpu(&o->fold, cpu->threads); break;
    case ACTION_SKETCH: sketch_cpu(&o->sketch, cpu->threads); break;
    case ACTION_RETIRE: retire_cpu(&o->retire, cpu->threads); break;
    case ACTION_PROJECT: project_cpu(&o->project, cpu->threads); break;
    case ACTION_NORMS: norms_cpu(&o->norms); break;
    case ACTION_JUDGE: judge_cpu(&o->judge, cpu->threads); break;
    case ACTION_RECORD: event_reach(cpu, o->event, o->number); break;
    case ACTION_WAIT: event_await(cpu, o->event, o->number); break;
    }
}

/* Wait for the oldest operation; null when the queue is empty and the device closes. */
static const struct operation *queue_first(struct queue *queue)
{
    struct cpu *cpu = queue->cpu;
    pthread_mutex_lock(&cpu->mutex);
    while (queue->count == 0 && !cpu->closing)
        pthread_cond_wait(&cpu->changed, &cpu->mutex);
    const struct operation *o = queue->count > 0 ? &queue->operations[queue->first] : NULL;
    pthread_mutex_unlock(&cpu->mutex);
    return o;
}

static void queue_drop_first(struct queue *queue)
{
    struct cpu *cpu = queue->cpu;
    pthread_mutex_lock(&cpu->mutex);
    const struct operation *o = &queue->operations[queue->first];
    if (o->action == ACTION_RECORD || o->action == ACTION_WAIT)
        o->event->users--;
    queue->first = (queue->first + 1) % QUEUE_DEPTH;
    queue->count--;
    pthread_cond_broadcast(&cpu->changed);
    pthread_mutex_unlock(&cpu->mutex);
}

static void *stream_main(void *argument)
{
    struct queue *queue = argument;
    const struct operation *o;
    while ((o = queue_first(queue))) {
        operation_run(queue->cpu, o);
        queue_drop_first(queue);
    }
    return NULL;
}

/* Submission */

static void submit(struct device *dev, enum stream stream, struct operation o)
{
    struct cpu *cpu = cpu_of(dev);
    struct queue *queue = &cpu->queues[stream];
    pthread_mutex_lock(&cpu->mutex);
    while (queue->count == QUEUE_DEPTH)
        pthread_cond_wait(&cpu->changed, &cpu->mutex);
    if (o.action == ACTION_RECORD)
        o.event->submitted++;
    if (o.action == ACTION_RECORD || o.action == ACTION_WAIT) {
        o.number = o.event->submitted;
        o.event->users++;
    }
    queue->operations[(queue->first + queue->count++) % QUEUE_DEPTH] = o;
    pthread_cond_broadcast(&cpu->changed);
    pthread_mutex_unlock(&cpu->mutex);
}

static int cpu_copy(struct device *dev, enum stream stream, const struct copy *copy,
                    struct error *err)
{
    (void)err;
    submit(dev, stream, (struct operation){.action = ACTION_COPY, .copy = *copy});
    return 0;
}

static int cpu_gemm(struct device *dev, const struct gemm *gemm, struct error *err)
{
    (void)err;
    submit(dev, STREAM_COMPUTE, (struct operation){.action = ACTION_GEMM, .gemm = *gemm});
    return 0;
}

static int cpu_ozaki(struct device *dev, const struct gemm *gemm, const struct ozaki *ozaki,
                     struct error *err)
{
    (void)err;
    submit(dev, STREAM_COMPUTE,
           (struct operation){.action = ACTION_OZAKI, .product = *gemm, .ozaki = *ozaki});
    return 0;
}

static int cpu_integers(struct device *dev, const struct gemm *gemm,
                        const struct integers *integers, struct error *err)
{
    (void)err;
    submit(dev, STREAM_COMPUTE,
           (struct operation){.action = ACTION_INTEGERS, .product = *gemm, .integers = *integers});
    return 0;
}

/* Operations whose kind and whose description have the same name. */
#define ENQUEUES(name, stream, kind)                                                               \
    static int cpu_##name(struct device *dev, const struct name *name, struct error *err)          \
    {                                                                                              \
        (void)err;                                                                                 \
        submit(dev, stream, (struct operation){.action = kind, .name = *name});                    \
        return 0;                                                                                  \
    }
ENQUEUES(combine, STREAM_OUT, ACTION_COMBINE)
ENQUEUES(mirror, STREAM_OUT, ACTION_MIRROR)
ENQUEUES(reflect, STREAM_OUT, ACTION_REFLECT)
ENQUEUES(recentre, STREAM_OUT, ACTION_RECENTRE)
ENQUEUES(standardize, STREAM_COMPUTE, ACTION_STANDARDIZE)
ENQUEUES(embed, STREAM_COMPUTE, ACTION_EMBED)
ENQUEUES(fold, STREAM_COMPUTE, ACTION_FOLD)
ENQUEUES(sketch, STREAM_COMPUTE, ACTION_SKETCH)
ENQUEUES(retire, STREAM_COMPUTE, ACTION_RETIRE)
ENQUEUES(project, STREAM_COMPUTE, ACTION_PROJECT)
ENQUEUES(norms, STREAM_COMPUTE, ACTION_NORMS)
ENQUEUES(judge, STREAM_COMPUTE, ACTION_JUDGE)

static int cpu_record(struct device *dev, struct event *event, enum stream stream,
                      struct error *err)
{
    (void)err;
    submit(dev, stream, (struct operation){.action = ACTION_RECORD, .event = event});
    return 0;
}

static int cpu_wait(struct device *dev, enum stream stream, struct event *event, struct error *err)
{
    (void)err;
    submit(dev, stream, (struct operation){.action = ACTION_WAIT, .event = event});
    return 0;
}

/* Events, from the host's side */

static int cpu_event_create(struct device *dev, struct event **event, struct error *err)
{
    (void)dev;
    *event = calloc(1, sizeof **event);
    return *event ? 0 : error_no_memory(err, "an event");
}

/* Blocks while queued operations refer to the event. */
static void cpu_event_destroy(struct device *dev, struct event *event)
{
    struct cpu *cpu = cpu_of(dev);
    if (!event)
        return;
    pthread_mutex_lock(&cpu->mutex);
    while (event->users > 0)
        pthread_cond_wait(&cpu->changed, &cpu->mutex);
    pthread_mutex_unlock(&cpu->mutex);
    free(event);
}

static int cpu_sync(struct device *dev, struct event *event, struct error *err)
{
    (void)err;
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->mutex);
    uint64_t number = event->submitted;
    while (event->completed < number)
        pthread_cond_wait(&cpu->changed, &cpu->mutex);
    pthread_mutex_unlock(&cpu->mutex);
    return 0;
}

static bool cpu_reached(struct device *dev, struct event *event)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->mutex);
    bool reached = event->completed == event->submitted;
    pthread_mutex_unlock(&cpu->mutex);
    return reached;
}

static double cpu_elapsed(struct device *dev, struct event *start, struct event *stop)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->mutex);
    bool both = start->completed > 0 && stop->completed > 0;
    double seconds = both ? stop->seconds - start->seconds : 0;
    pthread_mutex_unlock(&cpu->mutex);
    return seconds;
}

/* Memory */

static int cpu_alloc(struct device *dev, size_t bytes, void **memory, struct error *err)
{
    (void)dev;
    *memory = NULL;
    if (posix_memalign(memory, ALIGNMENT, bytes) != 0)
        return error_no_memory(err, "tiles and panels");
    madvise(*memory, bytes, MADV_HUGEPAGE);
    return 0;
}

static void cpu_release(struct device *dev, void *memory)
{
    (void)dev;
    free(memory);
}

static int cpu_pin(struct device *dev, void *host, size_t bytes, struct error *err)
{
    (void)dev;
    (void)host;
    (void)bytes;
    (void)err;
    return 0;
}

static void cpu_unpin(struct device *dev, void *host)
{
    (void)dev;
    (void)host;
}

/* Opening and closing */

static void cpu_close(struct device *dev)
{
    struct cpu *cpu = cpu_of(dev);
    pthread_mutex_lock(&cpu->mutex);
    cpu->closing = true;
    pthread_cond_broadcast(&cpu->changed);
    pthread_mutex_unlock(&cpu->mutex);
    for (int s = 0; s < STREAM_COUNT; s++)
        if (cpu->queues[s].started)
            pthread_join(cpu->queues[s].thread, NULL);
    pthread_cond_destroy(&cpu->changed);
    pthread_mutex_destroy(&cpu->mutex);
    free(cpu->workspace);
    free(cpu);
}

static void describe(struct device_info *info, int threads)
{
    uint64_t kib;
    struct utsname system;
    *info = (struct device_info){.kind = DEVICE_CPU, .units = threads};
    if (!proc_text("/proc/cpuinfo", "model name", info->name, sizeof info->name))
        snprintf(info->name, sizeof info->name, "%s", uname(&system) == 0 ? system.machine : "CPU");
    info->memory_total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    info->memory_free = info->memory_total;
    if (proc_number("/proc/meminfo", "MemAvailable", &kib))
        info->memory_free = kib * 1024;
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
    .reached = cpu_reached,
    .elapsed = cpu_elapsed,
    .copy = cpu_copy,
    .gemm = cpu_gemm,
    .ozaki = cpu_ozaki,
    .integers = cpu_integers,
    .combine = cpu_combine,
    .mirror = cpu_mirror,
    .reflect = cpu_reflect,
    .recentre = cpu_recentre,
    .standardize = cpu_standardize,
    .embed = cpu_embed,
    .fold = cpu_fold,
    .sketch = cpu_sketch,
    .retire = cpu_retire,
    .project = cpu_project,
    .norms = cpu_norms,
    .judge = cpu_judge,
};

static int streams_start(struct cpu *cpu, struct error *err)
{
    for (int s = 0; s < STREAM_COUNT; s++) {
        struct queue *queue = &cpu->queues[s];
        queue->cpu = cpu;
        int status = pthread_create(&queue->thread, NULL, stream_main, queue);
        if (status != 0)
            return error_no_thread(err, "a stream of the CPU", status);
        queue->started = true;
    }
    return 0;
}

int device_cpu_open(int threads, struct device **dev, struct error *err)
{
    *dev = NULL;
    struct cpu *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return error_no_memory(err, "the CPU device");
    cpu->base = cpu_functions;
    cpu->threads = threads;
    describe(&cpu->base.info, threads);
    pthread_mutex_init(&cpu->mutex, NULL);
    pthread_cond_init(&cpu->changed, NULL);

    int rc = cpu_alloc(&cpu->base, gemm_cpu_workspace(threads), &cpu->workspace, err);
    if (rc == 0)
        rc = streams_start(cpu, err);
    if (rc == 0)
        *dev = &cpu->base;
    else
        cpu_close(&cpu->base);
    return rc;
}

size_t device_cpu_overhead(int threads)
{
    return gemm_cpu_workspace(threads) + ALIGNMENT + sizeof(struct cpu);
}
