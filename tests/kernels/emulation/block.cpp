/* The threads of a block are fibers.  They are created with makecontext and switched with the
 * compiler's own longjmp, which leaves the signal mask alone and so needs no system call. */
#include <link.h>
#include <omp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "emulated_block.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t) {}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *) {}
#endif

enum : size_t { PAGE = 4096, STACK_BYTES = 256 << 10, SHARED_BYTES_MAX = 227 << 10 };
enum { THREADS_MAX = 1024 };
enum class state { ready, at_barrier, at_warp, left };

/* The saved context of a fiber or of the scheduler. */
struct context {
    void *registers[5];
    const void *stack;
    size_t stack_bytes;
};

struct fiber {
    context self;
    bool started;
    enum state state;
    uint3 id;
    unsigned number;
    std::vector<emulated_copy> copies;
    unsigned group; /* of the copies that are issued now */
};

struct warp {
    void *lanes[WARP];
    void (*act)(void *const lanes[WARP]);
    unsigned arrived, size;
};

/* A piece of memory. */
struct piece {
    unsigned char *at;
    size_t bytes;
};

/* A CPU thread that runs blocks, one after another. */
struct executor {
    context scheduler;
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    std::vector<fiber *> ready;
    fiber *current;
    const std::function<void()> *kernel;
    unsigned char *shared_end; /* a guard page begins here */
    size_t shared_bytes;
    piece variables; /* the thread's __shared__ variables, of all kernels */
    std::vector<piece> written; /* pieces of them that a block is to find overwritten */
    uint64_t launch = UINT64_MAX, random;
};

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim;
static __thread executor *here;

static void complain(const char *what)
{
    fprintf(stderr, "emulation: block %u,%u thread %u,%u: %s\n", blockIdx.x, blockIdx.y,
            threadIdx.x, threadIdx.y, what);
    abort();
}

/* Switching */

static void fiber_main();

/* These are not instrumented, since AddressSanitizer takes a switch of stacks for a return. */
#define SWITCHES __attribute__((noinline, no_sanitize_address))

SWITCHES static void enter(const context &to, bool first)
{
    ucontext_t start;
    if (!first)
        __builtin_longjmp(const_cast<void **>(to.registers), 1);
    getcontext(&start);
    start.uc_stack.ss_sp = const_cast<void *>(to.stack);
    start.uc_stack.ss_size = to.stack_bytes;
    makecontext(&start, fiber_main, 0);
    setcontext(&start);
}

/* Where setjmp keeps the stack pointer: behind that of the shadow stack, which compilers of some
 * distributions save, too (-fcf-protection). */
#if defined __CET__ && __CET__ & 2
#define STACK_POINTER "24"
#else
#define STACK_POINTER "16"
#endif

/* Save the registers in `from` and go on where `to` was saved, as setjmp and longjmp do, but
 * without a call that never returns, after which the CPU predicts all returns wrongly.  False, with
 * nothing done, where the CPU is of another kind. */
__attribute__((no_sanitize_address)) static inline bool exchange(context &from, const context &to)
{
#ifdef __x86_64__
    void *save = from.registers, *load = const_cast<void **>(to.registers);
    asm volatile("lea 1f(%%rip), %%rax\n\t"
                 "mov %%rbp, (%0)\n\t"
                 "mov %%rax, 8(%0)\n\t"
                 "mov %%rsp, " STACK_POINTER "(%0)\n\t"
                 "mov (%1), %%rbp\n\t"
                 "mov " STACK_POINTER "(%1), %%rsp\n\t"
                 "jmp *8(%1)\n"
                 "1:"
                 : "+D"(save), "+S"(load)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
                   "memory", "cc");
    return true;
#else
    (void)from, (void)to;
    return false;
#endif
}

/* Suspend `from`, and return when something switches to it.  `first`: `to` is a new fiber. */
SWITCHES static void switch_context(context &from, context &to, bool first)
{
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack, to.stack_bytes);
    if ((first || !exchange(from, to)) && __builtin_setjmp(from.registers) == 0)
        enter(to, first);
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

static size_t draw(executor &e, size_t below)
{
    e.random = e.random * 6364136223846793005u + 1442695040888963407u;
    return (e.random >> 32) * below >> 32;
}

/* Run a fiber that is ready, chosen at random, instead of `from`. */
static void run_ready(executor &e, context &from)
{
    std::swap(e.ready[draw(e, e.ready.size())], e.ready.back());
    fiber &next = *e.ready.back();
    e.ready.pop_back();
    const bool first = !next.started;
    next.started = true;
    e.current = &next;
    threadIdx = next.id;
    switch_context(from, next.self, first);
}

