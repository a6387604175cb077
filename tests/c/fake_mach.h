/* What os/darwin uses of macOS, for a kernel that is made up. The names, types and numbers are Apple's: tools/macos compiles this
 * file behind Apple's own headers, where each declaration is checked against theirs. */
#ifndef SPPROF_TEST_FAKE_MACH_H
#define SPPROF_TEST_FAKE_MACH_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where Apple's headers were read before, structures are theirs, and only their sizes and places are checked. */
#ifdef __APPLE__
#define FAKE_STRUCT(...)
#else
#define FAKE_STRUCT(...) __VA_ARGS__
#endif
#define FAKE_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#define FAKE_PLACE(type, field, at) _Static_assert(offsetof(type, field) == (at), #type "." #field)

typedef int kern_return_t;
typedef unsigned int mach_port_t, mach_port_name_t, mach_port_right_t, natural_t, mach_msg_type_number_t;
typedef int integer_t, mach_port_delta_t, thread_state_flavor_t, vm_region_flavor_t;
typedef unsigned int thread_flavor_t, task_flavor_t;
typedef mach_port_t task_t, thread_act_t, vm_map_t, semaphore_t;
typedef thread_act_t *thread_act_array_t;
typedef natural_t *thread_state_t;
typedef integer_t *thread_info_t, *task_info_t;
typedef int *vm_region_info_t;
FAKE_STRUCT(typedef uintptr_t vm_address_t, vm_size_t; typedef uint64_t mach_vm_address_t, mach_vm_size_t;)

#define KERN_SUCCESS 0
#define KERN_INVALID_ADDRESS 1
#define KERN_INVALID_ARGUMENT 4
#define KERN_FAILURE 5
#define KERN_RESOURCE_SHORTAGE 6
#define KERN_ABORTED 14
#define KERN_INVALID_NAME 15
#define KERN_INVALID_RIGHT 17
#define KERN_TERMINATED 37
#define KERN_OPERATION_TIMED_OUT 49
#define MACH_SEND_INVALID_DEST 0x10000003
#define MACH_PORT_NULL 0 /* intentional loose typing */
// clang-format off
#define MACH_PORT_RIGHT_SEND ((mach_port_right_t) 0)
// clang-format on

extern mach_port_t mach_task_self_;
#define mach_task_self() mach_task_self_
mach_port_t mach_thread_self(void);
kern_return_t mach_port_deallocate(task_t task, mach_port_name_t name);
kern_return_t mach_port_mod_refs(task_t task, mach_port_name_t name, mach_port_right_t right, mach_port_delta_t delta);

/* ---- threads */

kern_return_t task_threads(task_t target_task, thread_act_array_t *act_list, mach_msg_type_number_t *act_listCnt);
kern_return_t thread_suspend(thread_act_t target_act);
kern_return_t thread_resume(thread_act_t target_act);
kern_return_t thread_get_state(thread_act_t target_act, thread_state_flavor_t flavor, thread_state_t old_state,
                               mach_msg_type_number_t *old_stateCnt);
kern_return_t thread_info(thread_act_t target_act, thread_flavor_t flavor, thread_info_t thread_info_out,
                          mach_msg_type_number_t *thread_info_outCnt);

FAKE_STRUCT(typedef struct time_value { integer_t seconds, microseconds; } time_value_t;)
#define THREAD_BASIC_INFO 3 /* basic information */
FAKE_STRUCT(typedef struct thread_basic_info {
    time_value_t user_time, system_time;
    integer_t cpu_usage, policy, run_state, flags, suspend_count, sleep_time;
} thread_basic_info_data_t;)
FAKE_SIZE(thread_basic_info_data_t, 40);
FAKE_PLACE(thread_basic_info_data_t, system_time.microseconds, 12);
FAKE_PLACE(thread_basic_info_data_t, run_state, 24);
#define TH_STATE_RUNNING 1
#define TH_STATE_STOPPED 2
#define TH_STATE_WAITING 3
#define TH_STATE_UNINTERRUPTIBLE 4
#define TH_STATE_HALTED 5

#define THREAD_IDENTIFIER_INFO 4
FAKE_STRUCT(typedef struct thread_identifier_info {
    uint64_t thread_id, thread_handle, dispatch_qaddr;
} thread_identifier_info_data_t;)
FAKE_SIZE(thread_identifier_info_data_t, 24);
FAKE_PLACE(thread_identifier_info_data_t, thread_handle, 8);

