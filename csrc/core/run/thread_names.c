#include "core/run/thread_names.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/map.h"
#include "base/utf8.h"
#include "core/run/roster.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"

/* Names given before their thread was found: under the drain lock. */
#define NAME_BYTES 128
typedef struct {
    int32_t tid;
    char name[NAME_BYTES];
} early_name;
static early_name *early;
static uint32_t early_n, early_capacity;
static spp_map early_of_tid;

#define TEXT_MOST ((size_t)8 << 20) /* as much as SPP_THREADS_MAX threads with long names have; it waits for a slow output */

/* Drain lock held. Threads beyond that have no name in the file. */
static void say_thread(uint32_t id, int32_t tid, const char *name) {
    spp_bytes *to = &spp_run_state.thread_text;
    if (to->n > TEXT_MOST) return;
    spp_json_next(to);
    spp_json_raw(to, "{");
    spp_json_key(to, "id");
    spp_json_number(to, id);
    spp_json_key(to, "tid");
    spp_json_number(to, (uint64_t)(uint32_t)tid);
    spp_json_key(to, "name");
    spp_json_string(to, name);
    spp_json_raw(to, "}");
}

/* Drain lock held. The name waits until the thread is found; no memory, or no slot for it: it keeps the system's. */
static void keep_early(int32_t tid, const char *name) {
    uint32_t at = spp_map_get(&early_of_tid, (uint64_t)tid, 0);
    if (at == SPP_MAP_NONE && early_n == early_capacity) {
        uint32_t capacity = early_capacity ? early_capacity * 2 : 64;
        early_name *more = capacity <= SPP_THREADS_MAX ? spp_realloc(early, capacity * sizeof *early) : NULL;
        if (more == NULL) return;
        early = more;
        early_capacity = capacity;
    }
    if (at == SPP_MAP_NONE) {
        if (spp_map_add(&early_of_tid, (uint64_t)tid, 0, early_n) != 0) return;
        at = early_n++;
    }
    early[at].tid = tid;
    snprintf(early[at].name, NAME_BYTES, "%s", name);
    spp_utf8_trim(early[at].name);
}

void spp_thread_names_forget(void) {
    early_n = 0;
    spp_map_free(&early_of_tid);
}

/* Takes the lock once: for each of thousands it would wait for the thread that looks at all of them. */
void spp_thread_names_give(const int32_t *tids, const char *const *names, uint32_t n) {
    bool early_one = false;
    spp_os_lock();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = spp_roster_slot(tids[i]);
        if (slot != SPP_MAP_NONE) {
            say_thread(spp_threads[slot].id, tids[i], names[i]);
            spp_threads[slot].watch.unnamed = false;
        } else {
            keep_early(tids[i], names[i]);
            early_one = true;
        }
    }
    spp_os_unlock();
    if (early_one) spp_os_bell_ring(&spp_cap.bell); /* a thread that was just born is found at once */
}

bool spp_thread_names_introduce(spp_thread *t) {
    uint32_t at = spp_map_get(&early_of_tid, (uint64_t)t->tid, 0);
    t->watch.unnamed = at == SPP_MAP_NONE;
    t->watch.asked = false;
    if (!t->watch.unnamed) say_thread(t->id, t->tid, early[at].name);
    return !t->watch.unnamed;
}

void spp_thread_names_ask_again(spp_thread *t, bool last) {
    char name[64];
    if (!t->watch.unnamed || (t->watch.asked && !last) || spp_os_thread_name(t->tid, name, sizeof name) != 0) return;
    spp_os_lock();
    if (t->watch.unnamed) say_thread(t->id, t->tid, name);
    t->watch.asked = true;
    spp_os_unlock();
}

void spp_thread_names_ask(spp_thread *t) {
    char name[64] = "";
    (void)spp_os_thread_name(t->tid, name, sizeof name);
    spp_os_lock();
    if (t->watch.unnamed) say_thread(t->id, t->tid, name);
    spp_os_unlock();
}

int32_t spp_thread_names_waiting(uint32_t i) {
    spp_os_lock();
    int32_t tid = i < early_n ? early[i].tid : 0;
    spp_os_unlock();
    return tid;
}

void spp_thread_names_scanned(void) {
    spp_os_lock();
    uint32_t named = early_n, kept = 0;
    if (named > 0) spp_thread_names_forget();
    for (uint32_t i = 0; i < named; i++) {
        uint64_t cpu;
        bool found = spp_roster_slot(early[i].tid) != SPP_MAP_NONE;
        if (found || spp_os_thread_cpu_ns(early[i].tid, &cpu) != 0) continue;
        early[kept] = early[i];
        if (spp_map_add(&early_of_tid, (uint64_t)early[kept].tid, 0, kept) == 0) kept++;
    }
    early_n = kept;
    spp_os_unlock();
}

void spp_thread_names_abandon(void) {
    early = NULL;
    early_n = early_capacity = 0;
    memset(&early_of_tid, 0, sizeof early_of_tid);
}
