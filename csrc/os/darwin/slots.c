/* Thread-specific slots. A thread's slots are an array that the kernel can locate
 * (THREAD_IDENTIFIER_INFO's thread_handle); that slot k lies at 8 * k is proved on our own thread
 * before it is used.
 *
 * Thread-local variables (_Thread_local), by which CPython 3.15 keeps its state, lie in a block for each library that dyld makes
 * when a thread first asks, and keeps in a slot too (dyld, "thread local variables"). So their words have numbers behind those
 * of the slots. */
#include <stdatomic.h>

#include "os/context.h"
#include "os/darwin/darwin.h"
#include "os/memory.h"
#include "os/slots.h"

/* pthread_key_create gives keys from 256 to 767; the lower ones are the system's own (libpthread,
 * _EXTERNAL_POSIX_THREAD_KEYS_MAX). */
#define FIRST_SLOT 256u
#define SLOTS 768u
#define BLOCK_WORDS 64u /* of a block, as many as may be CPython's */

static _Atomic bool proved;

uint32_t spp_os_slots(void) { return SLOTS; }
uint32_t spp_os_words(void) { return SLOTS + (SLOTS - FIRST_SLOT) * BLOCK_WORDS; }

static uintptr_t word_at(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

/* The slot that holds the block of a word with such a number, and the word's place in it. */
static uint32_t slot_of_block(uint32_t number, uintptr_t *place) {
    *place = (number - SLOTS) % BLOCK_WORDS * 8;
    return FIRST_SLOT + (number - SLOTS) / BLOCK_WORDS;
}

uintptr_t spp_os_slot(uint32_t slot) {
    uintptr_t place;
    if (slot < SLOTS) return slot >= FIRST_SLOT ? (uintptr_t)pthread_getspecific((pthread_key_t)slot) : 0;
    uintptr_t block = (uintptr_t)pthread_getspecific((pthread_key_t)slot_of_block(slot, &place));
    return block != 0 ? word_at(block + place) : 0;
}

static bool prove(void) {
    static const int mark;
    thread_identifier_info_data_t about;
    mach_msg_type_number_t count = THREAD_IDENTIFIER_INFO_COUNT;
    pthread_key_t key;
    uintptr_t first, marked;
    mach_port_t self = mach_thread_self();
    bool known = thread_info(self, THREAD_IDENTIFIER_INFO, (thread_info_t)&about, &count) == KERN_SUCCESS;
    spp_darwin_release(self);
    if (!known || about.thread_handle == 0 || pthread_key_create(&key, NULL) != 0) return false;
    uintptr_t slots = (uintptr_t)about.thread_handle;
    bool right = pthread_setspecific(key, &mark) == 0 && spp_os_read(&marked, slots + 8 * (uintptr_t)key, sizeof marked) == 0 &&
                 marked == (uintptr_t)&mark && spp_os_read(&first, slots, sizeof first) == 0 &&
                 first == (uintptr_t)pthread_self();
    pthread_key_delete(key);
    return right;
}

void spp_darwin_prove_slots(void) {
    if (!atomic_load_explicit(&proved, memory_order_relaxed)) atomic_store_explicit(&proved, prove(), memory_order_relaxed);
}

uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot) {
    uintptr_t place;
    if (!atomic_load_explicit(&proved, memory_order_relaxed) || subject->slots == 0 || slot >= spp_os_words()) return 0;
    if (slot < SLOTS) return word_at(subject->slots + 8 * (uintptr_t)slot);
    uintptr_t block = word_at(subject->slots + 8 * (uintptr_t)slot_of_block(slot, &place));
    return block != 0 ? word_at(block + place) : 0;
}

intptr_t spp_os_own_place(uintptr_t value) {
    (void)value;
    return 0; /* a thread is suspended to ask it */
}
