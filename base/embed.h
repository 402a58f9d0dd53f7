/* SPDX-License-Identifier: MIT */

/* A file of the tree, embedded in the program unchanged: a text that ends with
 * a zero. Its path is from where the compiler runs, and the Makefile says which
 * object has it. */

#ifndef HASP_BASE_EMBED_H
#define HASP_BASE_EMBED_H

/* Defines the text 'name'. Global, as -flto may put the functions that use it
 * into another object. */
#define EMBED_TEXT(name, path)                                  \
    __asm__(".pushsection .rodata\n"                            \
            ".globl " #name "\n.hidden " #name "\n" #name ":\n" \
            ".incbin \"" path "\"\n.byte 0\n.popsection\n");    \
    extern const char name[]

#endif /* HASP_BASE_EMBED_H */