#define THREAD_EXTENDED_INFO 5
#define MAXTHREADNAMESIZE 64
FAKE_STRUCT(typedef struct thread_extended_info {
    uint64_t pth_user_time, pth_system_time;
    int32_t pth_cpu_usage, pth_policy, pth_run_state, pth_flags, pth_sleep_time, pth_curpri, pth_priority, pth_maxpriority;
    char pth_name[MAXTHREADNAMESIZE];
} thread_extended_info_data_t;)
FAKE_SIZE(thread_extended_info_data_t, 112);
FAKE_PLACE(thread_extended_info_data_t, pth_name, 48);

#ifdef __APPLE__ /* theirs are macros of the same values */
_Static_assert(THREAD_BASIC_INFO_COUNT == 10 && THREAD_IDENTIFIER_INFO_COUNT == 6 && THREAD_EXTENDED_INFO_COUNT == 28, "counts");
#else
#define THREAD_BASIC_INFO_COUNT ((mach_msg_type_number_t)10)
#define THREAD_IDENTIFIER_INFO_COUNT ((mach_msg_type_number_t)6)
#define THREAD_EXTENDED_INFO_COUNT ((mach_msg_type_number_t)28)
#endif

#ifdef __x86_64__
#define x86_THREAD_STATE64 4
FAKE_STRUCT(typedef struct {
    uint64_t __rax, __rbx, __rcx, __rdx, __rdi, __rsi, __rbp, __rsp, __r8, __r9, __r10, __r11, __r12, __r13, __r14, __r15, __rip,
        __rflags, __cs, __fs, __gs;
} x86_thread_state64_t;)
FAKE_SIZE(x86_thread_state64_t, 168);
FAKE_PLACE(x86_thread_state64_t, __rdi, 32);
FAKE_PLACE(x86_thread_state64_t, __rsp, 56);
FAKE_PLACE(x86_thread_state64_t, __rip, 128);
#else
#define ARM_THREAD_STATE64 6
FAKE_STRUCT(typedef struct {
    uint64_t __x[29], __fp, __lr, __sp, __pc;
    uint32_t __cpsr, __pad;
} arm_thread_state64_t;)
FAKE_SIZE(arm_thread_state64_t, 272);
FAKE_PLACE(arm_thread_state64_t, __fp, 232);
FAKE_PLACE(arm_thread_state64_t, __pc, 256);
#ifndef __APPLE__
#define arm_thread_state64_get_pc(ts) ((ts).__pc)
#define arm_thread_state64_get_lr(ts) ((ts).__lr)
#define arm_thread_state64_get_sp(ts) ((ts).__sp)
#define arm_thread_state64_get_fp(ts) ((ts).__fp)
#endif
#endif

/* ---- memory */

kern_return_t vm_deallocate(vm_map_t target_task, vm_address_t address, vm_size_t size);
#define VM_REGION_BASIC_INFO_64 9
#ifdef __APPLE__
_Static_assert(VM_REGION_BASIC_INFO_COUNT_64 == 9, "count");
#else
#define VM_REGION_BASIC_INFO_COUNT_64 ((mach_msg_type_number_t)9)
#endif
FAKE_STRUCT(typedef int vm_region_basic_info_data_64_t[9];)
FAKE_SIZE(vm_region_basic_info_data_64_t, 36);

/* ---- time */

uint64_t mach_absolute_time(void);
kern_return_t mach_wait_until(uint64_t deadline);
FAKE_STRUCT(typedef struct mach_timebase_info { uint32_t numer, denom; } mach_timebase_info_data_t;)
FAKE_SIZE(mach_timebase_info_data_t, 8);
FAKE_STRUCT(kern_return_t mach_timebase_info(mach_timebase_info_data_t *info);)
FAKE_STRUCT(typedef struct mach_timespec {
    unsigned int tv_sec;
    int tv_nsec;
} mach_timespec_t;)
FAKE_SIZE(mach_timespec_t, 8);
#define SYNC_POLICY_FIFO 0x0
kern_return_t semaphore_create(task_t task, semaphore_t *semaphore, int policy, int value);
kern_return_t semaphore_signal(semaphore_t semaphore);
kern_return_t semaphore_timedwait(semaphore_t semaphore, mach_timespec_t wait_time);

