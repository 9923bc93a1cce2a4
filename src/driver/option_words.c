#include "option_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "error.h"

enum {
    LENGTH_MAX = 64,
    ALIKE = 3,      /* changes that make one text of another that is like it */
    WORD_LEAST = 4, /* letters of a word that one text may have of another */
};

/* Insertions, deletions and replacements of a character that make one text of the other, of up to
 * 63 characters; ALIKE + 1 where they are more than ALIKE or than half of either's characters.
 * Capitals do not count. */
static int distance(const char *a, const char *b)
{
    int row[LENGTH_MAX + 1], length = (int)strnlen(b, LENGTH_MAX);
    int half = (int)strnlen(a, (size_t)length) / 2;
    int most = half < ALIKE ? half : ALIKE;
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; *a; a++, i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int change = diagonal + (tolower((unsigned char)*a) != b[j - 1]),
                shift = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = change < shift ? change : shift;
        }
    }
    return row[length] <= most ? row[length] : ALIKE + 1;
}

static bool is_end(const struct argp_option *option)
{
    return !option->name && !option->doc;
}

/* Find an option by its whole name, or by a beginning that no other option has.  Else null, and
 * `alike` is the number of options with this beginning. */
static const struct argp_option *find_long(const struct argp_option *table, const char *name,
                                           size_t length, int *alike)
{
    const struct argp_option *found = NULL;
    *alike = 0;
    for (const struct argp_option *o = table; !is_end(o); o++) {
        if (!o->name || strncmp(o->name, name, length) != 0)
            continue;
        if (strlen(o->name) == length)
            return o;
        found = o;
        ++*alike;
    }
    return *alike == 1 ? found : NULL;
}

/* An option by its letter. */
static const struct argp_option *find_short(const struct argp_option *table, int letter)
{
    const struct argp_option *o = table;
    while (!is_end(o) && !(o->name && o->key == letter))
        o++;
    return is_end(o) ? NULL : o;
}

/* Whether one of two names is part of the other, as of output-file and of seed. */
static bool is_part(const char *a, const char *b)
{
    return strlen(a) >= WORD_LEAST && strlen(b) >= WORD_LEAST &&
           (strcasestr(a, b) || strcasestr(b, a));
}

const struct argp_option *option_words_nearest(const struct argp_option *table, const char *name)
{
    const struct argp_option *found = NULL;
    int least = ALIKE + 1;
    for (const struct argp_option *o = table; !is_end(o); o++) {
        int far = !o->name ? least : is_part(name, o->name) ? 1 : distance(name, o->name);
        found = far < least ? o : found;
        least = far < least ? far : least;
    }
    return found;
}

/* Complain about a long name that is the beginning of several. */
static void complain_several(const struct argp_option *table, const char *name, struct error *err)
{
    char those[16 * LENGTH_MAX] = "";
    size_t used = 0;
    for (const struct argp_option *o = table; !is_end(o); o++)
        if (o->name && strncmp(o->name, name, strlen(name)) == 0 && used < sizeof those)
            used += (size_t)snprintf(those + used, sizeof those - used, "%s--%s",
                                     used > 0 ? ", " : "", o->name);
    error_add(err, EXIT_USAGE, "--%s may be several options; give one of %s", name, those);
}

/* How many words probably belong to one that is no option, where that one may be meant. */
static int words_of(const struct argp_option *meant, char **word)
{
    return meant && meant->arg && !strchr(word[0], '=') && word[1] && word[1][0] != '-' ? 2 : 1;
}

/* Complain about a word, the name of no option behind its hyphens.  Returns how many words probably
 * belong to it. */
static int complain_unknown(const struct argp_option *meant, char **word, struct error *err)
{
    const int length = (int)strcspn(word[0], "=");
    if (meant)
        error_add(err, EXIT_USAGE, "%.*s is not an option; did you mean --%s?", length, word[0],
                  meant->name);
    else
        error_add(err, EXIT_USAGE, "%.*s is not an option; see --help-all", length, word[0]);
    return words_of(meant, word);
}

