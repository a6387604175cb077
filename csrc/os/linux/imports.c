/* Makes loaded objects call our functions instead of the C library's, by rewriting the slots that the loader relocated: the GOT,
 * and pointers in tables. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/linux/linux.h"
#include "os/objects.h"

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT R_X86_64_GLOB_DAT
#define POINTER R_X86_64_64
#else
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT R_AARCH64_GLOB_DAT
#define POINTER R_AARCH64_ABS64
#endif

#define NAME_MAX_BYTES 32

/* From an object's dynamic section. */
typedef struct {
    uintptr_t base, low, high;    /* its load bias, and the range of its segments */
    uintptr_t sealed, sealed_end; /* what the loader makes read-only after relocation */
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * tables[2];
    size_t counts[2];
} object;

/* Load biases of objects whose slots are all rewritten, since large objects have 100,000 relocations. Used with the loader's
 * lock, so that no object is unloaded meanwhile. */
#define DONE 4096u
static struct {
    uintptr_t bases[DONE]; /* 0: free */
    uint32_t n;
    uint64_t unloaded; /* the loader's count of unloaded objects when this was started: later ones may reuse an address */
} done;

/* Hash table of the functions to replace. */
#define NAMES 1024u /* more than three times the number of functions */
_Static_assert(SPP_LINUX_IMPORTS_MOST * 3 < NAMES, "the hash table must stay sparse");
static const spp_linux_import *by_name[NAMES];

/* By the first two characters, whether some function's name begins so: most names need no hash. */
static bool begins[256 * 64];

static size_t pair_of(const char *name) { return name[0] == 0 ? 0 : (size_t)(uint8_t)name[0] << 6 | ((uint8_t)name[1] & 63); }

typedef struct {
    bool later; /* some objects seem to be still in relocation */
    uint64_t stamp;
} job;

/* The section's addresses: musl leaves them as in the file, glibc adds the load bias. */
static uintptr_t mapped_address(const object *o, uintptr_t value) { return value < o->base ? o->base + value : value; }

static bool describe_object(const struct dl_phdr_info *info, object *o) {
    const ElfW(Dyn) *d = NULL;
    size_t relative = 0;
    memset(o, 0, sizeof *o);
    o->base = info->dlpi_addr;
    o->low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = o->base + h->p_vaddr;
        if (h->p_type == PT_DYNAMIC) d = (const ElfW(Dyn) *)at;
        if (h->p_type == PT_LOAD && at < o->low) o->low = at;
        if (h->p_type == PT_LOAD && at + h->p_memsz > o->high) o->high = at + h->p_memsz;
        if (h->p_type == PT_GNU_RELRO) {
            uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
            o->sealed = at & ~(page - 1);
            o->sealed_end = (at + h->p_memsz) & ~(page - 1);
        }
    }
    for (; d != NULL && d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB: o->symbols = (const ElfW(Sym) *)mapped_address(o, d->d_un.d_ptr); break;
        case DT_STRTAB: o->names = (const char *)mapped_address(o, d->d_un.d_ptr); break;
        case DT_JMPREL: o->tables[0] = (const ElfW(Rela) *)mapped_address(o, d->d_un.d_ptr); break;
        case DT_PLTRELSZ: o->counts[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELA: o->tables[1] = (const ElfW(Rela) *)mapped_address(o, d->d_un.d_ptr); break;
        case DT_RELASZ: o->counts[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
        case DT_RELACOUNT: relative = d->d_un.d_val; break; /* they come first, and have no symbols */
        default: break;
        }
    }
    if (o->tables[1] != NULL && relative <= o->counts[1]) {
        o->tables[1] += relative;
        o->counts[1] -= relative;
    }
    return o->symbols != NULL && o->names != NULL;
}

/* Whether a word is writable. Asks by a futex operation that changes no bit and wakes no thread; needs no descriptor, right or
 * /proc. */
typedef enum { WRITABLE, SEALED, UNKNOWN } access_kind;

static access_kind access_of(uintptr_t at) {
    uint32_t none = 0;
    long add_nothing = (long)FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    if (syscall(SYS_futex, &none, FUTEX_WAKE_OP_PRIVATE, 0, NULL, at, add_nothing) >= 0) return WRITABLE;
    return errno == EFAULT ? SEALED : UNKNOWN;
}

