/* SPDX-License-Identifier: MIT */

#include "tests/sim/sim_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "tests/sim/sim_tree.h"

#define MACHINE_MAX 32
#define OPEN_MAX_COUNT 4096
/* Higher than any descriptor of the operating system. */
#define FD_BASE 1000000
#define BLOCK_SIZE 4096u

struct opened {
    struct node *node; /* NULL: the descriptor is free. */
    bool is_direct;
    bool is_writable;
};

static struct files_machine *machines[MACHINE_MAX];
static struct opened opened[OPEN_MAX_COUNT];

/* --- Calls ---------------------------------------------------------------- */

enum fate {
    FATE_DONE,
    FATE_FAILS, /* With EIO: in part, or not. */
    FATE_DIES,  /* Done, in part, or not: no call will report it. */
    FATE_DEAD   /* It is not done. */
};

/* The fate of this call. */
static enum fate begin(struct files_machine *machine, bool is_change)
{
    if (machine->is_dead) {
        return FATE_DEAD;
    }
    if (machine->dies_within > 0 && --machine->dies_within == 0) {
        machine->is_dead = true;
        return FATE_DIES;
    }
    if (is_change && machine->fails_within > 0 &&
        --machine->fails_within == 0) {
        machine->has_failed = true;
        return FATE_FAILS;
    }
    return FATE_DONE;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

static struct opened *opened_at(int fd)
{
    CHECK(fd >= FD_BASE && fd < FD_BASE + OPEN_MAX_COUNT);
    struct opened *found = &opened[fd - FD_BASE];
    CHECK(found->node != NULL);
    return found;
}

static struct node *file_at(int fd)
{
    struct node *file = opened_at(fd)->node;
    CHECK(!file->is_folder);
    return file;
}

/* The folder in which 'path' names something, and that name; NULL if there is
 * no such folder. */
static struct node *find_folder(int folder_fd, const char *path,
                                char ret_name[NAME_SIZE_MAX])
{
    struct node *folder = NULL;
    const char *at = path;
    char part[NAME_SIZE_MAX];
    if (path[0] != '/') {
        folder = opened_at(folder_fd)->node;
    }
    at += strspn(at, "/");
    for (;;) {
        size_t size = strcspn(at, "/");
        CHECK(size > 0 && size < sizeof part);
        memcpy(part, at, size);
        part[size] = '\0';
        at += size;
        at += strspn(at, "/");
        if (folder == NULL) {
            for (uint32_t i = 0; i < MACHINE_MAX && folder == NULL; i++) {
                if (machines[i] != NULL &&
                    strcmp(machines[i]->name, part) == 0) {
                    folder = machines[i]->root;
                }
            }
            CHECK(folder != NULL);
            part[0] = '\0';
        } else if (*at != '\0') {
            const struct name *name = tree_find(&folder->names, part);
            if (name == NULL || !name->node->is_folder) {
                return NULL;
            }
            folder = name->node;
            continue;
        }
        if (*at == '\0') {
            memcpy(ret_name, part, sizeof part);
            return folder;
        }
    }
}

static struct node *find(int folder_fd, const char *path)
{
    char text[NAME_SIZE_MAX];
    struct node *folder = find_folder(folder_fd, path, text);
    if (folder == NULL || text[0] == '\0') {
        return folder;
    }
    const struct name *name = tree_find(&folder->names, text);
    return name != NULL ? name->node : NULL;
}

static int open_node(struct node *node, int flags)
{
    for (int i = 0; i < OPEN_MAX_COUNT; i++) {
        if (opened[i].node == NULL) {
            opened[i] = (struct opened){.node = tree_keep(node),
                                        .is_direct = (flags & O_DIRECT) != 0,
                                        .is_writable = (flags & O_ACCMODE) !=
                                                       O_RDONLY};
            node->machine->open_count++;
            return FD_BASE + i;
        }
    }
    return fail(EMFILE);
}

static int files_openat(int folder_fd, const char *path, int flags)
{
    char text[NAME_SIZE_MAX];
    struct node *folder = find_folder(folder_fd, path, text);
    if (folder == NULL) {
        return fail(ENOENT);
    }
    enum fate fate = begin(folder->machine, false);
    bool is_done = fate == FATE_DONE ||
                   (fate == FATE_DIES && tree_chance(folder->machine, 50));
    if (!is_done) {
        return fail(EIO);
    }
    struct node *node = text[0] == '\0' ? folder : find(folder_fd, path);
    if (node == NULL && (flags & O_CREAT) != 0) {
        node = tree_new(folder->machine, false);
        tree_change(folder, CHANGE_LINK, "", text, node);
    } else if (node == NULL) {
        return fail(ENOENT);
    } else if ((flags & O_DIRECTORY) != 0 && !node->is_folder) {
        return fail(ENOTDIR);
    } else if ((flags & O_TRUNC) != 0) {
        tree_resize(node, 0);
    }
    return fate == FATE_DONE ? open_node(node, flags) : fail(EIO);
}

static int files_close(int fd)
{
    struct opened *file = opened_at(fd);
    struct node *node = file->node;
    if (node->lock_fd == fd) {
        node->lock_fd = -1;
    }
    file->node = NULL;
    node->machine->open_count--;
    tree_drop(node);
    return 0;
}

static ssize_t files_pread(int fd, void *data, size_t size, off_t offset)
{
    struct node *file = file_at(fd);
    size_t at = (size_t)offset;
    if (begin(file->machine, false) != FATE_DONE) {
        return fail(EIO);
    }
    if (at >= file->size) {
        return 0;
    }
    size = size < file->size - at ? size : file->size - at;
    if (!opened_at(fd)->is_direct) {
        memcpy(data, file->cache + at, size);
        return (ssize_t)size;
    }
    for (size_t i = 0; i < size; i++) {
        bool is_dirty = file->is_dirty[(at + i) / FILES_SECTOR_SIZE];
        ((uint8_t *)data)[i] = (is_dirty ? file->cache : file->disk)[at + i];
    }
    return (ssize_t)size;
}

static uint64_t room_of(const struct files_machine *machine)
{
    if (machine->limit == UINT64_MAX) {
        return UINT64_MAX;
    }
    return machine->limit > machine->used ? machine->limit - machine->used : 0;
}

static int fail_full(struct files_machine *machine)
{
    machine->was_full = true;
    return fail(ENOSPC);
}

/* As many bytes as fit. */
static size_t fitting(const struct node *file, size_t size, size_t offset)
{
    size_t end = offset + size;
    uint64_t more = end > file->size ? end - file->size : 0;
    uint64_t room = room_of(file->machine);
    if (more <= room) {
        return size;
    }
    uint64_t lacking = more - room;
    size = lacking < size ? size - (size_t)lacking : 0;
    return size & ~(size_t)(BLOCK_SIZE - 1);
}

static ssize_t write_some(int fd, const void *data, size_t size, off_t offset,
                          bool is_durable)
{
    const struct opened *file_opened = opened_at(fd);
    struct node *file = file_at(fd);
    struct files_machine *machine = file->machine;
    size_t at = (size_t)offset;
    CHECK(file_opened->is_writable && size > 0);
    if (file_opened->is_direct &&
        (at % BLOCK_SIZE != 0 || size % BLOCK_SIZE != 0 ||
         (uintptr_t)data % FILES_SECTOR_SIZE != 0)) {
        return fail(EINVAL);
    }
    switch (begin(machine, true)) {
    case FATE_DEAD:
        return fail(EIO);
    case FATE_DIES:
    case FATE_FAILS:
        if (tree_chance(machine, 75) &&
            (at + size <= file->size || machine->limit == UINT64_MAX)) {
            tree_write(file, data, size, at,
                       tree_chance(machine, 30) ? 100 : 50);
            for (size_t i = 0; is_durable && i < tree_sectors(file->size);
                 i++) {
                if (file->is_dirty[i] && tree_chance(machine, 50)) {
                    tree_sector_to_disk(file, i);
                }
            }
        }
        return fail(EIO);
    case FATE_DONE:
        break;
    }
    size_t done = fitting(file, size, at);
    if (done == 0) {
        return fail_full(machine);
    }
    tree_write(file, data, done, at, 100);
    if (is_durable) {
        for (size_t i = at / FILES_SECTOR_SIZE; i < tree_sectors(at + done);
             i++) {
            tree_sector_to_disk(file, i);
        }
        file->disk_size = file->size;
    }
    return (ssize_t)done;
}

static ssize_t files_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return write_some(fd, data, size, offset, false);
}

