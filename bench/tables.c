/* Times the parts of csrc/ that describe the loaded objects. */
#include "core/native/native.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/objects.h"

static spp_os_object objects[4096];
static unsigned found;

static void see(void *arg, const spp_os_object *object) {
    (void)arg;
    if (found < sizeof objects / sizeof *objects) objects[found++] = *object;
}

/* Nanoseconds that the loader's lock is held: once for each look at all objects. */
uint64_t bench_lock_ns(void);
uint64_t bench_lock_ns(void) {
    found = 0;
    uint64_t began = spp_os_now_ns();
    spp_os_objects(see, NULL);
    return spp_os_now_ns() - began;
}

/* Nanoseconds until all tables and names are made; rows and objects that there are then. */
uint64_t bench_tables_ns(uintptr_t evaluator, uint64_t *rows, uint64_t *n);
uint64_t bench_tables_ns(uintptr_t evaluator, uint64_t *rows, uint64_t *n) {
    if (spp_os_memory_init() != 0 || spp_os_lock_init(NULL) != 0) return 0;
    uint64_t began = spp_os_now_ns();
    if (spp_native_start(evaluator, NULL) != 0) return 0;
    uint64_t took = spp_os_now_ns() - began;
    const spp_native_view *view = spp_native_now;
    *rows = 0;
    *n = view->map.objects_n;
    for (uint32_t i = 0; i < view->map.objects_n; i++) *rows += view->map.objects[i]->n;
    spp_native_stop();
    return took;
}
