/* Finds datasets in a file by their names, and lists those that exist when one is missing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "error.h"
#include "matfile_impl.h"
#include "slice.h"

enum { LISTED_MAX = 10, LINK_TEXT = 240 };

/* A walk over all links of a file, also symbolic and external ones, that visits the datasets of
 * rank two, packed triangles, and groups that stand for a matrix.  Where a path is too long for a
 * name nobody could name what is there.  The walk ends at a group of such a path: each object is
 * opened by its path, which takes longer the longer that is, and some thousand levels of groups are
 * more than the stack of the library's recursion has. */
struct walk {
    herr_t (*found)(hid_t object, const char *path, struct walk *walk);
    const char *file, *group; /* in which it began; empty: the root */
    format_visit *visit;      /* of matfile_each */
    void *context;
    char *text; /* output of the functions that list objects */
    size_t size;
    int count;
    bool unfinished;
};

static const char unnamed_paths[] =
    "paths in it are longer than a name may be, and not all is listed";

static bool is_matrix(hid_t dataset)
{
    hid_t space = H5Dget_space(dataset);
    const int rank = H5Sget_simple_extent_ndims(space);
    h5_close(space);
    return rank == 2 || h5_is_packed(dataset);
}

static herr_t walk_link(hid_t root, const char *path, const H5L_info_t *link, void *context)
{
    herr_t stop = 0;
    const char *advice;
    struct walk *walk = context;
    const bool unnamed = strlen(path) + 1 >= DATASET_NAME_MAX;
    walk->unfinished |= unnamed;
    if (unnamed && link->type != H5L_TYPE_HARD)
        return 0;
    h5_forget_refused();
    hid_t object = H5Oopen(root, path, H5P_DEFAULT);
    const H5I_type_t kind = object < 0 ? H5I_BADID : H5Iget_type(object);
    if (unnamed)
        stop = kind == H5I_GROUP;
    else if ((kind == H5I_DATASET && is_matrix(object)) ||
             (kind == H5I_GROUP && h5_group_meaning(object, &advice)))
        stop = walk->found(object, path, walk);
    h5_close(object);
    return stop;
}

static void list_shape(hid_t dataset, struct walk *walk)
{
    struct error ignored = {0};
    struct source source = {0};
    char type[H5_TYPE_TEXT];
    h5_extents(dataset, &source, &ignored);
    h5_type(dataset, &source, type, &ignored);
    h5_append(walk->text, walk->size, "%s %" PRId64 "x%" PRId64, type, source.slice.counts[0],
              source.slice.counts[1]);
}

static herr_t list_object(hid_t object, const char *path, struct walk *walk)
{
    const char *advice;
    if (walk->count++ == LISTED_MAX) {
        h5_append(walk->text, walk->size, ", ...");
        return 1;
    }
    h5_append(walk->text, walk->size, "%s%s/%s (", walk->count > 1 ? ", " : "", walk->group, path);
    if (H5Iget_type(object) == H5I_DATASET)
        list_shape(object, walk);
    else
        h5_append(walk->text, walk->size, "a group, %s", h5_group_meaning(object, &advice));
    h5_append(walk->text, walk->size, ")");
    return 0;
}

/* `where`: a file, and `group` is empty, or the group of this path. */
static const char *list_datasets(hid_t where, const char *group, char *text, size_t size)
{
    struct walk walk = {.found = list_object, .group = group, .text = text, .size = size};
    snprintf(text, size, "datasets %s: ", group[0] ? "in it" : "here");
    H5Lvisit(where, H5_INDEX_NAME, H5_ITER_INC, walk_link, &walk);
    if (walk.unfinished)
        h5_append(text, size, "%s%s", walk.count ? "; " : "none; ", unnamed_paths);
    return walk.count || walk.unfinished ? text : "there is no two-dimensional dataset in it";
}

/* Normalise a path: without leading, trailing and repeated slashes. */
static void plain_path(const char *path, char plain[DATASET_NAME_MAX])
{
    size_t length = 0;
    for (; *path && length + 1 < DATASET_NAME_MAX; path++)
        if (*path != '/' || (length > 0 && path[1] && path[1] != '/'))
            plain[length++] = *path;
    plain[length] = '\0';
}

htri_t h5_first_missing(hid_t file, const char *path, char missing[DATASET_NAME_MAX])
{
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(missing, DATASET_NAME_MAX, "%.*s", (int)i, path);
        const htri_t there = H5Lexists(file, missing, H5P_DEFAULT);
        if (there <= 0)
            return there < 0 ? there : 1;
    }
    return 0;
}

/* The hint for a missing dataset whose name is that of a file. */
static const char *hint_of_file(const char *name, char hint[PATH_MAX])
{
    struct stat status;
    hint[0] = '\0';
    if (stat(name, &status) == 0 && S_ISREG(status.st_mode))
        snprintf(hint, PATH_MAX, "; for a dataset of the file %.*s write %.*s:/NAME",
                 DATASET_NAME_MAX, name, DATASET_NAME_MAX, name);
    return hint;
}

