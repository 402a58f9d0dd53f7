/* SPDX-License-Identifier: MIT */

/* Writes a description for each row of the table. */

#include "http/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "http/routes.h"
#include "net/json.h"

/* The longest name of a type or field. */
#define NAME_SIZE 64

static json_t *openapi_reference(const char *kind, const char *name)
{
    return json_pack("{so}", "$ref",
                     json_sprintf("#/components/%s/%s", kind, name));
}

static json_t *openapi_typed(const char *type)
{
    return json_pack("{ss}", "type", type);
}

/* The schema of "integer", "text", "yes", "[type]", "{type}" or "Shape". */
static json_t *schema_of_type(const char *type)
{
    char inner[NAME_SIZE];
    json_t *schema;
    if (strcmp(type, "integer") == 0) {
        return openapi_typed("integer");
    }
    if (strcmp(type, "text") == 0) {
        return openapi_typed("string");
    }
    if (strcmp(type, "yes") == 0) {
        return openapi_typed("boolean");
    }
    if (isupper((unsigned char)type[0])) {
        return openapi_reference("schemas", type);
    }
    CHECK(type[0] == '[' || type[0] == '{');
    snprintf(inner, sizeof inner, "%.*s", (int)strlen(type) - 2, type + 1);
    schema = openapi_typed(type[0] == '[' ? "array" : "object");
    json_put(schema, type[0] == '[' ? "items" : "additionalProperties",
             schema_of_type(inner));
    return schema;
}

static json_t *or_null(json_t *schema)
{
    return json_pack("{s[oo]}", "oneOf", schema, openapi_typed("null"));
}

static json_t *schema_of_shape(const struct shape *shape)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    const char *at = shape->members;
    while (*at != '\0') {
        char name[NAME_SIZE], type[NAME_SIZE];
        size_t name_size = strcspn(at, ":");
        size_t size = strcspn(at, " ");
        snprintf(name, sizeof name, "%.*s", (int)name_size, at);
        snprintf(type, sizeof type, "%.*s", (int)(size - name_size - 1),
                 at + name_size + 1);
        char mark = type[strlen(type) - 1];
        if (mark == '?' || mark == '|') {
            type[strlen(type) - 1] = '\0';
        }
        bool is_text = strcmp(type, "text") == 0;
        json_t *property = schema_of_type(type);
        json_put(properties, name, mark == '|' ? or_null(property) : property);
        if (is_text) {
            /* The text may be in base64 instead, so neither field is always
             * present. */
            strncat(name, "_b64", sizeof name - strlen(name) - 1);
            json_put(properties, name, openapi_typed("string"));
        } else if (mark != '?') {
            json_add(required, json_string(name));
        }
        at += size + (at[size] == ' ');
    }
    return json_pack("{ss, so, so}", "type", "object", "properties", properties,
                     "required", required);
}

static void put_range(const struct field *field, const char *min_name,
                      const char *max_name, json_t *schema)
{
    uint64_t min, max;
    field_range(field, &min, &max);
    json_put(schema, min_name, json_integer((json_int_t)min));
    json_put(schema, max_name, json_integer((json_int_t)max));
}

static json_t *schema_of_choice(const struct field *field)
{
    json_t *schema = openapi_typed("string");
    json_t *words = json_array();
    const char *at = field->word;
    while (*at != '\0') {
        char word[NAME_SIZE];
        size_t size = strcspn(at, "|");
        for (size_t i = 0; i < size; i++) {
            word[i] = (char)tolower((unsigned char)at[i]);
        }
        json_add(words, json_stringn(word, size));
        at += size + (at[size] == '|');
    }
    json_put(schema, "enum", words);
    return schema;
}

static json_t *schema_of_field(const struct field *field)
{
    json_t *schema = NULL;
    switch (field->kind) {
    case FIELD_NUMBER:
        schema = openapi_typed("integer");
        put_range(field, "minimum", "maximum", schema);
        break;
    case FIELD_FLAG:
        schema = openapi_typed("boolean");
        break;
    case FIELD_CHOICE:
        schema = schema_of_choice(field);
        break;
    case FIELD_TEXTS:
        schema = schema_of_type("[text]");
        put_range(field, "minItems", "maxItems", schema);
        break;
    case FIELD_NUMBERS:
        schema = schema_of_type("[integer]");
        break;
    case FIELD_PAIRS:
        schema = schema_of_type("{text}");
        break;
    case FIELD_ACKED:
        schema = json_pack("{s[oo]}", "oneOf", openapi_typed("integer"),
                           openapi_typed("string"));
        break;
    default:
        /* The field's bounds are in bytes, not in characters. */
        schema = openapi_typed("string");
    }
    json_put(schema, "description", json_string(field->summary));
    return schema;
}

