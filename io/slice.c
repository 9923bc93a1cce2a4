#include "slice.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "text.h"

enum { ITEMS = SLICE_RANK + 2 }; /* of the dimensions, and None */

/* What stands between two commas. */
struct item {
    enum { RANGE, INDEX, NONE } kind;
    int64_t first, end, step;
};

size_t slice_base(const char *name)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const char *open = last[0] ? strrchr(last + 1, '[') : NULL;
    const char *close = open ? strchr(open, ']') : NULL;
    return open && (!close || !close[1]) ? (size_t)(open - name) : strlen(name);
}

static int refuse(const struct source *source, const char *why, struct error *err)
{
    return error_add(err, EXIT_INPUT, "%s: dataset \"%s\" %s", source->file, source->dataset, why);
}

static bool take(const char **at, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length + strspn(*at + length, " ");
    return true;
}

/* What is beyond all integers is beyond all extents, too. */
static int64_t take_number(const char **at, int64_t otherwise)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return otherwise;
    const long long number = strtoll(*at, &end, 10);
    *at = end + strspn(end, " ");
    return number;
}

/* An index, negative where there is no number, START:STOP:STEP or None. */
static struct item take_item(const char **at)
{
    struct item item = {RANGE, 0, INT64_MAX, 1};
    if (take(at, "None"))
        return (struct item){.kind = NONE};
    item.first = take_number(at, -1);
    if (!take(at, ":")) {
        item.kind = INDEX;
        return item;
    }
    item.first = max_i64(item.first, 0);
    item.end = take_number(at, INT64_MAX);
    if (take(at, ":"))
        item.step = take_number(at, 1);
    return item;
}

/* The items between the brackets; negative: how many there are cannot be told. */
static int read_items(const struct source *source, struct item items[ITEMS], struct error *err)
{
    const char *at = source->dataset + source->slice.length, *begin = at;
    int count = 0;
    take(&at, "[");
    do {
        begin = at;
        items[count] = take_item(&at);
        if (items[count].kind == INDEX && items[count].first < 0)
            break;
        count++;
        if (take(&at, "]") && !*at)
            return count;
        begin = at;
    } while (count < ITEMS && take(&at, ","));
    refuse(source,
           text_make("is not understood from \"%.40s\" on; write an index or START:STOP:STEP for "
                     "each dimension, all counted from 0, as in [0:100, ::2]",
                     begin),
           err);
    return -1;
}

static const char *extents_text(const struct slice *s)
{
    const char *text = "";
    for (int d = 0; d < s->rank; d++)
        text = text_make("%s%s%" PRId64, text, d ? "x" : "", s->extents[d]);
    return text;
}

/* The rows, or the columns, are so many elements of this dimension.  Of more than two axes the
 * first two are kept. */
static void add_axis(struct slice *s, int *axes, int dimension, int64_t count)
{
    if (*axes < 2) {
        s->axes[*axes] = dimension;
        s->counts[*axes] = count;
    }
    ++*axes;
}

static int take_from(struct source *source, int d, const struct item *item, int *axes,
                     struct error *err)
{
    struct slice *s = &source->slice;
    const int64_t extent = s->extents[d], left = min_i64(item->end, extent) - item->first;
    s->first[d] = item->first;
    s->steps[d] = left > item->step ? item->step : 1;
    if (item->kind == INDEX && item->first >= extent)
        return refuse(source,
                      text_make("has no index %" PRId64
                                " in dimension %d, counted from 0: give one "
                                "below %" PRId64,
                                item->first, d, extent),
                      err);
    if (item->kind == INDEX)
        return 0;
    if (item->step < 1)
        return refuse(source, "has a step of 0: give one of 1 or more", err);
    if (left <= 0 && s->length)
        return refuse(source,
                      text_make("has no elements: give dimension %d, counted from 0, a range that "
                                "begins before its end, and before %" PRId64,
                                d, extent),
                      err);
    add_axis(s, axes, d, ceil_div(left, item->step));
    return 0;
}

static int complain_of_axes(const struct source *source, int axes, struct error *err)
{
    const struct slice *s = &source->slice;
    const int length = (int)slice_base(source->dataset);
    const char *remedy = "write N:N+1 for an index N, which keeps its dimension";
    if (s->rank == 1)
        remedy = text_make("give it as a column, \"%.*s[:, None]\"", length, source->dataset);
    else if (s->rank > 2)
        remedy = text_make("give one matrix of it, as \"%.*s[%.*s]\"", length, source->dataset,
                           3 * (s->rank - 2) - 2, "0, 0, 0, 0, 0, 0");
    return refuse(source,
                  text_make("has %d dimension%s (%s%s), not two; %s", axes, axes == 1 ? "" : "s",
                            s->length ? "of " : "", extents_text(s), remedy),
                  err);
}

