/* Which thread suspends others: apart from trigger.c, for what discovers threads is below that. */
#include <stdatomic.h>

#include "os/suspend/suspend.h"

static _Atomic int32_t known;

void spp_suspend_set_sampler(int32_t tid) { atomic_store(&known, tid); }
bool spp_suspend_is_sampler(int32_t tid) { return tid != 0 && tid == atomic_load(&known); }
