/* The profile's file, and what is read of others. Its number is a descriptor, on Windows a handle. Functions that return int
 * return an errno, 0 for success. Not in a handler.
 *
 * The program may close any descriptor, ours too, and reuse its number. So a file that is written is checked before each write,
 * and opened again by its path if the program closed it. */
#ifndef SPPROF_OS_FILES_H
#define SPPROF_OS_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Descriptors of profiles have numbers from here on, so that the program's next file gets the number it would get without us.
 * Lower than those of perf events, and lower than 64: enlarging a process's table may take 15 ms. */
#define SPP_OS_FILES_FROM 34

/* Locks a regular file behind one of Python's descriptors for this process, until spp_os_file_end or until the process closed it:
 * no other process writes a profile there. Readers do not look at the lock. Returns 1 if another process has the lock; 0 also if
 * the file system has no locks, as some network file systems. */
int spp_os_file_lock(int fd);
/* Call before closing a locked descriptor. A forked child has closed its copy, unless it was forgotten. */
void spp_os_file_forget(int fd);

/* A file that is being written. */
typedef struct {
    int fd;                  /* or handle; -1: closed */
    int from;                /* POSIX: Python's descriptor that this is a copy of, with the same lock */
    bool apart;              /* POSIX: fd is in the writer's own table of descriptors, which the program cannot reach */
    uint64_t device, number; /* what it was opened as */
    char path[4096];         /* "": none */
} spp_os_file;
/* Copies one of Python's descriptors; programs do not inherit the copy. Close it by spp_os_file_close, or by spp_os_file_end,
 * which also releases the lock. */
int spp_os_file_copy(spp_os_file *file, int fd);
void spp_os_file_close(spp_os_file *file);
/* Truncates a regular file. */
int spp_os_file_empty(spp_os_file *file);
/* Writes all n bytes. If the program closed the file, it is taken again from Python's descriptor, or reopened by its path: the
 * calling thread then gets its own table of descriptors, so that the program cannot close it again. Always on the same thread. */
int spp_os_file_write(spp_os_file *file, const void *from, size_t n);
/* The size of a regular file; UINT64_MAX if it is no regular file, or the descriptor now belongs to another one. On the thread
 * that writes. */
uint64_t spp_os_file_size(const spp_os_file *file);
/* Cuts a regular file to `size` bytes; the next write goes there. On the thread that writes. */
int spp_os_file_cut(spp_os_file *file, uint64_t size);
int spp_os_file_end(spp_os_file *file);
/* In a forked child: forgets the file, whose descriptor and lock are the parent's. */
void spp_os_file_drop(spp_os_file *file);
/* Keeps the inode number of a regular file from being reused after the program closed all its descriptors: a new file with the
 * same number would be taken for ours. NULL if nothing can or need be done. Forked children do not inherit it. */
void *spp_os_file_hold(int fd);
void spp_os_file_release(void *hold); /* in the process that made it */
/* The path of an open file; false if it has none or it does not fit. POSIX only. */
bool spp_os_path_of(int fd, char *to, size_t size);
/* The bytes of a regular file of 1 to `most` bytes, by its path in UTF-8. Free them by spp_os_pages_free. NULL: there is no such
 * file, or it cannot be read whole. A thread of ours that can wait, for the file system may be slow. */
void *spp_os_file_text(const char *path, size_t most, size_t *n);

/* For a worker of ours that opens files often or for long: gives it its own table of descriptors, in which only `but` (-1: none)
 * of the program's stays open. The program never sees its numbers. Such a worker arms no triggers. False if the system cannot do
 * it. */
bool spp_os_own_files(int but);

#endif