int slice_parse(struct source *source, int rank, const uint64_t *extents, struct error *err)
{
    static const struct item all = {RANGE, 0, INT64_MAX, 1};
    struct slice *s = &source->slice;
    struct item items[ITEMS];
    int axes = 0, d = 0, count = s->length ? read_items(source, items, err) : 0;
    s->rank = rank;
    for (int i = 0; i < rank; i++)
        s->extents[i] = (int64_t)extents[i];
    for (int i = 0; i < count; i++)
        if (items[i].kind == NONE)
            add_axis(s, &axes, -1, 1);
        else if (d == rank)
            return refuse(source,
                          text_make("has more indices than dimensions: it is of %s, leave some out",
                                    extents_text(s)),
                          err);
        else if (take_from(source, d++, &items[i], &axes, err))
            return err->code;
    for (; count >= 0 && d < rank; d++)
        if (take_from(source, d, &all, &axes, err))
            return err->code;
    return count < 0 ? err->code : axes == 2 ? 0 : complain_of_axes(source, axes, err);
}

int slice_of_packed(struct source *source, uint64_t elements, struct error *err)
{
    struct slice *s = &source->slice;
    const int64_t n = (int64_t)((sqrtl(8 * (long double)elements + 1) - 1) / 2);
    *s = (struct slice){.rank = 1, .axes = {-1, 0}, .counts = {n, n}, .steps = {1}};
    s->extents[0] = (int64_t)elements;
    source->matrix.packed = true;
    if (elements > 0 && elements < INT64_MAX / 64 && n * (n + 1) / 2 == s->extents[0])
        return 0;
    return refuse(source,
                  text_make("is to be a packed triangle, and has %" PRIu64
                            " elements, as no triangle has: is it damaged?",
                            elements),
                  err);
}

/* All of its elements are one row. */
static const char *place_packed(struct source *source)
{
    const struct slice *s = &source->slice;
    struct matrix *m = &source->matrix;
    const int64_t width = m->complex ? 2 : 1;
    m->within = (struct block){0, 0, 1, s->extents[0] * width};
    m->rows = s->counts[0];
    m->cols = s->counts[1] * width;
    m->by_chunks = false;
    return m->chunk_rows > 0 ? "a packed triangle in chunks" : NULL;
}

/* Chunks are of the slice's own rows and columns: where it does not begin with one, it touches as
 * many as if it had elements before its first one. */
static bool place_in_chunks(const struct slice *s, struct matrix *m, int64_t width)
{
    const bool rectangle =
        s->rank == 2 && s->axes[0] == 0 && s->axes[1] == 1 && s->steps[0] == 1 && s->steps[1] == 1;
    if (rectangle) {
        m->within =
            (struct block){s->first[0], s->first[1] * width, s->extents[0], s->extents[1] * width};
        return true;
    }
    if (s->axes[0] >= 0)
        m->chunk_rows = max_i64(1, m->chunk_rows / s->steps[s->axes[0]]);
    if (s->axes[1] >= 0)
        m->chunk_cols = max_i64(1, m->chunk_cols / width / s->steps[s->axes[1]]) * width;
    m->within = (struct block){0, 0, m->rows + m->chunk_rows - 1, m->cols + m->chunk_cols - width};
    return false;
}

const char *slice_place(struct source *source)
{
    const struct slice *s = &source->slice;
    struct matrix *m = &source->matrix;
    const int64_t width = m->complex ? 2 : 1;
    if (m->packed)
        return place_packed(source);
    int64_t first = 0, apart[2] = {1, 1}, stride = 1;
    for (int d = s->rank; d-- > 0; stride *= s->extents[d]) {
        first += s->first[d] * stride;
        for (int i = 0; i < 2; i++)
            if (s->axes[i] == d)
                apart[i] = s->steps[d] * stride;
    }
    m->rows = s->counts[0];
    m->cols = s->counts[1] * width;
    memcpy(m->part, (int64_t[]){first, apart[0], apart[1]}, sizeof m->part);
    if (m->chunk_rows > 0) {
        m->by_chunks &= place_in_chunks(s, m, width);
        return m->by_chunks ? NULL : "a slice across chunks";
    }
    const bool runs = apart[1] == 1 || s->counts[1] == 1;
    if (m->rows > 1)
        m->within = (struct block){0, 0, m->rows, apart[0] * width};
    m->by_offset &= runs;
    m->never_written &= runs;
    if (m->by_offset)
        source->offset += (uint64_t)(first * width) * m->element_bytes;
    return runs ? NULL : "columns apart";
}
