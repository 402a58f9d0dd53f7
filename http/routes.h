/* SPDX-License-Identifier: MIT */

/* The routes of HTTP: one table. Each row is a method and a path, the command
 * that RESP clients send for it, which member of the request becomes which
 * argument, and the shape of the answer. Dispatch, the checks of requests, the
 * answers 404 and 405, the OpenAPI document, and (by a test) docs/http.md come
 * from this table, so they cannot disagree. */

#ifndef HASP_HTTP_ROUTES_H
#define HASP_HTTP_ROUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* A member of a request: of the body's object, of a query, or of the path. */
enum field_kind {
    FIELD_END, /* After the last one. */
    FIELD_TEXT,
    FIELD_NUMBER,
    FIELD_FLAG,    /* true becomes the word. */
    FIELD_CHOICE,  /* One of several words, in lower case. */
    FIELD_TEXTS,   /* Their count, and each. */
    FIELD_NUMBERS, /* The word, and each. */
    FIELD_PAIRS,   /* An object: the word, a key and a text for each member. */
    FIELD_ACKED    /* A number, or a text as "4,6-9". */
};

#define FIELD_REQUIRED 1u
/* For the gateway, not an argument of the command. */
#define FIELD_ASIDE 2u

struct field {
    const char *name;
    enum field_kind kind;
    /* The word before it in the command; its range is that option's. NULL: an
     * operand, with a range that is given here. CHOICE: the words, separated by
     * '|'. */
    const char *word;
    uint64_t min;
    uint64_t max;
    unsigned flags;
    const char *summary;
};

enum route_kind {
    ROUTE_COMMAND,
    ROUTE_LEASE_TAKE, /* Doors have commands of their own: exchange.h. */
    ROUTE_LEASE_DROP,
    ROUTE_TERRAFORM_LOCK,
    ROUTE_TERRAFORM_UNLOCK,
    ROUTE_FLEETLOCK_TAKE,
    ROUTE_FLEETLOCK_DROP,
    ROUTE_CONSUL_CREATE,
    ROUTE_CONSUL_RENEW,
    ROUTE_CONSUL_DESTROY,
    ROUTE_CONSUL_INFO,
    ROUTE_CONSUL_LIST,
    ROUTE_CONSUL_NODE,
    ROUTE_CONSUL_GET,
    ROUTE_CONSUL_PUT,
    ROUTE_CONSUL_DELETE,
    ROUTE_CONSUL_SELF,
    ROUTE_CONSUL_LEADER,
    ROUTE_CONSUL_PEERS,
    ROUTE_EVENTS, /* An answer without an end. */
    ROUTE_PRESENCE,
    ROUTE_PAGE,
    ROUTE_DOCUMENT, /* This table, as OpenAPI. */
    ROUTE_MONITOR   /* The node's own; not part of the API. */
};

enum answer_kind {
    ANSWER_MAP,    /* The reply is a map of this shape. */
    ANSWER_MEMBER, /* {name: the reply}. */
    ANSWER_LIST,   /* {name: [maps of this shape]}. */
    ANSWER_PAGE    /* {"cursor": ..., name: [maps of this shape]}. */
};

struct answer {
    enum answer_kind kind;
    const char *name;
    const char *type; /* A type as in struct shape's members, or a shape. */
};

#define ROUTE_NEEDS_SESSION 1u /* Hasp-Session is attached first. */
#define ROUTE_KEEPS 2u         /* Hasp-Session gives its operands. */
#define ROUTE_MAY_BE_HELD 4u   /* nil: 423. */
#define ROUTE_WAITS 8u         /* Has wait_ms; 202 is a possible answer. */
#define ROUTE_OWN_BODY 16u     /* The door reads the body; fields: the query. */
#define ROUTE_TRACED 64u       /* The header traceparent is passed on. */
#define ROUTE_IS_GATE 32u      /* 0: 403, if "gate" asks for it. */

struct route {
    const char *method;
    /* "{name}" at its end matches the whole rest, including slashes; it is the
     * value of the field with that name. */
    const char *path;
    enum route_kind kind;
    const char *command; /* With the words that always follow its operands. */
    const char *tail;    /* Words at its end, or NULL. */
    const struct field *fields;
    struct answer answer;
    unsigned flags;
    const char *summary;
};

extern const struct route routes[];
extern const uint32_t route_count;
/* Those of listen.consul, a protocol of its own: not part of the document. */
extern const struct route consul_routes[];
extern const uint32_t consul_route_count;

/* Shapes of answers, for the document. */
struct shape {
    const char *name;
    /* "name:type ...". Types: integer, text, yes (true or false), a shape's
     * name, [type], {type}. "?" after it: it may be missing; "|": it may be
     * null. A text that is not UTF-8 is in base64 under its name with "_b64"
     * appended. */
    const char *members;
};
extern const struct shape shapes[];
extern const uint32_t shape_count;

/* The route of a path. */
struct match {
    const struct route *route; /* NULL: none, or not for this method. */
    struct bytes rest;         /* The value of "{name}", undecoded; borrowed. */
    /* The path's methods, separated by ", "; empty: the path does not exist. */
    char allowed[64];
};
/* Finds the route in routes[], or in consul_routes[]; HEAD counts as GET. */
void routes_find(const char *method, struct bytes path,
                 struct match *ret_match);
void routes_find_consul(const char *method, struct bytes path,
                        struct match *ret_match);

/* The range of a field: its own, or its option's. */
void field_range(const struct field *field, uint64_t *ret_min,
                 uint64_t *ret_max);
/* The name in a path's "{name}", with its size; or NULL. */
const char *route_parameter(const struct route *route, size_t *ret_size);
/* True if the route's fields are in the query. */
bool route_has_query(const struct route *route);

#endif /* HASP_HTTP_ROUTES_H */