/* ---- images */

FAKE_STRUCT(struct mach_header;)
uint32_t _dyld_image_count(void);
const struct mach_header *_dyld_get_image_header(uint32_t image_index);
intptr_t _dyld_get_image_vmaddr_slide(uint32_t image_index);
const char *_dyld_get_image_name(uint32_t image_index);
void _dyld_register_func_for_add_image(void (*func)(const struct mach_header *mh, intptr_t vmaddr_slide));
void _dyld_register_func_for_remove_image(void (*func)(const struct mach_header *mh, intptr_t vmaddr_slide));

kern_return_t task_info(task_t target_task, task_flavor_t flavor, task_info_t task_info_out,
                        mach_msg_type_number_t *task_info_outCnt);
#define TASK_DYLD_INFO 17
FAKE_STRUCT(typedef struct task_dyld_info {
    uint64_t all_image_info_addr, all_image_info_size;
    integer_t all_image_info_format;
} __attribute__((packed, aligned(4))) task_dyld_info_data_t;)
FAKE_SIZE(task_dyld_info_data_t, 20);
FAKE_PLACE(task_dyld_info_data_t, all_image_info_format, 16);
#ifdef __APPLE__
_Static_assert(TASK_DYLD_INFO_COUNT == 5 && TASK_DYLD_ALL_IMAGE_INFO_64 == 1, "numbers");
#else
#define TASK_DYLD_INFO_COUNT ((mach_msg_type_number_t)5)
#define TASK_DYLD_ALL_IMAGE_INFO_64 1
#endif
/* Its beginning. */
FAKE_STRUCT(struct dyld_all_image_infos {
    uint32_t version, infoArrayCount;
    const void *infoArray, *notification;
    bool processDetachedFromSharedRegion, libSystemInitialized;
    const struct mach_header *dyldImageLoadAddress;
};)
FAKE_PLACE(struct dyld_all_image_infos, dyldImageLoadAddress, 32);

/* ---- pthread and fcntl: what Linux has otherwise, or not at all */

FAKE_STRUCT(typedef unsigned int qos_class_t;)
#ifdef __APPLE__
_Static_assert(F_GETPATH == 50 && QOS_CLASS_USER_INTERACTIVE == 0x21, "numbers");
#else
#define QOS_CLASS_USER_INTERACTIVE 0x21
int fake_threadid(const void *thread, uint64_t *id);
int fake_key_create(pthread_key_t *key, void (*end)(void *));
int fake_key_delete(pthread_key_t key);
void *fake_getspecific(pthread_key_t key);
int fake_setspecific(pthread_key_t key, const void *value);
int fake_setname(const char *name);
int fake_getpath(int fd, char *to);
#define pthread_threadid_np fake_threadid
#define pthread_setname_np fake_setname
#define pthread_key_create fake_key_create /* keys begin at 256 */
#define pthread_key_delete fake_key_delete
#define pthread_getspecific fake_getspecific
#define pthread_setspecific fake_setspecific
#define F_GETPATH 50
#define fcntl(fd, command, to) fake_getpath(fd, to)
#endif

int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes); /* Linux's, which needs _GNU_SOURCE */
#ifdef __APPLE__ /* tools/macos compares what is declared here with what is there */
void *pthread_get_stackaddr_np(pthread_t thread);
size_t pthread_get_stacksize_np(pthread_t thread);
#else
static inline char *fake_stack(pthread_t thread, size_t *size) {
    pthread_attr_t attributes;
    void *start = NULL;
    *size = 0;
    if (pthread_getattr_np(thread, &attributes) == 0) {
        pthread_attr_getstack(&attributes, &start, size);
        pthread_attr_destroy(&attributes);
    }
    return start;
}
static inline void *pthread_get_stackaddr_np(pthread_t thread) { /* the end that is not the leaf's */
    size_t size;
    char *start = fake_stack(thread, &size);
    return start + size;
}
static inline size_t pthread_get_stacksize_np(pthread_t thread) {
    size_t size;
    (void)fake_stack(thread, &size);
    return size;
}
#endif
int pthread_set_qos_class_self_np(qos_class_t qos_class, int relative_priority);

#endif