/* Let others run until this fiber is ready again; the scheduler, if none is. */
static void yield(executor &e)
{
    context &self = e.current->self;
    if (e.ready.empty())
        switch_context(self, e.scheduler, false);
    else
        run_ready(e, self);
}

static void fiber_main()
{
    executor &e = *here;
    const bool first = !e.scheduler.stack; /* else a fiber may have switched to this one */
    __sanitizer_finish_switch_fiber(nullptr, first ? &e.scheduler.stack : nullptr,
                                    first ? &e.scheduler.stack_bytes : nullptr);
    for (;;) {
        (*e.kernel)();
        e.current->state = state::left;
        yield(e);
    }
}

static void *map(size_t bytes)
{
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        complain("no memory");
    return memory;
}

static void fiber_make(fiber &f)
{
    char *stack = static_cast<char *>(map(PAGE + STACK_BYTES));
    mprotect(stack, PAGE, PROT_NONE);
    f.self.stack = stack + PAGE;
    /* Stack tops at the same offset in their pages would compete for a few cache sets. */
    f.self.stack_bytes = STACK_BYTES - f.number * 576 % (2 * PAGE);
}

/* Scheduling */

static void make_ready(executor &e, fiber &f)
{
    f.state = state::ready;
    e.ready.push_back(&f);
}

/* No fiber is ready: release the barrier, which all must have reached.  False: all have ended. */
static bool pass_barrier(executor &e, unsigned threads)
{
    unsigned count[4] = {};
    for (unsigned t = 0; t < threads; t++)
        count[(int)e.fibers[t].state]++;
    if (count[(int)state::left] == threads)
        return false;
    if (count[(int)state::at_barrier] != threads) {
        char what[128];
        snprintf(
            what, sizeof what, "%u threads wait for the block, %u for their warp, %u have left",
            count[(int)state::at_barrier], count[(int)state::at_warp], count[(int)state::left]);
        complain(what);
    }
    for (unsigned t = 0; t < threads; t++)
        make_ready(e, e.fibers[t]);
    return true;
}

void __syncthreads()
{
    executor &e = *here;
    e.current->state = state::at_barrier;
    yield(e);
}

void emulated_warp_meet(void *mine, void (*act)(void *const lanes[WARP]))
{
    executor &e = *here;
    const unsigned number = e.current->number, first = number / WARP * WARP;
    warp &w = e.warps[number / WARP];
    if (w.arrived > 0 && w.act != act)
        complain("the threads of a warp meet in different instructions");
    w.act = act;
    w.lanes[number % WARP] = mine;
    if (++w.arrived < w.size) {
        e.current->state = state::at_warp;
        yield(e);
        return;
    }
    act(w.lanes);
    w.arrived = 0;
    for (unsigned t = first; t < first + w.size; t++)
        if (t != number)
            make_ready(e, e.fibers[t]);
}

void __syncwarp()
{
    emulated_warp_meet(nullptr, [](void *const *) {});
}

/* Shared memory */

unsigned char *emulated_dynamic_shared()
{
    const executor &e = *here;
    return e.shared_end - (e.shared_bytes + 1023) / 1024 * 1024;
}

/* __shared__ variables are in the thread-local storage of the program itself, most of a megabyte
 * for all kernels.  The first block that a thread runs of a launch finds all of it overwritten,
 * including `here` and the texts of quantity.c, which are no longer needed when a kernel starts;
 * those after it, the pages which the first one wrote to. */
static int find_variables(struct dl_phdr_info *program, size_t, void *found)
{
    for (int i = 0; i < program->dlpi_phnum; i++)
        if (program->dlpi_phdr[i].p_type == PT_TLS)
            *static_cast<piece *>(found) = {static_cast<unsigned char *>(program->dlpi_tls_data),
                                            program->dlpi_phdr[i].p_memsz};
    return 1; /* the program comes first; its libraries are not looked at */
}

static bool is_poisoned(const piece &p)
{
    return p.at[0] == 0xff && memcmp(p.at, p.at + 1, p.bytes - 1) == 0;
}

static void find_written(executor &e)
{
    e.written.clear();
    for (size_t at = 0; at < e.variables.bytes; at += PAGE) {
        const piece page = {e.variables.at + at, std::min<size_t>(PAGE, e.variables.bytes - at)};
        if (!is_poisoned(page))
            e.written.push_back(page);
    }
}

static void poison_shared(executor &e, uint64_t launch)
{
    if (e.launch != launch)
        e.written = {e.variables};
    else if (e.written.size() == 1 && e.written[0].bytes == e.variables.bytes)
        find_written(e);
    e.launch = launch;
    for (const piece &p : e.written)
        memset(p.at, 0xff, p.bytes);
    here = &e;
    unsigned char *dynamic = emulated_dynamic_shared();
    memset(dynamic, 0xff, (size_t)(e.shared_end - dynamic));
}

