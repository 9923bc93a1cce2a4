/* Journals: one line of any JSON, whole as its hash says; what is taken from it is work on C. */
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "error.h"
#include "fuzz_input.h"
#include "journal.h"

enum { LINE_MAX_BYTES = 1 << 16 };

static void check(const struct progress *progress, const struct problem *p)
{
    for (int i = 0; i < progress->left.count; i++) {
        const struct piece *piece = &progress->left.pieces[i];
        const struct block *b = &piece->block;
        if (b->row < 0 || b->col < 0 || b->rows < 1 || b->cols < 1 || b->rows > p->m - b->row ||
            b->cols > p->n - b->col || piece->k < 0 || piece->k >= p->k || piece->place < 0 ||
            piece->place >= PLACES)
            abort();
    }
}

/* The lines before: of this very product. */
static size_t begin(struct journal *journal, char *head, size_t room)
{
    struct error err = {0};
    if (journal_open(journal, false, &err))
        abort();
    FILE *file = fopen(journal->names->journal, "r");
    size_t bytes = fread(head, 1, room, file);
    fclose(file);
    close(journal->descriptor);
    return bytes;
}

/* A product, and how its journals begin. */
struct subject {
    struct problem problem;
    struct journal journal;
    char head[LINE_MAX_BYTES];
    size_t bytes;
};

/* Read a journal of this product that has one more line. */
static void read_line(struct subject *s, const uint8_t *data, size_t bytes)
{
    static const struct options options;
    static struct file_names names;
    static char text[2 * LINE_MAX_BYTES];
    const struct operand_state none = {0};
    struct progress progress;
    struct error err = {0};
    if (file_names_make(&names, fuzz_file(data, 0), &err))
        abort();
    if (!s->bytes) {
        journal_describe(&s->journal, &names, &options, &s->problem, &none);
        s->bytes = begin(&s->journal, s->head, sizeof s->head);
    }
    memcpy(text, s->head, s->bytes);
    size_t end =
        s->bytes + (size_t)sprintf(text + s->bytes, "%016" PRIx64 " ", XXH3_64bits(data, bytes));
    memcpy(text + end, data, bytes);
    text[end + bytes] = '\n';
    FILE *file = fopen(names.journal, "w");
    if (!file || fwrite(text, 1, end + bytes + 1, file) != end + bytes + 1 || fclose(file))
        abort();
    int rc = journal_read(&s->journal, RESTART_AUTO, &s->problem, &progress, &err);
    unlink(names.journal);
    if (rc != err.code || (rc && !err.text[0]))
        abort();
    if (!rc)
        check(&progress, &s->problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct subject subjects[] = {
        /* alpha 0: no operands */
        {.problem = {.m = 100, .n = 90, .k = 80}},
        {.problem = {.m = 100, .n = 100, .k = 80, .symmetric = true, .lower = true}},
        {.problem = {.m = 100, .n = 200, .k = 160, .symmetric = true, .complex = true}},
        {.problem = {.m = 100, .n = 100, .k = 80, .scaling = {.axis = AXIS_ROWS}}},
    };
    if (bytes >= LINE_MAX_BYTES / 2)
        return -1;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
        read_line(&subjects[i], data, bytes);
    return 0;
}
