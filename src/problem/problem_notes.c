#include "problem_notes.h"

#include <stdio.h>

/* Up to which power of two the type that integers are converted to has all of them; 0: it has all
 * that the file can hold. */
static int whole_bits(const struct problem *p, enum operand operand)
{
    const struct matrix *matrix = &p->matrix[operand];
    const enum scalar held = p->held[operand];
    const int bits = scalar_whole_bits(held);
    const bool converted = matrix->integers && !scalar_is_integer(held);
    return converted && 8 * matrix->element_bytes > (size_t)bits ? bits : 0;
}

int problem_notes(const struct problem *p, enum operand operand, char notes[NOTES_MAX][NOTE_TEXT])
{
    const struct source *source = &p->sources[operand];
    const int bits = whole_bits(p, operand);
    int count = 0;
    if (!problem_reads(p, operand))
        return 0;
    if (bits > 0)
        snprintf(notes[count++], NOTE_TEXT, "integers beyond 2^%d are rounded", bits);
    if (source->missing_by[0])
        snprintf(notes[count++], NOTE_TEXT,
                 "elements equal to %.10g are missing values of %s, multiplied as numbers",
                 source->missing, source->missing_by);
    if (source->similar[0])
        snprintf(notes[count++], NOTE_TEXT,
                 "its %s is not looked at: elements are multiplied as stored", source->similar);
    if (source->of_matlab)
        snprintf(notes[count++], NOTE_TEXT, "MATLAB shows its transpose");
    return count;
}
