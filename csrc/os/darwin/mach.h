/* All that os/darwin uses of macOS beyond POSIX: the handful of Mach, dyld and pthread calls. Tests take a kernel that is made up
 * (tests/c/fake_mach.h), with the same names, so each file here is the one that macOS runs. */
#ifndef SPPROF_OS_DARWIN_MACH_H
#define SPPROF_OS_DARWIN_MACH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef SPP_FAKE_MACH
#include "fake_mach.h"
#else
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <mach-o/dyld_images.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <mach/semaphore.h>
#endif
#include "os/darwin/apple.h"

#endif
