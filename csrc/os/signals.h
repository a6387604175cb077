/* The program's own signals during a run. */
#ifndef SPPROF_OS_SIGNALS_H
#define SPPROF_OS_SIGNALS_H

#include <stdbool.h>

#include "os/worker.h"

/* Sets the word that is 1 while a signal waits for the main thread, which then makes it 0; NULL if unknown. It becomes 2 once a
 * call of that thread was ended for the signal, so its owner may only test it for 0. GIL held. */
void spp_os_signals_wait_at(volatile int *flag);
/* Ends a system call of the main thread if a signal has waited for it since the last call. The drain thread, every 10 ms or so.
 */
void spp_os_signals_care(void);
/* Hooks the signal calls of objects loaded since the last call. May wait for the dynamic loader: the drain thread, outside the
 * drain lock. */
void spp_os_signal_look(void);

/* Catches SIGTERM if the program has no handler for it: sets *asked and rings `bell`. The worker finishes the file and calls
 * spp_os_term_now, which ends the process by SIGTERM. By the thread that starts the run. */
void spp_os_term_catch(spp_os_bell *bell, _Atomic int *asked);
void spp_os_term_restore(void);
void spp_os_term_now(void);

#endif