static ssize_t files_pwrite_dsync(int fd, const void *data, size_t size,
                                  off_t offset)
{
    if (opened_at(fd)->node->machine->refuses_dsync) {
        return fail(EOPNOTSUPP);
    }
    return write_some(fd, data, size, offset, true);
}

/* The cache considers itself clean. */
static int flush_fails(struct node *node)
{
    for (size_t i = 0; i < tree_sectors(node->capacity); i++) {
        node->is_dirty[i] = false;
    }
    /* A later flush may write the size and the names to the disk. */
    return fail(EIO);
}

static int files_fsync(int fd)
{
    struct node *node = opened_at(fd)->node;
    enum fate fate = begin(node->machine, true);
    if (fate == FATE_FAILS) {
        return flush_fails(node);
    }
    if (fate == FATE_DEAD ||
        (fate == FATE_DIES && tree_chance(node->machine, 50))) {
        return fail(EIO);
    }
    if (node->is_folder) {
        tree_copy_names(&node->disk_names, &node->names);
        tree_drop_changes(node);
    } else {
        tree_flush(node);
    }
    return fate == FATE_DONE ? 0 : fail(EIO);
}

static int files_ftruncate(int fd, off_t size)
{
    struct node *file = file_at(fd);
    enum fate fate = begin(file->machine, true);
    if (fate == FATE_DONE ||
        (fate == FATE_DIES && tree_chance(file->machine, 50))) {
        tree_resize(file, (size_t)size);
    }
    return fate == FATE_DONE ? 0 : fail(EIO);
}

