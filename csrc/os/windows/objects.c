/* The objects that Windows' loader has mapped, and the names of their functions by DbgHelp, which reads a .pdb file where there
 * is one, else what the object exports. */
#include "os/windows/windows.h"

#include <dbghelp.h>
#include <psapi.h>
#include <stdatomic.h>
#include <string.h>
#include <winternl.h>

#include "os/memory.h"
#include "os/objects.h"
#include "os/windows/machine.h"

#define MODULES_MAX 4096
#define PATH_UNITS 1024u /* longer ones are cut */

const bool spp_os_native = true;

static HMODULE modules[MODULES_MAX]; /* by one thread at a time */

static DWORD list_modules(void) {
    DWORD bytes = 0;
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return 0;
    return bytes / sizeof *modules < MODULES_MAX ? (DWORD)(bytes / sizeof *modules) : MODULES_MAX;
}

uintptr_t spp_os_symbol(const char *name) {
    DWORD n = list_modules();
    for (DWORD i = 0; i < n; i++) {
        FARPROC at = GetProcAddress(modules[i], name);
        if (at != NULL) return (uintptr_t)(void *)at;
    }
    return 0;
}

/* ---- coming and going: the loader says so (LdrRegisterDllNotification), under its own lock, so they are only counted */

static _Atomic uint64_t loaded, unloaded;
typedef void(NTAPI *notified_fn)(ULONG reason, const void *data, void *arg);
typedef LONG(NTAPI *register_fn)(ULONG flags, notified_fn notified, void *arg, void **cookie);
#define REASON_LOADED 1

static void NTAPI notified(ULONG reason, const void *data, void *arg) {
    (void)data, (void)arg;
    atomic_fetch_add_explicit(reason == REASON_LOADED ? &loaded : &unloaded, 1, memory_order_relaxed);
}

static void ask_for_notice(void) {
    static void *cookie; /* it stays: this object is never unloaded */
    register_fn ask = SPP_WINDOWS_FIND(register_fn, L"ntdll.dll", "LdrRegisterDllNotification");
    if (cookie == NULL && ask != NULL) (void)ask(0, notified, NULL, &cookie);
}

uint64_t spp_os_objects_stamp(void) {
    ask_for_notice();
    return (atomic_load(&loaded) + atomic_load(&unloaded)) << 32 | (uint32_t)atomic_load(&unloaded);
}

/* What an object's debug directory says of its .pdb file: the letters RSDS, 16 bytes that are its own, a number of its age. */
static void note_build_id(spp_os_object *o, const IMAGE_DATA_DIRECTORY *where) {
    for (DWORD at = 0; at + sizeof(IMAGE_DEBUG_DIRECTORY) <= where->Size; at += (DWORD)sizeof(IMAGE_DEBUG_DIRECTORY)) {
        IMAGE_DEBUG_DIRECTORY entry;
        uint8_t text[24];
        if (spp_os_read(&entry, o->base + where->VirtualAddress + at, sizeof entry) != 0) return;
        if (entry.Type != IMAGE_DEBUG_TYPE_CODEVIEW || entry.SizeOfData < sizeof text) continue;
        if (spp_os_read(text, o->base + entry.AddressOfRawData, sizeof text) != 0 || memcmp(text, "RSDS", 4) != 0) continue;
        memcpy(o->build_id, text + 4, 20);
        o->build_id_n = 20;
        return;
    }
}

/* As everywhere in spprof, with slashes; cut if it does not fit. */
static void give_path(const wchar_t *path, char *to, size_t size) {
    spp_windows_utf8(path, to, size);
    for (char *c = to; *c != 0; c++) {
        if (*c == '\\') *c = '/';
    }
}

/* An object may go away meanwhile: its headers are read by guarded copies. */
static bool describe(HMODULE module, spp_os_object *o) {
    IMAGE_DOS_HEADER dos;
    IMAGE_NT_HEADERS64 nt;
    wchar_t path[PATH_UNITS];
    *o = (spp_os_object){.base = (uintptr_t)module, .low = UINTPTR_MAX};
    if (spp_os_read(&dos, o->base, sizeof dos) != 0 || dos.e_magic != IMAGE_DOS_SIGNATURE) return false;
    uintptr_t at = o->base + (uintptr_t)dos.e_lfanew;
    if (spp_os_read(&nt, at, sizeof nt) != 0 || nt.Signature != IMAGE_NT_SIGNATURE) return false;
    if (nt.OptionalHeader.Magic != IMAGE_NT_OPTIONAL_HDR64_MAGIC) return false;
    o->end = o->base + nt.OptionalHeader.SizeOfImage;
    at += offsetof(IMAGE_NT_HEADERS64, OptionalHeader) + nt.FileHeader.SizeOfOptionalHeader;
    for (unsigned i = 0; i < nt.FileHeader.NumberOfSections; i++) {
        IMAGE_SECTION_HEADER section;
        if (spp_os_read(&section, at + i * sizeof section, sizeof section) != 0) return false;
        if (!(section.Characteristics & IMAGE_SCN_MEM_EXECUTE)) continue;
        uintptr_t low = o->base + section.VirtualAddress, high = low + section.Misc.VirtualSize;
        if (low < o->low) o->low = low;
        if (high > o->high) o->high = high;
    }
    const IMAGE_DATA_DIRECTORY *directory = nt.OptionalHeader.DataDirectory;
    o->functions = o->base + directory[IMAGE_DIRECTORY_ENTRY_EXCEPTION].VirtualAddress;
    o->functions_end = o->functions + directory[IMAGE_DIRECTORY_ENTRY_EXCEPTION].Size;
    bool ours = nt.FileHeader.Machine == MACHINE; /* other processors' objects have other tables */
    if (!ours || o->functions == o->base || o->functions_end > o->end) o->functions = o->functions_end = 0;
    note_build_id(o, &directory[IMAGE_DIRECTORY_ENTRY_DEBUG]);
    if (GetModuleFileNameW(module, path, PATH_UNITS) > 0) give_path(path, o->path, sizeof o->path);
    return o->low < o->high && o->high <= o->end;
}

