/* SPDX-License-Identifier: MIT */

#include "core/scripts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "lease/rules.h"

static struct loaded_script *scripts_find_loaded(const struct scripts *scripts,
                                                 const char *sha)
{
    struct loaded_script *found;
    HASH_FIND(hh, scripts->by_sha, sha, SHA1_TEXT_SIZE - 1, found);
    return found;
}

bool scripts_find(const struct scripts *scripts, struct bytes sha,
                  struct bytes *ret_text)
{
    char wanted[SHA1_TEXT_SIZE] = "";
    if (sha.size != SHA1_TEXT_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < sha.size; i++) {
        wanted[i] = (char)tolower(sha.data[i]);
    }
    const struct loaded_script *found = scripts_find_loaded(scripts, wanted);
    if (found != NULL) {
        *ret_text = buffer_bytes(&found->text);
    }
    return found != NULL;
}

void scripts_load(struct scripts *scripts, struct bytes text,
                  char ret_sha[SHA1_TEXT_SIZE])
{
    sha1_text(text, ret_sha);
    if (text.size > SCRIPT_SIZE_MAX ||
        scripts_find_loaded(scripts, ret_sha) != NULL) {
        return;
    }
    struct loaded_script
        *slot = &scripts->loaded[scripts->count++ % SCRIPTS_LOADED_MAX];
    if (slot->sha[0] != '\0') {
        HASH_DEL(scripts->by_sha, slot);
    }
    memcpy(slot->sha, ret_sha, SHA1_TEXT_SIZE);
    buffer_clear(&slot->text);
    buffer_put_bytes(&slot->text, text);
    HASH_ADD(hh, scripts->by_sha, sha[0], SHA1_TEXT_SIZE - 1, slot);
    CHECK(HASH_CNT(hh, scripts->by_sha) <= SCRIPTS_LOADED_MAX);
}

bool scripts_note_refused(struct scripts *scripts, const char *sha)
{
    for (size_t i = 0; i < SCRIPTS_REFUSED_MAX; i++) {
        if (strcmp(scripts->refused[i], sha) == 0) {
            return false;
        }
    }
    uint32_t slot = scripts->refused_count++ % SCRIPTS_REFUSED_MAX;
    memcpy(scripts->refused[slot], sha, SHA1_TEXT_SIZE);
    return true;
}

/* The place of the grant in the list; SCRIPTS_REFUSED_MAX if it is not
 * there. */
static size_t find_refused_grant(const struct scripts *scripts, uint64_t token)
{
    size_t i = 0;
    CHECK(token != 0); /* Token 0 marks an unused place. */
    while (i < SCRIPTS_REFUSED_MAX &&
           scripts->refused_grants[i].token != token) {
        i++;
    }
    return i;
}

void scripts_note_refusal(struct scripts *scripts, uint64_t token,
                          const char *why)
{
    size_t i = find_refused_grant(scripts, token);
    if (i == SCRIPTS_REFUSED_MAX) {
        i = scripts->refused_grant_count++ % SCRIPTS_REFUSED_MAX;
    }
    scripts->refused_grants[i].token = token;
    snprintf(scripts->refused_grants[i].why,
             sizeof scripts->refused_grants[i].why, "%s", why);
}

const char *scripts_refusal(const struct scripts *scripts, uint64_t token)
{
    size_t i = find_refused_grant(scripts, token);
    return i < SCRIPTS_REFUSED_MAX ? scripts->refused_grants[i].why : NULL;
}

void scripts_note_time(struct scripts *scripts, uint64_t time_ms, bool is_own,
                       uint64_t now_ns)
{
    struct script_clock *clock = &scripts->clock;
    if (time_ms != clock->seen_ms && !is_own) {
        clock->base_ms = time_ms;
        clock->base_ns = now_ns;
    }
    clock->seen_ms = time_ms;
}

uint64_t scripts_time_ms(struct scripts *scripts, uint64_t wall_ms,
                         uint64_t now_ns)
{
    struct script_clock *clock = &scripts->clock;
    if (clock->base_ms == 0) {
        clock->base_ms = wall_ms;
        clock->base_ns = now_ns;
    }
    /* Otherwise the time would be in the far future. */
    CHECK(now_ns >= clock->base_ns);
    return clock->base_ms + rules_trusted(now_ns - clock->base_ns) / NS_PER_MS;
}

void scripts_clear(struct scripts *scripts)
{
    HASH_CLEAR(hh, scripts->by_sha);
    for (size_t i = 0; i < SCRIPTS_LOADED_MAX; i++) {
        scripts->loaded[i].sha[0] = '\0';
        buffer_done(&scripts->loaded[i].text);
    }
}

void scripts_done(struct scripts *scripts)
{
    scripts_clear(scripts);
    arena_done(&scripts->arena);
}
