/* Names of threads for people, in UTF-8: those that Python gives, and for others the system's. */
#ifndef SPPROF_CORE_RUN_THREAD_NAMES_H
#define SPPROF_CORE_RUN_THREAD_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/capture/threads.h"

/* Any thread. Each waits until its thread is found. */
void spp_thread_names_give(const int32_t *tids, const char *const *names, uint32_t n);

/* The rest is for the watch. */
/* Drain lock held. The thread is armed. False: it has no name from Python. */
bool spp_thread_names_introduce(spp_thread *t);
/* Then it has the system's. */
void spp_thread_names_ask(spp_thread *t);
/* A thread inherits the name of the one that made it, and a library's takes its own after it was born: it is asked again when it
 * has run for a while, and at the end. */
void spp_thread_names_ask_again(spp_thread *t, bool last);
/* The i-th thread that was named and waits to be found; 0: there are no more. */
int32_t spp_thread_names_waiting(uint32_t i);
/* All threads there are were found and have their names; one that is named and not gone may still be to come. */
void spp_thread_names_scanned(void);
/* Drain lock held. */
void spp_thread_names_forget(void);
/* In a forked child: forgets without touching. */
void spp_thread_names_abandon(void);

#endif
