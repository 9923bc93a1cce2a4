/* The methods of I/O by offset, on plain files in which a matrix may begin at any byte. */
#include "store_fixture.h"

#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "pool.h"

enum { GUARD = 0xEE, WORKERS = 6 };

static const enum store_way ways[] = {STORE_BUFFERED, STORE_DIRECT, STORE_MAPPED};
enum { WAYS = sizeof ways / sizeof ways[0] };

static struct store *open_store(const struct source *source, enum scalar type, enum store_mode mode,
                                enum store_way way)
{
    struct store *store;
    struct error err = {0};
    if (store_open(source, type, mode, way, &store, &err) == EXIT_INPUT && way != STORE_BUFFERED) {
        complained(&err, EXIT_INPUT, "leave --io at auto");
        skip();
    }
    succeed(err.code, &err);
    return store;
}

static size_t matrix_bytes(const struct source *source, enum scalar type)
{
    return (size_t)(source->matrix.rows * source->matrix.cols) * scalar_size(type);
}

/* A matrix at byte `offset` of a file of guard bytes, `tail` bytes before its end. */
static struct source plain(const char *file, uint64_t offset, int64_t rows, int64_t cols,
                           enum scalar type, size_t tail)
{
    struct source source = matrix(file, rows, cols, type);
    source.matrix.by_offset = true;
    source.offset = offset;
    source.file_bytes = offset + matrix_bytes(&source, type) + tail;
    char *guards = malloc(source.file_bytes);
    memset(guards, GUARD, source.file_bytes);
    unlink(file);
    int fd = open(file, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, guards, source.file_bytes), source.file_bytes);
    close(fd);
    free(guards);
    return source;
}

static void guarded(const unsigned char *bytes, uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        if (bytes[i] != GUARD)
            fail_msg("byte %lu is %d", (unsigned long)i, bytes[i]);
}

static void check_guards(const struct source *source, enum scalar type)
{
    unsigned char *bytes = malloc(source->file_bytes + 1);
    uint64_t end = source->offset + matrix_bytes(source, type);
    int fd = open(source->file, O_RDONLY);
    assert_int_equal(read(fd, bytes, source->file_bytes + 1), source->file_bytes);
    close(fd);
    guarded(bytes, 0, source->offset);
    guarded(bytes, end, source->file_bytes);
    free(bytes);
}

/* All blocks of a matrix, of height x width, transferred by several threads at once between the
 * file and memory of various alignments. */
struct sweep {
    struct store *store;
    const struct source *source;
    enum scalar type;
    enum store_mode mode;
    int64_t height, width;
    atomic_long next;
};

static int64_t less(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void *sweep_some(void *context)
{
    struct sweep *s = context;
    size_t most = (size_t)(s->height * s->width) * scalar_size(s->type);
    char *memory = aligned_alloc(4096, (most + 2 * 4096) / 4096 * 4096);
    int64_t across = (s->source->matrix.cols - 1) / s->width + 1;
    for (int64_t i;
         (i = atomic_fetch_add(&s->next, 1)) / across * s->height < s->source->matrix.rows;) {
        struct error err = {0};
        char *data = memory + i % 3 * 8 * (i % 5 ? 1 : 64);
        struct block b = {.row = i / across * s->height, .col = i % across * s->width};
        b.rows = less(s->height, s->source->matrix.rows - b.row);
        b.cols = less(s->width, s->source->matrix.cols - b.col);
        if (s->mode == STORE_READ) {
            succeed(store_read(s->store, &b, data, &err), &err);
            check(s->type, &b, data);
        } else {
            fill(s->type, &b, data);
            succeed(store_write(s->store, &b, data, &err), &err);
        }
    }
    free(memory);
    return NULL;
}

static void sweep(const struct source *source, enum scalar type, enum store_mode mode,
                  enum store_way way, int64_t height, int64_t width)
{
    struct error err = {0};
    pthread_t threads[WORKERS];
    struct sweep s = {.store = open_store(source, type, mode, way),
                      .source = source,
                      .type = type,
                      .mode = mode,
                      .height = less(height, source->matrix.rows),
                      .width = less(width, source->matrix.cols)};
    assert_string_equal(store_way_name(s.store), way == STORE_DIRECT ? "direct"
                                                 : way == STORE_MAPPED && mode == STORE_WRITE
                                                     ? "mapped"
                                                     : "buffered");
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sweep_some, &s), 0);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    if (mode == STORE_WRITE)
        succeed(store_sync(s.store, &err), &err);
    store_close(s.store);
}

/* Every method reads what any method has written, in blocks of any size, and changes nothing
 * else. */
