/* Sums of lines (lane_sums.h): what the types share. */
enum {
    SUM_VECTORS = SUM_LANES / DOUBLES,
    SUMS_AHEAD = 16,      /* rows that are fetched before they are needed */
    EXPONENT_BIAS = 1023, /* of a double, whose exponent begins at ... */
    EXPONENT_AT = 52,
    SUMS_RANGE = 400 /* of binary exponents, within which no square is too large or small */
};

/* Of the lanes of some rows: the largest size, as bits, and how many are NaN. */
struct taken {
    bits largest[SUM_VECTORS], missing[SUM_VECTORS];
};

/* The pieces that have been added up, and the bits of what was left over, of one vector of
 * lanes. */
struct pieces {
    doubles sum[SUM_PIECES], squares[SQUARE_PARTS];
    bits left;
};

/* Added to a number, and subtracted again, this leaves a multiple of the grid of its piece. */
static inline doubles grid_of(bits exponent, int piece)
{
    const int place = EXPONENT_AT + 2 - PIECE_BITS * (piece + 1);
    return 1.5 * (doubles)((exponent + (place + EXPONENT_BIAS)) << EXPONENT_AT);
}

static inline void add_pieces(doubles x, const doubles grid[SUM_PIECES], struct pieces *p)
{
    const doubles a = (x + grid[0]) - grid[0], rest_a = x - a;
    const doubles b = (rest_a + grid[1]) - grid[1], rest_b = rest_a - b;
    const doubles c = (rest_b + grid[2]) - grid[2], rest_c = rest_b - c;
    const doubles d = (rest_c + grid[3]) - grid[3];
    p->left |= (bits)(rest_c - d);
    p->sum[0] += a;
    p->sum[1] += b;
    p->sum[2] += c;
    p->sum[3] += d;
    p->squares[0] += a * a;
    p->squares[1] += a * b; /* and once more */
    p->squares[2] += b * b;
    p->squares[2] += (a + a) * c;
    p->squares[3] += a * d; /* and once more */
    p->squares[3] += b * c;
    p->squares[4] += c * c;
    p->squares[4] += (b + b) * d;
    p->squares[5] += c * d; /* and once more */
    p->squares[6] += d * d;
}

static void put_pieces(struct lane_sums *s, const struct pieces *p, int64_t first)
{
    for (int64_t i = 0; i < DOUBLES; i++) {
        const int64_t lane = s->lanes ? first + i : 0;
        s->exact[lane] &= p->left[i] == 0;
        for (int piece = 0; piece < SUM_PIECES; piece++)
            s->sum[lane][piece] += p->sum[piece][i];
        for (int part = 0; part < SQUARE_PARTS; part++)
            s->squares[lane][part] += (part % 2 ? 2 : 1) * p->squares[part][i];
    }
}

/* Where all lanes are of one row they have one grid, on which their sums are added up. */
static void join_lanes(struct taken *t)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < SUM_LANES; i++)
        largest = t->largest[i / DOUBLES][i % DOUBLES] > largest
                      ? t->largest[i / DOUBLES][i % DOUBLES]
                      : largest;
    for (int64_t v = 0; v < SUM_VECTORS; v++)
        t->largest[v] = largest + (bits){0};
}

static void finish_sums(struct lane_sums *s, struct taken *t, const double *rows, int64_t count)
{
    memset(s->sum, 0, sizeof s->sum);
    memset(s->squares, 0, sizeof s->squares);
    memset(s->missing, 0, sizeof s->missing);
    memset(s->exact, true, sizeof s->exact);
    if (s->lanes == 0)
        join_lanes(t);
    for (int64_t v = 0; v < SUM_VECTORS; v++) {
        const bits none = t->largest[v] == 0;
        const bits exponent = ((t->largest[v] >> EXPONENT_AT) - EXPONENT_BIAS) & ~none;
        const bits outside = (exponent > SUMS_RANGE) | (exponent < -SUMS_RANGE);
        struct pieces p = {.left = outside};
        doubles grid[SUM_PIECES];
        for (int piece = 0; piece < SUM_PIECES; piece++)
            grid[piece] = grid_of(exponent & ~outside, piece);
        for (int64_t i = 0; i < count; i++)
            add_pieces(*(const doubles *)(rows + i * SUM_LANES + v * DOUBLES), grid, &p);
        put_pieces(s, &p, v * DOUBLES);
        for (int64_t i = 0; i < DOUBLES; i++) {
            const int64_t lane = s->lanes ? v * DOUBLES + i : 0;
            s->missing[lane] += t->missing[v][i];
            s->largest[lane] = ((doubles)t->largest[v])[i];
        }
    }
}
