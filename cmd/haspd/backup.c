/* SPDX-License-Identifier: MIT */

/* haspd --inspect, --export and --restore: files and directories of nodes
 * that do not run. */

#include "cmd/haspd/backup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include "base/bytes.h"
#include "base/duration.h"

const struct backup_request backup_request_default = {
    .quarantine_ms = HASP_NODE_QUARANTINE_FULL};

int backup_quarantine(struct backup_request *request, const char *text)
{
    uint64_t quarantine_ms;
    if (duration_parse(text, &quarantine_ms) && quarantine_ms <= UINT32_MAX) {
        request->quarantine_ms = quarantine_ms;
        return 0;
    }
    fprintf(stderr,
            "haspd: --quarantine '%s': invalid duration; write 90s or 1h\n",
            text);
    return EX_USAGE;
}

int backup_users(struct backup_request *request, const char *text)
{
    if (strcmp(text, "keep") != 0 && strcmp(text, "suspend") != 0) {
        fprintf(stderr, "haspd: --users '%s': expected keep or suspend\n",
                text);
        return EX_USAGE;
    }
    request->users = text[0] == 'k' ? BACKUP_USERS_KEEP : BACKUP_USERS_SUSPEND;
    return 0;
}

static int backup_explain(int status, const char *why)
{
    fprintf(stderr, "haspd: %s\n", why);
    return status;
}

static void print_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
            printf("\\u%04x", c);
        } else {
            putchar(c);
        }
    }
    putchar('"');
}

static void print_json(const struct hasp_node_snapshot *snapshot)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"index", snapshot->log_index},
        {"term", snapshot->term},
        {"token_base", snapshot->token_base},
        {"newest_token", snapshot->newest_token},
        {"size", snapshot->size},
        {"sessions", snapshot->sessions},
        {"locks", snapshot->locks},
        {"holds", snapshot->holds},
        {"waits", snapshot->waits},
        {"durable_sessions", snapshot->durable_sessions},
        {"durable_holds", snapshot->durable_holds},
        {"fences", snapshot->fences},
        {"blacklist", snapshot->blacklist},
        {"longest_ttl_ms", snapshot->longest_ttl_ms},
        {"longest_delay_ms", snapshot->longest_delay_ms},
        {"quarantine_ms", snapshot->quarantine_ms},
        {"users", snapshot->users},
        {"secrets", snapshot->secrets},
    };
    char cluster[2 * sizeof snapshot->cluster_id + 1];
    char checksum[2 * sizeof snapshot->checksum + 1];
    hex_put(cluster,
            bytes_of(snapshot->cluster_id, sizeof snapshot->cluster_id));
    hex_put(checksum, bytes_of(snapshot->checksum, sizeof snapshot->checksum));
    printf("{\"cluster\": \"%s\", \"checksum\": \"%s\", \"kept_digest\": "
           "\"%016" PRIx64 "\"",
           cluster, checksum, snapshot->kept_digest);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        printf(", \"%s\": %" PRIu64, numbers[i].key, numbers[i].value);
    }
    fputs(", \"members\": [", stdout);
    for (uint32_t i = 0; i < snapshot->member_count; i++) {
        const struct hasp_node_snapshot_member *member = &snapshot->member[i];
        printf("%s{\"id\": %" PRIu64 ", \"role\": \"%s\", \"address\": ",
               i > 0 ? ", " : "", member->id,
               member->is_voter ? "voter" : "standby");
        print_string(member->addresses);
        fputs("}", stdout);
    }
    fputs("]}\n", stdout);
}

int backup_inspect(const struct backup_request *request)
{
    struct hasp_node_snapshot snapshot;
    char why[HASP_NODE_WHY_SIZE];
    int status = hasp_node_inspect(request->file, &snapshot, why);
    if (status != 0) {
        return backup_explain(status, why);
    }
    print_json(&snapshot);
    return 0;
}

static void say_contents(const struct hasp_node_snapshot *snapshot)
{
    fprintf(stderr,
            "haspd: state at index %" PRIu64 " (term %" PRIu64 "): %" PRIu64
            " sessions, %" PRIu64 " holds, %" PRIu64 " waits, %" PRIu64
            " fences, %" PRIu64 " blacklist entries\n",
            snapshot->log_index, snapshot->term, snapshot->sessions,
            snapshot->holds, snapshot->waits, snapshot->fences,
            snapshot->blacklist);
}

int backup_export(const struct backup_request *request,
                  const struct hasp_node_options *options)
{
    struct hasp_node_snapshot snapshot;
    char why[HASP_NODE_WHY_SIZE];
    if (options->directory == NULL || options->directory[0] == '\0') {
        return backup_explain(EX_USAGE,
                              "no data directory: use --dir or --config");
    }
    int status = hasp_node_export(options->directory, request->file,
                                  request->may_replace, &snapshot, why);
    if (status != 0) {
        return backup_explain(status, why);
    }
    fprintf(stderr,
            "haspd: saved '%s' as '%s', %" PRIu64 " bytes, checksum ok\n",
            options->directory, request->file, snapshot.size);
    say_contents(&snapshot);
    return 0;
}