static int files_reserve(int fd, off_t offset, off_t size)
{
    struct node *file = file_at(fd);
    (void)offset;
    if (begin(file->machine, false) != FATE_DONE) {
        return fail(EIO);
    }
    return (uint64_t)size <= room_of(file->machine) ? 0
                                                    : fail_full(file->machine);
}

static off_t files_size(int fd)
{
    struct node *node = opened_at(fd)->node;
    return begin(node->machine, false) == FATE_DONE ? (off_t)node->size
                                                    : fail(EIO);
}

static int files_lock(int fd)
{
    struct node *node = opened_at(fd)->node;
    if (begin(node->machine, false) != FATE_DONE) {
        return fail(EIO);
    }
    if (node->lock_fd >= 0 && node->lock_fd != fd) {
        return fail(EWOULDBLOCK);
    }
    node->lock_fd = fd;
    return 0;
}

/* Whether a change of a name that a dying process made takes effect. */
static bool is_made(struct files_machine *machine, enum fate fate)
{
    return fate == FATE_DONE || (fate == FATE_DIES && tree_chance(machine, 50));
}

static int files_mkdir(const char *path)
{
    char text[NAME_SIZE_MAX];
    struct node *folder = find_folder(AT_FDCWD, path, text);
    if (folder == NULL) {
        return fail(ENOENT);
    }
    if (text[0] == '\0' || tree_find(&folder->names, text) != NULL) {
        return fail(folder->machine->is_dead ? EIO : EEXIST);
    }
    enum fate fate = begin(folder->machine, false);
    if (is_made(folder->machine, fate)) {
        tree_change(folder, CHANGE_LINK, "", text,
                    tree_new(folder->machine, true));
    }
    return fate == FATE_DONE ? 0 : fail(EIO);
}

static int files_renameat(int folder_fd, const char *from, int to_folder_fd,
                          const char *to)
{
    char from_text[NAME_SIZE_MAX], to_text[NAME_SIZE_MAX];
    struct node *folder = find_folder(folder_fd, from, from_text);
    CHECK(folder == find_folder(to_folder_fd, to, to_text));
    const struct name *name = folder != NULL
                                  ? tree_find(&folder->names, from_text)
                                  : NULL;
    if (name == NULL) {
        return fail(ENOENT);
    }
    enum fate fate = begin(folder->machine, false);
    if (is_made(folder->machine, fate)) {
        tree_change(folder, CHANGE_RENAME, from_text, to_text, name->node);
    }
    return fate == FATE_DONE ? 0 : fail(EIO);
}

