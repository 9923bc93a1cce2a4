#include "embedding.h"

/* Rows, columns of the real matrix for one of the complex one, as stored. */
static int64_t high(const struct problem *p, enum operand operand)
{
    return p->complex && (operand == OPERAND_B || p->trans[OPERAND_A]) ? 2 : 1;
}

static int64_t wide(const struct problem *p, enum operand operand)
{
    return p->complex && (operand == OPERAND_B || !p->trans[OPERAND_A]) ? 2 : 1;
}

/* Numbers of an element in the file. */
static int64_t width(const struct problem *p, enum operand operand)
{
    return p->matrix[operand].complex ? 2 : 1;
}

bool embedding_needed(const struct problem *p, enum operand operand)
{
    return operand != OPERAND_C && (problem_factor(p, operand) != p->held[operand] ||
                                    high(p, operand) != 1 || wide(p, operand) != width(p, operand));
}

double embedding_stored(const struct problem *p, enum operand operand)
{
    if (!embedding_needed(p, operand))
        return 1;
    return (double)width(p, operand) / (double)(high(p, operand) * wide(p, operand));
}

struct block embedding_in_file(const struct problem *p, enum operand operand, const struct block *b)
{
    if (!embedding_needed(p, operand))
        return *b;
    int64_t down = high(p, operand), across = wide(p, operand), of_file = width(p, operand);
    return (struct block){b->row / down, b->col / across * of_file, b->rows / down,
                          b->cols / across * of_file};
}

struct block embedding_of_file(const struct problem *p, enum operand operand, const struct block *b)
{
    if (!embedding_needed(p, operand))
        return *b;
    int64_t down = high(p, operand), across = wide(p, operand), of_file = width(p, operand);
    return (struct block){b->row * down, b->col / of_file * across, b->rows * down,
                          b->cols / of_file * across};
}

/* The transpose of the real matrix for b is that for its conjugate. */
struct embed embedding_make(const struct problem *p, enum operand operand,
                            const struct block *stored)
{
    bool turns = operand == OPERAND_B && p->trans[OPERAND_B];
    return (struct embed){.type = problem_factor(p, operand),
                          .stored = p->held[operand],
                          .rows = stored->rows,
                          .cols = stored->cols / width(p, operand),
                          .complex = p->matrix[operand].complex,
                          .conjugate = p->conjugate[operand] != turns,
                          .high = high(p, operand) > 1,
                          .wide = wide(p, operand) > 1};
}