/* An option that takes a value has one, and no other has. */
static void give(const struct argp_option *option, char *value, option_take *take, void *context,
                 struct error *err)
{
    if (value && !option->arg)
        error_add(err, EXIT_USAGE, "--%s takes no value: leave =%s out", option->name, value);
    else if (option->arg && !value)
        error_add(err, EXIT_USAGE, "--%s needs a value: give --%s %s", option->name, option->name,
                  option->arg);
    else
        take(option, value, context);
}

/* The number of words that were taken. */
static int give_long(const struct argp_option *table, char **word, option_take *take, void *context,
                     struct error *err)
{
    char name[LENGTH_MAX], *text = word[0] + 2;
    size_t length = strcspn(text, "=");
    char *value = text[length] ? text + length + 1 : NULL;
    int alike;
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const struct argp_option *option = find_long(table, text, length, &alike);
    if (!option && alike < 2)
        return complain_unknown(option_words_nearest(table, name), word, err);
    if (!option) {
        complain_several(table, name, err);
        return words_of(option_words_nearest(table, name), word);
    }
    bool takes_next = option->arg && !value && word[1];
    give(option, takes_next ? word[1] : value, take, context, err);
    return takes_next ? 2 : 1;
}

/* Whether the name behind one hyphen cannot be letters of options: the first one is none, or it is
 * the name of an option, which has two hyphens.  `meant`: the option that is
 * probably meant. */
static bool is_misspelt(const struct argp_option *table, const char *name,
                        const struct argp_option **meant)
{
    enum { LETTERS_LEAST = 3 }; /* -a NAME may be written in one */
    int alike;
    const bool is_long = strlen(name) >= LETTERS_LEAST;
    *meant = is_long ? find_long(table, name, strlen(name), &alike) : NULL;
    if (*meant)
        return true;
    *meant = is_long ? option_words_nearest(table, name) : find_short(table, tolower(name[0]));
    return !find_short(table, name[0]);
}

/* Likewise, of letters behind one hyphen. */
static int give_short(const struct argp_option *table, char **word, option_take *take,
                      void *context, struct error *err)
{
    const struct argp_option *meant;
    char name[LENGTH_MAX];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word[0] + 1, "="), word[0] + 1);
    if (is_misspelt(table, name, &meant))
        return complain_unknown(meant, word, err);
    for (char *letter = word[0] + 1; *letter; letter++) {
        const struct argp_option *option = find_short(table, *letter);
        if (*letter == '=') {
            error_add(err, EXIT_USAGE, "-%c takes no value: leave %s out", letter[-1], letter);
            return 1;
        }
        if (!option) {
            error_add(err, EXIT_USAGE, "-%c is not an option; see --help-all", *letter);
            return 1;
        }
        bool takes_next = option->arg && !letter[1] && word[1];
        if (option->arg && letter[1] == '=') {
            error_add(err, EXIT_USAGE, "-%c takes its value without \"=\": write -%c %s or --%s%s",
                      *letter, *letter, letter + 2, option->name, letter + 1);
            return 1;
        }
        give(option, !option->arg ? NULL : letter[1] ? letter + 1 : word[1], take, context, err);
        if (option->arg)
            return takes_next ? 2 : 1;
    }
    return 1;
}

/* Whether a word ends as the lines of Windows do: then all last words of lines are wrong. */
static bool has_carriage_return(char **word, struct error *err)
{
    for (; *word; word++)
        if (word[0][0] && word[0][strlen(word[0]) - 1] == '\r')
            return error_add(
                err, EXIT_USAGE,
                "\"%s\" ends in a carriage return, as the lines of Windows do; convert "
                "the script that has it by dos2unix",
                word[0]);
    return false;
}

void option_words(const struct argp_option *table, char **word, option_take *take, void *context,
                  struct error *err)
{
    if (has_carriage_return(word, err))
        return;
    while (*word && strcmp(*word, "--") != 0)
        if (strncmp(*word, "--", 2) == 0)
            word += give_long(table, word, take, context, err);
        else if (word[0][0] == '-' && word[0][1])
            word += give_short(table, word, take, context, err);
        else
            take(NULL, *word++, context);
    for (word += *word != NULL; *word; word++)
        take(NULL, *word, context);
}
