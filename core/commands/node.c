/* SPDX-License-Identifier: MIT */

/* NODE.SETTINGS, NODE.SET, NODE.DRAIN, NODE.SLOW: commands about the asked node
 * alone. */

#include "core/audit_log.h"
#include "core/commands/commands.h"
#include "core/state.h"

void node_settings_run(struct core *core, struct request *request)
{
    const struct core_port *port = &core->port;
    struct core_setting setting;
    struct resp_writer *writer = request_reply(core, request);
    uint32_t count = 0;
    while (port->setting != NULL &&
           port->setting(port->data, count, &setting)) {
        count++;
    }
    resp_array(writer, count);
    for (uint32_t i = 0; i < count && port->setting(port->data, i, &setting);
         i++) {
        resp_map(writer, 4);
        resp_key_text(writer, "name", setting.name);
        resp_key_bulk(writer, "value", bytes_of_text(setting.value));
        resp_key_text(writer, "source", setting.source);
        resp_key_text(writer, "changes", setting.changes);
    }
    request_done(core, request);
}

void node_set_run(struct core *core, struct request *request)
{
    const struct core_port *port = &core->port;
    const struct call *call = request->call;
    char why[HASP_WHY_SIZE] = "";
    if (port->set_setting == NULL) {
        request_refuse(core, request, WORD_BADARG,
                       "the settings of this node have no names");
        return;
    }
    if (port->set_setting(port->data, call->name, call_text(call, OPTION_VALUE),
                          call_number(call, OPTION_FOR, 0), why) != 0) {
        request_refuse(core, request, WORD_BADARG, why);
        return;
    }
    audit_log_log(request);
    request_answer_ok(core, request);
}

void node_slow_run(struct core *core, struct request *request)
{
    const struct slow_request *slow;
    uint32_t count = 0, max = call_page(request->call);
    while (count < max && slow_log_at(core, count) != NULL) {
        count++;
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        slow = slow_log_at(core, i);
        slow_log_put(slow, writer);
    }
    request_done(core, request);
}

void node_drain_run(struct core *core, struct request *request)
{
    bool is_cancel = call_has(request->call, OPTION_CANCEL);
    char why[HASP_WHY_SIZE];
    if (!is_cancel && !core_is_draining(core) &&
        !call_has(request->call, OPTION_FORCE) && drain_is_refused(core, why)) {
        request_refuse(core, request, WORD_BADARG, why);
        return;
    }
    if (core_is_draining(core) == is_cancel) {
        audit_log_log(request);
    }
    if (is_cancel) {
        drain_cancel(core);
    } else {
        drain_begin(core);
    }
    struct resp_writer *writer = request_reply(core, request);
    resp_map(writer, 4);
    resp_key_number(writer, "drained", core_is_draining(core));
    resp_key_number(writer, "safe", drain_is_over(core));
    resp_key_number(writer, "leads", is_leader(core));
    resp_key_number(writer, "clients", drain_client_count(core));
    request_done(core, request);
}
