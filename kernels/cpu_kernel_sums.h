/* Sums of lines for one element type, which REAL names (lane_sums.h). */

#define NAME(x) JOIN(x, REAL)

/* One row of SUM_LANES elements as doubles, zeros for NaN, of which it has so many. */
static inline void NAME(take_row)(const REAL *from, int64_t count, double *to, struct taken *t)
{
    REAL row[SUM_LANES] = {0};
    for (int64_t i = 0; i < count && count < SUM_LANES; i++)
        row[i] = from[i];
    from = count < SUM_LANES ? row : from;
#pragma GCC unroll 4
    for (int64_t v = 0; v < SUM_VECTORS; v++) {
        doubles x;
        for (int64_t i = 0; i < DOUBLES; i++)
            x[i] = (double)from[v * DOUBLES + i];
        const bits number = x == x;
        x = (doubles)((bits)x & number);
        const bits larger = absolute(x) > (doubles)t->largest[v];
        t->largest[v] = (t->largest[v] & ~larger) | ((bits)absolute(x) & larger);
        t->missing[v] += 1 + number;
        ((doubles *)to)[v] = x;
    }
}

static void NAME(lane_sums)(struct lane_sums *s)
{
    double rows[LANE_ELEMENTS * SUM_LANES] __attribute__((aligned(LINE_BYTES)));
    struct taken t = {0};
    const REAL *from = s->from;
    const int64_t lanes = s->lanes ? s->lanes : SUM_LANES, ld = s->lanes ? s->ld : SUM_LANES;
    const int64_t count = s->lanes ? s->count : (s->count + SUM_LANES - 1) / SUM_LANES;
    for (int64_t i = 0; i < count; i++) {
        const int64_t left = s->count - i * SUM_LANES;
        if (s->lanes)
            __builtin_prefetch(from + (i + SUMS_AHEAD) * ld);
        NAME(take_row)
        (from + i * ld, s->lanes || left > SUM_LANES ? lanes : left, rows + i * SUM_LANES, &t);
    }
    finish_sums(s, &t, rows, count);
}

#undef NAME
