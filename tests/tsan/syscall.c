/* SPDX-License-Identifier: MIT */

/* For ThreadSanitizer: libuv closes descriptors by syscall(SYS_close), which
 * the sanitizer does not see. It then takes the number, once the kernel has
 * given it to another thread, for the same descriptor still, and calls that a
 * race. This syscall() is what libuv finds instead of libc's: it does the same,
 * but a close is one that the sanitizer knows. No report is suppressed. */

#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __x86_64__
#error "registers of another machine are to be added here"
#endif

__attribute__((visibility("default"))) long syscall(long number, ...)
{
    register long fourth __asm__("r10");
    register long fifth __asm__("r8");
    register long sixth __asm__("r9");
    long argument[6], result;
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        argument[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_close) {
        return close((int)argument[0]);
    }
    fourth = argument[3];
    fifth = argument[4];
    sixth = argument[5];
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(argument[0]), "S"(argument[1]),
                       "d"(argument[2]), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    if (result < 0 && result >= -4095) {
        errno = (int)-result;
        return -1;
    }
    return result;
}
