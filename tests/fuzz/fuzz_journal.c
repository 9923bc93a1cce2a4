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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct options options;
    static struct names names;
    static struct journal journal;
    static char text[2 * LINE_MAX_BYTES];
    static size_t head;
    const struct problem problem = {.m = 100, .n = 90, .k = 80}; /* alpha 0: no operands */
    const struct operand_state none = {0};
    struct progress progress;
    struct error err = {0};
    if (bytes >= LINE_MAX_BYTES)
        return -1;
    if (names_make(&names, fuzz_file(data, 0), &err))
        abort();
    if (!head) {
        journal_describe(&journal, &names, &options, &problem, &none);
        head = begin(&journal, text, LINE_MAX_BYTES);
    }
    size_t end = head + (size_t)sprintf(text + head, "%016" PRIx64 " ", XXH3_64bits(data, bytes));
    memcpy(text + end, data, bytes);
    text[end + bytes] = '\n';
    FILE *file = fopen(names.journal, "w");
    if (!file || fwrite(text, 1, end + bytes + 1, file) != end + bytes + 1 || fclose(file))
        abort();
    int rc = journal_read(&journal, RESTART_AUTO, &problem, &progress, &err);
    unlink(names.journal);
    if (rc != err.code || (rc && !err.text[0]))
        abort();
    if (!rc)
        check(&progress, &problem);
    return 0;
}
