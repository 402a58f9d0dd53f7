/* SPDX-License-Identifier: MIT */

#include "tests/unit/wal_fixture.h"

static uint8_t body_bytes[1 << 20];

/* The body of an entry; sizes from 0 to a few hundred, sometimes more. */
static inline struct bytes body_of(uint64_t term, uint64_t log_index)
{
    struct prng prng = {term << 32 ^ log_index};
    uint64_t dice = prng_below(&prng, 100);
    uint64_t size = prng_below(&prng, dice < 80 ? 100 : dice < 97 ? 900 : 9000);
    uint64_t seed = prng_next(&prng);
    for (uint64_t i = 0; i < size; i++) {
        body_bytes[i] = (uint8_t)(seed >> i % 8 * 8);
    }
    return bytes_of(body_bytes, size);
}

struct wal_entry entry_of(uint64_t term, uint64_t log_index)
{
    return (struct wal_entry){.term = term,
                              .log_index = log_index,
                              .type = (uint8_t)(1 + log_index % 3),
                              .body = body_of(term, log_index)};
}

/* wal_load_fn: entries come in order, and as they were written. */
static inline void note_entry(void *data, const struct wal_entry *entry)
{
    struct contents *contents = data;
    struct wal_entry expected = entry_of(entry->term, entry->log_index);
    if (contents->next == 0) {
        contents->first = entry->log_index;
        contents->next = entry->log_index;
    }
    assert_int_equal(entry->log_index, contents->next);
    assert_true(entry->log_index < INDEX_MAX);
    assert_int_equal(entry->type, expected.type);
    assert_true(bytes_equal(entry->body, expected.body));
    contents->term[entry->log_index] = entry->term;
    contents->next++;
}

int try_open(struct fixture *f, const char *path, struct wal **ret_wal)
{
    f->loaded = (struct contents){0};
    f->why[0] = '\0';
    int error = wal_open(path, &f->options, note_entry, &f->loaded, ret_wal,
                         f->why);
    if (error == 0 && f->loaded.next == 0) {
        f->loaded.first = wal_first(*ret_wal);
        f->loaded.next = f->loaded.first;
    }
    if (error == 0) {
        assert_int_equal(wal_first(*ret_wal), f->loaded.first);
        assert_int_equal(wal_last(*ret_wal), f->loaded.next - 1);
        assert_false(wal_is_busy(*ret_wal));
    }
    return error;
}

void reopen(struct fixture *f)
{
    wal_close(f->wal);
    f->wal = NULL;
    if (try_open(f, f->path, &f->wal) != 0) {
        fail_msg("%s", f->why);
    }
}

void close_log(struct fixture *f)
{
    wal_close(f->wal);
    f->wal = NULL;
}

int turn(struct fixture *f)
{
    struct pollfd event = {.fd = wal_fd(f->wal), .events = POLLIN};
    assert_int_equal(poll(&event, 1, WAIT_MS), 1);
    return wal_complete(f->wal, &f->durable_term, &f->durable_index);
}

int flush_or_fail(struct fixture *f)
{
    int error = wal_start(f->wal);
    while (error == 0 && wal_is_busy(f->wal)) {
        error = turn(f);
    }
    return error;
}

void flush(struct fixture *f)
{
    if (flush_or_fail(f) != 0) {
        fail_msg("%s", wal_why(f->wal));
    }
}

void append(struct fixture *f, uint64_t term, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct wal_entry entry = entry_of(term, wal_last(f->wal) + 1);
        wal_append(f->wal, &entry, 1);
    }
}

void append_singly(struct fixture *f, uint64_t term, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        append(f, term, 1);
        flush(f);
    }
}

/* --- The model ------------------------------------------------------------ */

void model_apply(struct contents *contents, const struct op *op)
{
    switch (op->kind) {
    case OP_APPEND:
        if (contents->first == contents->next) {
            contents->first = op->log_index;
        }
        contents->term[op->log_index] = op->term;
        contents->next = op->log_index + 1;
        break;
    case OP_TRUNCATE:
        contents->next = op->log_index;
        break;
    case OP_RESET:
        contents->first = op->log_index;
        contents->next = op->log_index;
        break;
    }
}

bool model_is_same(const struct contents *found,
                   const struct contents *expected)
{
    if (found->next != expected->next ||
        (found->first > expected->first && found->next != found->first)) {
        return false;
    }
    for (uint64_t i = found->first; i < found->next; i++) {
        if (found->term[i] != expected->term[i]) {
            return false;
        }
    }
    return true;
}

void model_settle(struct model *model)
{
    for (uint32_t i = 0; i < model->op_count; i++) {
        model_apply(&model->base, &model->ops[i]);
    }
    model->op_count = 0;
}

