/* What layers of ranks tell each other of their checks. */
#include <math.h>

#include "check_impl.h"
#include "device.h"
#include "error.h"
#include "quantity.h"
#include "schedule.h"

bool check_leaves_out(const struct check *c)
{
    const double *counts = c->on ? check_host_verdicts(c) + VERDICTS * c->tile.rows : NULL;
    return counts && counts[0] + counts[1] > 0;
}

/* Behind the weights, as check_begin has sent them. */
static int *columns_on_host(const struct check *c)
{
    return (int *)(c->host + c->plan->tile_cols);
}

int check_left_out(struct check *c, int **columns, struct error *err)
{
    struct device *dev = c->device;
    const size_t bytes = (size_t)c->tile.cols * sizeof(int);
    const struct copy copy = {columns_on_host(c), c->memory.left_out, bytes, bytes, bytes, 1};
    *columns = columns_on_host(c);
    if (dev->copy(dev, STREAM_OUT, &copy, err) || dev->record(dev, c->done, STREAM_OUT, err))
        return err->code;
    return dev->sync(dev, c->done, err);
}

int check_leave_out(struct check *c, const void *acc, struct error *err)
{
    struct device *dev = c->device;
    int *columns = columns_on_host(c);
    columns[c->plan->tile_cols] = ++c->tag;
    if (check_send(c, c->memory.left_out, columns,
                   (size_t)(c->plan->tile_cols + 1) * sizeof *columns, err) ||
        dev->record(dev, c->ready, STREAM_IN, err) || dev->wait(dev, STREAM_COMPUTE, c->ready, err))
        return err->code;
    for (int64_t i = 0; i < schedule_strips(c->plan, &c->tile); i++) {
        const struct block strip = schedule_strip(c->problem, c->plan, &c->tile, i);
        const int64_t skip = strip.row - c->tile.row;
        struct retire retire = check_retired(c, skip, check_columns_of(c, skip, strip.rows));
        retire.waiting[retire.count++] = check_row_of(c, acc, skip);
        if (dev->retire(dev, &retire, err))
            return err->code;
    }
    return dev->record(dev, c->summed, STREAM_COMPUTE, err) ? err->code
                                                            : dev->sync(dev, c->summed, err);
}

void check_pack(const struct check *c, int64_t first, int64_t rows, double *to)
{
    const double *verdicts = check_host_verdicts(c);
    for (int64_t i = 0; i < rows; i++)
        for (int verdict = 0; verdict < VERDICTS; verdict++)
            *to++ = verdicts[verdict * c->tile.rows + first + i];
}

void check_merge(struct check *c, int64_t first, int64_t rows, const double *from)
{
    const int64_t stride = c->tile.rows;
    double *v = check_host_verdicts(c) + first;
    for (int64_t i = 0; i < rows; i++, v++, from += VERDICTS) {
        double *ratio = v + VERDICT_RATIO * stride, *size = v + VERDICT_SIZE * stride;
        double *rounded = v + VERDICT_ROUNDED * stride, *broken = v + VERDICT_BROKEN * stride;
        double *classes = v + VERDICT_CLASSES * stride;
        *ratio = fmax(*ratio, from[VERDICT_RATIO]);
        *size = fmax(*size + from[VERDICT_ROUNDED], *rounded + from[VERDICT_SIZE]);
        *rounded += from[VERDICT_ROUNDED];
        v[VERDICT_REACH * stride] += from[VERDICT_REACH];
        *classes = fmax(*classes, from[VERDICT_CLASSES]);
        *broken =
            row_state_of_both((enum row_state) * broken, (enum row_state)from[VERDICT_BROKEN]);
    }
}
