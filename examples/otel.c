/* SPDX-License-Identifier: MIT */

/* Spans of OpenTelemetry from hooks: one for each wait, one for each hold, in
 * the trace of the job. The cluster gets the same trace: hasp why shows it.
 *
 *     otel LOCK SECONDS
 *
 * Each span is a line of OTLP/JSON on stdout, which a collector can read from a
 * file (its receiver otlpjsonfile); so this needs no library. */

#include <hasp/hasp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define TRACE_ID_SIZE 33 /* Hex digits, and a NUL. */
#define SPAN_ID_SIZE 17

static void make_id(char *id, size_t size)
{
    unsigned char byte;
    for (size_t i = 0; i + 1 < size; i += 2) {
        if (getrandom(&byte, 1, 0) != 1) {
            abort();
        }
        snprintf(id + i, 3, "%02x", byte);
    }
}

static void put_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == '"' || *text == '\\') {
            printf("\\u%04x", (unsigned char)*text);
        } else {
            putchar(*text);
        }
    }
    putchar('"');
}

/* A span that ends with the event. Without a traceparent ("00-TRACE-SPAN-01")
 * it begins a trace. */
static void put_span(const char *name, const struct hasp_hook_event *event)
{
    char trace[TRACE_ID_SIZE] = "", parent[SPAN_ID_SIZE] = "";
    char span[SPAN_ID_SIZE];
    make_id(span, sizeof span);
    if (sscanf(event->trace, "00-%32[0-9a-f]-%16[0-9a-f]", trace, parent) !=
        2) {
        make_id(trace, sizeof trace);
    }
    printf(
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"scope\":{\"name\":\"hasp\"},"
        "\"spans\":[{\"traceId\":\"%s\",\"spanId\":\"%s\","
        "\"parentSpanId\":\"%s\",\"name\":\"%s\",\"kind\":1,"
        "\"startTimeUnixNano\":\"%" PRIu64 "\","
        "\"endTimeUnixNano\":\"%" PRIu64 "\",\"attributes\":["
        "{\"key\":\"hasp.lock\",\"value\":{\"stringValue\":",
        trace, span, parent, name, event->unix_ns - event->elapsed_ns,
        event->unix_ns);
    put_text(event->name);
    printf("}},{\"key\":\"hasp.token\",\"value\":{\"intValue\":\"%" PRIu64
           "\"}}],\"status\":{\"code\":%d,\"message\":",
           event->token, event->text[0] != '\0' ? 2 : 0);
    put_text(event->text);
    printf("}}]}]}]}\n");
    fflush(stdout);
}

static void waited(void *data, const struct hasp_hook_event *event)
{
    (void)data;
    put_span("lock wait", event);
}

static void held(void *data, const struct hasp_hook_event *event)
{
    (void)data;
    put_span("lock hold", event);
}

static int work(struct hasp_session *session, const char *name, double seconds)
{
    char trace[TRACE_ID_SIZE], span[SPAN_ID_SIZE], traceparent[64];
    struct hasp_acquire_options options;
    struct hasp_hold *hold;
    /* The span of the job, which the program has from its own tracing. */
    make_id(trace, sizeof trace);
    make_id(span, sizeof span);
    snprintf(traceparent, sizeof traceparent, "00-%s-%s-01", trace, span);
    hasp_acquire_options_init(&options);
    options.trace = traceparent;
    int status = hasp_acquire(session, name, &options, &hold);
    if (status != 0) {
        return status;
    }
    struct timespec time = {(time_t)seconds,
                            (long)(1e9 * (seconds - (time_t)seconds))};
    if (hasp_guard(hold, (uint64_t)(1e9 * seconds)) == 0) {
        nanosleep(&time, NULL);
    }
    return hasp_release(hold);
}

int main(int argc, char **argv)
{
    struct hasp_options options;
    struct hasp_hooks hooks;
    struct hasp_session *session = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: otel LOCK SECONDS\n");
        return 2;
    }
    hasp_options_init(&options);
    hasp_hooks_init(&hooks);
    hooks.granted = hooks.failed = waited;
    hooks.released = hooks.lost = held;
    options.hooks = &hooks;
    int status = hasp_open(&options, &session);
    if (status == 0) {
        status = work(session, argv[1], strtod(argv[2], NULL));
    }
    if (status != 0) {
        fprintf(stderr, "otel: %s\n", hasp_why());
    }
    hasp_close(session); /* Returns when all hooks have been called. */
    return status == 0 ? 0 : 1;
}
