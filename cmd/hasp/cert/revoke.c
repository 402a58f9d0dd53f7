/* SPDX-License-Identifier: MIT */

/* hasp cert revoke, and the --revoke of 'hasp member remove'. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/hasp/cert/cert_files.h"
#include "cmd/hasp/tool.h"

/* A certificate in a revocation request. */
struct revoked {
    char fingerprint[2 * TLS_FINGERPRINT_SIZE + 1];
    /* Such as "node 2" or "user app"; or empty. */
    char name[2 * TLS_USER_SIZE];
};

/* Describes a certificate of a node or a user; a CA cannot be revoked, only
 * replaced. */
static int revoke_describe(const char *path, const X509 *certificate,
                           struct revoked *ret_revoked)
{
    struct tls_name name;
    bool has_name = cert_files_name(certificate, &name);
    if (has_name && name.role == TLS_CA) {
        return tool_fail(EX_DATAERR,
                         "'%s' is a CA and cannot be revoked: remove its "
                         "certificate from each ca.crt, and all that it signed "
                         "is refused (docs/security.md, 'A new CA')",
                         path);
    }
    cert_files_fingerprint(certificate, ret_revoked->fingerprint);
    if (has_name && name.role == TLS_NODE) {
        snprintf(ret_revoked->name, sizeof ret_revoked->name, "node %" PRIu64,
                 name.node);
    } else if (has_name) {
        snprintf(ret_revoked->name, sizeof ret_revoked->name, "user %s",
                 name.user);
    }
    return 0;
}

static bool is_fingerprint(const char *text)
{
    size_t size = 2 * (size_t)TLS_FINGERPRINT_SIZE;
    return strlen(text) == size && strspn(text, "0123456789abcdef") == size;
}

/* Reads a fingerprint, a file, or a folder that 'hasp cert' created. */
static int read_what(const char *text, struct revoked *ret_revoked)
{
    struct stat status;
    struct cert_files cert_files;
    *ret_revoked = (struct revoked){.name = ""};
    if (stat(text, &status) != 0 && is_fingerprint(text)) {
        snprintf(ret_revoked->fingerprint, sizeof ret_revoked->fingerprint,
                 "%s", text);
        return 0;
    }
    int rv = stat(text, &status) == 0 && S_ISDIR(status.st_mode)
                 ? cert_files_load_folder(text, &cert_files)
                 : cert_files_load(text, &cert_files);
    if (rv == 0) {
        rv = revoke_describe(text, cert_files.certificate, ret_revoked);
        cert_files_done(&cert_files);
    }
    return rv;
}

int tool_revoke(struct tool *tool, const char *text)
{
    struct revoked revoked;
    int rv = read_what(text, &revoked);
    if (rv != 0) {
        return rv;
    }
    rv = tool_change(
        tool, WORDS("CERT.REVOKE", revoked.fingerprint, "NAME", revoked.name),
        CANNOT("revoke the certificate", text), NULL);
    if (rv == 0) {
        tool_say(tool, "%s: is revoked%s%s%s", revoked.fingerprint,
                 revoked.name[0] != '\0' ? " (" : "", revoked.name,
                 revoked.name[0] != '\0' ? ")" : "");
    }
    return rv;
}

int run_cert_revoke(struct tool *tool, char **argv)
{
    int rv = options_read(tool, argv, NULL, 1, SIZE_MAX);
    for (int i = 1; rv == 0 && argv[i] != NULL; i++) {
        rv = tool_revoke(tool, argv[i]);
    }
    return rv;
}
