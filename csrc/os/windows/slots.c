/* Thread-specific slots: 64 in a thread's environment block, 1024 more in a block that it points to (winternl.h's TEB). Proved on
 * a slot of our own.
 *
 * Thread-local variables, by which CPython 3.15 keeps its state: each object that has some has a number, which the loader gave it
 * and wrote where the object's TLS directory says ("PE Format", the .tls section). At that number in a row that the environment
 * block points to is the thread's own copy of them. So their words have numbers behind those of the slots. Proved on a variable
 * of our own. */
#include "os/windows/windows.h"

#include <string.h>

#include "os/context.h"
#include "os/memory.h"
#include "os/objects.h"
#include "os/slots.h"

#define FIRST_SLOTS 64u
#define MORE_SLOTS 1024u
#define SLOTS (FIRST_SLOTS + MORE_SLOTS)
#define OBJECTS 128u    /* that have variables */
#define BLOCK_WORDS 64u /* of one object's variables, as many as may be CPython's: 3.15 has six on Linux */
#define TEB_BLOCKS 0x58u
#define TEB_SLOTS 0x1480u
#define TEB_MORE 0x1780u

static uint32_t words[OBJECTS]; /* of each object's variables, by its number; written with the GIL, before there is a sampler */

/* Guarded, since what a thread's environment block names is made and freed by the loader, and the block itself by the kernel when
 * the thread ends, which one that is not suspended may do at any time (the clock `gil`). */
static uintptr_t word_at(uintptr_t at) {
    uintptr_t value;
    return at != 0 && spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

/* Of the calling thread's own block, which stays, without asking the kernel. */
static uintptr_t in_block(uintptr_t teb, uint32_t offset) {
    return teb == (uintptr_t)NtCurrentTeb() ? *(volatile uintptr_t *)(teb + offset) : word_at(teb + offset);
}

static uintptr_t variable_in(uintptr_t teb, uint32_t number) {
    uint32_t object = number / BLOCK_WORDS, place = number % BLOCK_WORDS;
    if (object >= OBJECTS || place >= words[object]) return 0;
    uintptr_t blocks = in_block(teb, TEB_BLOCKS); /* 0: the thread is just beginning */
    uintptr_t block = blocks != 0 ? word_at(blocks + 8u * object) : 0;
    return block != 0 ? word_at(block + 8u * place) : 0;
}

static uintptr_t slot_in(uintptr_t teb, uint32_t slot) {
    if (slot >= SLOTS) return variable_in(teb, slot - SLOTS);
    if (slot < FIRST_SLOTS) return in_block(teb, TEB_SLOTS + 8u * slot);
    uintptr_t more = in_block(teb, TEB_MORE);
    return more != 0 ? word_at(more + 8u * (slot - FIRST_SLOTS)) : 0;
}

uint32_t spp_os_slots(void) {
    uintptr_t teb = (uintptr_t)NtCurrentTeb();
    DWORD mine = TlsAlloc();
    bool found = mine != TLS_OUT_OF_INDEXES;
    for (uintptr_t value = 0x5bd1e995; value < 0x5bd1e997 && found; value++) {
        found = TlsSetValue(mine, (void *)value) && slot_in(teb, mine) == value;
    }
    if (mine != TLS_OUT_OF_INDEXES) TlsFree(mine);
    return found ? SLOTS : 0;
}

/* A variable of ours, made as compilers make them: what lies in this section is copied for each thread. */
#define MARK 0x5bd1e99516b5c1f7u
__attribute__((section(".tls$SPP"), used)) static uintptr_t mark = MARK;

typedef struct {
    uint32_t end; /* of the numbers of objects */
    bool proved;
} variables;

/* An object may go away meanwhile: guarded copies. */
static void see(void *arg, const spp_os_object *o) {
    variables *all = arg;
    IMAGE_DOS_HEADER dos;
    IMAGE_NT_HEADERS64 nt;
    IMAGE_TLS_DIRECTORY64 tls;
    DWORD number;
    if (spp_os_read(&dos, o->base, sizeof dos) != 0 || spp_os_read(&nt, o->base + (uintptr_t)dos.e_lfanew, sizeof nt) != 0)
        return;
    const IMAGE_DATA_DIRECTORY *where = &nt.OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_TLS];
    if (where->VirtualAddress == 0 || where->Size < sizeof tls) return;
    if (spp_os_read(&tls, o->base + where->VirtualAddress, sizeof tls) != 0) return;
    if (spp_os_read(&number, tls.AddressOfIndex, sizeof number) != 0 || number >= OBJECTS) return;
    uintptr_t first = tls.StartAddressOfRawData, n = (tls.EndAddressOfRawData - first + tls.SizeOfZeroFill) / 8;
    words[number] = (uint32_t)(n < BLOCK_WORDS ? n : BLOCK_WORDS);
    if (number >= all->end) all->end = number + 1;
    uintptr_t place = ((uintptr_t)&mark - first) / 8;
    if (place < words[number] && variable_in((uintptr_t)NtCurrentTeb(), number * BLOCK_WORDS + (uint32_t)place) == MARK) {
        all->proved = true;
    }
}

uint32_t spp_os_words(void) {
    variables all = {0};
    memset(words, 0, sizeof words);
    spp_os_objects(see, &all);
    return spp_os_slots() == 0 ? 0 : SLOTS + (all.proved ? all.end * BLOCK_WORDS : 0);
}

uintptr_t spp_os_slot(uint32_t slot) { return slot_in((uintptr_t)NtCurrentTeb(), slot); }
uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot) {
    return subject->slots != 0 ? slot_in(subject->slots, slot) : 0;
}

intptr_t spp_os_own_place(uintptr_t value) {
    (void)value;
    return 0; /* a thread is suspended to ask it */
}
