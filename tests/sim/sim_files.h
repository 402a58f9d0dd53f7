/* SPDX-License-Identifier: MIT */

/* Disks in memory, each with a page cache: the other port of storage/
 * (storage/port.h), on which its real code runs in tests and in the simulator.
 *
 * A machine is one disk and the operating system above it; its files are those
 * below "/NAME". It has one process at a time.
 *
 *   write           into the cache; the sectors (512 bytes) become dirty
 *   flush           dirty sectors and the size go to the disk
 *   O_DIRECT read   what is dirty, else what the disk has
 *   other read      the cache
 *   names           changes of a folder wait until the folder is flushed; to
 *                   flush a file does nothing for its name
 *
 * When power fails each dirty sector is either kept or lost by itself, and so
 * is each change of a name (a rename is one change). What is kept of one file
 * or folder may be newer than what is lost. A file whose new size was kept and
 * whose sectors were not has zeros there. This is worse than any journaling
 * file system, and no worse than POSIX allows, except that a rename is never
 * half done.
 *
 * A killed process leaves the cache as it is. It can be killed inside any call:
 * then the call is done, or in part, or not, and it and all later calls fail
 * (EIO) and do nothing, until the next process begins. So its code runs to its
 * end and frees its memory, as if the process were gone.
 *
 * A flush that fails (EIO) leaves the cache clean and the disk as it was, as
 * kernels do: a second one succeeds and has done nothing.
 *
 * Threads: one. All randomness comes from the machine's own generator. */

#ifndef HASP_TESTS_SIM_SIM_FILES_H
#define HASP_TESTS_SIM_SIM_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "storage/port.h"

#define FILES_SECTOR_SIZE 512u

struct files_machine;

/* The calls on files; the workers are the caller's to fill in. */
extern const struct storage_port files_port;

/* An empty disk. 'name' has at most 15 bytes and is unique among machines. */
struct files_machine *files_new(const char *name, uint64_t seed);
/* No file can be open. NULL is allowed. */
void files_free(struct files_machine *machine);

/* --- What happens to it --------------------------------------------------- */

/* The process dies in the nth call from now on; 0: it does not. */
void files_die_within(struct files_machine *machine, uint32_t calls);
/* The process is dead, and its calls do nothing. */
void files_die(struct files_machine *machine);
bool files_is_dead(const struct files_machine *machine);
/* Power fails: the process dies, and unflushed data may be lost. Its files must
 * have been closed. */
void files_lose_power(struct files_machine *machine);
/* A new process can call. No file of the former one can be open. */
void files_start(struct files_machine *machine);

/* The nth write, truncation or flush from now on fails with EIO; 0: none. */
void files_fail_within(struct files_machine *machine, uint32_t calls);
/* True if a call has failed this way since the process began. */
bool files_has_failed(const struct files_machine *machine);
/* From now on RWF_DSYNC is refused, as on some file systems. */
void files_refuse_dsync(struct files_machine *machine);
/* Files can grow by this many bytes in all; UINT64_MAX: without limit. */
void files_set_room(struct files_machine *machine, uint64_t size);
/* True if a call has found no room since the process began. */
bool files_was_full(const struct files_machine *machine);
/* Flips a bit of the file at 'path', or of one below that folder, outside
 * sectors of zeros. False if there is none. */
bool files_rot(struct files_machine *machine, const char *path);
/* Flips it back, if it has not been changed since. */
void files_unrot(struct files_machine *machine);
/* True if something at 'path' was lost, in part or wholly, when power
 * failed. */
bool files_was_torn(struct files_machine *machine, const char *path);

/* A copy of the cache's view as a new disk: a backup of the whole machine under
 * another name. */
struct files_machine *files_copy(const struct files_machine *machine,
                                 const char *name);
/* Replaces the machine's content with that of 'copy', which is freed. No file
 * can be open. */
void files_restore(struct files_machine *machine, struct files_machine *copy);

/* Files that are open. */
uint32_t files_open_count(const struct files_machine *machine);

#endif /* HASP_TESTS_SIM_SIM_FILES_H */
