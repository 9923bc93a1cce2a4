/* A short probe of the file system: what it gives now is a better guess than any assumption. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "quantity.h"

static const double worth_bytes = 1 << 30; /* smaller matrices are soon read anyway */
static const double probe_seconds = 0.1, memory_probe_seconds = 0.04;
static const double no_disk = 10e9; /* so fast is no disk that is read through the page cache */

enum {
    PROBES = 128,
    PROBE_BYTES = 2 << 20,
    THREADS = 32,
    THREADS_RANK = 16,
    MEMORY_PROBES = 3,
    SLOTS = 16
};

/* The one that is read by offset and takes longest; OPERAND_COUNT when there is none. */
static enum operand largest(const struct problem *p)
{
    enum operand found = OPERAND_COUNT;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, i) && problem_by_offset(p, i) &&
            (found == OPERAND_COUNT || problem_bytes(p, i) > problem_bytes(p, found)))
            found = i;
    return found;
}

/* As many as the program reads uncompressed files with on a GPU's host. */
static int readers_of_node(const struct machine *m)
{
    const int64_t each = min_i64(THREADS_RANK, m->threads);
    return (int)min_i64(THREADS, each * m->ranks_per_node);
}

static int readers_of(const struct machine *m, const struct prober *prober)
{
    return (int)max_i64(1, readers_of_node(m) / prober->locals);
}

/* Where the threads read to, slot by slot: more than caches hold of it, within which they copy
 * twice as fast as runs read. */
struct probe_ring {
    int first, threads; /* of those of the computer */
    size_t slots;       /* of each thread */
    char *memory;
};

static size_t ring_bytes(const struct probe_ring *ring)
{
    return (size_t)ring->threads * ring->slots * PROBE_BYTES;
}

static char *ring_slot(const struct probe_ring *ring, int thread, size_t turn)
{
    return ring->memory + ((size_t)thread * ring->slots + turn % ring->slots) * PROBE_BYTES;
}

/* Memory of up to so many slots a thread, which is there, as the threads are, before any clock
 * starts: whether it could be had. */
static bool ring_open(struct probe_ring *ring, const struct machine *m, const struct prober *prober,
                      size_t slots)
{
    int threads = readers_of(m, prober);
    size_t most = (size_t)m->host_memory / 8 / (size_t)threads / PROBE_BYTES;
    *ring = (struct probe_ring){.first = prober->local * threads % THREADS,
                                .threads = threads,
                                .slots = most < 1       ? 1
                                         : most < slots ? most
                                                        : slots};
    void *memory =
        mmap(NULL, ring_bytes(ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    madvise(memory, ring_bytes(ring), MADV_HUGEPAGE);
    ring->memory = memory;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; thread++)
        memset(ring_slot(ring, thread, 0), 0, ring->slots * PROBE_BYTES);
    return true;
}

static void ring_close(struct probe_ring *ring)
{
    munmap(ring->memory, ring_bytes(ring));
}

/* The matrix that is read. */
struct probed {
    struct store *store;
    const struct matrix *matrix;
    size_t element;
};

/* Read here and there in the matrix until `end`, elsewhere with every probe: bytes. */
static double read_some(const struct probed *probed, int probe, const struct probe_ring *ring,
                        int thread, double end)
{
    const struct matrix *matrix = probed->matrix;
    const size_t element = probed->element;
    struct error ignored = {0};
    size_t turn = 0;
    int64_t cols = min_i64(matrix->cols, PROBE_BYTES / (int64_t)element);
    int64_t rows = min_i64(matrix->rows, PROBE_BYTES / (int64_t)element / cols);
    int64_t across = matrix->cols / cols, places = matrix->rows / rows * across;
    double bytes = 0;
    for (int64_t i = ring->first + thread; i < THREADS * PROBES && clock_now() < end;
         i += THREADS) {
        int64_t at = i + probe * THREADS * PROBES / MEMORY_PROBES;
        int64_t place = places * (at * 89 % (THREADS * PROBES)) / (THREADS * PROBES);
        struct block block = {place / across * rows, place % across * cols, rows, cols};
        if (store_read(probed->store, &block, ring_slot(ring, thread, turn++), &ignored))
            break;
        bytes += (double)(rows * cols) * (double)element;
    }
    return bytes;
}

/* Bytes a second. */
static double read_rate(const struct probed *probed, int probe, const struct probe_ring *ring,
                        double seconds)
{
    double start = clock_now(), bytes = 0;
#pragma omp parallel for num_threads(ring->threads) schedule(static, 1) reduction(+ : bytes)
    for (int thread = 0; thread < ring->threads; thread++)
        bytes += read_some(probed, probe, ring, thread, start + seconds);
    return bytes / (clock_now() - start);
}

static double disk_rate(const struct probed *probed, const struct machine *m,
                        const struct prober *prober)
{
    struct probe_ring ring;
    if (!ring_open(&ring, m, prober, 1))
        return 0;
    double rate = read_rate(probed, 0, &ring, probe_seconds);
    ring_close(&ring);
    return rate;
}

/* More than once: whatever else goes on makes memory look slower, so the best counts. */
static double memory_rate(const struct probed *probed, const struct machine *m,
                          const struct prober *prober)
{
    struct probe_ring ring;
    double rate = 0;
    if (!ring_open(&ring, m, prober, SLOTS))
        return 0;
    for (int i = 0; i < MEMORY_PROBES; i++)
        rate = fmax(rate, read_rate(probed, i, &ring, memory_probe_seconds));
    ring_close(&ring);
    return rate;
}

/* In coarse steps, so that the plan is mostly the same the next time. */
static double coarse(const struct machine *m, double rate)
{
    const double steps = m->gpu && m->files_in_memory ? 8 : 2; /* of an octave */
    return exp2(round(steps * log2(rate)) / steps);
}

double machine_probe_disk(const struct problem *p, const struct prober *prober, struct machine *m)
{
    struct error ignored = {0};
    struct store *store = NULL;
    enum operand operand = largest(p);
    if (operand == OPERAND_COUNT || problem_bytes(p, operand) < worth_bytes)
        return 0;
    if (store_open(&p->sources[operand], p->held[operand], STORE_READ, p->io, &store, &ignored))
        return 0;
    const struct probed probed = {store, &p->matrix[operand], problem_element(p, operand)};
    double rate = m->files_in_memory ? 0 : disk_rate(&probed, m, prober);
    m->files_in_memory |=
        rate * prober->locals >= no_disk && strcmp(store_way_name(store), "buffered") == 0;
    if (m->files_in_memory)
        rate = memory_rate(&probed, m, prober);
    store_close(store);
    return rate;
}

void machine_see_disk(double rate, struct machine *m)
{
    if (rate <= 0)
        return;
    m->disk_read_bytes_per_s = coarse(m, rate);
    machine_measured(m, &m->disk_read_bytes_per_s);
}