static void test_ways(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset;
        int64_t rows, cols;
        size_t tail;
    } cases[] = {{2048, 1, 1, 0},         {8, 50, 1, 3},          {2051, 33, 47, 0},
                 {4096, 64, 4096, 0},     {4095, 400, 2001, 511}, {512, 3, 200000, 0},
                 {1 << 20, 40, 40001, 1}, {100, 70, 65536, 4000}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int w = 0; w < WAYS * WAYS; w++) {
            enum scalar type = (c + (size_t)w) % 2 ? SCALAR_FLOAT : SCALAR_DOUBLE;
            if (brief() && c > 3 && (w + (int)c) % 4 != 0)
                continue;
            int64_t cols = cases[c].cols;
            struct source source =
                plain("plain", cases[c].offset, cases[c].rows, cols, type, cases[c].tail);
            int64_t grids[][2] = {
                {source.matrix.rows, cols}, {7, cols}, {5, cols / 2 + 1}, {30, cols / 20 + 9}};
            sweep(&source, type, STORE_WRITE, ways[w / WAYS], grids[(c + 1) % 4][0],
                  grids[(c + 1) % 4][1]);
            for (int g = 0; g < 4; g++)
                sweep(&source, type, STORE_READ, ways[w % WAYS], grids[g][0], grids[g][1]);
            sweep(&source, type, STORE_WRITE, ways[w % WAYS], grids[w % 4][0], grids[w % 4][1]);
            sweep(&source, type, STORE_READ, ways[w / WAYS], 11, cols);
            check_guards(&source, type);
        }
}

/* Rows are prepared if that is useful, before and after they are written, and keep their data;
 * holes of the file get memory. */
static void prepares(const char *file)
{
    struct statfs fs;
    struct stat status;
    for (int w = 0; w < WAYS; w++) {
        struct source source = plain(file, 2051, 300, 9001, SCALAR_DOUBLE, 4000);
        struct store *store = open_store(&source, SCALAR_DOUBLE, STORE_WRITE, ways[w]);
        assert_int_equal(statfs(file, &fs), 0);
        bool useful = ways[w] == STORE_MAPPED && fs.f_type == TMPFS_MAGIC;
        assert_int_equal(store_prepare(store, 100, 200), useful);
        check_guards(&source, SCALAR_DOUBLE);
        sweep(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_BUFFERED, 300, 9001);
        assert_int_equal(store_prepare(store, 0, 300), useful);
        assert_int_equal(truncate(file, (off_t)source.file_bytes / 2), 0);
        assert_int_equal(store_prepare(store, 0, 300), useful);
        assert_int_equal(truncate(file, (off_t)source.file_bytes), 0);
        assert_int_equal(store_prepare(store, 150, 150), useful);
        assert_int_equal(stat(file, &status), 0);
        assert_int_equal(status.st_blocks * 512 >= (off_t)matrix_bytes(&source, SCALAR_DOUBLE),
                         useful);
        store_close(store);
        struct source half = source;
        half.matrix.rows = 140;
        sweep(&half, SCALAR_DOUBLE, STORE_READ, STORE_BUFFERED, 70, 9001);
    }
    unlink(file);
}

static void test_prepare(void **state)
{
    (void)state;
    char name[] = "/dev/shm/dgemm_ooc-test-XXXXXX";
    int fd = mkstemp(name);
    prepares("prepared");
    if (fd < 0)
        return;
    close(fd);
    prepares(name);
}

static void test_file_cut_short(void **state)
{
    (void)state;
    for (int w = 0; w < WAYS; w++) {
        struct error err = {0};
        struct source source = plain("short", 77, 300, 400, SCALAR_DOUBLE, 0);
        struct store *store = open_store(&source, SCALAR_DOUBLE, STORE_READ, ways[w]);
        struct block whole = {.rows = 300, .cols = 400}, part = {250, 300, 50, 9};
        double *data = malloc(matrix_bytes(&source, SCALAR_DOUBLE));
        assert_int_equal(truncate("short", 5000), 0);
        assert_int_equal(store_read(store, &whole, data, &err), EXIT_RUNTIME);
        complained(&err, EXIT_RUNTIME, "short ends at byte 5000, not at 960077");
        assert_int_equal(err.complaints, 1);
        err = (struct error){0};
        assert_int_equal(store_read(store, &part, data, &err), EXIT_RUNTIME);
        store_close(store);
        free(data);
    }
}

/* A failed write through a mapping is an error, not a signal. */
static void test_mapping_of_a_file_cut_short(void **state)
{
    (void)state;
    struct error err = {0};
    struct source source = plain("gone", 77, 300, 400, SCALAR_DOUBLE, 0);
    struct store *store = open_store(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_MAPPED);
    struct block whole = {.rows = 300, .cols = 400};
    double *data = calloc(300 * 400, sizeof *data);
    assert_int_equal(truncate("gone", 5000), 0);
    assert_int_equal(store_write(store, &whole, data, &err), EXIT_RUNTIME);
    complained(&err, EXIT_RUNTIME, "gone ends at byte 5000, not at 960077");
    store_close(store);
    free(data);
}

