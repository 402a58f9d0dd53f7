/* SPDX-License-Identifier: MIT */

#include "lockfsm/feature.h"

#include "lockfsm/state.h"

/* What came after the first level: a field of a message, and the words in which
 * it is refused. An entry is a field of Command. */
static const struct feature {
    const ProtobufCMessageDescriptor *message;
    uint32_t field;
    uint32_t level;
    const char *what;
} features[] = {
#ifdef HASP_FEATURE_LEVEL_EXTRA
    {&hasp__command__descriptor, HASP__COMMAND__OP_TRIAL, 2, "RAFT.TRIAL"},
    {&hasp__please__descriptor, 90, 2, "RAFT.TRIAL with a name"},
#endif
    {NULL, 0, 0, NULL}};

static uint32_t level_of(const ProtobufCMessage *message,
                         const char **ret_what);

static const void *member_of(const ProtobufCMessage *message, unsigned offset)
{
    return (const char *)message + offset;
}

/* True if the field would be written: proto3 leaves out zeros. */
static bool is_set(const ProtobufCMessage *message,
                   const ProtobufCFieldDescriptor *field)
{
    const void *value = member_of(message, field->offset);
    const void *quantifier = member_of(message, field->quantifier_offset);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        return *(const uint32_t *)quantifier == field->id;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        return *(const size_t *)quantifier > 0;
    }
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
    case PROTOBUF_C_TYPE_STRING:
        return *(const void *const *)value != NULL;
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len > 0;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return *(const uint64_t *)value != 0;
    default:
        return *(const uint32_t *)value != 0; /* Of 32 bits, enum or bool. */
    }
}

static void note(uint32_t *level, const char **ret_what, uint32_t other,
                 const char *what)
{
    if (other > *level) {
        *level = other;
        *ret_what = what;
    }
}

/* Of the messages in a field, which is set. */
static uint32_t level_of_parts(const ProtobufCMessage *message,
                               const ProtobufCFieldDescriptor *field,
                               const char **ret_what)
{
    const void *value = member_of(message, field->offset);
    uint32_t level = FEATURE_LEVEL_FIRST;
    const char *what = "";
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        return level_of(*(ProtobufCMessage *const *)value, ret_what);
    }
    size_t count = *(const size_t *)member_of(message,
                                              field->quantifier_offset);
    ProtobufCMessage *const *parts = *(ProtobufCMessage *const *const *)value;
    for (size_t i = 0; i < count; i++) {
        uint32_t other = level_of(parts[i], &what);
        note(&level, ret_what, other, what);
    }
    return level;
}

static uint32_t level_of(const ProtobufCMessage *message, const char **ret_what)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    uint32_t level = FEATURE_LEVEL_FIRST;
    const char *what = "";
    if (message->n_unknown_fields > 0) {
        *ret_what = "what this version does not know";
        return FEATURE_LEVEL_UNKNOWN;
    }
    for (const struct feature *row = features; row->message != NULL; row++) {
        if (row->message == descriptor &&
            is_set(message, protobuf_c_message_descriptor_get_field(
                                descriptor, row->field))) {
            note(&level, ret_what, row->level, row->what);
        }
    }
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && is_set(message, field)) {
            uint32_t other = level_of_parts(message, field, &what);
            note(&level, ret_what, other, what);
        }
    }
    return level;
}

uint32_t command_level(const Hasp__Command *command, const char **ret_what)
{
    *ret_what = "";
    return level_of(&command->base, ret_what);
}

bool message_is_known(const ProtobufCMessage *message)
{
    const char *what;
    return level_of(message, &what) != FEATURE_LEVEL_UNKNOWN;
}

uint32_t command_raises_to(const struct lockfsm *fsm,
                           const Hasp__Command *command)
{
    switch (command->op_case) {
    case HASP__COMMAND__OP_SET_FEATURE:
        return command->set_feature->level;
    case HASP__COMMAND__OP_BEGIN:
        /* A leader that has lost its table does not know yet that the cluster
         * has begun, and tells its level, which then counts for nothing. */
        return fsm->is_begun || fsm->is_new_life
                   ? 0
                   : command->begin->feature_level;
    default:
        return 0;
    }
}

uint32_t lockfsm_feature_level(const struct lockfsm *fsm)
{
    return fsm->feature_level > FEATURE_LEVEL_FIRST ? fsm->feature_level
                                                    : FEATURE_LEVEL_FIRST;
}
