/* The objects that the dynamic loader has mapped. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/objects.h"
#include "os/posix/posix.h"

const bool spp_os_native = true;

typedef struct {
    void (*see)(void *arg, const spp_os_object *object);
    void *arg;
} visit;

static void find_build_id(spp_os_object *o, uintptr_t from, size_t n) {
    uint8_t notes[512];
    const uint8_t *at = notes;
    n = n < sizeof notes ? n : sizeof notes;
    if (spp_os_read(notes, from, n) != 0) return;
    while (n >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        size_t name = (note.n_namesz + (size_t)3) & ~(size_t)3, data = (note.n_descsz + (size_t)3) & ~(size_t)3;
        size_t whole = sizeof note + name + data;
        if (whole > n) return;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_descsz <= sizeof o->build_id) {
            memcpy(o->build_id, at + sizeof note + name, note.n_descsz);
            o->build_id_n = (uint8_t)note.n_descsz;
            return;
        }
        at += whole;
        n -= whole;
    }
}

/* With the loader's lock, so the object stays mapped. */
static int visit_object(struct dl_phdr_info *info, size_t size, void *arg) {
    const visit *v = arg;
    (void)size;
    spp_os_object o = {.base = info->dlpi_addr, .low = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD && (h->p_flags & PF_X)) {
            if (at < o.low) o.low = at;
            if (at + h->p_memsz > o.high) o.high = at + h->p_memsz;
        } else if (h->p_type == PT_GNU_EH_FRAME) {
            o.index = at;
        } else if (h->p_type == PT_NOTE && o.build_id_n == 0) {
            find_build_id(&o, at, h->p_memsz);
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_LOAD && o.index >= at && o.index < at + h->p_filesz) o.index_end = at + h->p_filesz;
    }
    if (o.index_end == 0) o.index = 0;
    if (o.low >= o.high) return 0;
    if (info->dlpi_name != NULL) strncpy(o.path, info->dlpi_name, sizeof o.path - 1);
    if (o.path[0] == 0 && readlink("/proc/self/exe", o.path, sizeof o.path - 1) < 0) o.path[0] = 0; /* the program */
    v->see(v->arg, &o);
    return 0;
}

void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg) {
    visit v = {see, arg};
    dl_iterate_phdr(visit_object, &v);
}

static int read_stamp(struct dl_phdr_info *info, size_t size, void *arg) {
    (void)size;
    *(uint64_t *)arg = (uint64_t)info->dlpi_adds << 32 | (uint32_t)info->dlpi_subs;
    return 1;
}

uint64_t spp_os_objects_stamp(void) {
    uint64_t value = 0;
    dl_iterate_phdr(read_stamp, &value);
    return value;
}

uintptr_t spp_os_symbol(const char *name) { return (uintptr_t)dlsym(RTLD_DEFAULT, name); }

/* Copies the header of a section from what was read. False: not there. */
static bool section_at(const uint8_t *bytes, size_t n, const ElfW(Ehdr) * file, uint32_t index, ElfW(Shdr) * section) {
    uint64_t at = file->e_shoff + (uint64_t)index * sizeof *section;
    if (index >= file->e_shnum || at > n || n - at < sizeof *section) return false;
    memcpy(section, bytes + at, sizeof *section);
    return true;
}

int spp_os_symbols(const spp_os_object *object, void (*add)(void *arg, uint64_t at, uint32_t size, const char *name), void *arg) {
    (void)object, (void)add, (void)arg;
    return -1;
}

typedef struct {
    const char *path;
    size_t *n;
    uint8_t *bytes;
} file_job;

static void read_symbol_file(void *arg) {
    file_job *job = arg;
    struct stat is;
    ElfW(Ehdr) file;
    size_t *n = job->n;
    int fd = open(job->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    uint8_t *bytes = NULL;
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0) bytes = spp_os_pages((size_t)is.st_size);
    *n = bytes != NULL ? (size_t)is.st_size : 0;
    if (*n >= sizeof file) {
        spp_posix_read_part(fd, bytes, *n, 0, sizeof file);
        memcpy(&file, bytes, sizeof file);
        spp_posix_read_part(fd, bytes, *n, file.e_shoff, (uint64_t)file.e_shnum * sizeof(ElfW(Shdr)));
        ElfW(Shdr) table, strings;
        for (uint32_t i = 0; section_at(bytes, *n, &file, i, &table); i++) {
            if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) continue;
            spp_posix_read_part(fd, bytes, *n, table.sh_offset, table.sh_size);
            if (!section_at(bytes, *n, &file, table.sh_link, &strings) || strings.sh_type == SHT_NOBITS) continue;
            spp_posix_read_part(fd, bytes, *n, strings.sh_offset, strings.sh_size);
        }
    }
    close(fd);
    job->bytes = bytes;
}

void *spp_os_symbol_file(const char *path, size_t *n) {
    file_job job = {path, n, NULL};
    spp_linux_apart(read_symbol_file, &job);
    return job.bytes;
}
