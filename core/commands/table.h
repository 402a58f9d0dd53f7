/* SPDX-License-Identifier: MIT */

/* The commands of hasp, for core_new(). */

#ifndef HASP_CORE_COMMANDS_TABLE_H
#define HASP_CORE_COMMANDS_TABLE_H

struct command_table; /* core/command.h */

extern const struct command_table core_commands;

#endif /* HASP_CORE_COMMANDS_TABLE_H */
