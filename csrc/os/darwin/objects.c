/* The images that dyld has loaded, and what their Mach-O headers say (Apple's mach-o/loader.h).
 * dyld's list may change while it is read, and an image may be unmapped together with its header
 * and name. So both are read by guarded copies, without a lock of dyld's; the core then compares
 * stamps, and reads again if they differ. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "os/darwin/darwin.h"
#include "os/memory.h"
#include "os/objects.h"

const bool spp_os_native = true;

uintptr_t spp_os_symbol(const char *name) { return (uintptr_t)dlsym(RTLD_DEFAULT, name); }

/* What is used of Mach-O's numbers. */
enum { HEADER_BYTES = 32, MAGIC_64 = (int)0xfeedfacf };
enum { SYMTAB = 2, SEGMENT_64 = 0x19, UUID = 0x1b, FUNCTION_STARTS = 0x26 };
enum {
    SEGMENT_BYTES = 72,
    SECTION_BYTES = 80,
    SYMTAB_BYTES = 24,
    UUID_BYTES = 24,
    STARTS_BYTES = 16,
    SYMBOL_BYTES = 16,
    NAME_BYTES = 16
};
enum { MAY_EXECUTE = 4 };             /* a segment's protection */
enum { HAS_CODE = (int)0x80000400 };  /* a section's flags: some instructions, or nothing else */
enum { KIND = 0xee, DEFINED = 0x0e }; /* of a symbol: no debugger's, and in a section */
#define COMMANDS_MAX ((uint32_t)1 << 20)
#define SYMBOLS_MAX ((uint32_t)1 << 22)
#define NAMES_MAX ((uint64_t)256 << 20)
#define NAME_MAX_BYTES 4096u /* names of C++ templates grow without bound */
#define SECTIONS_MAX 256u    /* a symbol's section is a byte */

/* ---- notices */

static _Atomic uint32_t added, removed;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* By dyld, for each image, with its locks held: counts, and no more. */
static void on_add(const struct mach_header *header, intptr_t slide) {
    (void)header, (void)slide;
    atomic_fetch_add(&added, 1);
}

static void on_remove(const struct mach_header *header, intptr_t slide) {
    (void)header, (void)slide;
    atomic_fetch_add(&removed, 1);
}

/* Never removed: dyld has no call to unregister a function. As other CPython extensions, this one
 * is never unloaded. */
static void register_both(void) {
    _dyld_register_func_for_add_image(on_add);
    _dyld_register_func_for_remove_image(on_remove);
}

uint64_t spp_os_objects_stamp(void) {
    pthread_once(&once, register_both);
    return (uint64_t)atomic_load(&added) << 32 | atomic_load(&removed);
}

/* ---- one image */

static uint64_t number(const uint8_t *at, size_t n) {
    uint64_t value = 0;
    memcpy(&value, at, n); /* little-endian, as both architectures are */
    return value;
}

/* Two names of at most 16 bytes. */
static bool is_section(const uint8_t *section, const char *name) {
    return strncmp((const char *)section, name, NAME_BYTES) == 0 &&
           strncmp((const char *)section + 16, "__TEXT", NAME_BYTES) == 0;
}

/* Calls see(arg, command, its size) for each load command, which is copied into the buffer; false:
 * there is no such image. */
typedef void (*see_command)(void *arg, const uint8_t *command, size_t size);

static bool each_command(uintptr_t header, see_command see, void *arg) {
    uint8_t head[HEADER_BYTES];
    if (header == 0 || spp_os_read(head, header, sizeof head) != 0 || number(head, 4) != (uint32_t)MAGIC_64) return false;
    size_t n = number(head + 20, 4), at = 0;
    uint8_t *commands = n <= COMMANDS_MAX ? spp_alloc(n + 1) : NULL;
    bool there = commands != NULL && spp_os_read(commands, header + HEADER_BYTES, n) == 0;
    while (there && n - at >= 8) {
        size_t size = number(commands + at + 4, 4);
        if (size < 8 || size > n - at) break;
        see(arg, commands + at, size);
        at += size;
    }
    spp_free(commands);
    return there;
}

static bool is_link_edit(const uint8_t *segment) { return strncmp((const char *)segment + 8, "__LINKEDIT", NAME_BYTES) == 0; }

