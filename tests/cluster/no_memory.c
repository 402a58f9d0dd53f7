/* SPDX-License-Identifier: MIT */

/* For LD_PRELOAD: of the allocations that one object makes after this was
 * armed, the N-th fails, once. The object is the program, or the shared library
 * whose name has $NO_MEMORY_IN in it: what the libraries below do without
 * memory is theirs (OpenSSL's first use of a digest crashes). A program arms it
 * by no_memory_begin(); a daemon by SIGUSR2, with the N of $NO_MEMORY, until
 * SIGUSR1. */

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* From glibc, which has them beside the names that are taken here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

#define CALLER ((uintptr_t)__builtin_return_address(0))

static atomic_long left; /* Until the one that fails; 0: none does. */
static atomic_bool has_failed;
static long of_signal;
static uintptr_t object_begin, object_end;

void no_memory_begin(long n);
bool no_memory_end(void);

static int find_object(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *name = data;
    (void)size;
    if (name == NULL ? info->dlpi_name[0] != '\0'
                     : strstr(info->dlpi_name, name) == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0) {
            object_begin = info->dlpi_addr + part->p_vaddr;
            object_end = object_begin + part->p_memsz;
        }
    }
    return 1;
}

void no_memory_begin(long n)
{
    has_failed = false;
    left = n;
}

/* True if it has failed meanwhile. */
bool no_memory_end(void)
{
    left = 0;
    return has_failed;
}

static bool fails(uintptr_t caller)
{
    if (caller < object_begin || caller >= object_end) {
        return false;
    }
    long now = left;
    while (now > 0 && !atomic_compare_exchange_weak(&left, &now, now - 1)) {
    }
    if (now != 1) {
        return false;
    }
    has_failed = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return fails(CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails(CALLER) ? NULL : __libc_realloc(memory, size);
}

char *strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = fails(CALLER) ? NULL : __libc_malloc(size);
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

static void on_signal(int number)
{
    left = number == SIGUSR2 ? of_signal : 0;
}

__attribute__((constructor)) static void init(void)
{
    const char *n = getenv("NO_MEMORY");
    dl_iterate_phdr(find_object, getenv("NO_MEMORY_IN"));
    if (n != NULL) {
        struct sigaction action = {.sa_handler = on_signal,
                                   .sa_flags = SA_RESTART};
        of_signal = strtol(n, NULL, 10);
        sigaction(SIGUSR2, &action, NULL);
        sigaction(SIGUSR1, &action, NULL);
    }
}
