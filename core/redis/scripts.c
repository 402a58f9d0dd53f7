/* SPDX-License-Identifier: MIT */

/* The table of known scripts: by SHA-1, or by their normalised text. */

#include "core/redis/scripts.h"
#include "base/check.h"

#include <ctype.h>
#include <stdio.h>

#define TEXT_SIZE_MAX 1024

#define GET "redis.call('get',KEYS[1])"
#define DEL "redis.call('del',KEYS[1])"
#define PEXPIRE "redis.call('pexpire',KEYS[1],ARGV[2])"
#define SET "redis.call('set',KEYS[1],ARGV[1],'PX',ARGV[2]"
#define EACH "fori,keyinipairs(KEYS)do"
#define EACH_SET EACH "redis.call('set',key,ARGV[1],'PX',ARGV[2])endreturn#KEYS"
#define TOKEN "localtoken=" GET "ifnottokenortoken~=ARGV[1]thenreturn0end"

/* The first SHA-1 of each operation is its name between nodes. */
static const struct {
    const char *sha;
    enum script_op op;
} known[] = {
    {"c3f8721cbb97f72bc19e972846bd7aaf91901658", SCRIPT_DELETE},
    {"8e4905cee18e7c3188d10f2b8b170e403baed34f", SCRIPT_DELETE},
    {"647c65a442733a1aa440f99908d249d13b4d6c4a", SCRIPT_DELETE},
    {"e950836ed1e694540c503ef9972b8de518044d3b", SCRIPT_DELETE_ABSENT},
    {"1cac51482acf5858da00f6d685d68f886cd6b6b2", SCRIPT_EXPIRE},
    {"d75bb8b5bd13532ddedd17762e772346e39b321e", SCRIPT_EXPIRE},
    {"a4e8783852e6b949f9ef3a97212805108459a890", SCRIPT_EXTEND},
    {"b6b55c439e02c6f52ffb8be7ec8c0d0ac816ea79", SCRIPT_SET_OR_EXPIRE},
    {"ceb2b2062e40c51a2b3963fd078bc71f11bdc65c", SCRIPT_SET_OK},
    {"96da70f7716f27d278a5218544df37fd8b0a5e4c", SCRIPT_MULTI_SET},
    {"e5a322e2634ef59a516e8ea150cb085afafee684", SCRIPT_MULTI_SET},
    {"aed6f382e410db8ba7926d4e5e9aab410bf2a78a", SCRIPT_MULTI_EXPIRE},
    {"ce46f80993d5dac20dd066eb301a4e37994bdbed", SCRIPT_MULTI_EXPIRE},
    {"e4612211c9f8f51c257e26e056b0a654b3187242", SCRIPT_MULTI_DELETE},
    {"0f0f23b9048b36752b5be114f357ba083449f908", SCRIPT_MULTI_DELETE},
    {"78d2ca48a6dc9ef6892059792a3a0c5237733d64", SCRIPT_GET_PTTL},
    {"6484da7d58920897fdc22b7f9afd1a3d47524ea8", SCRIPT_PTTL_IF},
    /* These have no well-known SHA-1: that of our text. */
    {"0000000000000000000000000000000000000001", SCRIPT_EXPIRE_S},
    {"0000000000000000000000000000000000000002", SCRIPT_SET_TRUE},
};

static const struct {
    const char *text;
    enum script_op op;
} texts[] = {
    {TOKEN DEL "return1", SCRIPT_DELETE},
    {"if" GET "==ARGV[1]thenreturn" DEL "elsereturn0end", SCRIPT_DELETE},
    {"localval=" GET "ifval==ARGV[1]thenreturn" DEL
     "elseifval==falsethenreturn-1elsereturn0end",
     SCRIPT_DELETE_ABSENT},
    {TOKEN PEXPIRE "return1", SCRIPT_EXPIRE},
    {"if" GET "==ARGV[1]thenreturn" PEXPIRE "elsereturn0end", SCRIPT_EXPIRE},
    {"if" GET "==ARGV[1]thenreturnredis.call('expire',KEYS[1],ARGV[2])"
     "elsereturn0end",
     SCRIPT_EXPIRE_S},
    {TOKEN "localexpiration=redis.call('pttl',KEYS[1])"
           "ifnotexpirationthenexpiration=0endifexpiration<0thenreturn0end"
           "localnewttl=ARGV[2]ifARGV[3]=='0'thennewttl=ARGV[2]+expirationend"
           "redis.call('pexpire',KEYS[1],newttl)return1",
     SCRIPT_EXTEND},
    {"if" GET "==ARGV[1]thenreturn" PEXPIRE "elseif" SET
     ",'NX')thenreturn1elsereturn0end",
     SCRIPT_SET_OR_EXPIRE},
    {"locallockClientId=" GET "iflockClientId==ARGV[1]then" PEXPIRE
     "returntrueelseifnotlockClientIdthen" SET ")returntrueendreturnfalse",
     SCRIPT_SET_TRUE},
    {"if(redis.call('exists',KEYS[1])==0andARGV[3]=='yes')or" GET
     "==ARGV[1]thenreturn" SET ")end",
     SCRIPT_SET_OK},
    {EACH "ifredis.call('exists',key)==1thenreturn0endend" EACH_SET,
     SCRIPT_MULTI_SET},
    {EACH "ifredis.call('get',key)~=ARGV[1]thenreturn0endend" EACH_SET,
     SCRIPT_MULTI_EXPIRE},
    {"localcount=0" EACH "ifredis.call('get',key)==ARGV[1]then"
     "redis.call('del',key)count=count+1endendreturncount",
     SCRIPT_MULTI_DELETE},
    {"return{" GET ",redis.call('pttl',KEYS[1])}", SCRIPT_GET_PTTL},
    {"if" GET "==ARGV[1]thenreturnredis.call('pttl',KEYS[1])elsereturn-3end",
     SCRIPT_PTTL_IF},
};