/* Pages of files that are mapped and in memory, in bytes. */
static size_t shared_bytes(void)
{
    size_t size, resident, shared;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu %zu", &size, &resident, &shared), 3);
    fclose(file);
    return shared * (size_t)sysconf(_SC_PAGE_SIZE);
}

/* A mapping keeps as much of its file in memory as it was told, and no more.  How much of a window
 * is in memory depends on the size of the pages that the file system has there. */
static void test_window_of_a_mapping(void **state)
{
    (void)state;
    enum { ROWS = 3072, COLS = 4096, PART = 64, WINDOW = 32 << 20, SLACK = 2 << 20 };
    struct error err = {0};
    struct source source = plain("window", 77, ROWS, COLS, SCALAR_DOUBLE, 0);
    double *data = calloc((size_t)ROWS * PART, sizeof *data);
    const size_t least =
        store_overhead_bytes(&source.matrix, SCALAR_DOUBLE, STORE_WRITE, STORE_MAPPED, 1);
    size_t narrow = 0;
    for (int wide = 0; wide < 2; wide++) {
        struct store *store = open_store(&source, SCALAR_DOUBLE, STORE_WRITE, STORE_MAPPED);
        size_t before = shared_bytes(), most = 0;
        if (wide)
            store_widen(store, WINDOW);
        for (int64_t i = 0; i < COLS / PART; i++) {
            struct block rows = {i * PART / 2, 0, PART / 2, COLS}, cols = {0, i * PART, ROWS, PART};
            succeed(store_write(store, i % 2 ? &rows : &cols, data, &err), &err);
            size_t now = shared_bytes();
            most = now > before + most ? now - before : most;
        }
        assert_true(most <= least + (wide ? WINDOW : 0) + SLACK);
        assert_true(most >= 2 * narrow);
        narrow = most;
        store_close(store);
    }
    free(data);
}

static void chooses(const struct source *source, enum store_mode mode, const char *way)
{
    struct store *store = open_store(source, SCALAR_DOUBLE, mode, STORE_AUTO);
    assert_string_equal(store_way_name(store), way);
    store_close(store);
}

static void test_choice(void **state)
{
    (void)state;
    enum { ROWS = 33 << 10, COLS = 1 << 10 }; /* 264 MiB */
    struct statfs fs;
    struct source source = plain("choice", 100, 10, 10, SCALAR_DOUBLE, 0);
    assert_int_equal(store_shared_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_AUTO), 0);
    assert_int_equal(store_shared_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_BUFFERED),
                     0);
    assert_int_equal(store_shared_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_LIBRARY),
                     0);
    assert_int_equal(store_shared_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_DIRECT),
                     pool_bytes());
    chooses(&source, STORE_READ, "buffered");

    source.matrix.rows = ROWS;
    source.matrix.cols = COLS;
    source.file_bytes = source.offset + matrix_bytes(&source, SCALAR_DOUBLE);
    assert_int_equal(store_shared_bytes(&source.matrix, SCALAR_DOUBLE, STORE_READ, STORE_AUTO),
                     pool_bytes());
    assert_int_equal(truncate("choice", (off_t)source.file_bytes), 0);
    assert_int_equal(statfs("choice", &fs), 0);
    store_close(open_store(&source, SCALAR_DOUBLE, STORE_READ, STORE_DIRECT));
    const char *cold = fs.f_type == TMPFS_MAGIC ? "buffered" : "direct";
    const bool enough = sysconf(_SC_NPROCESSORS_ONLN) >= STORE_MAPPING_CPUS;
    const char *written = fs.f_type == TMPFS_MAGIC && enough ? "mapped" : cold;
    chooses(&source, STORE_READ, cold);
    chooses(&source, STORE_WRITE, written);

    char *row = malloc(COLS * sizeof(double));
    int fd = open("choice", O_RDONLY);
    while (read(fd, row, COLS * sizeof(double)) > 0)
        continue;
    chooses(&source, STORE_READ, "buffered");
    chooses(&source, STORE_WRITE, written);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    chooses(&source, STORE_READ, cold);
    close(fd);
    free(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_prepare),
        cmocka_unit_test(test_file_cut_short),
        cmocka_unit_test(test_mapping_of_a_file_cut_short),
        cmocka_unit_test(test_window_of_a_mapping),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, enter_scratch, remove_scratch);
}