static bool is_parameter(const struct route *route, const struct field *field)
{
    size_t size = 0;
    const char *parameter = route_parameter(route, &size);
    return parameter != NULL && strlen(field->name) == size &&
           memcmp(field->name, parameter, size) == 0;
}

static json_t *openapi_parameter(const char *name, const char *in,
                                 bool is_required, json_t *schema)
{
    return json_pack("{ss, ss, sb, so}", "name", name, "in", in, "required",
                     is_required, "schema", schema);
}

static json_t *parameters_of(const struct route *route)
{
    json_t *all = json_array();
    if ((route->flags & (ROUTE_NEEDS_SESSION | ROUTE_KEEPS)) != 0) {
        json_add(all, openapi_parameter("Hasp-Session", "header", true,
                                        openapi_typed("string")));
    }
    if ((route->flags & ROUTE_TRACED) != 0) {
        json_add(all, openapi_parameter("traceparent", "header", false,
                                        openapi_typed("string")));
    }
    for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
        const struct field *field = &route->fields[i];
        bool is_in_path = is_parameter(route, field);
        if (is_in_path || route_has_query(route)) {
            json_add(all, openapi_parameter(
                              field->name, is_in_path ? "path" : "query",
                              (field->flags & FIELD_REQUIRED) != 0,
                              schema_of_field(field)));
        }
    }
    return all;
}

static json_t *openapi_content(const char *type, json_t *schema)
{
    return json_pack("{s{s{so}}}", "content", type, "schema", schema);
}

/* A required text is there under one of its two names. */
static json_t *either_of(const char *name, const char *other)
{
    return json_pack("{s[{s[s]}, {s[s]}]}", "anyOf", "required", name,
                     "required", other);
}

static json_t *body_of(const struct route *route)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    json_t *texts = json_array();
    for (uint32_t i = 0; route->fields[i].kind != FIELD_END; i++) {
        const struct field *field = &route->fields[i];
        if (is_parameter(route, field)) {
            continue;
        }
        json_put(properties, field->name, schema_of_field(field));
        if (field->kind == FIELD_TEXT) {
            char name[NAME_SIZE];
            snprintf(name, sizeof name, "%s_b64", field->name);
            json_put(properties, name, openapi_typed("string"));
            if ((field->flags & FIELD_REQUIRED) != 0) {
                json_add(texts, either_of(field->name, name));
            }
        } else if ((field->flags & FIELD_REQUIRED) != 0) {
            json_add(required, json_string(field->name));
        }
    }
    json_t *schema = json_pack("{ss, so, so, sb}", "type", "object",
                               "properties", properties, "required", required,
                               "additionalProperties", false);
    if (json_array_size(texts) > 0) {
        json_put(schema, "allOf", json_incref(texts));
    }
    json_decref(texts);
    return openapi_content("application/json", schema);
}

static json_t *schema_of_answer(const struct answer *answer)
{
    json_t *properties = json_object();
    char list[NAME_SIZE];
    if (answer->kind == ANSWER_MAP) {
        json_decref(properties);
        return openapi_reference("schemas", answer->type);
    }
    snprintf(list, sizeof list, "[%s]", answer->type);
    json_put(
        properties, answer->name,
        schema_of_type(answer->kind == ANSWER_MEMBER ? answer->type : list));
    if (answer->kind == ANSWER_PAGE) {
        json_put(properties, "cursor", openapi_typed("string"));
        json_put(properties, "cursor_b64", openapi_typed("string"));
    }
    return json_pack("{ss, so, s[s]}", "type", "object", "properties",
                     properties, "required", answer->name);
}