void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg) {
    static spp_os_object object;
    DWORD n = list_modules();
    for (DWORD i = 0; i < n; i++) {
        if (describe(modules[i], &object)) see(arg, &object);
    }
}

/* ---- names: DbgHelp serves one caller at a time in a process. This is the drain thread, or start before there is one; a program
 * that uses DbgHelp too must do so at other times. */

typedef struct {
    void (*add)(void *arg, uint64_t at, uint32_t size, const char *name);
    void *arg;
    uint64_t base;
} visit;

typedef BOOL(WINAPI *initialize_fn)(HANDLE, PCWSTR, BOOL);
typedef DWORD(WINAPI *options_fn)(DWORD);
typedef DWORD64(WINAPI *load_fn)(HANDLE, HANDLE, PCWSTR, PCWSTR, DWORD64, DWORD, PMODLOAD_DATA, DWORD);
typedef BOOL(WINAPI *names_fn)(HANDLE, ULONG64, PCWSTR, PSYM_ENUMERATESYMBOLS_CALLBACKW, PVOID);
typedef BOOL(WINAPI *unload_fn)(HANDLE, DWORD64);

static BOOL CALLBACK see_name(PSYMBOL_INFOW symbol, ULONG size, PVOID arg) {
    const visit *v = arg;
    char name[1024];
    spp_windows_utf8(symbol->Name, name, sizeof name);
    if (name[0] != 0 && symbol->Address > v->base) v->add(v->arg, symbol->Address - v->base, size, name);
    return TRUE;
}

/* A process to DbgHelp is whatever number names one: so this one is ours, and not another user's of it in this process. */
static HANDLE own_session(void) {
    static char here;
    return (HANDLE)&here;
}

/* For DbgHelp. The object's own may be cut, so the loader is asked again; unless it has gone away meanwhile. */
static bool find_path(const spp_os_object *o, wchar_t path[PATH_UNITS]) {
    char now[sizeof o->path];
    DWORD n = GetModuleFileNameW((HMODULE)o->base, path, PATH_UNITS);
    if (n > 0 && n < PATH_UNITS) {
        give_path(path, now, sizeof now);
        if (strcmp(now, o->path) == 0) return true;
    }
    if (o->path[0] == 0 || MultiByteToWideChar(CP_UTF8, 0, o->path, -1, path, PATH_UNITS) == 0) return false;
    for (wchar_t *at = path; *at != 0; at++) {
        if (*at == L'/') *at = L'\\';
    }
    return true;
}

int spp_os_symbols(const spp_os_object *object, void (*add)(void *arg, uint64_t at, uint32_t size, const char *name), void *arg) {
    static bool tried, ready;
    wchar_t path[PATH_UNITS];
    if (!tried) {
        tried = true;
        (void)LoadLibraryW(L"dbghelp.dll");
        initialize_fn initialize = SPP_WINDOWS_FIND(initialize_fn, L"dbghelp.dll", "SymInitializeW");
        options_fn options = SPP_WINDOWS_FIND(options_fn, L"dbghelp.dll", "SymSetOptions");
        if (options != NULL) (void)options(SYMOPT_UNDNAME | SYMOPT_FAIL_CRITICAL_ERRORS | SYMOPT_NO_PROMPTS);
        ready =
            initialize != NULL && initialize(own_session(), L"", FALSE); /* no way to look for .pdb files but beside the object */
    }
    load_fn load = SPP_WINDOWS_FIND(load_fn, L"dbghelp.dll", "SymLoadModuleExW");
    names_fn names = SPP_WINDOWS_FIND(names_fn, L"dbghelp.dll", "SymEnumSymbolsW");
    unload_fn unload = SPP_WINDOWS_FIND(unload_fn, L"dbghelp.dll", "SymUnloadModule64");
    if (!ready || load == NULL || names == NULL || unload == NULL || !find_path(object, path)) return 0;
    visit v = {add, arg, object->base};
    if (load(own_session(), NULL, path, NULL, object->base, (DWORD)(object->end - object->base), NULL, 0) != object->base)
        return 0;
    (void)names(own_session(), object->base, L"*", see_name, &v);
    (void)unload(own_session(), object->base);
    return 0;
}

/* Files are DbgHelp's to read, and nobody writes a map. */
void *spp_os_symbol_file(const char *path, size_t *n) {
    (void)path;
    *n = 0;
    return NULL;
}

char *spp_os_jit_map(uint64_t *known, size_t *n) {
    (void)known, (void)n;
    return NULL;
}
