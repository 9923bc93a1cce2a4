#include "window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "memory_limits.h"

size_t window_pages(size_t bytes)
{
    enum { PAGE = 4096 };
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Where the others find the first rank's file. */
struct address {
    pid_t process;
    int descriptor;
};

static int create_file(size_t bytes)
{
    int descriptor = memfd_create("dgemm_ooc", MFD_CLOEXEC);
    if (descriptor >= 0 && ftruncate(descriptor, (off_t)bytes)) {
        close(descriptor);
        descriptor = -1;
    }
    return descriptor;
}

static int open_file(const struct address *address)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)address->process, address->descriptor);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void *map(int descriptor, size_t bytes)
{
    int flags = descriptor < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, descriptor, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int window_open(struct window *window, const struct comm *comm, size_t bytes, struct error *err)
{
    struct address address = {.process = getpid(), .descriptor = -1};
    int descriptor = -1;
    char text[MEMORY_LIMITS_TEXT];
    bool shared = comm->node_size > 1;
    *window = (struct window){.bytes = bytes};
    if (shared && comm->node_rank == 0)
        address.descriptor = descriptor = create_file(bytes);
    int reason = errno;
    if (shared)
        comm_node_share(comm, &address, sizeof address, 0);
    const bool created = !shared || address.descriptor >= 0;
    if (shared && comm->node_rank > 0 && created) {
        descriptor = open_file(&address);
        reason = errno;
    }
    if (!shared || descriptor >= 0) {
        window->memory = map(descriptor, bytes);
        reason = errno;
    }
    if (!comm_node_all(comm, window->memory != NULL))
        err->code = ERROR_ELSEWHERE;
    if (!window->memory && (created || comm->node_rank == 0))
        error_add(err, EXIT_RESOURCES,
                  "the ranks of a node cannot share %zu bytes of memory: %s; lower --host-memory%s",
                  bytes, strerror(reason), memory_limits_remedy(text));
    if (descriptor >= 0)
        close(descriptor);
    if (window->memory)
        madvise(window->memory, bytes, MADV_HUGEPAGE);
    return err->code;
}

void window_close(struct window *window)
{
    if (window->memory)
        munmap(window->memory, window->bytes);
    *window = (struct window){0};
}

void window_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void window_signal_init(pthread_cond_t *signal)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(signal, &attributes);
    pthread_condattr_destroy(&attributes);
}

void window_lock(pthread_mutex_t *lock)
{
    if (pthread_mutex_lock(lock) == EOWNERDEAD)
        pthread_mutex_consistent(lock);
}

void window_wait(pthread_cond_t *signal, pthread_mutex_t *lock)
{
    if (pthread_cond_wait(signal, lock) == EOWNERDEAD)
        pthread_mutex_consistent(lock);
}
