/* A short probe of the file system: what it gives now is a better guess than any assumption. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "machine.h"
#include "meter.h"
#include "problem.h"
#include "quantity.h"

static const double worth_bytes = 1 << 30; /* smaller matrices are soon read anyway */
static const double probe_seconds = 0.1, memory_probe_seconds = 0.04;
static const double memory_rate = 10e9; /* so fast is no disk that is read through the page cache */
enum { PROBES = 128, PROBE_BYTES = 2 << 20, THREADS = 16, MEMORY_PROBES = 3 };

static double matrix_bytes(const struct problem *p, enum operand operand)
{
    const struct matrix_info *info = &p->matrix[operand];
    return (double)info->rows * (double)info->cols * (double)problem_element(p, operand);
}

/* The one that is read by offset and takes longest; OPERAND_COUNT when there is none. */
static enum operand largest(const struct problem *p)
{
    enum operand found = OPERAND_COUNT;
    for (enum operand i = 0; i < OPERAND_COUNT; i++)
        if (problem_reads(p, i) && problem_by_offset(p, i) &&
            (found == OPERAND_COUNT || matrix_bytes(p, i) > matrix_bytes(p, found)))
            found = i;
    return found;
}

/* Read here and there in the matrix until `end`, elsewhere with every probe: bytes. */
static double read_some(struct store *store, const struct matrix_info *info, size_t element,
                        int probe, int thread, double end, void *slot)
{
    struct error ignored = {0};
    int64_t cols = min_i64(info->cols, PROBE_BYTES / (int64_t)element);
    int64_t rows = min_i64(info->rows, PROBE_BYTES / (int64_t)element / cols);
    int64_t across = info->cols / cols, places = info->rows / rows * across;
    double bytes = 0;
    for (int64_t i = thread; i < THREADS * PROBES && clock_now() < end; i += THREADS) {
        int64_t at = i + probe * THREADS * PROBES / MEMORY_PROBES;
        int64_t place = places * (at * 89 % (THREADS * PROBES)) / (THREADS * PROBES);
        struct block block = {place / across * rows, place % across * cols, rows, cols};
        if (store_read(store, &block, slot, &ignored))
            break;
        bytes += (double)(rows * cols) * (double)element;
    }
    return bytes;
}

/* Bytes a second of as many threads as the machine has, or as the program reads with.  They and
 * their memory are there before the clock starts. */
static double read_rate(struct store *store, const struct matrix_info *info, size_t element,
                        int probe, const struct machine *m)
{
    double seconds = m->files_in_memory ? memory_probe_seconds : probe_seconds;
    int threads = (int)min_i64(THREADS, (int64_t)m->threads * m->ranks_per_node);
    char *slots = aligned_alloc(4096, (size_t)threads * PROBE_BYTES);
    if (!slots)
        return 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int thread = 0; thread < threads; thread++)
        memset(slots + (size_t)thread * PROBE_BYTES, 0, PROBE_BYTES);
    double start = clock_now(), bytes = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : bytes)
    for (int thread = 0; thread < threads; thread++)
        bytes += read_some(store, info, element, probe, thread, start + seconds,
                           slots + (size_t)thread * PROBE_BYTES);
    free(slots);
    return bytes / (clock_now() - start);
}

static double threads_of_node(const struct machine *m)
{
    return (double)m->threads * m->ranks_per_node;
}

/* Devices and writers, beside which memory will be read, take part of its bandwidth, the more the
 * more threads read: what they leave is fitted to runs with 2, 4, 8 and 16 threads on the host of
 * an H200. */
static double left_to_readers(const struct machine *m)
{
    return 0.6 + 0.4 / threads_of_node(m);
}

/* In coarse steps, so that the plan is mostly the same the next time. */
static double coarse(const struct machine *m, double rate)
{
    if (m->gpu && m->files_in_memory)
        return exp2(round(4 * log2(left_to_readers(m) * rate)) / 4);
    return exp2(round(2 * log2(rate)) / 2);
}

double machine_write_by_threads(const struct machine *m)
{
    return 1.4e9 * threads_of_node(m);
}

double machine_moving_seconds(const struct machine *m, double read, double written)
{
    if (!m->gpu || !m->files_in_memory)
        return 0;
    return read * left_to_readers(m) / m->disk_read_bytes_per_s +
           written / machine_write_by_threads(m);
}

/* Memory more than once: whatever else goes on makes it look slower, so the best counts. */
void machine_probe_disk(const struct problem *p, int computers, struct machine *m)
{
    struct error ignored = {0};
    struct store *store = NULL;
    enum operand operand = largest(p);
    if (operand == OPERAND_COUNT || matrix_bytes(p, operand) < worth_bytes)
        return;
    const struct matrix_info *info = &p->matrix[operand];
    if (store_open(info, problem_held(p, operand), STORE_READ, p->io, &store, &ignored))
        return;
    const size_t element = problem_element(p, operand);
    double rate = read_rate(store, info, element, 0, m);
    m->files_in_memory |= rate >= memory_rate && strcmp(store_way_name(store), "buffered") == 0;
    for (int i = 1; m->files_in_memory && i < MEMORY_PROBES; i++)
        rate = fmax(rate, read_rate(store, info, element, i, m));
    store_close(store);
    if (rate <= 0)
        return;
    m->disk_read_bytes_per_s = coarse(m, rate * computers);
    machine_measured(m, &m->disk_read_bytes_per_s);
}
