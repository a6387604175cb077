/* A file that may not become longer than some bytes: whatever the number, it holds whole blocks, and an end where one fits.
 * SIGXFSZ keeps its default here, which ends the process. */
#include "check.h"

#if !defined(_WIN32)
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file/read.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "os/files.h"
#include "os/lock.h"

#define BLOCKS 40u
#define HEADER "{\"version\":1}"
#define END "{\"stop_ns\":1,\"reason\":\"stop\"}"
#define HEAD 9u
#define END_MOST 256u /* as core/file/writer.c */

static char path[] = "/tmp/spprof-writer-XXXXXX";
static uint8_t bytes[1 << 16];

static void limit(rlim_t most) {
    struct rlimit now;
    getrlimit(RLIMIT_FSIZE, &now);
    now.rlim_cur = most;
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &now), 0);
}

static bool waits(int signum) {
    sigset_t set;
    sigpending(&set);
    return sigismember(&set, signum) == 1;
}

static int opened(spp_os_file *file) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(spp_os_file_copy(file, fd), 0);
    return fd;
}

/* Samples with their ticks, in blocks of a kind that readers pass over, the nth of them n bytes long. */
static void put(uint64_t n) {
    spp_block *block = spp_writer_block(HEAD + n);
    memset(block->bytes, 0, HEAD + n);
    block->bytes[0] = (uint8_t)n;
    block->bytes[8] = 'x';
    block->ticks = n;
    spp_writer_put(block);
}

/* Blocks of the file; gives the ticks that are in it. */
static uint64_t ticks_in(size_t size, bool *ends, bool *stats) {
    size_t at = 8;
    uint64_t ticks = 0;
    *ends = *stats = false;
    while (at + HEAD <= size) {
        uint32_t n = bytes[at] | (uint32_t)bytes[at + 1] << 8;
        CHECK(!*ends);
        if (bytes[at + 8] == 'x') ticks += n;
        if (bytes[at + 8] == 'A') *stats = true;
        if (bytes[at + 8] == 'E') *ends = true;
        at += HEAD + n;
    }
    CHECK_EQUAL(at, size); /* none is cut */
    return ticks;
}

/* False: no limit was reached. */
static bool limited(size_t most) {
    static spp_os_file file;
    static char stats[700];
    const size_t header = 8 + HEAD + sizeof HEADER - 1;
    struct stat is;
    uint64_t all = 0;
    bool ends, has_stats;
    memset(stats, ' ', sizeof stats);
    int fd = opened(&file);
    CHECK_EQUAL(spp_write_start(&file, HEADER, sizeof HEADER - 1), 0);
    CHECK_EQUAL(spp_writer_wait(), 0);
    limit(most);
    for (uint64_t n = 1; n <= BLOCKS; n++, all += n - 1) put(n);
    int error = spp_writer_wait();
    CHECK(error == 0 || error == EFBIG);
    bool stopped = error != 0;
    for (int i = 0; i < 2; i++) { /* as core/run/run.c: again, if it is these that do not fit */
        spp_write_last('A', stats, sizeof stats);
        spp_write_last('E', END, sizeof END - 1);
        int after = spp_writer_wait();
        if (after == error) break;
        error = after;
    }
    spp_write_stop();
    limit(RLIM_INFINITY);
    CHECK_EQUAL(fstat(fd, &is), 0);
    size_t size = (size_t)is.st_size;
    CHECK(size <= most);
    CHECK_EQUAL(pread(fd, bytes, sizeof bytes, 0), (ssize_t)size);
    close(fd);
    CHECK_EQUAL(ticks_in(size, &ends, &has_stats) + spp_writer_lost(), all);
    CHECK_EQUAL(ends, most >= header + HEAD + sizeof END - 1);
    if (most >= header + HEAD + sizeof stats + END_MOST) CHECK(has_stats);
    return error != 0 || stopped;
}

/* By a thread of the program's, which does not block it. */
static void quiet(void) {
    static spp_os_file file;
    static const uint8_t many[2000];
    int fd = opened(&file);
    limit(1000);
    CHECK_EQUAL(spp_os_file_write(&file, many, sizeof many), EFBIG);
    CHECK(!waits(SIGXFSZ));
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGXFSZ); /* the program's own waits on */
    CHECK_EQUAL(spp_os_file_write(&file, many, sizeof many), EFBIG);
    CHECK(waits(SIGXFSZ));
    int taken = 0;
    sigwait(&set, &taken);
    sigprocmask(SIG_SETMASK, &old, NULL);
    limit(RLIM_INFINITY);
    spp_os_file_close(&file);
    close(fd);
}

