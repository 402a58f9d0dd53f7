/* SPDX-License-Identifier: MIT */

/* How the tool names itself to others. */

#ifndef HASP_CMD_HASP_NAMES_H
#define HASP_CMD_HASP_NAMES_H

/* The server takes names of at most 128 bytes. */
#define NAME_TEXT_SIZE 129

/* "user@host". */
void name_of_user(char name[NAME_TEXT_SIZE]);
/* "user@host:pid", the name of a session. */
void name_of_process(char name[NAME_TEXT_SIZE]);

struct query;
/* Appends BY and the user, for the logs of the nodes. */
void name_query(struct query *query);

#endif /* HASP_CMD_HASP_NAMES_H */