static int complain_of_group(hid_t group, const struct source *source, struct error *err)
{
    char text[1500], name[DATASET_NAME_MAX + 1] = "/";
    const char *advice, *meaning = h5_group_meaning(group, &advice);
    if (meaning)
        return error_add(err, EXIT_INPUT, "%s: \"%s\" is a group, %s; %s", source->file,
                         source->dataset, meaning, advice);
    plain_path(h5_own_name(source, text), name + 1);
    return error_add(err, EXIT_INPUT,
                     "%s: \"%s\" is a group, not a dataset; give the path of one; %s", source->file,
                     source->dataset, list_datasets(group, name, text, sizeof text));
}

static int describe_object(hid_t object, struct source *source, struct error *err)
{
    switch (H5Iget_type(object)) {
    case H5I_DATASET: return h5_describe(object, source, err);
    case H5I_GROUP: return complain_of_group(object, source, err);
    default:
        return error_add(err, EXIT_INPUT,
                         "%s: \"%s\" is a named type, not a dataset; h5mat source lists these",
                         source->file, source->dataset);
    }
}

/* ", a link to FILE:PATH,", if the name is that of a link to something else. */
static const char *leads_to(hid_t file, const char *name, char text[LINK_TEXT])
{
    char target[PATH_MAX] = "";
    const char *other = NULL, *path = target;
    H5L_info_t link;
    text[0] = '\0';
    if (H5Lget_info(file, name, &link, H5P_DEFAULT) < 0 ||
        (link.type != H5L_TYPE_SOFT && link.type != H5L_TYPE_EXTERNAL) ||
        link.u.val_size > sizeof target ||
        H5Lget_val(file, name, target, sizeof target, H5P_DEFAULT) < 0)
        return text;
    if (link.type == H5L_TYPE_EXTERNAL &&
        H5Lunpack_elink_val(target, link.u.val_size, NULL, &other, &path) < 0)
        return text;
    snprintf(text, LINK_TEXT, ", a link to %.100s%s%.100s,", other ? other : "", other ? ":" : "",
             path);
    return text;
}

/* The object of a name or, where that is nothing's, of what it is a slice of. */
static hid_t open_name(hid_t file, struct source *source, char name[DATASET_NAME_MAX])
{
    const size_t length = slice_base(source->dataset);
    const bool is_slice =
        source->dataset[length] && h5_first_missing(file, source->dataset, name) > 0;
    source->slice.length = is_slice ? (int)length : 0;
    return H5Oopen(file, h5_own_name(source, name), H5P_DEFAULT);
}

static int describe_name(hid_t file, struct source *source, struct error *err)
{
    int rc;
    char text[1500], missing[DATASET_NAME_MAX], hint[PATH_MAX], link[LINK_TEXT];
    char name[DATASET_NAME_MAX];
    hid_t object = open_name(file, source, name);
    const char *reason = object < 0 ? h5_why() : "";
    if (object >= 0)
        rc = describe_object(object, source, err);
    else if (h5_failure()[0])
        rc = h5_settle(0, source->file, err);
    else if (h5_refused()[0] || h5_first_missing(file, name, missing) <= 0)
        rc = error_add(err, EXIT_INPUT, "%s: \"%s\"%s cannot be opened: %s", source->file, name,
                       leads_to(file, name, link), reason);
    else
        rc = error_add(err, EXIT_INPUT, "%s: no dataset \"%s\"; %s%s", source->file, name,
                       list_datasets(file, "", text, sizeof text), hint_of_file(name, hint));
    h5_close(object);
    return rc;
}

int matfile_describe(struct source *source, struct error *err)
{
    char file[PATH_MAX]; /* the source may get to know another one */
    snprintf(file, sizeof file, "%s", source->file);
    h5_enter();
    hid_t id = h5_open_file(file, H5_READ, err);
    int rc = id < 0 ? err->code : describe_name(id, source, err);
    h5_close(id);
    rc = h5_settle(rc, file, err);
    h5_leave();
    return rc;
}

static herr_t visit_object(hid_t object, const char *path, struct walk *walk)
{
    struct source source;
    struct error problem = {0};
    char name[DATASET_NAME_MAX + 1];
    snprintf(name, sizeof name, "/%s", path);
    if (!format_begin(&source, walk->file, name, &problem))
        h5_settle(describe_object(object, &source, &problem), source.file, &problem);
    if (problem.code)
        h5_forget_failure(); /* it is told */
    walk->visit(&source, &problem, walk->context);
    return 0;
}