static _Atomic int begun, goes_on;

/* Block F, of which the payload says what becomes of it. */
static bool made(spp_block *block) {
    char *what = (char *)spp_write_payload(block);
    CHECK_EQUAL(what[4], 0);
    atomic_fetch_add(&begun, 1);
    while (strcmp(what, "slow") == 0 && !atomic_load(&goes_on)) usleep(1000);
    if (strcmp(what, "drop") == 0) return false;
    what[0] = 'M';
    spp_write_seal(block);
    return true;
}

/* What is still to be made is written behind all else, and nothing of it behind the end. */
static void made_later(void) {
    static spp_os_file file;
    struct stat is;
    int fd = opened(&file);
    CHECK_EQUAL(spp_write_start(&file, HEADER, sizeof HEADER - 1), 0);
    spp_write_later('F', "made", 4, made);
    spp_write_later('F', "drop", 4, made);
    spp_writer_made();
    CHECK_EQUAL(begun, 2);
    spp_write_last('E', END, sizeof END - 1);
    spp_write_stop();
    CHECK_EQUAL(fstat(fd, &is), 0);
    CHECK_EQUAL(is.st_size, 8 + HEAD + sizeof HEADER - 1 + HEAD + 4 + HEAD + sizeof END - 1);
    CHECK_EQUAL(pread(fd, bytes, 4, (off_t)(8 + HEAD + sizeof HEADER - 1 + HEAD)), 4);
    CHECK(memcmp(bytes, "Made", 4) == 0);
    CHECK_EQUAL(spp_writer_lost(), 0);
    close(fd);
    fd = opened(&file);
    begun = 0;
    CHECK_EQUAL(spp_write_start(&file, HEADER, sizeof HEADER - 1), 0);
    for (int i = 0; i < 3; i++) spp_write_later('F', "slow", 4, made);
    while (begun == 0) usleep(1000);
    spp_writer_made(); /* in vain */
    goes_on = 1;
    spp_write_last('E', END, sizeof END - 1);
    spp_write_stop();
    CHECK_EQUAL(begun, 1);
    CHECK_EQUAL(fstat(fd, &is), 0);
    CHECK_EQUAL(is.st_size, 8 + HEAD + sizeof HEADER - 1 + HEAD + sizeof END - 1);
    close(fd);
}

static _Atomic bool keeps;

/* The lock that the writer's thread needs, for longer than an output may take nothing. */
static void *keep_from(void *unused) {
    spp_os_lock();
    keeps = true;
    while (spp_writer_idle(false)) usleep(1000);
    usleep(1500000);
    spp_os_unlock();
    return unused;
}

static void *put_one(void *unused) {
    put(1);
    return unused;
}

/* As on a machine so full that the thread gets no processor: the output takes everything. */
static void starved(void) {
    static spp_os_file file;
    pthread_t keeper, putter;
    int fd = opened(&file);
    CHECK_EQUAL(spp_write_start(&file, HEADER, sizeof HEADER - 1), 0);
    CHECK_EQUAL(spp_writer_wait(), 0);
    CHECK_EQUAL(pthread_create(&keeper, NULL, keep_from, NULL), 0);
    while (!keeps) usleep(1000);
    CHECK_EQUAL(pthread_create(&putter, NULL, put_one, NULL), 0);
    while (spp_writer_idle(false)) usleep(1000);
    CHECK_EQUAL(spp_writer_wait(), 0);
    pthread_join(keeper, NULL);
    pthread_join(putter, NULL);
    spp_write_stop();
    CHECK_EQUAL(spp_writer_lost(), 0);
    close(fd);
}

int main(void) {
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    size_t most = 30; /* the header's own length */
    while (limited(most)) most += 5;
    CHECK(most > 30 + BLOCKS * (BLOCKS + 1) / 2 + BLOCKS * HEAD);
    quiet();
    made_later();
    starved();
    unlink(path);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
