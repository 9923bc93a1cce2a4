#include "output_attributes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "problem_scaling.h"

static void print_hash(uint64_t value, char text[HASH_TEXT])
{
    snprintf(text, HASH_TEXT, "%016" PRIx64, value);
}

void output_attributes_make(struct output_attributes *attributes, const struct options *options,
                            const struct problem *p, uint64_t identity)
{
    const struct source *a = &p->sources[OPERAND_A], *b = &p->sources[OPERAND_B];
    const struct source *c = &p->sources[OPERAND_C];
    const struct scaling s = problem_seen_scaling(p);
    static const char *const marks[] = {"", "^T", "^H"};
    const struct format_attribute list[] = {
        {.name = "formula", .text = attributes->formula},
        {.name = "alpha", .number = p->alpha},
        {.name = "beta", .number = p->beta},
        {.name = p->narrows ? "sums" : NULL, .text = scalar_name(p->type)},
        {.name = p->complex ? "alpha_imag" : NULL, .number = p->alpha_i},
        {.name = p->complex ? "beta_imag" : NULL, .number = p->beta_i},
        {.name = "A_file", .text = a->file},
        {.name = "A_dataset", .text = a->dataset},
        {.name = "B_file", .text = b->file},
        {.name = "B_dataset", .text = b->dataset},
        {.name = problem_reads_c(p) ? "C0_file" : NULL, .text = c->file},
        {.name = problem_reads_c(p) ? "C0_dataset" : NULL, .text = c->dataset},
        {.name = "program", .text = "dgemm_ooc " DGEMM_OOC_RELEASE},
        {.name = "identity", .text = attributes->identity},
        {.name = "kernels", .text = attributes->kernels},
        {.name = s.axis[0] ? "center" : NULL, .text = axis_names[scaling_center(&s)]},
        {.name = s.axis[0] ? "scale" : NULL, .text = axis_names[scaling_scale(&s)]},
        {.name = s.axis[0] ? "nan" : NULL, .text = missing_names[s.missing]},
        {.name = p->normal ? "product" : NULL, .text = product_names[PRODUCT_NORMAL]},
        {.name = s.axis[0] && (s.crossed || !s.axis[1]) ? "lines_b" : NULL,
         .text = axis_names[s.axis[1]]},
        {.name = p->lower ? FORMAT_TRIANGLE : NULL,
         .text = p->lower == LOWER_PACKED ? FORMAT_TRIANGLE_PACKED : "lower"},
        {.name = p->symmetric && p->complex ? "symmetry" : NULL,
         .text = problem_is_hermitian(p) ? "Hermitian" : "symmetric"},
        {.name = options->check.verify ? FORMAT_CHECKSUM : NULL,
         .text = FORMAT_CHECKSUM_UNKNOWN,
         .fixed = true},
        {.name = OUTPUT_SIGN, .text = OUTPUT_UNSIGNED, .fixed = true},
        {.name = FORMAT_MARK, .text = FORMAT_MARK_NO, .fixed = true},
    };
    int count = 0;
    memset(attributes->list, 0, sizeof attributes->list);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].name)
            attributes->list[count++] = list[i];
    print_hash(identity, attributes->identity);
    snprintf(attributes->kernels, sizeof attributes->kernels, "%s", problem_kernels(p, options));
    if (p->normal)
        snprintf(attributes->formula, sizeof attributes->formula, "C = alpha A%s A%s B",
                 marks[!problem_seen_trans(p, OPERAND_A)], marks[problem_seen_trans(p, OPERAND_A)]);
    else
        snprintf(attributes->formula, sizeof attributes->formula, "C = alpha A%s B%s%s",
                 marks[problem_seen_trans(p, OPERAND_A) + p->conjugate[0]],
                 marks[problem_seen_trans(p, OPERAND_B) + p->conjugate[1]],
                 problem_reads_c(p) ? " + beta C0" : "");
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names;
}