static int files_unlinkat(int folder_fd, const char *path)
{
    char text[NAME_SIZE_MAX];
    struct node *folder = find_folder(folder_fd, path, text);
    if (folder == NULL || tree_find(&folder->names, text) == NULL) {
        return fail(ENOENT);
    }
    enum fate fate = begin(folder->machine, false);
    if (is_made(folder->machine, fate)) {
        tree_change(folder, CHANGE_UNLINK, text, "", NULL);
    }
    return fate == FATE_DONE ? 0 : fail(EIO);
}

static int files_exists(int folder_fd, const char *path)
{
    return find(folder_fd, path) != NULL ? 0 : fail(ENOENT);
}

static int files_list(int folder_fd, storage_name_fn *visit, void *data)
{
    struct node *folder = opened_at(folder_fd)->node;
    struct names names = {0};
    bool is_over = false;
    CHECK(folder->is_folder);
    if (begin(folder->machine, false) != FATE_DONE) {
        return fail(EIO);
    }
    tree_copy_names(&names, &folder->names);
    for (uint32_t i = 0; i < names.count && !is_over; i++) {
        is_over = visit(data, names.of[i].text);
    }
    tree_drop_names(&names);
    return 0;
}

static void files_forget(int fd)
{
    (void)fd; /* The cache stays: code that trusts it is caught. */
}

static void *files_map(int fd, size_t size)
{
    struct node *file = file_at(fd);
    if (begin(file->machine, false) != FATE_DONE) {
        errno = EIO;
        return NULL;
    }
    CHECK(size == file->size);
    return memory_copy(file->cache, size);
}

static void files_unmap(void *data, size_t size)
{
    (void)size;
    free(data);
}

static int files_space(int folder_fd, uint64_t *ret_free)
{
    struct files_machine *machine = opened_at(folder_fd)->node->machine;
    if (begin(machine, false) != FATE_DONE) {
        return fail(EIO);
    }
    *ret_free = room_of(machine);
    return 0;
}

static void files_boot_id(int folder_fd, char ret_id[STORAGE_BOOT_ID_SIZE])
{
    snprintf(ret_id, STORAGE_BOOT_ID_SIZE, "%016" PRIx64,
             opened_at(folder_fd)->node->machine->boot);
}

const struct storage_port files_port = {
    .openat = files_openat,
    .close = files_close,
    .pread = files_pread,
    .pwrite = files_pwrite,
    .pwrite_dsync = files_pwrite_dsync,
    .fsync = files_fsync,
    .fdatasync = files_fsync,
    .ftruncate = files_ftruncate,
    .reserve = files_reserve,
    .size = files_size,
    .lock = files_lock,
    .mkdir = files_mkdir,
    .renameat = files_renameat,
    .unlinkat = files_unlinkat,
    .exists = files_exists,
    .list = files_list,
    .forget = files_forget,
    .map = files_map,
    .unmap = files_unmap,
    .space = files_space,
    .boot_id = files_boot_id,
};

/* --- Machines ------------------------------------------------------------- */

static void forget_rot(struct files_machine *machine)
{
    if (machine->rotten != NULL) {
        tree_drop(machine->rotten);
        machine->rotten = NULL;
    }
}

struct files_machine *files_new(const char *name, uint64_t seed)
{
    uint32_t at = 0;
    while (at < MACHINE_MAX && machines[at] != NULL) {
        CHECK(strcmp(machines[at]->name, name) != 0);
        at++;
    }
    CHECK(at < MACHINE_MAX);
    struct files_machine *machine = memory_new(sizeof *machine);
    machines[at] = machine;
    CHECK(strlen(name) < sizeof machine->name);
    memcpy(machine->name, name, strlen(name) + 1);
    machine->prng = (struct prng){seed};
    machine->boot = prng_next(&machine->prng);
    machine->limit = UINT64_MAX;
    machine->root = tree_keep(tree_new(machine, true));
    return machine;
}

