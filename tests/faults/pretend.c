/* Overrides that let one computer act as several in tests, and that shorten a timeout:
 *
 *   DGEMM_OOC_TEST_COMPUTER=NAME  ranks with different names are on different computers
 *   DGEMM_OOC_TEST_NODE=R         a single computer is split into nodes of R ranks
 *   DGEMM_OOC_TEST_WAIT=S         a wait counts as long after S seconds instead of a minute
 *   DGEMM_OOC_TEST_ROOM=1         the CPU device has memory of its own, as a GPU has; 0: none has
 *   DGEMM_OOC_TEST_BLOCK=K        sums are of blocks of K steps of k, rounded up; 0: of all of k
 *   DGEMM_OOC_TEST_LAYERS=N       ranks form N layers, if they can
 *   DGEMM_OOC_TEST_NO_LOCKS       locks fail (disturb.c), and their file is touched often */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "comm.h"
#include "comm_impl.h"
#include "machine.h"
#include "planner_impl.h"
#include "proc.h"
#include "quantity.h"
#include "sums.h"
#include "waits.h"

uint64_t __real_computer_number(void);
uint64_t __wrap_computer_number(void);
uint64_t __wrap_computer_number(void)
{
    const char *name = getenv("DGEMM_OOC_TEST_COMPUTER");
    return __real_computer_number() ^ (name ? XXH3_64bits(name, strlen(name)) : 0);
}

void __real_comm_group(struct comm *comm, int size);
void __wrap_comm_group(struct comm *comm, int size);
void __wrap_comm_group(struct comm *comm, int size)
{
    const char *text = getenv("DGEMM_OOC_TEST_NODE");
    int wanted = text ? atoi(text) : 0;
    bool smaller = comm->computers == 1 && wanted > 0 && wanted < size;
    __real_comm_group(comm, smaller ? wanted : size);
}

bool __real_machine_has_own_memory(const struct machine *machine);
bool __wrap_machine_has_own_memory(const struct machine *machine);
bool __wrap_machine_has_own_memory(const struct machine *machine)
{
    const char *room = getenv("DGEMM_OOC_TEST_ROOM");
    return room ? atoi(room) > 0 : __real_machine_has_own_memory(machine);
}

int64_t __real_sums_block(const struct problem *p);
int64_t __wrap_sums_block(const struct problem *p);
int64_t __wrap_sums_block(const struct problem *p)
{
    const char *text = getenv("DGEMM_OOC_TEST_BLOCK");
    if (!text)
        return __real_sums_block(p);
    const int64_t block = round_up(atoll(text) * problem_width(p), problem_quantum(p));
    return problem_reads_ab(p) && block < p->k ? block : 0;
}

bool __real_plan_prefers_layers(const struct plan *layers, const struct plan *plan);
bool __wrap_plan_prefers_layers(const struct plan *layers, const struct plan *plan);
bool __wrap_plan_prefers_layers(const struct plan *layers, const struct plan *plan)
{
    const char *text = getenv("DGEMM_OOC_TEST_LAYERS");
    return text ? layers->layers <= atoi(text) : __real_plan_prefers_layers(layers, plan);
}

void __real_waits_open(struct waits *records, int count, int mine, int first, double seconds);
void __wrap_waits_open(struct waits *records, int count, int mine, int first, double seconds);
void __wrap_waits_open(struct waits *records, int count, int mine, int first, double seconds)
{
    const char *text = getenv("DGEMM_OOC_TEST_WAIT");
    __real_waits_open(records, count, mine, first, text ? atof(text) : seconds);
}

int __real_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
int __wrap_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec++;
    const bool ends = getenv("DGEMM_OOC_TEST_NO_LOCKS") && until->tv_sec > soon.tv_sec;
    return __real_pthread_cond_timedwait(cond, mutex, ends ? &soon : until);
}
