/* Memory that the ranks of a node share, and locks in it.
 *
 * It is a memory file that the first rank makes and the others open through /proc: unlike the
 * windows of MPI_Win_allocate_shared it needs no room on /dev/shm, and nothing of it can be left
 * behind by ranks that are killed. */
#pragma once

#include <pthread.h>
#include <stddef.h>

struct comm;
struct error;

struct window {
    char *memory; /* page-aligned, zero at first */
    size_t bytes;
};

/* So many bytes, rounded up to whole pages: where the next part of a window begins. */
size_t window_pages(size_t bytes);

/* Collective over the ranks of a node, which give the same size.  All of them fail if one does. */
int window_open(struct window *window, const struct comm *comm, size_t bytes, struct error *err);
void window_close(struct window *window);

/* Initialise a lock or a condition in the window: the first rank, before the others use it. */
void window_lock_init(pthread_mutex_t *lock);
void window_signal_init(pthread_cond_t *signal);

/* Take the lock, also when its owner has died: the death of a rank ends the run (watch.h). */
void window_lock(pthread_mutex_t *lock);
void window_wait(pthread_cond_t *signal, pthread_mutex_t *lock);