void files_free(struct files_machine *machine)
{
    if (machine == NULL) {
        return;
    }
    CHECK(machine->open_count == 0);
    forget_rot(machine);
    tree_drop(machine->root);
    for (uint32_t i = 0; i < MACHINE_MAX; i++) {
        machines[i] = machines[i] == machine ? NULL : machines[i];
    }
    free(machine);
}

void files_die_within(struct files_machine *machine, uint32_t calls)
{
    machine->dies_within = calls;
}

void files_die(struct files_machine *machine)
{
    machine->is_dead = true;
}

bool files_is_dead(const struct files_machine *machine)
{
    return machine->is_dead;
}

void files_lose_power(struct files_machine *machine)
{
    CHECK(machine->open_count == 0);
    machine->is_dead = true;
    machine->boot = prng_next(&machine->prng);
    tree_lose(machine->root);
}

void files_start(struct files_machine *machine)
{
    CHECK(machine->open_count == 0);
    machine->is_dead = false;
    machine->has_failed = false;
    machine->was_full = false;
    machine->dies_within = 0;
    machine->fails_within = 0;
}

void files_fail_within(struct files_machine *machine, uint32_t calls)
{
    machine->fails_within = calls;
}

bool files_has_failed(const struct files_machine *machine)
{
    return machine->has_failed;
}

void files_refuse_dsync(struct files_machine *machine)
{
    machine->refuses_dsync = true;
}

void files_set_room(struct files_machine *machine, uint64_t size)
{
    machine->limit = size == UINT64_MAX ? UINT64_MAX : machine->used + size;
}

bool files_was_full(const struct files_machine *machine)
{
    return machine->was_full;
}

static bool is_zero(const uint8_t *data, size_t size)
{
    return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

static void flip(struct files_machine *machine)
{
    machine->rotten->cache[machine->rot_at] ^= machine->rot_bit;
    machine->rotten->disk[machine->rot_at] ^= machine->rot_bit;
    machine->rot_value = machine->rotten->cache[machine->rot_at];
}

static bool rot_file(struct files_machine *machine, struct node *file)
{
    size_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        size_t chosen = pass == 0 ? SIZE_MAX
                                  : (size_t)prng_below(&machine->prng, count);
        count = 0;
        for (size_t at = 0; at < file->size; at += FILES_SECTOR_SIZE) {
            size_t left = file->size - at;
            size_t size = left < FILES_SECTOR_SIZE ? left : FILES_SECTOR_SIZE;
            if (is_zero(file->cache + at, size) || count++ != chosen) {
                continue;
            }
            uint64_t bit = prng_below(&machine->prng, 8 * size);
            machine->rotten = tree_keep(file);
            machine->rot_at = at + (size_t)bit / 8;
            machine->rot_bit = (uint8_t)(1u << bit % 8);
            flip(machine);
            return true;
        }
        if (count == 0) {
            return false;
        }
    }
    return false;
}

bool files_rot(struct files_machine *machine, const char *path)
{
    struct node *node = find(AT_FDCWD, path);
    forget_rot(machine);
    while (node != NULL && node->is_folder) {
        uint64_t count = node->names.count;
        node = count > 0
                   ? node->names.of[prng_below(&machine->prng, count)].node
                   : NULL;
    }
    return node != NULL && rot_file(machine, node);
}

void files_unrot(struct files_machine *machine)
{
    if (machine->rotten != NULL && machine->rot_at < machine->rotten->size &&
        machine->rotten->cache[machine->rot_at] == machine->rot_value) {
        flip(machine);
    }
    forget_rot(machine);
}

bool files_was_torn(struct files_machine *machine, const char *path)
{
    const struct node *node = find(AT_FDCWD, path);
    (void)machine;
    return node == NULL || node->was_torn;
}

struct files_machine *files_copy(const struct files_machine *machine,
                                 const char *name)
{
    struct files_machine *copy = files_new(name, 0);
    tree_drop(copy->root);
    copy->root = tree_keep(tree_copy(copy, machine->root));
    return copy;
}

void files_restore(struct files_machine *machine, struct files_machine *copy)
{
    CHECK(machine->open_count == 0);
    tree_drop(machine->root);
    machine->root = tree_keep(tree_copy(machine, copy->root));
    files_free(copy);
}

uint32_t files_open_count(const struct files_machine *machine)
{
    return machine->open_count;
}
