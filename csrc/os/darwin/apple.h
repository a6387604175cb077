/* Parts of Apple's headers that some toolchains lack. Others see a second declaration, so a difference is an error there.
 *
 * pthread/introspection.h: libpthread, include/pthread/introspection.h.
 * mach/mach_vm.h: xnu, osfmk/mach/mach_vm.defs. */
#ifndef SPPROF_OS_DARWIN_APPLE_H
#define SPPROF_OS_DARWIN_APPLE_H

/* Called on the thread that starts (START) or ends (TERMINATE), or by the one that creates or frees it. */
typedef void (*pthread_introspection_hook_t)(unsigned int event, pthread_t thread, void *addr, size_t size);
enum {
    SPP_INTROSPECTION_CREATE = 1,
    SPP_INTROSPECTION_START,
    SPP_INTROSPECTION_TERMINATE,
    SPP_INTROSPECTION_DESTROY,
};
/* Returns the previous hook; the new one must call it. */
pthread_introspection_hook_t pthread_introspection_hook_install(pthread_introspection_hook_t hook);

kern_return_t mach_vm_read_overwrite(vm_map_t target_task, mach_vm_address_t address, mach_vm_size_t size, mach_vm_address_t data,
                                     mach_vm_size_t *outsize);
kern_return_t mach_vm_region(vm_map_t target_task, mach_vm_address_t *address, mach_vm_size_t *size, vm_region_flavor_t flavor,
                             vm_region_info_t info, mach_msg_type_number_t *infoCnt, mach_port_t *object_name);

#endif
