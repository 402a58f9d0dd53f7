/* SPDX-License-Identifier: MIT */

/* hasp help --man: the manual page, made from the table of subcommands. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cmd/hasp/tool.h"

/* Of a subcommand, or of a group of them. Each line is a paragraph. */
static const struct {
    const char *name;
    const char *text;
} notes[] = {
    {"acquire",
     "It waits until the lock is free; with -n it only tries. The token, the "
     "session and its secret are printed. From then on nothing keeps the "
     "session: the lock is free again after the TTL, unless hasp session keep "
     "prolongs it; hasp release gives it back. To run a command under a lock, "
     "take hasp run, which stops the command in time. Several locks are "
     "acquired at once, all or none of them.\n"
     "Who has the secret may act for the session. With --session-file it "
     "stands in that file alone: a command line can be read by every user of "
     "the machine. eval \"$(hasp acquire NAME --export)\" sets HASP_LOCK, "
     "HASP_TOKEN, HASP_SESSION and HASP_CREDENTIALS in a shell; hasp release, "
     "note, convert, session keep and session close take the session from "
     "there. hasp acquire does not: two commands of one session do not exclude "
     "each other."},
    {"bench",
     "Each client waits for its answer before it asks again; a cycle is one "
     "acquire and one release, each of them on the disks of a majority. With "
     "--rate or --open-loop cycles begin by a schedule instead, and the times "
     "count from when each was due, so that a pause of the cluster is seen by "
     "all that it kept waiting. Each client has a connection of its own, as "
     "programs have; with --shared they share one, as sessions of one program "
     "do. What has not begun when as long again has "
     "passed is MISSED."},
    {"blacklist", "Nothing prolongs the leases of whom it names, so their "
                  "locks pass on when these are over: this is how a lock is "
                  "taken from a holder that is stuck. hasp show NAME tells the "
                  "session. Remove the entry when the client is cured."},
    {"cert",
     "ca, node and user, and a cluster has mutual TLS: each makes a folder, or "
     "files, below certs. ca.key makes certificates, so it stays off the "
     "nodes. Who one is stands in a certificate's URI, hasp://CLUSTER/node/ID "
     "or hasp://CLUSTER/user/NAME; hosts and addresses are for clients of "
     "other makes, which compare them. renew exchanges the files one by one; "
     "haspd takes them within a minute, or at SIGHUP, and keeps its "
     "connections. check says in a sentence what is wrong, and exits with "
     "65."},
    {"check", "Prints current or stale. For the side of the resource: it "
              "refuses a write whose token is not current."},
    {"cluster", "When all nodes run a new version that they could still leave "
                "again, finalize raises the cluster to its feature level (hasp "
                "status shows it): from then on what is new may be used, and "
                "nodes of the old version are refused. There is no way back. "
                "All members must be up."},
    {"fence", "For a resource that cannot remember the highest token itself. "
              "remove is for one that is gone, or whose mark was set by "
              "mistake: any token of this cluster is admitted again then, "
              "stale ones too."},
    {"health", "The leader answers only after a majority has confirmed it, so "
               "0 means that both are there."},
    {"limits",
     "Of the cluster, the same on every node. Where it is counted for "
     "each session or lock, USED is of the one that has most. The "
     "configuration's values count only where a cluster is "
     "founded."},
    {"limits set", "VALUE is a number; K, M or G may follow. What there is "
                   "stays, also beyond a smaller limit; then nothing new is "
                   "let in. It counts at once, on all nodes."},
    {"member", "The first address of a new member is for the other nodes, the "
               "second for clients. Start it first, with an empty directory: "
               "add answers when it has caught up and votes (with --standby, "
               "when it is a member). Until then hasp member list shows it "
               "as a standby, and hasp member remove takes it back. The "
               "leader dials both addresses first, for up to 3 s, and asks "
               "who is there: nothing is done where nobody or another node "
               "answers.\n"
               "Who leads has to hand over (hasp member transfer) before it is "
               "demoted or removed. A node that has lost its disk is removed, "
               "and then added again with an empty directory. A node that is "
               "only down is not removed: start it.\n"
               "The list is the leader's; its last column says for how long it "
               "has not heard a member. Without a leader it is that of the "
               "node whose log is committed furthest, which says so.\n"
               "A vote is not taken away while those that are left and heard "
               "would be no majority: remove the silent ones first. With "
               "--force it is, and until enough of them come back the cluster "
               "serves nobody."},
    {"note",
     "The text, of at most 4096 bytes, outlives the hold and the session, "
     "until "
     "a holder leaves another or removes it with an empty one: where the next "
     "holder goes on, or how a leader is reached. Without TEXT it is printed; "
     "whoever asks may read it."},
    {"run", "The command runs in a process group of its own, without a shell. "
            "It gets the terminal, stdin, stdout and stderr as they are, the "
            "signals TERM, INT, HUP, QUIT, USR1, USR2, TSTP and CONT that hasp "
            "gets, and HASP_LOCK, HASP_TOKEN, HASP_SESSION, HASP_ENDPOINTS and "
            "HASP_RUNS in its environment. Its exit status is passed on (128 + "
            "N for signal N); 126 and 127 mean that it could not be started.\n"
            "It is stopped before the lock can be granted to anybody else, "
            "together with all that it started: by hasp run, or by its "
            "guardian, a small process that watches the deadline and hasp run "
            "itself, if that was killed or stands still (SIGSTOP), or by the "
            "guardian's deputy, if both were. Then hasp run exits with 79. If "
            "a guardian is killed, the command is stopped as well.\n"
            "If hasp run and both guardians are killed at once (SIGKILL), the "
            "kernel kills the command, but not what it started; if all three "
            "are stopped at once, nobody is left to hold the deadline.\n"
            "Not stopped are: what others start on the command's behalf (a "
            "service manager, cron, a container engine); programs that hasp "
            "run may not signal (set-user-id ones of another user); and, if "
            "hasp run was killed, what in the last half second has left the "
            "process group, emptied its environment and lost its parent. All "
            "processes of a cgroup or a virtual machine that was frozen as a "
            "whole go on for a moment when it is thawed, and a write that the "
            "kernel has taken is not taken back. Against these only the token "
            "helps: let the resource check it (hasp check, hasp fence).\n"
            "While it waits, an outage of the cluster does not end it: it "
            "queues anew.\n"
            "While hasp run is stopped (Ctrl-Z) nothing keeps the lock: after "
            "the TTL it is lost. What the command leaves running in the "
            "background when it ends lives on without the lock.\n"
            "Inside of another hasp run that holds the same lock it exits with "
            "64, if it would wait for ever; with -n or -w it exits with 75."},
    {"snapshot restore",
     "Nothing goes back in time: sessions, holds and queues are dropped; the "
     "highest token that each resource has admitted (FENCE.ADMIT) and the "
     "blacklist of client names are kept; new tokens are larger than all of "
     "before. The directory is that of a cluster of one, with a new id, which "
     "no node of the old cluster talks to. Restore ONE directory; the other "
     "nodes begin empty and are added.\n"
     "Clients of the old cluster may still believe in their locks, also in "
     "those that the backup does not know. So nothing is granted for as long "
     "as the longest lease there can be. With --quarantine you vouch for it "
     "that by the end of that time no client of the old cluster believes in a "
     "lock: because all of them have ended, or because every TTL was shorter, "
     "or because the old cluster has been down for that long."},
    {"snapshot save",
     "Of several endpoints the leader is asked, or, if none leads, the node "
     "that has applied most; of one, that one. It needs the right 'backup', "
     "or --socket, the data directory of a node on this machine, by which no "
     "leader need be there. FILE is there when its checksum "
     "was checked and it is on the disk. With --data the node must not run; "
     "what its log has at the end is saved as well, committed or not."},
    {"status", "One address is enough: all members that the answers name are "
               "asked, too. Each that answers tells of itself: who leads as it "
               "believes, how far the log is committed, how far it has applied "
               "it. Of those that do not answer the reason goes to stderr, and "
               "last of all how many are up (they answer, and the leader hears "
               "them) and how many of those that vote may be lost. A node that "
               "is no member any more is shown as removed, one of another "
               "cluster as such. The leader's opinion of the members is hasp "
               "member list."},
    {"top", "Grants per second are counted from the events that the node "
            "tells; what happens between two looks counts, too. When stdout is "
            "no terminal, each look is printed below the one before."},
    {"why", "Who holds it and until when, who waits before whom, and what the "
            "holder waits for itself. Next: hasp please NAME asks the holder, "
            "hasp help blacklist takes it away."},
};