/* Rewrites a slot. One that is not relocated yet is left for a later look, since the loader will write or adjust it. So is one
 * that will be read-only but is not yet: the loader might protect it at this moment. An object's own function of that name is not
 * the C library's, and stays. */
static void rewrite(job *j, const object *o, const ElfW(Rela) * r, const spp_linux_import *import) {
    bool by_calls = ELF64_R_TYPE(r->r_info) == JUMP_SLOT;
    uintptr_t at = o->base + r->r_offset;
    _Atomic uintptr_t *slot = (_Atomic uintptr_t *)at;
    uintptr_t now = atomic_load(slot), raw_most = by_calls ? o->high - o->low : 1; /* a value below is as in the file */
    if (now != (uintptr_t)import->real) {
        bool inside = now >= o->low && now < o->high, lazy = o->symbols[ELF64_R_SYM(r->r_info)].st_shndx == SHN_UNDEF;
        if (!inside && now < raw_most) j->later = true;
        if (!inside || !lazy) return; /* else: will be bound at the first call */
    }
    if (at < o->sealed || at >= o->sealed_end) {
        atomic_store(slot, (uintptr_t)import->own);
        return;
    }
    access_kind kind = access_of(at);
    if (kind == WRITABLE) j->later = true;
    if (kind != SEALED) return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *pages = (void *)(at & ~(page - 1));
    if (mprotect(pages, page, PROT_READ | PROT_WRITE) != 0) return;
    atomic_store(slot, (uintptr_t)import->own);
    mprotect(pages, page, PROT_READ);
}

/* FNV-1a (Fowler, Noll, Vo 1991). */
static uint32_t hash_of(const char *name) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < NAME_MAX_BYTES && name[i] != 0; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash % NAMES;
}

/* Objects whose system calls do not count as made without the C library: the library itself, the loader, the vDSO, and we. */
#define LIBRARIES 6
#define OURS 3
static struct { uintptr_t within, low, high; } libraries[LIBRARIES];

bool spp_linux_in_c_library(uintptr_t pc) {
    for (int i = 0; i < LIBRARIES; i++)
        if (pc >= libraries[i].low && pc < libraries[i].high) return true;
    return false;
}

bool spp_linux_in_own_code(uintptr_t pc) { return pc >= libraries[OURS].low && pc < libraries[OURS].high; }

static int note_library(struct dl_phdr_info *info, size_t size, void *arg) {
    object o;
    (void)size, (void)arg, (void)describe_object(info, &o);
    for (int i = 0; i < LIBRARIES; i++) {
        if (libraries[i].within < o.low || libraries[i].within >= o.high) continue;
        libraries[i].low = o.low;
        libraries[i].high = o.high;
    }
    return 0;
}

void spp_linux_libraries_find(void) {
    libraries[0].within = (uintptr_t)dlsym(RTLD_DEFAULT, "nanosleep");
    libraries[1].within = getauxval(AT_BASE);
    libraries[2].within = getauxval(AT_SYSINFO_EHDR);
    libraries[OURS].within = (uintptr_t)note_library;
    libraries[4].within = (uintptr_t)dlsym(RTLD_DEFAULT, "sem_wait");          /* libpthread, before glibc 2.34 */
    libraries[5].within = (uintptr_t)dlsym(RTLD_DEFAULT, "__libc_start_main"); /* nanosleep may be a sanitizer's */
    dl_iterate_phdr(note_library, NULL);
}

void spp_linux_imports_make(const spp_linux_import *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint32_t at = hash_of(list[i].name);
        while (by_name[at] != NULL) at = (at + 1) % NAMES;
        if (list[i].real == NULL) continue;
        by_name[at] = &list[i];
        begins[pair_of(list[i].name)] = true;
    }
}

const spp_linux_import *spp_linux_import_of(const char *name) {
    if (!begins[pair_of(name)]) return NULL;
    for (uint32_t at = hash_of(name); by_name[at] != NULL; at = (at + 1) % NAMES)
        if (strncmp(name, by_name[at]->name, NAME_MAX_BYTES) == 0) return by_name[at];
    return NULL;
}

/* Returns the object's entry in the table, or a free one. */
static uintptr_t *done_entry(uintptr_t base) {
    uint32_t i = (uint32_t)(base >> 12) * 2654435761u >> 20; /* Knuth's multiplicative hash, of 12 bits */
    while (done.bases[i] != 0 && done.bases[i] != base) i = (i + 1) % DONE;
    return &done.bases[i];
}

