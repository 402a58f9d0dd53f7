/* SPDX-License-Identifier: MIT */

/* The configuration files of 'hasp dev', and its certificates. */

#ifndef HASP_CMD_HASP_DEV_H
#define HASP_CMD_HASP_DEV_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#define DEV_NODES_MAX 9
#define DEV_CLUSTER "dev" /* The cluster's name, for certificates. */

struct tool;

struct dev_config {
    uint64_t id;    /* From 1. */
    uint64_t count; /* Number of nodes. */
    uint64_t port;  /* Client port of node 1. */
    const char *folder;
    bool is_secure; /* All ports require TLS, and clients must authenticate. */
};

/* Writes the configuration 'path', or keeps an existing one; returns the
 * client address that it contains. 0 or an exit code, explained. */
int dev_config_make(const char *path, const struct dev_config *config,
                    char ret_address[64]);

/* --- With --secure (dev_secure.c); 0 or an exit code, explained ------------
 */

/* Checks that an existing folder matches --secure. 0 or an exit code. */
int dev_secure_check(const char *folder, bool is_secure);
/* Creates what is missing in 'folder'/certs: the CA, the nodes, admin. */
int dev_secure_certify(const struct tool *tool, const char *folder,
                       uint64_t count);
/* Creates role, user and certificate of 'demo', unless that certificate
 * exists. 'door' is the data directory of a running node. */
int dev_secure_admit(const struct tool *tool, const char *folder,
                     const char *door);
/* Prints the lines to copy; 'address' is the client address of a node. */
void dev_secure_print(const char *folder, const char *address);

/* In a child process: becomes this program ('words', ended by NULL), whose
 * output is appended to 'log', with this signal mask and in a process group of
 * its own; 'at_death' is the signal that it gets when its parent dies. */
_Noreturn void dev_become(const char *const *words, const char *log,
                          const sigset_t *mask, int at_death);
/* True if the node at this address, or with this data directory, answers and
 * says that a leader serves. */
bool dev_is_ready(const char *address);
/* Prints the last lines of a node's log to stderr. */
void dev_print_log_tail(const char *path);
/* Removes a folder and its contents; does not follow links. */
void dev_remove_folder(const char *path);

#endif /* HASP_CMD_HASP_DEV_H */