struct term {
    const char *name;
    const char *meaning;
};

static const struct term exit_codes[] = {
    {"0", "Done, or yes."},
    {"1", "No (hasp check)."},
    {"64", "Wrong usage."},
    {"65", "What was named does not exist or does not fit."},
    {"69", "No leader, no node, no answer."},
    {"70", "The disk failed, or what is on it is bad (hasp snapshot)."},
    {"73", "What would be made is there already (hasp snapshot)."},
    {"75", "Not acquired in time; -E changes it. Of member add: not finished."},
    {"76", "What answers is no node of hasp."},
    {"77", "Denied."},
    {"78", "Wrong configuration."},
    {"79",
     "The lock was lost; the command was stopped before it could pass on."},
    {"other", "The status of the command of hasp run."},
};

static const struct term variables[] = {
    {"HASP_ENDPOINTS", "The nodes, as for -e."},
    {"HASP_LOCK, HASP_TOKEN, HASP_SESSION",
     "Set for the command of hasp run: the name of the lock, the token of the "
     "hold, the number of the session. Of several locks each has a line."},
    {"HASP_CREDENTIALS", "ID:SECRET of a session; see hasp acquire."},
    {"HASP_RUNS",
     "Set for the command of hasp run: one entry for it and for each hasp run "
     "around it."},
    {"NO_COLOR", "No colours, if it is set and not empty."},
};

const char *manual_notes(const char *name)
{
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        if (strcmp(notes[i].name, name) == 0) {
            return notes[i].text;
        }
    }
    return NULL;
}

