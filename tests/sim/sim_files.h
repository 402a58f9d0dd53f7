/* SPDX-License-Identifier: MIT */

/* Disks in memory, each with a page cache: the other port of storage/
 * (storage/port.h), on which its real code runs in tests and in the simulator.
 *
 * A machine is one disk and the operating system above it; its files are those
 * below "/NAME". At one time one process of it exists.
 *
 *     write           into the cache; the sectors (512 bytes) become dirty
 *     flush           dirty sectors and the size go to the disk
 *     O_DIRECT read   what is dirty, else what the disk has
 *     other read      the cache
 *     names           changes of a folder wait until the folder is flushed; to
 *                     flush a file does nothing for its name
 *
 * When power fails each dirty sector is either kept or lost by itself, and so
 * is each change of a name (a rename is one change); what is kept of one file
 * or folder may be later than what is lost. A file whose new size was kept and
 * whose sectors were not has zeros there. This is more than a journaling file
 * system does to anybody, and no more than POSIX allows, except that a rename
 * is never half done.
 *
 * A killed process leaves the cache as it is. It may be killed inside any call:
 * then the call is done, or in part, or not, and it and all later calls fail
 * (EIO) and do nothing, until the next process begins: so its code runs to its
 * end and gives back its memory, as if it were gone.
 *
 * A flush that fails (EIO) leaves the cache clean and the disk as it was, as
 * kernels do it: a second one succeeds and has done nothing.
 *
 * Threads: one. All chance comes from the machine's own generator. */

#ifndef HASP_TESTS_SIM_SIM_FILES_H
#define HASP_TESTS_SIM_SIM_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/port.h"

#define FILES_SECTOR_SIZE 512u

struct files_machine;

/* The calls on files; the workers are the caller's to fill in. */
extern const struct storage_port files_port;

/* An empty disk. 'name' has at most 15 bytes, and no other machine has it. */
struct files_machine *files_new(const char *name, uint64_t seed);
/* No file may be open. NULL is fine. */
void files_free(struct files_machine *machine);

/* --- What happens to it --------------------------------------------------- */

/* The process dies in the nth call from now on; 0: it does not. */
void files_die_within(struct files_machine *machine, uint32_t calls);
/* The process is dead, and its calls do nothing. */
void files_die(struct files_machine *machine);
bool files_is_dead(const struct files_machine *machine);
/* Power fails: the process dies, and what was not flushed may be lost. Its
 * files must have been closed. */
void files_lose_power(struct files_machine *machine);
/* A new process may call. No file of the former may be open. */
void files_start(struct files_machine *machine);

/* The nth write, truncation or flush from now on fails with EIO; 0: none. */
void files_fail_within(struct files_machine *machine, uint32_t calls);
/* True if a call has failed so since the process began. */
bool files_has_failed(const struct files_machine *machine);
/* From now on RWF_DSYNC is refused, as some file systems do. */
void files_refuse_dsync(struct files_machine *machine);
/* Files may grow by so many bytes in all; UINT64_MAX: as they like. */
void files_set_room(struct files_machine *machine, uint64_t size);
/* True if a call has found no room since the process began. */
bool files_was_full(const struct files_machine *machine);
/* Flips a bit of the file at 'path', or of one below that folder, that is not
 * in a sector of zeros. False if there is none. */
bool files_rot(struct files_machine *machine, const char *path);
/* Flips it back, if it is still so. */
void files_unrot(struct files_machine *machine);
/* True if what is at 'path' has gone, in part or wholly, when power failed. */
bool files_was_torn(struct files_machine *machine, const char *path);

/* What is in the cache, as a disk of its own: a backup of the whole machine
 * under another name. */
struct files_machine *files_copy(const struct files_machine *machine,
                                 const char *name);
/* Puts the content of 'copy', which is freed, in the place of the machine's. No
 * file may be open. */
void files_restore(struct files_machine *machine, struct files_machine *copy);

/* Files that are open. */
uint32_t files_open_count(const struct files_machine *machine);

#endif /* HASP_TESTS_SIM_SIM_FILES_H */