static void read_segment(spp_os_object *o, const uint8_t *command, size_t size) {
    uint64_t at = number(command + 24, 8), n = number(command + 32, 8), sections = number(command + 64, 4);
    if (number(command + 60, 4) & MAY_EXECUTE) {
        uintptr_t low = o->base + (uintptr_t)at;
        if (low < o->low) o->low = low;
        if (low + n > o->high) o->high = low + (uintptr_t)n;
    }
    if (sections > (size - SEGMENT_BYTES) / SECTION_BYTES) return;
    for (const uint8_t *s = command + SEGMENT_BYTES; sections-- > 0; s += SECTION_BYTES) {
        uintptr_t from = o->base + (uintptr_t)number(s + 32, 8), end = from + (uintptr_t)number(s + 40, 8);
        if (is_section(s, "__unwind_info")) {
            o->compact = from;
            o->compact_end = end;
        } else if (is_section(s, "__eh_frame")) {
            o->frames = from;
            o->frames_end = end;
        }
    }
}

/* What is read of an image. */
typedef struct {
    spp_os_object o;
    uintptr_t link; /* where the file's byte `link_at` lies: the segment __LINKEDIT */
    uint64_t link_at;
    uint64_t starts_at, starts_n; /* of the file */
} facts;

static void read_command(void *arg, const uint8_t *command, size_t size) {
    facts *f = arg;
    spp_os_object *o = &f->o;
    uint64_t kind = number(command, 4);
    if (kind == SEGMENT_64 && size >= SEGMENT_BYTES) {
        read_segment(o, command, size);
        if (is_link_edit(command)) {
            f->link = o->base + (uintptr_t)number(command + 24, 8);
            f->link_at = number(command + 40, 8);
        }
    }
    if (kind == FUNCTION_STARTS && size >= STARTS_BYTES) {
        f->starts_at = number(command + 8, 4);
        f->starts_n = number(command + 12, 4);
    }
    if (kind == UUID && size >= UUID_BYTES) {
        o->build_id_n = 16;
        memcpy(o->build_id, command + 8, o->build_id_n);
    }
}

/* A name that may go away meanwhile. */
static void copy_path(char *to, size_t size, const char *name) {
    for (size_t i = 0; name != NULL && i + 1 < size; i++) {
        if (spp_os_read(&to[i], (uintptr_t)name + i, 1) != 0 || to[i] == 0) break;
        to[i + 1] = 0;
    }
}

typedef void (*see_object)(void *arg, const spp_os_object *object);

static void see_image(uintptr_t header, uintptr_t slide, const char *name, see_object see, void *arg) {
    facts f = {.o = {.base = slide, .low = UINTPTR_MAX}};
    if (!each_command(header, read_command, &f) || f.o.low >= f.o.high) return;
    if (f.link != 0 && f.starts_n != 0) {
        f.o.starts = f.link + (uintptr_t)(f.starts_at - f.link_at);
        f.o.starts_end = f.o.starts + (uintptr_t)f.starts_n;
    }
    copy_path(f.o.path, sizeof f.o.path, name);
    see(arg, &f.o);
}

/* ---- dyld's own: in its list of images it is not, and the first function of the main thread is its `start` (macOS 12) */

/* The kernel knows where dyld lists its images, itself included, for debuggers. 0: unknown. */
static uintptr_t header_of_dyld(void) {
    const size_t place = offsetof(struct dyld_all_image_infos, dyldImageLoadAddress);
    uintptr_t header = 0;
    task_dyld_info_data_t answer = {0};
    mach_msg_type_number_t words = TASK_DYLD_INFO_COUNT;
    kern_return_t failed = task_info(mach_task_self(), TASK_DYLD_INFO, (task_info_t)&answer, &words);
    if (failed != KERN_SUCCESS || words < TASK_DYLD_INFO_COUNT || answer.all_image_info_addr == 0) return 0;
    if (answer.all_image_info_format != TASK_DYLD_ALL_IMAGE_INFO_64) return 0;
    return spp_os_read(&header, (uintptr_t)answer.all_image_info_addr + place, sizeof header) == 0 ? header : 0;
}

typedef struct {
    bool there;
    uintptr_t at; /* in the file's own counting */
} text;

static void find_text(void *arg, const uint8_t *command, size_t size) {
    text *t = arg;
    if (number(command, 4) != SEGMENT_64 || size < SEGMENT_BYTES) return;
    if (strncmp((const char *)command + 8, "__TEXT", NAME_BYTES) != 0) return;
    t->there = true;
    t->at = (uintptr_t)number(command + 24, 8);
}

/* No list has its slide: its header is the beginning of its __TEXT. Every program asks for it by this name. */
static void see_dyld(uintptr_t header, see_object see, void *arg) {
    text t = {0};
    if (each_command(header, find_text, &t) && t.there) see_image(header, header - t.at, "/usr/lib/dyld", see, arg);
}

