/* SPDX-License-Identifier: MIT */

/* A program that is a node of its own cluster; SIGINT or SIGTERM stops it.
 *
 *     embedded ID DIRECTORY [PEER-ADDRESS CLIENT-ADDRESS] ...
 *
 * The first pair of addresses is that of the member with id 1, and so on, the
 * same on all members. Without addresses: a cluster of one, on port 7420. */

#include <hasp/node.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static struct hasp_node *node;

static void on_signal(int number)
{
    (void)number;
    hasp_node_stop(node);
}

static void handle(int number, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
}

/* Prints when it serves: "leader, term 1", or "follower of 2, term 1". */
static void on_status(void *data, const char *status)
{
    (void)data;
    printf("%s: %s\n", hasp_node_client_address(node), status);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct hasp_node_member member[5];
    struct hasp_node_options options;
    char why[HASP_NODE_WHY_SIZE];

    if (argc < 3 || argc % 2 == 0 || argc > 3 + 2 * 5) {
        fprintf(stderr, "usage: embedded ID DIRECTORY [PEER CLIENT] ...\n");
        return 64;
    }
    hasp_node_options_init(&options);
    options.id = strtoull(argv[1], NULL, 10);
    options.directory = argv[2];
    options.members = member;
    options.on_status = on_status;
    for (int i = 3; i < argc; i += 2) {
        struct hasp_node_member *one = &member[options.member_count++];
        one->id = options.member_count;
        one->peer_address = argv[i];
        one->client_address = argv[i + 1];
        if (one->id == options.id) {
            options.listen_peer = one->peer_address;
            options.listen_client = one->client_address;
        }
    }
    /* A write to a closed connection must not end us. */
    handle(SIGPIPE, SIG_IGN);
    int status = hasp_node_open(&options, &node, why);
    if (status != HASP_NODE_OK) {
        fprintf(stderr, "embedded: %s\n", why);
        return status;
    }
    handle(SIGINT, on_signal);
    handle(SIGTERM, on_signal);
    /* A program with other work runs this in a thread, and acquires its locks
     * with <hasp/hasp.h> at hasp_node_client_address(). */
    status = hasp_node_run(node);
    handle(SIGINT, SIG_IGN);
    handle(SIGTERM, SIG_IGN);
    if (status != HASP_NODE_OK) {
        fprintf(stderr, "embedded: %s\n", hasp_node_why(node));
    }
    hasp_node_close(node);
    return status;
}