/* Rewrites an object's slots. False: some are left for a later look. */
static bool rewrite_all(job *j, const object *o) {
    bool others_wait = j->later;
    j->later = false;
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < o->counts[table] && o->tables[table] != NULL; i++) {
            const ElfW(Rela) *r = &o->tables[table][i];
            uint64_t type = ELF64_R_TYPE(r->r_info);
            if (type != JUMP_SLOT && type != GLOB_DAT && (type != POINTER || r->r_addend != 0)) continue;
            const spp_linux_import *import = spp_linux_import_of(o->names + o->symbols[ELF64_R_SYM(r->r_info)].st_name);
            if (import != NULL) rewrite(j, o, r, import);
        }
    }
    bool all = !j->later;
    j->later |= others_wait;
    return all;
}

/* With the loader's lock, so the object stays mapped. */
static int rewrite_object(struct dl_phdr_info *info, size_t size, void *arg) {
    job *j = arg;
    object o;
    (void)size;
    j->stamp = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    if (done.unloaded != info->dlpi_subs || done.n > DONE / 2) {
        memset(&done, 0, sizeof done);
        done.unloaded = info->dlpi_subs;
    }
    uintptr_t *place = done_entry(info->dlpi_addr), here = (uintptr_t)rewrite_object;
    if (*place != 0 || !describe_object(info, &o)) return 0;
    bool is_ours = here >= o.low && here < o.high; /* we call the C library itself */
    if (is_ours || !rewrite_all(j, &o) || info->dlpi_addr == 0) return 0;
    *place = info->dlpi_addr;
    done.n++;
    return 0;
}

/* ---- addresses of the real functions */

typedef struct {
    const char *name;
    uintptr_t at;
    bool is_entry;
} entry_job;

/* The first object is the program: whether `at` is an entry of its own for the function. */
static int find_program_entry(struct dl_phdr_info *info, size_t size, void *arg) {
    entry_job *j = arg;
    object o;
    (void)size;
    if (!describe_object(info, &o)) return 1;
    for (int table = 0; table < 2; table++) {
        for (size_t i = 0; i < o.counts[table] && o.tables[table] != NULL; i++) {
            const ElfW(Sym) *symbol = &o.symbols[ELF64_R_SYM(o.tables[table][i].r_info)];
            if (symbol->st_shndx != SHN_UNDEF || symbol->st_value == 0 || o.base + symbol->st_value != j->at) continue;
            j->is_entry |= strncmp(j->name, o.names + symbol->st_name, NAME_MAX_BYTES) == 0;
        }
    }
    return 1;
}

/* If a program that is not position-independent takes a function's address, lookups return an entry in the program, which would
 * call us once its slot is rewritten. Then searches the objects after the program. */
void *spp_linux_real_of(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    entry_job entry = {name, (uintptr_t)found, false};
    if (found != NULL) dl_iterate_phdr(find_program_entry, &entry);
    const struct link_map *next = entry.is_entry ? dlopen(NULL, RTLD_LAZY) : NULL;
    while (next != NULL && (next = next->l_next) != NULL) {
        void *handle = next->l_name[0] != 0 ? dlopen(next->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *behind = handle != NULL ? dlsym(handle, name) : NULL;
        if (behind != NULL) return behind;
    }
    return found;
}

/* After so many looks at objects that are not ready, looks take a twentieth of a processor at most. */
#define LOOKS_MOST 50
#define REST 20

void spp_linux_imports_replace(void) {
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static _Atomic int32_t owner;
    static _Atomic uint64_t seen;
    static uint64_t rests_until;
    static int looks;
    int32_t pid = (int32_t)getpid();
    if (spp_os_objects_stamp() == atomic_load(&seen)) return;
    if (atomic_exchange(&owner, pid) != pid) atomic_flag_clear(&busy); /* a forked child: another thread may have been busy */
    if (atomic_flag_test_and_set(&busy)) return;
    int saved = errno;
    uint64_t began = spp_os_now_ns();
    if (looks < LOOKS_MOST || began >= rests_until) {
        job j = {.later = false};
        dl_iterate_phdr(rewrite_object, &j);
        uint64_t now = spp_os_now_ns();
        rests_until = now + REST * (now - began);
        looks = !j.later ? 0 : looks < LOOKS_MOST ? looks + 1 : looks;
        if (!j.later) atomic_store(&seen, j.stamp);
    }
    errno = saved;
    atomic_flag_clear(&busy);
}
