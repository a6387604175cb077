/* Our threads rest while the program must be alone in its process: they end, and what they do goes on later, in new ones. Ticks
 * are taken meanwhile, and wait in their queues. */
#ifndef SPPROF_CORE_REST_H
#define SPPROF_CORE_REST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/patience.h"
#include "os/worker.h"

/* Of one worker. */
typedef _Atomic uint32_t spp_rest;

/* On the worker, where its body may return and be started again: whether it is to rest. Then the
 * body returns at once. */
bool spp_rest_begins(spp_rest *rest);
/* On the thread that wants it to rest; it also rings the worker's bell. */
void spp_rest_ask(spp_rest *rest, spp_os_bell *bell);
/* Waits for that: the worker has ended, and *worker is NULL. False: it goes on, since it could not rest in that time. */
bool spp_rest_await(spp_rest *rest, spp_os_worker **worker, spp_patience *left_ns);
/* Whether it rests; then it may be started again. */
bool spp_rest_is(const spp_rest *rest);
void spp_rest_over(spp_rest *rest);

#endif