int matfile_each(const char *file, format_visit *visit, void *context, struct error *err)
{
    struct walk walk = {.found = visit_object, .file = file, .visit = visit, .context = context};
    h5_enter();
    hid_t id = h5_open_file(file, H5_READ, err);
    int rc = id < 0 ? err->code : 0;
    if (!rc && H5Lvisit(id, H5_INDEX_NAME, H5_ITER_INC, walk_link, &walk) < 0)
        rc = error_add(err, EXIT_INPUT, "%s: its groups cannot be read: %s", file, h5_why());
    if (!rc && walk.unfinished)
        rc = error_add(err, EXIT_INPUT, "%s: %s", file, unnamed_paths);
    h5_close(id);
    rc = h5_settle(rc, file, err);
    h5_leave();
    return rc;
}

enum format_object h5_lookup(hid_t file, const char *name, char missing[DATASET_NAME_MAX])
{
    hid_t found = H5Oopen(file, name, H5P_DEFAULT);
    const bool dataset = found >= 0 && H5Iget_type(found) == H5I_DATASET;
    h5_close(found);
    if (dataset)
        return FORMAT_DATASET;
    return h5_first_missing(file, name, missing) > 0 ? FORMAT_NOTHING : FORMAT_OTHER;
}

int matfile_lookup(const char *file, const char *name, struct format_found *found,
                   struct error *err)
{
    h5_enter();
    hid_t id = h5_open_file(file, H5_READ, err);
    if (id >= 0)
        found->object = h5_lookup(id, name, found->missing);
    h5_close(id);
    int rc = h5_settle(id < 0 ? err->code : 0, file, err);
    h5_leave();
    return rc;
}

/* Whether it is what matfile_add_vector has made beside the dataset. */
static bool belongs_to(hid_t root, const char *path, const char *ours)
{
    size_t length = strlen(ours);
    const char *rest = path + strnlen(path, length);
    bool named = strncmp(path, ours, length) == 0 &&
                 (strcmp(rest, "_mean") == 0 || strcmp(rest, "_deviation") == 0 ||
                  strcmp(rest, "_mean_b") == 0 || strcmp(rest, "_deviation_b") == 0 ||
                  strcmp(rest, "_ab") == 0);
    hid_t object = named ? H5Oopen(root, path, H5P_DEFAULT) : -1;
    bool is = object >= 0 && H5Iget_type(object) == H5I_DATASET &&
              H5Aexists(object, FORMAT_STATISTIC) > 0;
    h5_close(object);
    return is;
}

static herr_t list_other(hid_t root, const char *path, const H5L_info_t *link, void *context)
{
    struct walk *walk = context;
    const char *ours = walk->context;
    size_t length = strlen(path);
    if (strncmp(path, ours, length) == 0 && (ours[length] == '/' || ours[length] == '\0'))
        return 0;
    if (link->type == H5L_TYPE_HARD && belongs_to(root, path, ours))
        return 0;
    if (walk->count++ == LISTED_MAX) {
        h5_append(walk->text, walk->size, ", ...");
        return 1;
    }
    h5_append(walk->text, walk->size, "%s/%s", walk->count > 1 ? ", " : "", path);
    return 0;
}

static herr_t list_attribute(hid_t root, const char *name, const H5A_info_t *info, void *context)
{
    (void)root, (void)info;
    struct walk *walk = context;
    h5_append(walk->text, walk->size, "%sthe attribute %s", walk->text[0] ? ", " : "", name);
    return 0;
}

/* List what is neither a group nor a dataset of another name. */
static void list_apart(hid_t file, struct walk *walk)
{
    const char *ours = walk->context, *comma = walk->text[0] ? ", " : "";
    H5L_info_t link;
    hsize_t bytes = 0;
    hid_t made = H5Fget_create_plist(file), object = -1;
    if (H5Pget_userblock(made, &bytes) >= 0 && bytes > 0)
        h5_append(walk->text, walk->size, "%sa user block", comma);
    else if (H5Lget_info(file, ours, &link, H5P_DEFAULT) >= 0 &&
             (link.type != H5L_TYPE_HARD || (object = H5Oopen(file, ours, H5P_DEFAULT)) < 0 ||
              H5Iget_type(object) != H5I_DATASET))
        h5_append(walk->text, walk->size, "%s/%s, which is not a dataset of its own", comma, ours);
    h5_close(object);
    h5_close(made);
    H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, NULL, list_attribute, walk);
}

int matfile_others(const char *file, const char *dataset, char *text, size_t size,
                   struct error *err)
{
    char plain[DATASET_NAME_MAX];
    struct walk walk = {.context = plain, .text = text, .size = size};
    plain_path(dataset, plain);
    text[0] = '\0';
    h5_enter();
    hid_t id = h5_open_file(file, H5_READ, err);
    int rc = id < 0 ? err->code : 0;
    if (!rc && H5Lvisit(id, H5_INDEX_NAME, H5_ITER_INC, list_other, &walk) < 0)
        rc = error_add(err, EXIT_INPUT, "%s: its groups cannot be read: %s", file, h5_why());
    if (!rc)
        list_apart(id, &walk);
    h5_close(id);
    rc = h5_settle(rc, file, err);
    h5_leave();
    return rc;
}