static size_t first_word(const struct subcommand *s)
{
    return strcspn(s->name, " ");
}

static bool is_same_group(const struct subcommand *a,
                          const struct subcommand *b)
{
    return first_word(a) == first_word(b) &&
           strncmp(a->name, b->name, first_word(a)) == 0;
}

/* --- The manual page ------------------------------------------------------ */

/* Text for roff: a backslash, a hyphen and a dot at the begin of a line mean
 * something there. */
static void put_roff(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\\') {
            fputs("\\e", stdout);
        } else if (text[i] == '-') {
            fputs("\\-", stdout);
        } else if ((text[i] == '.' || text[i] == '\'') &&
                   (i == 0 || text[i - 1] == '\n')) {
            printf("\\&%c", text[i]);
        } else {
            putchar(text[i]);
        }
    }
}

static void put_text(const char *text)
{
    put_roff(text, strlen(text));
}

/* An option and its meaning are two blanks apart, or the meaning goes on from
 * the line before. */
static void put_option(const char *line, size_t size)
{
    size_t from = 0, end;
    while (from < size && line[from] == ' ') {
        from++;
    }
    if (line[from] != '-') {
        put_roff(line + from, size - from);
        putchar('\n');
        return;
    }
    for (end = from; end + 1 < size; end++) {
        if (line[end] == ' ' && line[end + 1] == ' ') {
            break;
        }
    }
    end = end + 1 < size ? end : size;
    fputs(".TP\n.B ", stdout);
    put_roff(line + from, end - from);
    putchar('\n');
    while (end < size && line[end] == ' ') {
        end++;
    }
    put_roff(line + end, size - end);
    putchar('\n');
}

static void put_options(const char *text)
{
    while (text != NULL && *text != '\0') {
        size_t size = strcspn(text, "\n");
        bool is_prose = isupper((unsigned char)text[0]);
        if (is_prose) {
            puts(".PP");
        }
        put_option(text, size);
        text += size + (text[size] == '\n');
    }
}

static void put_notes(const char *name)
{
    const char *text = manual_notes(name);
    while (text != NULL && *text != '\0') {
        size_t size = strcspn(text, "\n");
        puts(".PP");
        put_roff(text, size);
        putchar('\n');
        text += size + (text[size] == '\n');
    }
}

static void put_subcommand(const struct subcommand *s)
{
    fputs(".SS \"hasp ", stdout);
    put_text(s->name);
    if (s->arguments[0] != '\0') {
        putchar(' ');
        put_text(s->arguments);
    }
    puts("\"");
    putchar(toupper((unsigned char)s->summary[0]));
    put_text(s->summary + 1);
    puts(".");
    put_options(s->details);
    put_notes(s->name);
}

static void put_terms(const struct term *terms, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n.B %s\n", terms[i].name);
        put_text(terms[i].meaning);
        putchar('\n');
    }
}

void manual_print(void)
{
    printf(".TH HASP 1 \"\" \"hasp %s\" \"User Commands\"\n", HASP_VERSION);
    puts(".SH NAME\nhasp \\- locks of a hasp cluster, for people and scripts\n"
         ".SH SYNOPSIS\n.B hasp\n[\\fIoptions\\fR] \\fIsubcommand\\fR "
         "[\\fIarguments\\fR]\n.SH DESCRIPTION\n"
         "hasp talks to the nodes of a cluster (haspd). Results go to stdout, "
         "talk goes to\nstderr. Times are written 500ms, 10s, 2m or 1h; a bare "
         "number is seconds. Options may\nstand anywhere, those for\n.B hasp "
         "run\nbefore the command; -- ends them.\n"
         ".SH OPTIONS");
    put_options(tool_options_text);
    puts(".SH SUBCOMMANDS");
    for (const struct subcommand *s = subcommands; s->name != NULL; s++) {
        put_subcommand(s);
        if (s->name[first_word(s)] == ' ' &&
            ((s + 1)->name == NULL || !is_same_group(s, s + 1))) {
            char group[32];
            snprintf(group, sizeof group, "%.*s", (int)first_word(s), s->name);
            put_notes(group);
        }
    }
    puts(".SH EXIT STATUS");
    put_terms(exit_codes, sizeof exit_codes / sizeof exit_codes[0]);
    puts(".SH ENVIRONMENT");
    put_terms(variables, sizeof variables / sizeof variables[0]);
    puts(".SH EXAMPLES\nA cluster to try things with, and a job that never "
         "runs twice at a time:\n.PP\n.nf\n.RS\nhasp dev &\n"
         "hasp run nightly\\-backup \\-\\- /usr/local/bin/backup\n"
         "hasp why nightly\\-backup\n.RE\n.fi\n"
         ".PP\nIn cron: do not wait, and be quiet if another machine is at "
         "it:\n.PP\n.nf\n.RS\nhasp \\-q run \\-n \\-E 0 nightly\\-backup "
         "/usr/local/bin/backup\n.RE\n.fi\n"
         ".SH SEE ALSO\n.BR flock (1),\n.BR hasp (3)");
}