enum script_op scripts_find(const struct scripts *scripts, struct bytes sha)
{
    char wanted[SHA1_TEXT_SIZE];
    if (sha.size != SHA1_TEXT_SIZE - 1) {
        return SCRIPT_NONE;
    }
    for (size_t i = 0; i < sha.size; i++) {
        wanted[i] = (char)tolower(sha.data[i]);
    }
    wanted[sha.size] = '\0';
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].sha, wanted) == 0) {
            return known[i].op;
        }
    }
    for (uint32_t i = 0; i < scripts->count && i < SCRIPTS_LOADED_MAX; i++) {
        if (strcmp(scripts->loaded[i].sha, wanted) == 0) {
            return scripts->loaded[i].op;
        }
    }
    return SCRIPT_NONE;
}

/* Leaves out comments and white space, folds the quotes, pcall and the case of
 * Redis' commands. Names and other text keep their case. A text that is too
 * long gives an empty one. */
static size_t normalise(struct bytes body, char out[TEXT_SIZE_MAX])
{
    static const char call[] = "redis.call('";
    static const char pcall[] = "redis.pcall('";
    size_t size = 0;
    bool in_command = false;
    for (size_t i = 0; i < body.size; i++) {
        char c = (char)body.data[i];
        if (c == '-' && i + 1 < body.size && body.data[i + 1] == '-') {
            while (i < body.size && body.data[i] != '\n') {
                i++;
            }
            continue;
        }
        if (isspace((unsigned char)c)) {
            continue;
        }
        if (size + 1 >= TEXT_SIZE_MAX) {
            return 0;
        }
        c = c == '"' ? '\'' : c;
        if (in_command) {
            in_command = c != '\'';
            c = (char)tolower((unsigned char)c);
        }
        out[size++] = c;
        if (!in_command && c == '\'') {
            size_t pcall_size = sizeof pcall - 1, call_size = sizeof call - 1;
            if (size >= pcall_size &&
                memcmp(out + size - pcall_size, pcall, pcall_size) == 0) {
                size = size - pcall_size + call_size;
                memcpy(out + size - call_size, call, call_size);
            }
            in_command = size >= call_size &&
                         memcmp(out + size - call_size, call, call_size) == 0;
        }
    }
    return size;
}

enum script_op scripts_recognise(struct bytes body)
{
    char text[TEXT_SIZE_MAX];
    size_t size = normalise(body, text);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strlen(texts[i].text) == size &&
            memcmp(texts[i].text, text, size) == 0) {
            return texts[i].op;
        }
    }
    return SCRIPT_NONE;
}

void scripts_load(struct scripts *scripts, const char *sha, enum script_op op)
{
    if (scripts_find(scripts, bytes_of_text(sha)) != SCRIPT_NONE) {
        return;
    }
    CHECK(op != SCRIPT_NONE);
    /* The oldest makes room; its client loads it again when told NOSCRIPT. */
    struct loaded_script
        *slot = &scripts->loaded[scripts->count++ % SCRIPTS_LOADED_MAX];
    slot->op = op;
    snprintf(slot->sha, sizeof slot->sha, "%s", sha);
}

void scripts_clear(struct scripts *scripts)
{
    scripts->count = 0;
}

const char *scripts_name(enum script_op op)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i].op == op) {
            return known[i].sha;
        }
    }
    return NULL;
}
