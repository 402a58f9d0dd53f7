/* SPDX-License-Identifier: MIT */

/* The members of an asker, whose sessions are attached to its connection. */

#include "client/asker_member.h"

#include <string.h>

#include "base/check.h"
#include "base/number.h"
#include "client/asker.h"
#include "client/reply.h"

/* Sends the ATTACH of a member, behind the heartbeats and before all else. */
static void attach(struct asker_member *member)
{
    struct asker *asker = member->asker;
    if (member->attach.is_asked) {
        list_remove(&member->attach.in_asker);
    } else {
        asking_begin(asker, &member->attach);
    }
    struct list *before = asker->asks.next;
    while (before != &asker->asks &&
           LIST_ENTRY(before, struct asking, in_asker)->is_urgent) {
        before = before->next;
    }
    list_insert_before(before, &member->attach.in_asker);
}

/* Who has something to ask comes before those that are quiet. */
static void hurry(const struct asking *ask)
{
    struct asker_member *member = ask->member;
    if (member != NULL && !ask->is_apart && member->attach.is_asked &&
        !member->attach.is_sent) {
        attach(member);
    }
}

/* Sends a refused ATTACH again, after a pause. */
static void attach_again(struct asker_member *member)
{
    struct asker *asker = member->asker;
    if (member->refusals > 0 && !member->attach.is_asked) {
        attach(member);
        member->attach.not_before_ns += asker_pause_ns(asker, member->refusals);
    }
}

void asker_member_asks(const struct asking *ask)
{
    if (ask->member != NULL) {
        attach_again(ask->member);
        hurry(ask);
    }
}

void asker_members_attach(struct asker *asker)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        if (member->has_session) {
            attach(member);
        }
    }
    LIST_EACH_SAFE (node, &asker->asks) {
        hurry(LIST_ENTRY(node, struct asking, in_asker));
    }
}

bool asker_member_holds_up(const struct asking *ask)
{
    const struct asker_member *member = ask->member;
    return member != NULL && member->has_session && !member->is_attached &&
           !ask->is_apart;
}

/* A refused ATTACH concerns only its member. */
static void attach_answered(struct asking *ask, const struct asking_end *end)
{
    struct asker_member *member = ask->data;
    struct asker *asker = member->asker;
    struct asking_refused refused;
    if (end->error == 0) {
        member->is_attached = true;
        member->refusals = 0;
        return;
    }
    CHECK(end->error == HASP_EREPLY); /* The ATTACH is repeated until then. */
    asker_note(asker, "%s", end->why);
    member->refusals++;
    asking_take_refused(asker, member, &refused);
    if (member->hooks.ended != NULL) {
        member->hooks.ended(member->hooks.data, refused.code, refused.why);
    }
    asking_end_refused(asker, &refused);
}

void asker_join(struct asker *asker, struct asker_member *member)
{
    member->asker = asker;
    member->attach.done = attach_answered;
    member->attach.data = member->attach.member = member;
    member->attach.deadline_ns = UINT64_MAX;
    member->attach.is_read = member->attach.is_apart = true;
    member->attach.blocks = true;
    member->due_ns = UINT64_MAX;
    list_push_back(&asker->members, &member->in_asker);
}

void asker_part(struct asker_member *member)
{
    asking_cancel(member->asker, &member->attach);
    query_done(&member->attach.query);
    list_remove(&member->in_asker);
}

void asker_set_session(struct asker_member *member,
                       const struct credentials *credentials,
                       struct lease_clock now)
{
    struct asker *asker = member->asker;
    asker->now = now;
    asking_cancel(asker, &member->attach);
    member->is_attached = false;
    member->refusals = 0;
    member->has_session = credentials != NULL;
    if (credentials == NULL) {
        return;
    }
    member->credentials = *credentials;
    query_begin(&member->attach.query, "SESSION.ATTACH");
    query_number(&member->attach.query, credentials->session);
    query_text(&member->attach.query, credentials->secret);
    if (asker->state == ASKER_OPEN) {
        attach(member);
    }
}

void asker_adopt_session(struct asker_member *member,
                         const struct credentials *credentials)
{
    CHECK(member->asker->state == ASKER_OPEN);
    asker_set_session(member, credentials, member->asker->now);
    asking_cancel(member->asker, &member->attach);
    member->is_attached = true;
}

void asker_members_forget(struct asker *asker)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        asking_cancel(asker, &member->attach);
        member->is_attached = false;
        member->refusals = 0;
    }
}

void asker_members_notify_lost(struct asker *asker)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        asker_touch(member);
        if (member->hooks.lost != NULL) {
            member->hooks.lost(member->hooks.data);
        }
    }
}

void asker_members_notice(struct asker *asker, const char *text)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        if (member->hooks.noticed != NULL) {
            asker_touch(member);
            member->hooks.noticed(member->hooks.data, text);
        }
    }
}

/* --- Pushes and turns ----------------------------------------------------- */

static struct asker_member *find_member(struct asker *asker, uint64_t session)
{
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        if (member->has_session && member->credentials.session == session) {
            return member;
        }
    }
    return NULL;
}

/* Takes [kind, kind, {session: ...}], which is for that session's member. */
void asker_members_push(struct asker *asker)
{
    const struct resp_reply *reply = &asker->reply;
    struct asker_member *member = NULL;
    if (reply->value[0].count == 3 && reply->count > 3 &&
        reply->value[3].type == RESP_MAP) {
        member = find_member(asker, reply_number(reply, 3, "session"));
    }
    if (member != NULL && member->hooks.push != NULL) {
        asker_touch(member);
        member->hooks.push(member->hooks.data, reply);
    } else if (asker->push != NULL) {
        asker->push(asker->push_data, reply);
    }
}

static uint64_t later_ns(uint64_t now_ns, uint64_t left_ns)
{
    return left_ns < UINT64_MAX - now_ns ? now_ns + left_ns : UINT64_MAX;
}

void asker_members_turn(struct asker *asker, struct lease_clock now)
{
    asker->is_touched = false;
    asker->due_ns = UINT64_MAX;
    LIST_FOR (struct asker_member, member, &asker->members, in_asker) {
        bool is_due = member->is_touched || now.boottime_ns >= member->due_ns;
        member->is_touched = false;
        if (is_due && member->hooks.turn != NULL) {
            uint64_t left_ns = member->hooks.turn(member->hooks.data, now);
            member->due_ns = later_ns(now.boottime_ns, left_ns);
        }
        asker->due_ns = u64_min(asker->due_ns, member->due_ns);
    }
}