void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg) {
    uintptr_t dyld = header_of_dyld();
    uint32_t n = _dyld_image_count();
    bool listed = false;
    for (uint32_t i = 0; i < n; i++) {
        uintptr_t header = (uintptr_t)_dyld_get_image_header(i);
        listed = listed || header == dyld;
        see_image(header, (uintptr_t)_dyld_get_image_vmaddr_slide(i), _dyld_get_image_name(i), see, arg);
    }
    if (!listed && dyld != 0) see_dyld(dyld, see, arg);
}

/* ---- its functions' names: those that dladdr would return, without the loader's lock, and those
 * that are not exported too. The image's __LINKEDIT segment is mapped, also in the shared cache of
 * the system's own libraries, which have no files. */

typedef struct {
    uintptr_t base;
    uintptr_t names, symbols; /* addresses of the tables; 0: none */
    uint64_t names_n, symbols_n;
    uint64_t table_at[2]; /* of both tables, as places in a file */
    uintptr_t link;       /* where the file's byte `link_at` lies */
    uint64_t link_at;
    bool has_code[SECTIONS_MAX];
    uint32_t sections;
} tables;

static void find_tables(void *arg, const uint8_t *command, size_t size) {
    tables *t = arg;
    uint64_t kind = number(command, 4);
    if (kind == SYMTAB && size >= SYMTAB_BYTES) {
        t->table_at[0] = number(command + 8, 4);
        t->symbols_n = number(command + 12, 4);
        t->table_at[1] = number(command + 16, 4);
        t->names_n = number(command + 20, 4);
    }
    if (kind != SEGMENT_64 || size < SEGMENT_BYTES) return;
    if (is_link_edit(command)) {
        t->link = t->base + (uintptr_t)number(command + 24, 8);
        t->link_at = number(command + 40, 8);
    }
    uint64_t n = number(command + 64, 4);
    for (uint64_t i = 0; i < n && i < (size - SEGMENT_BYTES) / SECTION_BYTES && ++t->sections < SECTIONS_MAX; i++) {
        t->has_code[t->sections] = (number(command + SEGMENT_BYTES + i * SECTION_BYTES + 64, 4) & (uint32_t)HAS_CODE) != 0;
    }
}

static bool is_function(const tables *t, const uint8_t *symbol) {
    return (symbol[4] & KIND) == DEFINED && t->has_code[symbol[5]] && number(symbol, 4) < t->names_n;
}

/* Copies of the symbols and of the names that their functions have: in the cache the names of all libraries are one table. */
typedef void (*add_fn)(void *arg, uint64_t at, uint32_t size, const char *name);

static void give_symbols(const tables *t, const uint8_t *symbols, add_fn add, void *arg) {
    uint64_t low = UINT64_MAX, high = 0;
    for (uint64_t i = 0; i < t->symbols_n; i++) {
        const uint8_t *symbol = symbols + i * SYMBOL_BYTES;
        if (!is_function(t, symbol)) continue;
        uint64_t name = number(symbol, 4);
        if (name < low) low = name;
        if (name > high) high = name;
    }
    if (low > high) return;
    high = high + NAME_MAX_BYTES < t->names_n ? high + NAME_MAX_BYTES : t->names_n;
    char *names = high - low <= NAMES_MAX ? spp_alloc_zeroed(high - low + 1, 1) : NULL;
    if (names == NULL || spp_os_read(names, t->names + (uintptr_t)low, high - low) != 0) {
        spp_free(names);
        return;
    }
    for (uint64_t i = 0; i < t->symbols_n; i++) {
        const uint8_t *symbol = symbols + i * SYMBOL_BYTES;
        if (!is_function(t, symbol)) continue;
        const char *name = names + (number(symbol, 4) - low);
        if (*name == '_') name++; /* every C name has one */
        if (*name != 0) add(arg, number(symbol + 8, 8), 0, name);
    }
    spp_free(names);
}

int spp_os_symbols(const spp_os_object *object, add_fn add, void *arg) {
    tables t = {.base = object->base};
    if (!each_command(object->low, find_tables, &t) || t.symbols_n == 0 || t.symbols_n > SYMBOLS_MAX || t.link == 0) return 0;
    t.symbols = t.link + (uintptr_t)(t.table_at[0] - t.link_at);
    t.names = t.link + (uintptr_t)(t.table_at[1] - t.link_at);
    uint8_t *symbols = spp_alloc(t.symbols_n * SYMBOL_BYTES);
    if (symbols != NULL && spp_os_read(symbols, t.symbols, t.symbols_n * SYMBOL_BYTES) == 0) give_symbols(&t, symbols, add, arg);
    spp_free(symbols);
    return 0;
}

/* The names come from memory. */
void *spp_os_symbol_file(const char *path, size_t *n) {
    (void)path;
    *n = 0;
    return NULL;
}
