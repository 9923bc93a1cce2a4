/* The map of C: by rank, and by residual. */
#include <inttypes.h>
#include <math.h>

#include "page_impl.h"

enum {
    SIDE = 400, /* of the longer side of C; the shorter one has a quarter of it at least */
    LEFT = 4,
    TOP = 20,
    COLOURS = 8,        /* of ranks, in turn */
    NUMBERED_MAX = 200, /* so many cells at most have their rank written into them */
};

struct map {
    double width, height, x_scale, y_scale;
};

static struct map shape(const struct problem *p)
{
    double m = (double)p->m, n = (double)p->n, longest = fmax(m, n);
    struct map map = {.width = fmax(SIDE * n / longest, SIDE / 4.0),
                      .height = fmax(SIDE * m / longest, SIDE / 4.0)};
    map.x_scale = map.width / n;
    map.y_scale = map.height / m;
    return map;
}

/* Which rows and columns, by whom, how well. */
static void print_title(const struct sheet *s, const struct cell *cell)
{
    const struct block *b = &cell->block;
    fprintf(s->file,
            "<title>rows %" PRId64 " to %" PRId64 ", columns %" PRId64 " to %" PRId64 ": rank %d, ",
            b->row, b->row + b->rows - 1, b->col, b->col + b->cols - 1, cell->rank);
    if (cell->ratio < 0)
        fputs("not checked", s->file);
    else
        fprintf(s->file, "residual %.6g of its limit", cell->ratio);
    if (cell->not_finite > 0)
        fprintf(s->file, ", %.0f elements NaN or Inf", cell->not_finite);
    fputs("</title>", s->file);
}

static void print_cell(const struct sheet *s, const struct map *map, const struct cell *cell,
                       bool by_rank)
{
    const struct block *b = &cell->block;
    double largest = s->facts->report->findings.ratio;
    double part = largest > 0 ? fmax(cell->ratio, 0) / largest : 0;
    fprintf(s->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" ",
            LEFT + (double)b->col * map->x_scale, TOP + (double)b->row * map->y_scale,
            (double)b->cols * map->x_scale, (double)b->rows * map->y_scale);
    if (by_rank)
        fprintf(s->file, "class=\"rank%d\">", cell->rank % COLOURS);
    else if (cell->ratio < 0)
        fputs("class=\"unchecked\">", s->file);
    else
        fprintf(s->file, "class=\"residual\" fill-opacity=\"%.2f\">", 0.1 + 0.9 * part);
    print_title(s, cell);
    fputs("</rect>\n", s->file);
}

static void print_number(const struct sheet *s, const struct map *map, const struct cell *cell)
{
    const struct block *b = &cell->block;
    double width = (double)b->cols * map->x_scale, height = (double)b->rows * map->y_scale;
    if (width > 16 && height > 14)
        fprintf(s->file,
                "<text class=\"number\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                LEFT + ((double)b->col + 0.5 * (double)b->cols) * map->x_scale,
                TOP + ((double)b->row + 0.5 * (double)b->rows) * map->y_scale + 4, cell->rank);
}

static void print_map(const struct sheet *s, bool by_rank)
{
    struct map map = shape(s->facts->problem);
    const struct tiles *tiles = s->tiles;
    fprintf(
        s->file,
        "<svg class=\"map\" role=\"img\" viewBox=\"0 0 %.0f %.0f\" style=\"max-width:%.0fpx\">\n"
        "<text x=\"%d\" y=\"14\">%s</text>\n"
        "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%.2f\"/>\n",
        map.width + 2 * LEFT, map.height + TOP + LEFT, map.width + 2 * LEFT, LEFT,
        by_rank ? "by rank" : "by residual", LEFT, TOP, map.width, map.height);
    for (int i = 0; i < tiles->count; i++)
        print_cell(s, &map, &tiles->cells[i], by_rank);
    for (int i = 0; i < tiles->count && by_rank && tiles->count <= NUMBERED_MAX; i++)
        print_number(s, &map, &tiles->cells[i]);
    fputs("</svg>\n", s->file);
}

static void print_legend(const struct sheet *s)
{
    const struct report *r = s->facts->report;
    if (r->checked)
        fprintf(
            s->file,
            "<p class=\"note\">Residual: the stronger the colour, the larger, up to %.3g of its "
            "limit. Grey: not checked.</p>\n",
            r->findings.ratio);
    else
        fputs("<p class=\"note\">C was not checked.</p>\n", s->file);
    if (s->facts->machine->ranks > COLOURS)
        fprintf(s->file, "<p class=\"note\">Ranks %d apart have the same colour.</p>\n", COLOURS);
    if (s->tiles->merged > 1)
        fprintf(s->file,
                "<p class=\"note\">Up to %" PRId64 " &#215; %" PRId64
                " tiles make one cell, with the rank of the first and the largest residual.</p>\n",
                s->tiles->merged, s->tiles->merged);
    if (s->facts->plan->layers > 1)
        fprintf(s->file,
                "<p class=\"note\">k is split in %d: each cell shows the rank that added the "
                "products.</p>\n",
                s->facts->plan->layers);
}

void page_map(const struct sheet *s)
{
    const struct problem *p = s->facts->problem;
    fputs("<section id=\"map\">\n<h2>Tiles of C</h2>\n", s->file);
    fprintf(s->file,
            "<p>%" PRId64 " rows from top to bottom, %" PRId64
            " columns from left to right.</p>\n<div class=\"maps\">\n",
            p->m, p->n);
    print_map(s, true);
    print_map(s, false);
    fputs("</div>\n", s->file);
    print_legend(s);
    fputs("</section>\n", s->file);
}
