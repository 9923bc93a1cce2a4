#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "file.h"
#include "notice.h"

enum { TEXT_BYTES = 512, ATTEMPTS = 5 };

/* Who made the file.  Numbers of processes are those of a boot of a computer, of a container. */
struct owner {
    int process;
    uint64_t started; /* in ticks since the boot; with the number it names one process */
    uint64_t space;   /* of the numbers */
    char boot[64], host[128], since[32];
};

static struct {
    char name[PATH_MAX], text[TEXT_BYTES]; /* empty: there is none */
    bool beating, ending;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t end;
} lock = {.mutex = PTHREAD_MUTEX_INITIALIZER, .end = PTHREAD_COND_INITIALIZER};

/* The beginning of a file, as a string; -1 where it cannot be read.  Also in a signal's handler. */
static ssize_t read_text(const char *name, char text[TEXT_BYTES])
{
    int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

/* False where there is no such process, or one that only waits for its parent to notice its end. */
static bool read_process(int process, uint64_t *started)
{
    char name[64], text[TEXT_BYTES], state;
    snprintf(name, sizeof name, "/proc/%d/stat", process);
    const char *rest = read_text(name, text) > 0 ? strrchr(text, ')') : NULL;
    *started = 0;
    if (!rest)
        return kill(process, 0) == 0 || errno != ESRCH;
    return sscanf(rest,
                  ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%*s %*s %" SCNu64,
                  &state, started) == 2 &&
           state != 'Z' && state != 'X';
}

static struct owner this_owner(void)
{
    struct owner me = {.process = (int)getpid(), .boot = "?", .host = "?"};
    char text[TEXT_BYTES];
    struct stat space;
    struct tm utc;
    time_t now = time(NULL);
    read_process(me.process, &me.started);
    me.space = stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
    if (read_text("/proc/sys/kernel/random/boot_id", text) > 0)
        sscanf(text, "%63s", me.boot);
    if (gethostname(text, sizeof text - 1) == 0)
        sscanf(text, "%127s", me.host);
    strftime(me.since, sizeof me.since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return me;
}

static void print_owner(const struct owner *o, char text[TEXT_BYTES])
{
    snprintf(text, TEXT_BYTES, "%d %s %s %s %" PRIu64 " %" PRIu64 "\n", o->process, o->host,
             o->since, o->boot, o->space, o->started);
}

/* False where print_owner would not have written this text. */
static bool parse_owner(const char *text, struct owner *o)
{
    char again[TEXT_BYTES];
    if (sscanf(text, "%d %127s %31s %63s %" SCNu64 " %" SCNu64, &o->process, o->host, o->since,
               o->boot, &o->space, &o->started) != 6)
        return false;
    print_owner(o, again);
    return o->process > 0 && strcmp(text, again) == 0;
}

/* Whether the file holds: of a process that can be seen from here, as long as that lives. */
static bool holds(const char *name, const struct owner *o, const struct stat *status)
{
    const struct owner me = this_owner();
    struct stat sample;
    uint64_t started;
    if (o->space == me.space && strcmp(o->boot, me.boot) == 0)
        return read_process(o->process, &started) && (!started || started == o->started);
    return file_sample(name, &sample) ||
           sample.st_mtim.tv_sec - status->st_mtim.tv_sec < LOCK_STALE_SECONDS;
}

enum lock_state lock_file(int descriptor, int operation)
{
    while (flock(descriptor, operation | LOCK_NB))
        if (errno != EINTR)
            return errno == EWOULDBLOCK ? LOCK_BUSY : LOCK_UNSUPPORTED;
    return LOCK_TAKEN;
}

/* Complain of a file that holds, or is no lock; one that holds no more has an owner. */
static int look(const char *name, struct owner *owner, struct error *err)
{
    struct stat status;
    char text[TEXT_BYTES];
    *owner = (struct owner){0};
    if (!file_exists(name, &status, err))
        return err->code;
    if (!S_ISREG(status.st_mode))
        return error_add(err, EXIT_INPUT, "%s is a link, or no regular file; remove it", name);
    const ssize_t length = read_text(name, text);
    if (length < 0 && errno == ENOENT) /* its run has just ended */
        return 0;
    if (length < 0)
        return error_add(err, EXIT_INPUT, "cannot read %s: %s", name, strerror(errno));
    if (length == 0)
        return error_add(err, EXIT_INPUT,
                         "%s is empty: another run is starting, or died while it started; try "
                         "again in a minute, and remove the file if it is still empty",
                         name);
    if (!parse_owner(text, owner))
        return error_add(
            err, EXIT_INPUT,
            "%s is not a run's lock file; move it away, or choose another output with --output",
            name);
    if (holds(name, owner, &status))
        return error_add(
            err, EXIT_INPUT,
            "another run is writing this output: process %d on %s, since %s (%s, valid for %d s "
            "after its run has died); wait until it ends, or choose another with --output",
            owner->process, owner->host, owner->since, name, LOCK_STALE_SECONDS);
    return 0;
}

int lock_look(const char *name, struct error *err)
{
    struct owner owner;
    return look(name, &owner, err);
}

/* Another run may do the same: what is taken away is looked at again, and put back where it was not
 * the one that was found to hold no more. */
static void remove_stale(const char *name, const struct owner *stale)
{
    char away[PATH_MAX], before[TEXT_BYTES], now[TEXT_BYTES];
    const int made = file_make_beside(name, away);
    if (made < 0)
        return;
    close(made);
    if (rename(name, away)) {
        unlink(away);
        return;
    }
    print_owner(stale, before);
    if (read_text(away, now) < 0 || strcmp(before, now) != 0) {
        file_give_name(away, name, false);
        return;
    }
    notice("%s belongs to a run that has died (process %d on %s, since %s); this run takes it over",
           name, stale->process, stale->host, stale->since);
    unlink(away);
}

bool lock_is_held(void)
{
    char text[TEXT_BYTES];
    return !lock.name[0] || (read_text(lock.name, text) > 0 && strcmp(text, lock.text) == 0);
}

static void *beat(void *ignored)
{
    (void)ignored;
    pthread_mutex_lock(&lock.mutex);
    while (!lock.ending) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOCK_BEAT_SECONDS;
        pthread_cond_timedwait(&lock.end, &lock.mutex, &until);
        if (lock_is_held())
            utimensat(AT_FDCWD, lock.name, NULL, AT_SYMLINK_NOFOLLOW);
    }
    pthread_mutex_unlock(&lock.mutex);
    return NULL;
}

/* The new, empty file is this run's. */
static int begin(const char *name, int fd, struct error *err)
{
    const struct owner me = this_owner();
    ssize_t length;
    snprintf(lock.name, sizeof lock.name, "%s", name);
    print_owner(&me, lock.text);
    length = (ssize_t)strlen(lock.text);
    bool written = write(fd, lock.text, (size_t)length) == length && fsync(fd) == 0;
    if (!written) {
        error_add(err, error_of_disk(errno, EXIT_RUNTIME), "cannot write %s: %s", name,
                  error_disk_text(errno));
        unlink(name);
        lock.name[0] = '\0';
        return err->code;
    }
    lock.ending = false;
    int status = pthread_create(&lock.thread, NULL, beat, NULL);
    lock.beating = status == 0;
    if (!lock.beating)
        error_no_thread(err, "the lock of the output", status);
    return err->code;
}

int lock_take(const char *name, struct error *err)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        struct owner owner;
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0) {
            int rc = begin(name, fd, err);
            close(fd);
            return rc;
        }
        if (errno != EEXIST)
            return error_add(err, error_of_disk(errno, EXIT_INPUT), "cannot make %s: %s", name,
                             error_disk_text(errno));
        if (look(name, &owner, err))
            return err->code;
        if (owner.since[0])
            remove_stale(name, &owner);
    }
    return error_add(err, EXIT_INPUT, "another run has just taken %s: wait until it ends", name);
}

void lock_abandon(void)
{
    if (lock.name[0] && lock_is_held())
        unlink(lock.name);
}

void lock_release(void)
{
    if (lock.beating) {
        pthread_mutex_lock(&lock.mutex);
        lock.ending = true;
        pthread_cond_signal(&lock.end);
        pthread_mutex_unlock(&lock.mutex);
        pthread_join(lock.thread, NULL);
        lock.beating = false;
    }
    lock_abandon();
    lock.name[0] = '\0';
}