/* Whether an attribute is there and is what it has to be; one that is fixed, and replaced later,
 * needs the length alone. */
static bool is_as_made(const struct format_value *value, const struct format_attribute *expected)
{
    if (!value->found)
        return false;
    if (expected->fixed)
        return value->bytes == strlen(expected->text);
    return expected->text ? strcmp(value->text, expected->text) == 0
                          : value->text[0] == '\0' && value->number == expected->number;
}

bool output_attributes_match(const struct source *source,
                             const struct output_attributes *attributes)
{
    /* Operands may have moved since, and the program may be a newer one. */
    static const char *const may_differ[] = {"A_file", "B_file", "C0_file", "program", NULL};
    struct format_value values[ATTRIBUTES] = {0};
    struct error ignored = {0};
    for (int i = 0; i < ATTRIBUTES; i++)
        values[i].name = attributes->list[i].name;
    if (format_get_attributes(source, values, &ignored))
        return false;
    for (int i = 0; values[i].name; i++)
        if (is_one_of(values[i].name, may_differ) ? !values[i].text[0]
                                                  : !is_as_made(&values[i], &attributes->list[i]))
            return false;
    return true;
}

void output_compare_attributes(const struct recall *recall, const struct options *options,
                               const struct problem *p, struct error *err)
{
    /* All else depends on how it was multiplied, or on where the operands were. */
    static const char *const decided[] = {"formula", "alpha", "beta",     "alpha_imag", "beta_imag",
                                          "center",  "scale", "triangle", "symmetry",   "nan",
                                          "lines_b", "sums",  NULL};
    struct output_attributes expected;
    struct format_value values[ATTRIBUTES] = {0};
    if (!recall->ours)
        return;
    output_attributes_make(&expected, options, p, 0);
    for (int i = 0; i < ATTRIBUTES; i++)
        values[i].name = expected.list[i].name;
    if (format_get_attributes(&recall->source, values, err))
        return;
    for (int i = 0; values[i].name; i++)
        if (is_one_of(values[i].name, decided) && values[i].found &&
            !is_as_made(&values[i], &expected.list[i]))
            error_add(err, EXIT_VERIFY,
                      "%s: the attribute %s of C is damaged: it differs from this product's",
                      recall->source.file, values[i].name);
}

int output_attributes_record(const struct source *source, uint64_t checksum, struct error *err)
{
    char text[HASH_TEXT];
    print_hash(checksum, text);
    return format_replace_text(source, FORMAT_CHECKSUM, text, err);
}

bool output_is_hash(const char *text)
{
    return strlen(text) == HASH_TEXT - 1 && strspn(text, "0123456789abcdef") == HASH_TEXT - 1;
}

enum output_state output_state(const struct options *options, uint64_t identity, struct error *err)
{
    enum { IDENTITY, MARK, CHECKSUM };
    struct format_value values[] = {[IDENTITY] = {.name = "identity"},
                                    [MARK] = {.name = FORMAT_MARK},
                                    [CHECKSUM] = {.name = FORMAT_CHECKSUM},
                                    {.name = NULL}};
    struct source source;
    struct error ignored = {0};
    struct stat status;
    char text[HASH_TEXT];
    print_hash(identity, text);
    if (!file_leads(options->output.file, &status, err) ||
        format_describe(options->output.file, options->output.dataset, &source, &ignored) ||
        format_get_attributes(&source, values, &ignored))
        return OUTPUT_OTHER;
    if (!values[IDENTITY].found || strcmp(values[IDENTITY].text, text) != 0)
        return OUTPUT_OTHER;
    bool complete = values[MARK].found ? strcmp(values[MARK].text, FORMAT_MARK_YES) == 0
                                       : output_is_hash(values[CHECKSUM].text);
    return complete ? OUTPUT_COMPLETE : source.unfinished ? OUTPUT_UNFINISHED : OUTPUT_OTHER;
}
