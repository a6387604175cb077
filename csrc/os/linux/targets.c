#include "os/linux/targets.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/memory.h"

spp_linux_target_list spp_linux_targets;

static uint32_t pool_used;
static spp_linux_target *freed; /* under the lock */

int spp_linux_targets_make(void) {
    if (spp_linux_targets.pool == NULL) spp_linux_targets.pool = spp_os_pages(SPP_LINUX_TARGETS * sizeof(spp_linux_target));
    return spp_linux_targets.pool != NULL ? 0 : -1;
}

spp_linux_target *spp_linux_target_new(void) {
    spp_spin_lock(&spp_linux_targets.lock);
    spp_linux_target *t = freed;
    if (t != NULL) {
        freed = t->next;
    } else if (pool_used < SPP_LINUX_TARGETS) {
        t = &spp_linux_targets.pool[pool_used++];
    }
    spp_spin_unlock(&spp_linux_targets.lock);
    return t;
}

void spp_linux_target_link(spp_linux_target *t, int signum, uint64_t period_ns) {
    spp_linux_target_list *all = &spp_linux_targets;
    spp_spin_lock(&all->lock);
    all->signum = signum;
    all->period_ns = period_ns;
    t->next = all->armed;
    t->link = &all->armed;
    if (all->armed != NULL) all->armed->link = &t->next;
    all->armed = t;
    all->armed_n++;
    spp_spin_unlock(&all->lock);
}

void spp_linux_target_free(spp_linux_target *t) {
    spp_spin_lock(&spp_linux_targets.lock);
    if (t->link != NULL) {
        *t->link = t->next;
        if (t->next != NULL) t->next->link = t->link;
        t->link = NULL;
        spp_linux_targets.armed_n--;
    }
    atomic_store(&t->cookie, 0);
    void *own = t; /* the handshake may be another thread's by now */
    if (t->shakes != NULL) (void)atomic_compare_exchange_strong(&t->shakes->target, &own, NULL);
    if (t->kernels_timer >= 0) syscall(SYS_timer_delete, t->kernels_timer); /* the id may be reused from here on */
    t->next = freed;
    freed = t;
    spp_spin_unlock(&spp_linux_targets.lock);
}

void spp_linux_targets_forget_files(void) {
    spp_linux_target *pool = spp_linux_targets.pool;
    for (uint32_t i = 0; i < SPP_LINUX_TARGETS && atomic_load(&pool[i].use) != 0; i++)
        memset(pool[i].files, 0, sizeof pool->files);
}

void spp_linux_targets_child(void) {
    spp_linux_target *pool = spp_linux_targets.pool;
    spp_linux_targets.armed = freed = NULL;
    spp_linux_targets.armed_n = pool_used = 0;
    spp_spin_reset(&spp_linux_targets.lock);
    for (uint32_t i = 0; pool != NULL && i < SPP_LINUX_TARGETS && atomic_load(&pool[i].use) != 0; i++) {
        atomic_store(&pool[i].cookie, 0);
        pool[i].link = NULL;
        if (pool[i].shakes == NULL) continue;
        atomic_store(&pool[i].shakes->tick,
                     SPP_TICK_NONE); /* a thread that gets this id must not wait for a tick of the parent's */
        atomic_store(&pool[i].shakes->target, NULL);
    }
}
