/* What a descriptor of the program's is. Nothing of the program's is opened: /proc names the file, and of a socket the inode; the
 * tables of TCP have its peer. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/linux/linux.h"
#include "os/waits.h"

/* Sockets that were looked up, by their inode: a number that no other has for a long time. The sampler's alone. */
#define KNOWN 4096u
static struct {
    uint64_t inode, until_ns; /* one without a peer is looked up again then */
    char text[64];            /* "": no table has it */
} known[KNOWN];

/* A table has all sockets of the namespace, and is read at a cost of 0.5 us for each of them. */
#define READ_MOST (1u << 20)
#define TABLES_EVERY_NS 100000000u
#define PEERLESS_NS 1000000000u

#define LISTENS 10 /* TCP_LISTEN in the kernel's include/net/tcp_states.h */

/* An address as the tables have it: words of the processor's byte order in hexadecimal digits, and the port. */
static void put_address(const char *text, char *to, size_t size) {
    char digits[9] = {0}, host[INET6_ADDRSTRLEN] = "";
    uint32_t words[4] = {0};
    static const uint32_t no_address[4];
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) / 8 : 0;
    if (n != 1 && n != 4) return;
    for (size_t i = 0; i < n; i++) {
        memcpy(digits, text + 8 * i, 8);
        words[i] = (uint32_t)strtoul(digits, NULL, 16);
    }
    const uint32_t *four = n == 1 ? words : &words[3];
    bool mapped = n == 4 && words[0] == 0 && words[1] == 0 && words[2] == htonl(0xFFFF);
    if (memcmp(words, no_address, sizeof words) == 0)
        strcpy(host, "*");
    else
        (void)inet_ntop(n == 1 || mapped ? AF_INET : AF_INET6, n == 1 || mapped ? four : words, host, sizeof host);
    snprintf(to, size, strchr(host, ':') != NULL ? "[%s]:%lu" : "%s:%lu", host, strtoul(colon + 1, NULL, 16));
}

/* The table's sockets, of all processes, are kept too, but not in the place of the one that is looked up.
 * A line: number, local address, its peer's, state, queues, timer, timeouts, user, probes, inode, ... */
static void keep_line(char *line, uint64_t wanted) {
    enum { LOCAL = 1, PEER, STATE, INODE = 9, FIELDS };
    char *fields[FIELDS], *rest = NULL;
    int n = 0;
    for (char *field = strtok_r(line, " ", &rest); field != NULL && n < FIELDS; field = strtok_r(NULL, " ", &rest)) {
        fields[n++] = field;
    }
    uint64_t inode = n == FIELDS ? strtoull(fields[INODE], NULL, 10) : 0;
    if (inode == 0 || (inode != wanted && inode % KNOWN == wanted % KNOWN)) return;
    char address[56] = "";
    bool listens = strtoul(fields[STATE], NULL, 16) == LISTENS;
    put_address(fields[listens ? LOCAL : PEER], address, sizeof address);
    known[inode % KNOWN].inode = inode;
    known[inode % KNOWN].until_ns = UINT64_MAX;
    snprintf(known[inode % KNOWN].text, sizeof known->text, listens ? "server %s" : "socket %s", address);
}

typedef struct {
    int32_t tid;
    uint64_t inode;
} lookup;

static void read_table(const lookup *wanted, const char *name) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/net/%s", wanted->tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;
    size_t kept = 0, all = 0;
    if (fd < 0) return;
    while (all < READ_MOST && (n = read(fd, text + kept, sizeof text - 1 - kept)) > 0) {
        char *end = text + kept + n, *line = text, *next;
        *end = 0;
        for (; (next = memchr(line, '\n', (size_t)(end - line))) != NULL; line = next + 1) {
            *next = 0;
            keep_line(line, wanted->inode);
        }
        kept = (size_t)(end - line);
        if (kept == sizeof text - 1) kept = 0; /* no line is so long */
        memmove(text, line, kept);
        all += (size_t)n;
    }
    close(fd);
}

static void read_tables(void *wanted) {
    read_table(wanted, "tcp");
    read_table(wanted, "tcp6");
}

/* Writes the name of a socket with a peer, or one that listens; "" for others. */
static void put_socket(int32_t tid, uint64_t inode, char *to, size_t size) {
    static uint64_t read_ns;
    uint64_t now = spp_os_now_ns();
    bool is_known = known[inode % KNOWN].inode == inode && now < known[inode % KNOWN].until_ns;
    if (!is_known && now - read_ns >= TABLES_EVERY_NS) {
        read_ns = now;
        known[inode % KNOWN].inode = inode;
        known[inode % KNOWN].until_ns = now + PEERLESS_NS;
        known[inode % KNOWN].text[0] = 0;
        lookup wanted = {tid, inode};
        spp_linux_with_files(read_tables, &wanted);
        is_known = true;
    }
    snprintf(to, size, "%s", is_known ? known[inode % KNOWN].text : "");
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

void spp_os_descriptor(int32_t tid, int fd, char to[SPP_OS_DESCRIPTOR]) {
    char path[64], link[4096];
    to[0] = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/fd/%d", tid, fd);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) return;
    link[n] = 0;
    if (begins(link, "/")) {
        const char *kind = begins(link, "/dev/pts/") || begins(link, "/dev/tty") ? "terminal" : "file";
        int most = (int)(SPP_OS_DESCRIPTOR - sizeof "terminal ");
        snprintf(to, SPP_OS_DESCRIPTOR, "%s %.*s", kind, most, n > most ? link + n - most : link);
        return;
    }
    if (begins(link, "socket:[")) put_socket(tid, strtoull(link + strlen("socket:["), NULL, 10), to, SPP_OS_DESCRIPTOR);
    if (to[0] != 0) return;
    /* pipe:[123], anon_inode:[eventfd] */
    bool anonymous = begins(link, "anon_inode:");
    const char *name = anonymous ? link + strlen("anon_inode:") : link;
    name += *name == '[';
    snprintf(to, SPP_OS_DESCRIPTOR, "%.*s, descriptor %d", (int)strcspn(name, anonymous ? "]" : ":"), name, fd);
}