/* Asynchronous copies */

void emulated_copy_begin(const emulated_copy &copy)
{
    fiber &f = *here->current;
    if ((uintptr_t)copy.to % copy.size != 0 || (uintptr_t)copy.from % copy.size != 0)
        complain("an asynchronous copy is not aligned");
    if (copy.bytes < 0 || copy.bytes > copy.size)
        complain("an asynchronous copy is too long");
    memset(copy.to, 0xff, copy.size);
    f.copies.push_back(copy);
    f.copies.back().group = f.group;
}

void emulated_copy_commit()
{
    here->current->group++;
}

void emulated_copy_wait(unsigned pending)
{
    fiber &f = *here->current;
    size_t done = 0;
    for (; done < f.copies.size() && f.copies[done].group + pending < f.group; done++) {
        const emulated_copy &copy = f.copies[done];
        memset(copy.to, 0, copy.size);
        memcpy(copy.to, copy.from, copy.bytes);
    }
    f.copies.erase(f.copies.begin(), f.copies.begin() + (ptrdiff_t)done);
}

/* Blocks */

static executor &executor_here()
{
    if (!here) {
        executor *e = new executor(); /* lives until the program ends */
        unsigned char *arena = static_cast<unsigned char *>(map(SHARED_BYTES_MAX + 2 * PAGE));
        e->shared_end = arena + (SHARED_BYTES_MAX + PAGE) / PAGE * PAGE;
        mprotect(e->shared_end, PAGE, PROT_NONE);
        dl_iterate_phdr(find_variables, &e->variables);
        e->fibers.resize(THREADS_MAX);
        e->warps.resize(THREADS_MAX / WARP);
        here = e;
    }
    return *here;
}

static void block_start(executor &e, const cudaLaunchConfig_t &config, uint64_t launch,
                        int64_t block, unsigned threads)
{
    const dim3 b = config.blockDim, g = config.gridDim;
    e.shared_bytes = config.dynamicSmemBytes;
    poison_shared(e, launch);
    blockDim = b;
    gridDim = g;
    blockIdx = {(unsigned)(block % g.x), (unsigned)(block / g.x % g.y),
                (unsigned)(block / g.x / g.y)};
    for (unsigned t = 0; t < threads; t++) {
        fiber &f = e.fibers[t];
        f.number = t;
        if (!f.self.stack)
            fiber_make(f);
        f.id = {t % b.x, t / b.x % b.y, t / b.x / b.y};
        f.copies.clear();
        f.group = 0;
        make_ready(e, f);
    }
    for (unsigned w = 0; w * WARP < threads; w++)
        e.warps[w] = {{}, nullptr, 0, std::min(threads - w * WARP, (unsigned)WARP)};
}

/* The number of threads that run blocks: one if a launcher has started other ranks on this
 * computer, whose threads would spin on the same CPUs. */
static int block_threads()
{
    for (const char *name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
        const char *ranks = getenv(name);
        if (ranks && atoi(ranks) > 1)
            return 1;
    }
    return omp_get_max_threads();
}

cudaError_t emulated_launch(const cudaLaunchConfig_t &config, const std::function<void()> &kernel)
{
    static std::atomic<uint64_t> launches(
        getenv("EMULATION_SEED") ? strtoull(getenv("EMULATION_SEED"), 0, 10) : 1);
    const dim3 b = config.blockDim, g = config.gridDim;
    const uint64_t threads = (uint64_t)b.x * b.y * b.z, seed = launches++ << 32;
    if (threads == 0 || threads > THREADS_MAX || g.x == 0 || g.y == 0 || g.z == 0 ||
        g.x > INT32_MAX || g.y > UINT16_MAX || g.z > UINT16_MAX ||
        config.dynamicSmemBytes > SHARED_BYTES_MAX)
        return cudaErrorInvalidConfiguration;

    const int64_t blocks = (int64_t)g.x * g.y * g.z;
    static const int workers = block_threads();
#pragma omp parallel for schedule(dynamic) num_threads(workers) if (blocks > 1)
    for (int64_t block = 0; block < blocks; block++) {
        executor &e = executor_here();
        e.kernel = &kernel;
        e.random = (seed + (uint64_t)block) * 0x9e3779b97f4a7c15u;
        block_start(e, config, seed, block, (unsigned)threads);
        do
            run_ready(e, e.scheduler);
        while (pass_barrier(e, (unsigned)threads));
    }
    return cudaSuccess;
}
