/* SPDX-License-Identifier: MIT */

/* The level of the cluster, and which entries raise it. */

#include "lockfsm/feature.h"

#include "lockfsm/state.h"

uint32_t command_raises_to(const struct lockfsm *fsm,
                           const struct entry *command)
{
    switch (command->op) {
    case OP_SET_FEATURE:
        return command->set_feature->level;
    case OP_BEGIN:
        /* A leader that has lost its table does not know that the cluster
         * exists already, and sends its own level, which is then ignored. */
        return fsm->epoch.is_begun || fsm->epoch.is_new_life
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