static void say_next(const struct hasp_node_options *options,
                     const struct hasp_node_snapshot *before,
                     const struct hasp_node_snapshot *now,
                     const char *config_path)
{
    char time[DURATION_TEXT_SIZE];
    duration_format(now->quarantine_ms, time);
    fprintf(stderr,
            "\nkept: %" PRIu64 " fences, %" PRIu64
            " blacklist entries. Dropped: all sessions, holds and "
            "waits;\nclients open new sessions. New tokens are larger than all "
            "earlier ones.\n\nnext:\n"
            "  1. make sure that no node of the old cluster runs or will be "
            "started again\n"
            "  2. start this node, as the owner of '%s':\n"
            "       haspd %s%s\n",
            now->fences, now->blacklist, options->directory,
            config_path != NULL ? "--config " : "--id ... --dir ...",
            config_path != NULL ? config_path : "");
    if (now->quarantine_ms > 0) {
        fprintf(stderr,
                "     it grants nothing for %s, because clients of the old\n"
                "     cluster might still trust their locks\n",
                time);
    } else {
        fputs("     it grants locks at once, as --quarantine 0 says that no "
              "client\n     of the old cluster trusts a lock\n",
              stderr);
    }
    fputs("  3. start the other nodes, if any, with empty data directories "
          "and with\n     this node in their [cluster] members, and "
          "add each:\n",
          stderr);
    for (uint32_t i = 0; i < before->member_count; i++) {
        if (before->member[i].id != options->id) {
            fprintf(stderr, "       hasp member add %" PRIu64 " %s\n",
                    before->member[i].id, before->member[i].addresses);
        }
    }
    if (before->member_count <= 1) {
        fputs("       hasp member add ID PEER,CLIENT\n", stderr);
    }
}

/* True if restored users must be kept or suspended. With open access and no
 * users there is nothing to decide. */
static bool has_users(const struct hasp_node_snapshot *snapshot)
{
    return snapshot->users > 0 || snapshot->secrets > 0 ||
           snapshot->is_access_required;
}

static void say_users(const struct hasp_node_snapshot *snapshot)
{
    char date[64] = "at an unknown time";
    time_t seconds = (time_t)(snapshot->users_changed_ms / 1000);
    struct tm utc;
    if (seconds != 0 && gmtime_r(&seconds, &utc) != NULL) {
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    }
    fprintf(stderr,
            "haspd: the backup has %" PRIu64 " users besides admin and %" PRIu64
            " secrets; ",
            snapshot->users, snapshot->secrets);
    if (snapshot->users_change[0] == '\0') {
        fputs("their last change is unknown\n", stderr);
    } else {
        fprintf(stderr, "their last change: %s, %s\n", date,
                snapshot->users_change);
    }
}

static int refuse_users(const struct hasp_node_snapshot *snapshot)
{
    say_users(snapshot);
    return backup_explain(
        EX_USAGE, "a restore brings back users, secrets and rights that were "
                  "withdrawn since: use --users suspend to disable all users "
                  "until you enable them ('hasp user enable'), or --users "
                  "keep");
}

static void say_suspended(const struct hasp_node_options *options)
{
    fprintf(
        stderr,
        "\nAll users are suspended, admin too. Once the node runs, check and "
        "enable them:\n"
        "       hasp --socket %s user list\n"
        "       hasp --socket %s user enable admin\n",
        options->directory, options->directory);
}

int backup_restore(const struct backup_request *request,
                   const struct hasp_node_options *options,
                   const char *config_path)
{
    struct hasp_node_snapshot before, now;
    char why[HASP_NODE_WHY_SIZE];
    bool suspends = request->users == BACKUP_USERS_SUSPEND;
    int status = hasp_node_inspect(request->file, &before, why);
    if (status == 0 && has_users(&before) &&
        request->users == BACKUP_USERS_NOT_SAID) {
        return refuse_users(&before);
    }
    if (status == 0) {
        status = hasp_node_restore(options, request->file,
                                   request->quarantine_ms, suspends, &now, why);
    }
    if (status != 0) {
        return backup_explain(status, why);
    }
    fprintf(stderr, "haspd: '%s' has a new epoch of the cluster:\n",
            options->directory);
    say_contents(&before);
    if (has_users(&before)) {
        say_users(&before);
    }
    say_next(options, &before, &now, config_path);
    if (suspends) {
        say_suspended(options);
    }
    return 0;
}
