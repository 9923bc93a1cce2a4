#include "quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

bool quantity_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "kmgtp";
    if (!isdigit((unsigned char)text[0]))
        return false;
    char *end;
    double value = strtod(text, &end);
    const char *unit = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end++;
    }
    if (*end == 'B')
        end++;
    if (*end || !(value < 0x1p63))
        return false;
    *bytes = (uint64_t)value;
    return true;
}

bool quantity_parse_extents(const char *text, int count, int64_t *extents)
{
    for (int i = 0; i < count; i++) {
        char *end;
        if (!isdigit((unsigned char)*text))
            return false;
        errno = 0;
        extents[i] = strtoll(text, &end, 10);
        if (errno || extents[i] < 1)
            return false;
        if (*end != (i + 1 < count ? 'x' : '\0'))
            return false;
        text = end + 1;
    }
    return true;
}

/* As Slurm has it: MM:SS, HH:MM:SS, or behind days HH, HH:MM or HH:MM:SS: "1-12:00:00". */
static bool parse_clock(const char *text, double *seconds)
{
    double days = 0, fields[3] = {0};
    int count = 0;
    const bool has_days = strchr(text, '-') != NULL;
    char *end;
    if (has_days) {
        days = (double)strtol(text, &end, 10);
        if (*end != '-')
            return false;
        text = end + 1;
    }
    do {
        if (count == 3 || !isdigit((unsigned char)*text))
            return false;
        fields[count++] = (double)strtol(text, &end, 10);
        text = end + 1;
    } while (*end == ':');
    if (*end || (!has_days && count < 2))
        return false;
    const double *of = fields; /* hours, minutes and seconds */
    const double minutes_first[] = {0, fields[0], fields[1]};
    if (!has_days && count == 2)
        of = minutes_first;
    *seconds = 86400 * days + 3600 * of[0] + 60 * of[1] + of[2];
    return true;
}

/* "3h50m": numbers with units, from the largest to the smallest; the last may do without: s. */
static bool parse_units(const char *text, double *seconds)
{
    static const char units[] = "dhms";
    static const double unit_s[] = {86400, 3600, 60, 1};
    const char *next = units;
    *seconds = 0;
    do {
        char *end;
        if (!isdigit((unsigned char)*text))
            return false;
        double value = strtod(text, &end);
        const char *unit = *end ? strchr(next, *end) : units + 3;
        if (!unit)
            return false;
        *seconds += value * unit_s[unit - units];
        next = unit + 1;
        text = *end ? end + 1 : end;
    } while (*text);
    return true;
}

bool quantity_parse_time(const char *text, double *seconds)
{
    if (!isdigit((unsigned char)text[0]))
        return false;
    bool is_clock = strpbrk(text, ":-") != NULL;
    return (is_clock ? parse_clock(text, seconds) : parse_units(text, seconds)) && *seconds < 1e10;
}

static const char *scaled(double value, double step, const char *const *units, int count)
{
    int i = 0;
    while (value >= step * 0.9995 && i + 1 < count) {
        value /= step;
        i++;
    }
    int decimals = value >= 99.95 || (i == 0 && step == 1024) ? 0 : value >= 9.995 ? 1 : 2;
    return text_make("%.*f %s", decimals, value, units[i]);
}

const char *quantity_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    return scaled(bytes, 1024, units, 7);
}

const char *quantity_rate(double bytes_per_s)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    return scaled(bytes_per_s, 1000, units, 6);
}

const char *quantity_flops(double flops_per_s)
{
    static const char *const units[] = {"FLOP/s",  "kFLOP/s", "MFLOP/s", "GFLOP/s",
                                        "TFLOP/s", "PFLOP/s", "EFLOP/s"};
    return scaled(flops_per_s, 1000, units, 7);
}

const char *quantity_work(double flops)
{
    static const char *const units[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                        "TFLOP", "PFLOP", "EFLOP", "ZFLOP"};
    return scaled(flops, 1000, units, 8);
}

const char *quantity_time(double seconds)
{
    if (seconds < 1)
        return text_make("%.1f ms", seconds * 1e3);
    if (seconds < 600)
        return text_make("%.2f s", seconds);
    if (!(seconds < 1e15))
        return text_make("%.3g s", seconds);
    return text_make("%lld:%02lld:%02lld", (long long)seconds / 3600, (long long)seconds / 60 % 60,
                     (long long)seconds % 60);
}
