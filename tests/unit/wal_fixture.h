/* SPDX-License-Identifier: MIT */

/* A write-ahead log in a temporary folder, and ways to copy and to damage its
 * files: shared by the tests of storage/wal.h. Included after <cmocka.h>. */

#ifndef HASP_TESTS_UNIT_WAL_FIXTURE_H
#define HASP_TESTS_UNIT_WAL_FIXTURE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/prng.h"
#include "base/units.h"
#include "storage/wal.h"
#include "storage/wal_file.h"
#include "storage/wal_format.h"

#define INDEX_MAX 8192
#define WAIT_MS 20000

/* The contents of a log, without the bodies: those follow from term and
 * index. */
struct contents {
    uint64_t first;
    uint64_t next;
    uint64_t term[INDEX_MAX];
};

struct fixture {
    char base[64];
    char path[80]; /* Path of the log. */
    char copy[80]; /* Path of a copy of it. */
    struct wal_options options;
    struct wal *wal;
    struct contents loaded; /* At the last open. */
    uint64_t durable_term;
    uint64_t durable_index;
    char why[HASP_WHY_SIZE];
};

struct wal_entry entry_of(uint64_t term, uint64_t log_index);
int try_open(struct fixture *f, const char *path, struct wal **ret_wal);
void reopen(struct fixture *f);
void close_log(struct fixture *f);

/* One turn of a loop: waits for the log and processes its events. */
int turn(struct fixture *f);

int flush_or_fail(struct fixture *f);
void flush(struct fixture *f);

/* Queues entries from wal_last() + 1 on. */
void append(struct fixture *f, uint64_t term, uint64_t count);

/* Appends entries, each in a write of its own. */
void append_singly(struct fixture *f, uint64_t term, uint64_t count);

/* --- A plain array beside the log ----------------------------------------- */

#define OP_COUNT_MAX 4096

enum op_kind { OP_APPEND, OP_TRUNCATE, OP_RESET };

struct op {
    enum op_kind kind;
    uint64_t term;
    uint64_t log_index;
};

/* The state that is known to be on disk, and the operations requested since. */
struct model {
    struct contents base;
    struct op ops[OP_COUNT_MAX];
    uint32_t op_count;
    uint64_t term;
};

void model_apply(struct contents *contents, const struct op *op);
/* True if 'found' equals 'expected'; trimmed entries may have come back. */
bool model_is_same(const struct contents *found,
                   const struct contents *expected);
void model_add(struct model *model, enum op_kind kind, uint64_t log_index);
/* All operations have become durable. */
void model_settle(struct model *model);

/* WAL_SEED and WAL_ROUNDS. */
uint64_t seed_of_run(void);
uint64_t rounds_of_run(uint64_t usual);

/* --- Files ---------------------------------------------------------------- */

struct file_image {
    char name[40];
    uint8_t *data;
    size_t size;
};

/* The files of a folder at one moment; the mark is read first, so that it is
 * not newer than the rest. */
struct folder_image {
    struct file_image files[600];
    size_t count;
};

struct folder_image *take_image(const char *folder);
void free_image(struct folder_image *image);
void empty_folder(const char *folder);
void put_file(const char *folder, const struct file_image *file);
void put_image(const char *folder, const struct folder_image *image);
struct file_image *find_file(struct folder_image *image, const char *name);
struct file_image *find_segment(struct folder_image *image, uint64_t number);

/* Bytes up to the last that is not zero. */
size_t used_size(const struct file_image *file);

int set_up_direct(void **state);
int set_up_buffered(void **state);
int tear_down(void **state);

/* The tests of a file, in both ways of writing. */
#define BOTH(test)                                                  \
    {#test " (direct)", test, set_up_direct, tear_down, NULL},      \
    {                                                               \
#test " (buffered)", test, set_up_buffered, tear_down, NULL \
    }

#define BUFFERED(test)                                \
    {                                                 \
#test, test, set_up_buffered, tear_down, NULL \
    }

#endif /* HASP_TESTS_UNIT_WAL_FIXTURE_H */