void model_add(struct model *model, enum op_kind kind, uint64_t log_index)
{
    assert_true(model->op_count < OP_COUNT_MAX);
    model->ops[model->op_count++] = (struct op){
        .kind = kind, .term = model->term, .log_index = log_index};
}

uint64_t seed_of_run(void)
{
    const char *text = getenv("WAL_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

uint64_t rounds_of_run(uint64_t usual)
{
    const char *text = getenv("WAL_ROUNDS");
    return text != NULL ? strtoull(text, NULL, 10) : usual;
}

/* --- Files ---------------------------------------------------------------- */

static inline void forget_segments(struct folder_image *image)
{
    size_t kept = 0;
    for (size_t i = 0; i < image->count; i++) {
        uint64_t number = 0;
        if (wal_file_number(image->files[i].name, &number)) {
            free(image->files[i].data);
        } else {
            image->files[kept++] = image->files[i];
        }
    }
    image->count = kept;
}

static inline void read_image(const char *folder, const char *name,
                              struct folder_image *image)
{
    char path[200];
    struct stat status;
    snprintf(path, sizeof path, "%s/%.39s", folder, name);
    int fd = open(path, O_RDONLY);
    if (fd < 0 && errno == ENOENT) {
        /* It was trimmed meanwhile, and all segments before it earlier. */
        forget_segments(image);
        return;
    }
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_true(image->count < 600);
    struct file_image *file = &image->files[image->count++];
    snprintf(file->name, sizeof file->name, "%.39s", name);
    file->data = memory_new((size_t)status.st_size + 1);
    ssize_t size = read(fd, file->data, (size_t)status.st_size);
    assert_true(size >= 0);
    file->size = (size_t)size;
    close(fd);
}

static inline int compare_names(const struct dirent **a,
                                const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

struct folder_image *take_image(const char *folder)
{
    struct folder_image *image = memory_new(sizeof *image);
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, compare_names);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        if (names[i]->d_name[0] != '.') {
            read_image(folder, names[i]->d_name, image);
        }
        free(names[i]);
    }
    free(names);
    return image;
}

void free_image(struct folder_image *image)
{
    for (size_t i = 0; image != NULL && i < image->count; i++) {
        free(image->files[i].data);
    }
    free(image);
}

void empty_folder(const char *folder)
{
    struct dirent **names = NULL;
    int count = scandir(folder, &names, NULL, NULL);
    for (int i = 0; i < count; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/%.80s", folder, names[i]->d_name);
        unlink(path);
        free(names[i]);
    }
    free(names);
}

void put_file(const char *folder, const struct file_image *file)
{
    char path[200];
    if (file == NULL) {
        fail_msg("there is no such file to put into '%s'", folder);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, file->data, file->size), file->size);
    close(fd);
}

void put_image(const char *folder, const struct folder_image *image)
{
    mkdir(folder, 0700);
    empty_folder(folder);
    for (size_t i = 0; i < image->count; i++) {
        put_file(folder, &image->files[i]);
    }
}

struct file_image *find_file(struct folder_image *image, const char *name)
{
    for (size_t i = 0; i < image->count; i++) {
        if (strcmp(image->files[i].name, name) == 0) {
            return &image->files[i];
        }
    }
    return NULL;
}

struct file_image *find_segment(struct folder_image *image, uint64_t number)
{
    char name[WAL_FILE_NAME_SIZE];
    wal_file_name(number, name);
    struct file_image *file = find_file(image, name);
    assert_non_null(file);
    return file;
}

size_t used_size(const struct file_image *file)
{
    size_t size = file->size;
    while (size > 0 && file->data[size - 1] == 0) {
        size--;
    }
    return size;
}

/* --- Life ----------------------------------------------------------------- */

static inline struct fixture *new_fixture(bool without_direct)
{
    struct fixture *f = memory_new(sizeof *f);
    const char *base = getenv("TMPDIR");
    snprintf(f->base, sizeof f->base, "%.40s/hasp-wal-XXXXXX",
             base != NULL ? base : "/tmp");
    assert_non_null(mkdtemp(f->base));
    snprintf(f->path, sizeof f->path, "%s/wal", f->base);
    snprintf(f->copy, sizeof f->copy, "%s/copy", f->base);
    f->options.without_direct = without_direct;
    f->options.segment_size = 4 * WAL_BLOCK_SIZE;
    reopen(f);
    return f;
}

int set_up_direct(void **state)
{
    *state = new_fixture(false);
    return 0;
}

int set_up_buffered(void **state)
{
    *state = new_fixture(true);
    return 0;
}

int tear_down(void **state)
{
    struct fixture *f = *state;
    wal_close(f->wal);
    empty_folder(f->path);
    empty_folder(f->copy);
    rmdir(f->path);
    rmdir(f->copy);
    assert_int_equal(rmdir(f->base), 0);
    free(f);
    return 0;
}
