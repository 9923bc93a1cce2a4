#include "page.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "page_impl.h"
#include "paper.h"

enum { LANES = STAGE_COUNT * TIMELINE_BINS, CELLS_AT_ONCE = 256 };

void page_end(struct page *page)
{
    page->end = clock_now();
}

static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    json_decref(string);
    return string != NULL;
}

void sheet_text(const struct sheet *s, const char *text)
{
    bool utf8 = is_utf8(text);
    for (const char *c = text; *c; c++) {
        unsigned char byte = (unsigned char)*c;
        bool control = byte < 0x20 || byte == 0x7f;
        if (utf8 && byte == 0xc2 && (unsigned char)c[1] < 0xa0) { /* U+0080 to U+009F */
            control = true;
            c++;
        }
        if (control || (!utf8 && byte >= 0x80))
            fputc('?', s->file);
        else if (strchr("<>&\"'", byte))
            fprintf(s->file, "&#%d;", byte);
        else
            fputc(byte, s->file);
    }
}

double sheet_tick(double end, int about)
{
    double rough = end / about, decade = pow(10, floor(log10(rough)));
    double digit = rough / decade;
    return decade * (digit > 5 ? 10 : digit > 2 ? 5 : digit > 1 ? 2 : 1);
}

const char *sheet_time_unit(double end, double *unit_s)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"hours", 3600}, {"minutes", 60}, {"seconds", 1}, {"milliseconds", 1e-3}};
    int i = 0;
    while (i < 3 && end < 2 * units[i].seconds)
        i++;
    *unit_s = units[i].seconds;
    return units[i].name;
}

/* Make the bins of all ranks equally wide, so that they reach to the end of the run.  That end, in
 * seconds. */
static double align(struct timeline *t, double end)
{
    double mine[] = {end - t->start, t->width}, least[2], sum[2], most[2];
    comm_statistics(mine, 2, least, sum, most);
    timeline_widen(t, most[1]);
    while (most[0] >= TIMELINE_BINS * t->width)
        timeline_widen(t, 2 * t->width);
    return most[0];
}

/* The tiles of each cell may be several ranks'. */
static void gather_cells(struct tiles *tiles)
{
    double mine[2 * CELLS_AT_ONCE] = {0}, least[2 * CELLS_AT_ONCE], sum[2 * CELLS_AT_ONCE],
                    most[2 * CELLS_AT_ONCE];
    for (int done = 0; done < tiles->count; done += CELLS_AT_ONCE) {
        struct cell *cells = &tiles->cells[done];
        int count = (int)min_i64(CELLS_AT_ONCE, tiles->count - done);
        for (int i = 0; i < count; i++) {
            mine[2 * i] = cells[i].ratio;
            mine[2 * i + 1] = cells[i].not_finite;
        }
        comm_statistics(mine, 2 * CELLS_AT_ONCE, least, sum, most);
        for (int i = 0; i < count; i++) {
            cells[i].ratio = most[2 * i];
            cells[i].not_finite = sum[2 * i + 1];
        }
    }
}

/* Add up what the ranks of each row did, and all ranks. */
static void gather_bins(const struct timeline *t, const struct comm *comm, int rows, double *busy_s,
                        double *amount)
{
    int row = sheet_row(comm->rank, comm->size, rows);
    memcpy(busy_s + (size_t)row * LANES, t->busy_s, sizeof t->busy_s);
    memcpy(amount, t->amount, sizeof t->amount);
    comm_sum_vector(busy_s, (int64_t)rows * LANES);
    comm_sum_vector(amount, LANES);
}

/* The first bin in which anything was done, not behind the last one. */
static int first_bin(const struct sheet *s, int last)
{
    int first = last;
    for (int lane = 0; lane < s->rows * STAGE_COUNT; lane++)
        for (int i = 0; i < first; i++)
            if (s->busy_s[lane * TIMELINE_BINS + i] > 0)
                first = i;
    return first;
}

static void write_sheet(const struct sheet *s)
{
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\" />\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n",
          s->file);
    fprintf(s->file, "<style>\n%s</style>\n", page_style);
    page_head(s);
    page_timeline(s);
    fputs("<div class=\"pair\">\n", s->file);
    page_roofline(s);
    page_progress(s);
    fputs("</div>\n", s->file);
    page_plan(s);
    page_map(s);
    page_details(s);
    fputs("</main>\n</body>\n</html>\n", s->file);
}

static int write_page(struct sheet *s, const char *path, struct error *err)
{
    s->file = paper_open(path, "page", err);
    if (s->file)
        write_sheet(s);
    return paper_close(s->file, path, "page", err);
}

int page_write(struct page *page, const struct page_facts *facts, struct comm *comm,
               const char *path, struct error *err)
{
    struct timeline *t = &page->timeline;
    struct sheet sheet = {
        .facts = facts, .tiles = &page->tiles, .rows = (int)min_i64(comm->size, SHEET_ROWS)};
    double *bins = calloc((size_t)(sheet.rows + 1) * LANES, sizeof *bins);
    if (!bins)
        error_add(err, EXIT_RESOURCES, "no host memory for the page; C is complete");
    if (comm_agree(comm, err) == 0) {
        double end = align(t, page->end);
        gather_bins(t, comm, sheet.rows, bins + LANES, bins);
        gather_cells(&page->tiles);
        sheet.amount = bins;
        sheet.busy_s = bins + LANES;
        sheet.bin_s = t->width;
        int last = (int)(end / t->width);
        sheet.first = first_bin(&sheet, last);
        sheet.bins = last + 1 - sheet.first;
        if (comm->rank == 0)
            write_page(&sheet, path, err);
    }
    free(bins);
    return err->code;
}
