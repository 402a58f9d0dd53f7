/* SPDX-License-Identifier: MIT */

#include "client/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* ACQUIRE, WAIT, GRANTED and an end. */
#define EVENTS_MAX 4

/* An event that was not taken yet. */
struct hook_node {
    struct list in_queue;
    struct hooked *of;
    enum hasp_hook_kind kind;
    uint64_t token;
    uint64_t at_ns;
    uint64_t elapsed_ns;
    uint64_t skipped;
};

struct hooked {
    struct hook_queue *queue;
    enum hasp_hook_kind state; /* The newest event. */
    struct hook_node events[EVENTS_MAX];
    uint32_t count;     /* Events that were reported. */
    uint32_t use_count; /* Those not taken, and the owner. */
    uint64_t id;
    uint64_t token;
    uint64_t since_ns; /* ACQUIRE, later GRANTED; CLOCK_MONOTONIC. */
    char trace[HASP_TRACE_SIZE];
    char name[HASP_EVENT_NAME_SIZE];
    char text[HASP_EVENT_TEXT_SIZE]; /* The reason of the end. */
};

void hasp_hooks_init(struct hasp_hooks *hooks)
{
    if (hooks != NULL) {
        *hooks = (struct hasp_hooks){.size = sizeof *hooks};
    }
}

void hook_queue_init(struct hook_queue *queue)
{
    *queue = (struct hook_queue){0};
    list_init(&queue->events);
}

static void hooked_put(struct hooked *one)
{
    one->use_count--;
    if (one->use_count == 0) {
        free(one);
    }
}

static void hooked_report(struct hooked *one, enum hasp_hook_kind kind,
                          uint64_t now_ns)
{
    struct hook_queue *queue = one->queue;
    CHECK(one->count < EVENTS_MAX);
    struct hook_node *event = &one->events[one->count++];
    *event = (struct hook_node){
        .of = one,
        .kind = kind,
        .token = one->token,
        .at_ns = now_ns,
        .elapsed_ns = now_ns > one->since_ns ? now_ns - one->since_ns : 0,
        .skipped = queue->skipped};
    queue->skipped = 0;
    list_push_back(&queue->events, &event->in_queue);
    queue->count++;
    one->use_count++;
    one->state = kind;
}

struct hooked *hooked_new(struct hook_queue *queue, const char *name,
                          const char *trace, uint64_t now_ns)
{
    if (!queue->is_on) {
        return NULL;
    }
    struct hooked *one = queue->count < HOOKS_LATE_MAX ? calloc(1, sizeof *one)
                                                       : NULL;
    if (one == NULL) {
        queue->skipped++;
        return NULL;
    }
    one->queue = queue;
    one->use_count = 1;
    one->id = ++queue->newest_id;
    one->since_ns = now_ns;
    snprintf(one->name, sizeof one->name, "%s", name);
    snprintf(one->trace, sizeof one->trace, "%s", trace != NULL ? trace : "");
    hooked_report(one, HASP_HOOK_ACQUIRE, now_ns);
    return one;
}

static bool is_pending(const struct hooked *one)
{
    return one != NULL &&
           (one->state == HASP_HOOK_ACQUIRE || one->state == HASP_HOOK_WAIT);
}

static bool is_granted(const struct hooked *one)
{
    return one != NULL && one->state == HASP_HOOK_GRANTED;
}

void hooked_waits(struct hooked *one, uint64_t now_ns)
{
    if (one != NULL && one->state == HASP_HOOK_ACQUIRE) {
        hooked_report(one, HASP_HOOK_WAIT, now_ns);
    }
}

void hooked_granted(struct hooked *one, uint64_t token, uint64_t now_ns)
{
    if (is_pending(one)) {
        one->token = token;
        hooked_report(one, HASP_HOOK_GRANTED, now_ns);
        one->since_ns = now_ns;
    }
}

static void hooked_set_text(struct hooked *one, const char *why, size_t size)
{
    size = size < sizeof one->text ? size : sizeof one->text - 1;
    memcpy(one->text, why, size);
    one->text[size] = '\0';
}

void hooked_failed(struct hooked *one, const char *why, uint64_t now_ns)
{
    if (is_pending(one)) {
        hooked_set_text(one, why, strlen(why));
        hooked_report(one, HASP_HOOK_FAILED, now_ns);
    }
}

void hooked_released(struct hooked *one, uint64_t now_ns)
{
    if (is_granted(one)) {
        hooked_report(one, HASP_HOOK_RELEASED, now_ns);
    }
}

void hooked_lost(struct hooked *one, const char *why, size_t size,
                 uint64_t now_ns)
{
    static const char ended[] = "ended";
    if (is_granted(one)) {
        hooked_set_text(one, size > 0 ? why : ended,
                        size > 0 ? size : strlen(ended));
        hooked_report(one, HASP_HOOK_LOST, now_ns);
    }
}

void hooked_free(struct hooked *one)
{
    if (one != NULL) {
        hooked_put(one);
    }
}

static struct hook_node *hook_queue_pop(struct hook_queue *queue)
{
    struct hook_node *event = LIST_FIRST(&queue->events, struct hook_node,
                                         in_queue);
    if (event != NULL) {
        list_remove(&event->in_queue);
        queue->count--;
    }
    return event;
}

bool hook_queue_take(struct hook_queue *queue, uint64_t now_ns,
                     uint64_t unix_ns, struct hasp_hook_event *ret_event)
{
    struct hook_node *event = hook_queue_pop(queue);
    if (event == NULL) {
        return false;
    }
    struct hooked *one = event->of;
    bool has_text = event->kind == HASP_HOOK_FAILED ||
                    event->kind == HASP_HOOK_LOST;
    *ret_event = (struct hasp_hook_event){
        .kind = event->kind,
        .id = one->id,
        .token = event->token,
        .unix_ns = unix_ns -
                   (now_ns > event->at_ns ? now_ns - event->at_ns : 0),
        .elapsed_ns = event->elapsed_ns,
        .skipped = event->skipped};
    memcpy(ret_event->name, one->name, sizeof ret_event->name);
    memcpy(ret_event->trace, one->trace, sizeof ret_event->trace);
    if (has_text) {
        memcpy(ret_event->text, one->text, sizeof ret_event->text);
    }
    hooked_put(one);
    return true;
}

void hook_queue_done(struct hook_queue *queue)
{
    struct hook_node *event;
    while ((event = hook_queue_pop(queue)) != NULL) {
        hooked_put(event->of);
    }
}

void hooks_call(const struct hasp_hooks *hooks,
                const struct hasp_hook_event *event)
{
    hasp_hook_fn *hook = NULL;
    switch (event->kind) {
    case HASP_HOOK_ACQUIRE:
        hook = hooks->acquire;
        break;
    case HASP_HOOK_WAIT:
        hook = hooks->wait;
        break;
    case HASP_HOOK_GRANTED:
        hook = hooks->granted;
        break;
    case HASP_HOOK_FAILED:
        hook = hooks->failed;
        break;
    case HASP_HOOK_RELEASED:
        hook = hooks->released;
        break;
    case HASP_HOOK_LOST:
        hook = hooks->lost;
        break;
    }
    if (hook != NULL) {
        hook(hooks->data, event);
    }
}
