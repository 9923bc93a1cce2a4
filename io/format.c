#include "format.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "file.h"
#include "matname.h"
#include "text.h"

#define FORMAT_ADDRESS(name) &format_##name,
static const struct format *const formats[] = {FORMATS(FORMAT_ADDRESS)};

enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

static int number_of(const char *file)
{
    for (int i = 1; i < FORMAT_COUNT; i++)
        if (formats[i]->endings && matname_ends(file, formats[i]->endings))
            return i;
    return 0;
}

static int number_of_dataset(const char *file, const char *dataset)
{
    for (int i = 1; i < FORMAT_COUNT; i++)
        if (formats[i]->is_named_by && formats[i]->is_named_by(dataset))
            return i;
    return number_of(file);
}

const struct format *format_of(const char *file)
{
    return formats[number_of(file)];
}

const struct format *format_of_matrix(const struct matrix *matrix)
{
    return formats[matrix->format];
}

bool format_is_one_matrix(const char *file)
{
    return !format_of(file)->each;
}

int format_check_new(const char *file, const char *dataset, struct error *err)
{
    const struct format *format = formats[number_of_dataset(file, dataset)];
    if (matname_check_new(file, dataset, err) || format->create)
        return err->code;
    return error_add(err, EXIT_USAGE, "%s:%s: %s files are only read; name it FILE.h5 or FILE.npy",
                     file, dataset, format->name);
}

int format_begin(struct source *source, const char *file, const char *dataset, struct error *err)
{
    memset(source, 0, sizeof *source);
    if (strlen(file) >= sizeof source->file)
        return error_add(err, EXIT_INPUT, "the file name %.40s... is too long", file);
    if (strlen(dataset) >= sizeof source->dataset)
        return error_add(err, EXIT_INPUT, "the dataset name %.40s... is too long", dataset);
    source->matrix.format = number_of_dataset(file, dataset);
    strcpy(source->file, file);
    strcpy(source->dataset, dataset);
    return 0;
}

int format_describe(const char *file, const char *dataset, struct source *source, struct error *err)
{
    if (format_begin(source, file, dataset, err))
        return err->code;
    return format_of_matrix(&source->matrix)->describe(source, err);
}

int format_each(const char *file, format_visit *visit, void *context, struct error *err)
{
    struct source source;
    if (format_of(file)->each)
        return format_of(file)->each(file, visit, context, err);
    if (format_describe(file, "A", &source, err) == 0)
        visit(&source, &(struct error){0}, context);
    return err->code;
}

int format_each_file(const struct source *source, format_file_visit *visit, void *context,
                     struct error *err)
{
    const struct format *format = format_of_matrix(&source->matrix);
    if (format->each_file)
        return format->each_file(source, visit, context, err);
    visit(source->file, context);
    return 0;
}

struct wanted {
    const char *file;
    bool found;
    struct error *err;
};

static void compare(const char *file, void *context)
{
    struct wanted *wanted = context;
    wanted->found |= file_is_same(wanted->file, file, wanted->err);
}

bool format_draws_on(const struct source *source, const char *file, struct error *err)
{
    struct error own = {0}; /* the search ends at the first complaint, and `err` may have some */
    struct wanted wanted = {.file = file, .err = &own};
    struct stat status;
    if (file_leads(file, &status, &own))
        format_each_file(source, compare, &wanted, &own);
    error_append(err, &own);
    return wanted.found;
}

int format_lookup(const char *file, const char *name, struct format_found *found, struct error *err)
{
    if (format_of(file)->lookup)
        return format_of(file)->lookup(file, name, found, err);
    found->object = FORMAT_DATASET;
    return 0;
}

int format_get_attributes(const struct source *source, struct format_value *values,
                          struct error *err)
{
    const struct format *format = format_of_matrix(&source->matrix);
    return format->get_attributes ? format->get_attributes(source, values, err) : 0;
}

int format_replace_text(const struct source *source, const char *name, const char *text,
                        struct error *err)
{
    const struct format *format = format_of_matrix(&source->matrix);
    return format->replace_text ? format->replace_text(source, name, text, err) : 0;
}

void format_own_process(void)
{
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (formats[i]->own_process)
            formats[i]->own_process();
}

const char *format_versions(void)
{
    const char *all = "";
    for (int i = 0; i < FORMAT_COUNT; i++)
        if (formats[i]->version)
            all = text_make("%s%s%s", all, all[0] ? ", " : "", formats[i]->version());
    return all;
}