static json_t *good_answer(const struct route *route)
{
    json_t *answer;
    switch (route->kind) {
    case ROUTE_EVENTS:
    case ROUTE_PRESENCE:
        answer = openapi_content("text/event-stream", openapi_typed("string"));
        break;
    case ROUTE_DOCUMENT:
        answer = openapi_content("application/json", openapi_typed("object"));
        break;
    case ROUTE_PAGE:
        answer = openapi_content("text/html", openapi_typed("string"));
        break;
    case ROUTE_MONITOR:
        answer = openapi_content("text/plain", openapi_typed("string"));
        break;
    default:
        answer = openapi_content("application/json",
                                 schema_of_answer(&route->answer));
    }
    json_put(answer, "description", json_string("Done."));
    return answer;
}

static json_t *responses_of(const struct route *route)
{
    json_t *all = json_object();
    json_put(all, "200", good_answer(route));
    if ((route->flags & ROUTE_WAITS) != 0) {
        json_t *waiting = openapi_content(
            "application/json", openapi_reference("schemas", "Waiting"));
        json_put(waiting, "description",
                 json_string("The outcome is still open: repeat the request "
                             "with the same req."));
        json_put(all, "202", waiting);
    }
    if ((route->flags & ROUTE_OWN_BODY) != 0) {
        json_t *other = openapi_content("application/json",
                                        openapi_typed("object"));
        json_put(other, "description",
                 json_string("As the protocol of these programs says."));
        json_put(all, "409", other);
        json_put(all, "423", json_incref(other));
    }
    if ((route->flags & ROUTE_MAY_BE_HELD) != 0 ||
        route->kind == ROUTE_LEASE_TAKE) {
        json_put(all, "423", openapi_reference("responses", "Problem"));
    }
    json_put(all, "default", openapi_reference("responses", "Problem"));
    return all;
}

static json_t *operation_of(const struct route *route)
{
    char id[NAME_SIZE];
    size_t size = 0;
    /* An id is like "post_v1_lock_acquire". */
    snprintf(id, sizeof id, "%s%s", route->method, route->path);
    for (const char *c = id; *c != '\0'; c++) {
        if (isalnum((unsigned char)*c)) {
            id[size++] = (char)tolower((unsigned char)*c);
        } else if (*c != '{' && *c != '}') {
            id[size++] = '_';
        }
    }
    json_t *operation = json_pack("{ss#, ss, so}", "operationId", id, (int)size,
                                  "summary", route->summary, "parameters",
                                  parameters_of(route));
    if ((route->flags & ROUTE_OWN_BODY) != 0) {
        json_put(operation, "requestBody",
                 openapi_content("application/json", openapi_typed("object")));
    } else if (!route_has_query(route)) {
        json_put(operation, "requestBody", body_of(route));
    }
    json_put(operation, "responses", responses_of(route));
    return operation;
}

static json_t *openapi_paths(void)
{
    json_t *all = json_object();
    for (uint32_t i = 0; i < route_count; i++) {
        const struct route *route = &routes[i];
        if (strstr(route->method, "LOCK") != NULL) {
            continue; /* OpenAPI has no such method. */
        }
        json_t *path = json_object_get(all, route->path);
        char method[16] = {0};
        if (path == NULL) {
            path = json_object();
            json_put(all, route->path, path);
        }
        for (size_t c = 0; route->method[c] != '\0'; c++) {
            method[c] = (char)tolower((unsigned char)route->method[c]);
        }
        json_put(path, method, operation_of(route));
    }
    return all;
}

static json_t *openapi_components(void)
{
    json_t *schemas = json_object();
    for (uint32_t i = 0; i < shape_count; i++) {
        json_put(schemas, shapes[i].name, schema_of_shape(&shapes[i]));
    }
    json_t *problem = openapi_content("application/problem+json",
                                      openapi_reference("schemas", "Problem"));
    json_put(problem, "description",
             json_string("Why the request failed (RFC "
                         "9457)."));
    return json_pack("{so, s{so}, s{s{ss, ss}}}", "schemas", schemas,
                     "responses", "Problem", problem, "securitySchemes",
                     "secret", "type", "http", "scheme", "bearer");
}

void openapi_put(struct buffer *out)
{
    /* Without a secret a client has the rights of 'anyone'. */
    json_write(json_pack("{ss, s{ss, ss, ss}, s[{}, {s[]}], so, so}", "openapi",
                         "3.1.1", "info", "title", "hasp", "version",
                         HASP_VERSION, "summary",
                         "A lock service; see docs/http.md.", "security",
                         "secret", "paths", openapi_paths(), "components",
                         openapi_components()),
               out);
}
