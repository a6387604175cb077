/* What the files of os/windows share among themselves. Windows 10 or later. */
#ifndef SPPROF_OS_WINDOWS_WINDOWS_H
#define SPPROF_OS_WINDOWS_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdbool.h>
#include <stdint.h>

/* A function that not every Windows (or wine) has; 0: not this one. */
uintptr_t spp_windows_find(const wchar_t *library, const char *name);
#define SPP_WINDOWS_FIND(type, library, name) ((type)spp_windows_find(library, name))

/* Once, before clocks are read and anybody sleeps. */
void spp_windows_clock_start(void);

/* A timer for one thread's sleeps, and whose it is: the calling one's. */
HANDLE spp_windows_timer(void);
void spp_windows_timer_of_thread(HANDLE timer);

/* Whether a thread has ended, by a handle of it that may wait (SYNCHRONIZE). */
bool spp_windows_has_ended(HANDLE thread);

/* UTF-16 as UTF-8, NUL-terminated; cut if it does not fit. */
void spp_windows_utf8(const wchar_t *from, char *to, size_t size);

#endif
