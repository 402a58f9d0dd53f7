/* SPDX-License-Identifier: MIT */

/* haspd --man: the manual pages of the daemon and of its configuration. */

#include "cmd/haspd/manual.h"

#include <string.h>

#include "base/check.h"
#include "base/embed.h"
#include "base/roff.h"
#include "cmd/haspd/config.h"

EMBED_TEXT(haspd_help, "cmd/haspd/help.txt");
/* The meaning of each setting, after its [section.key]. */
EMBED_TEXT(haspd_settings, "cmd/haspd/settings.txt");

/* The two texts of help.txt at which the page is cut; each occurs once. */
#define EXIT_CODES "Exit codes: "
#define USAGE "usage: haspd "

/* --- haspd(8) ------------------------------------------------------------- */

/* Puts one line of help.txt: " --option what it does", its continuation, or
 * prose. */
static void put_help_line(FILE *out, const char *line, size_t size)
{
    size_t blanks = strspn(line, " ");
    const char *gap = NULL;
    if (line[blanks] == '-' && blanks == 2) {
        gap = memmem(line + blanks, size - blanks, "  ", 2);
        size_t end = gap != NULL ? (size_t)(gap - line) : size;
        fputs(".TP\n.B ", out);
        roff_put(out, line + blanks, end - blanks);
        putc('\n', out);
        if (gap == NULL) {
            return;
        }
        blanks = end + strspn(gap, " ");
    }
    roff_put(out, line + blanks, size - blanks);
    putc('\n', out);
}

static void put_help(FILE *out, const char *text, const char *end)
{
    while (text < end) {
        size_t size = strcspn(text, "\n");
        bool is_last_of_options = size == 0 && text + 1 < end && text[1] != ' ';
        if (size > 0) {
            put_help_line(out, text, size);
        } else if (is_last_of_options) {
            fputs(".PP\n", out);
        }
        text += size + 1;
    }
}

/* Puts "0 stopped on request, 64 usage" as a list, up to the full stop. */
static void put_exit_codes(FILE *out, const char *text)
{
    while (*text >= '0' && *text <= '9') {
        size_t digits = strspn(text, "0123456789");
        const char *end = text + digits + 1;
        /* A comma before a number ends an item. */
        while (*end != '.' &&
               !(*end == ',' && end[1 + strspn(end + 1, " \n")] >= '0' &&
                 end[1 + strspn(end + 1, " \n")] <= '9')) {
            end++;
        }
        fprintf(out, ".TP\n.B %.*s\n", (int)digits, text);
        roff_put(out, text + digits + 1, (size_t)(end - text) - digits - 1);
        putc('\n', out);
        text = *end == '.' ? end : end + 1 + strspn(end + 1, " \n");
    }
}

static void put_daemon(FILE *out)
{
    const char *usage_end = strstr(haspd_help, "\n\n");
    const char *options = strstr(haspd_help, "\n\n  --");
    const char *codes = strstr(haspd_help, EXIT_CODES);
    CHECK(usage_end != NULL && options != NULL && codes != NULL);
    roff_put_title(out, "HASPD", 8, "System Administration");
    fputs(".SH NAME\nhaspd \\- a node of a hasp cluster, the lock service\n"
          ".SH SYNOPSIS\n.B haspd\n",
          out);
    roff_put(out, haspd_help + strlen(USAGE),
             (size_t)(usage_end - haspd_help) - strlen(USAGE));
    fputs("\n.SH DESCRIPTION\n", out);
    put_help(out, usage_end + 2, options);
    fputs(".SH OPTIONS\n", out);
    put_help(out, options + 2, codes);
    fputs(".SH EXIT STATUS\n", out);
    put_exit_codes(out, codes + strlen(EXIT_CODES));
    fputs(".SH ENVIRONMENT\n.TP\n.BI HASP_ SECTION _ KEY\n"
          "A setting of\n.BR haspd.conf (5),\nin capitals.\n"
          "HASP_CLUSTER_MEMBER has several members, separated by commas.\n"
          ".SH SIGNALS\n.TP\n.B SIGTERM, SIGINT\n"
          "The node hands leadership over and stops.\n"
          ".TP\n.B SIGHUP\n"
          "The node reads its certificates and the settings that a reload "
          "changes again, and reopens the file of\n"
          ".BR audit.file ,\nso that it can be rotated.\n"
          ".SH FILES\n.TP\n.I /etc/hasp/haspd.conf\n"
          "The settings, as the service reads them.\n"
          ".TP\n.I /var/lib/hasp\nThe folder of the service's data "
          "directory.\n"
          ".SH SEE ALSO\n.BR haspd.conf (5),\n.BR hasp (1)\n",
          out);
}

/* --- haspd.conf(5) -------------------------------------------------------- */

static void put_meaning(FILE *out, const struct config_key *key)
{
    char heading[96];
    int size = snprintf(heading, sizeof heading, "\n[%s.%s]\n\n", key->section,
                        key->key);
    const char *text = strstr(haspd_settings, heading);
    CHECK(text != NULL);
    text += size;
    const char *end = strstr(text, "\n\n[");
    size_t length = end != NULL ? (size_t)(end - text) : strlen(text) - 1;
    roff_put_marked(out, text, length);
    /* The range and the default follow as sentences of their own. */
    fputs(text[length - 1] == '.' ? "\n" : ".\n", out);
}

static void manual_put_key(FILE *out, const struct config_key *key)
{
    fprintf(out, ".TP\n.B %s\n", key->key);
    put_meaning(out, key);
    if (key->range[0] != '\0') {
        fputs("Values: ", out);
        roff_put_text(out, key->range);
        fputs(".\n", out);
    }
    if (strcmp(key->changes, CONFIG_RELOAD) == 0) {
        fputs("A reload changes it.\n", out);
    } else if (strcmp(key->changes, CONFIG_LIMITS_SET) == 0) {
        fputs("It is used when a cluster is founded; later\n"
              ".B hasp limits set\nchanges it.\n",
              out);
    }
    if (key->is_required) {
        fputs("It has no default.\n", out);
    } else if (key->standard[0] != '\0') {
        fputs("Default: ", out);
        roff_put_text(out, key->standard);
        fputs(".\n", out);
    }
}

static void put_configuration(FILE *out)
{
    struct config_key key;
    const char *section = "";
    roff_put_title(out, "HASPD.CONF", 5, "File Formats");
    fputs(".SH NAME\nhaspd.conf \\- the configuration of haspd, a node of a "
          "hasp cluster\n"
          ".SH DESCRIPTION\n"
          "The file has sections in brackets, lines\n"
          ".IB key \" = \" value ,\n"
          "and comments that begin with # or ;. A key that is missing has its "
          "default,\nan unknown key is an error. The environment\n"
          ".RB ( HASP_NODE_ID\nfor\n.B id\nof\n.BR [node] )\n"
          "overrides the file, the command line overrides both. Sizes can end "
          "in K, M or G.\n.PP\n"
          ".B haspd \\-\\-config\n.I FILE\n.B \\-\\-check\\-config\n"
          "reports errors of a file,\n.B \\-\\-print\\-config\n"
          "prints the source of each value. A change takes effect when the "
          "node is restarted;\nsettings that say so, and certificates, are "
          "also read again on SIGHUP\n"
          ".RB ( \"systemctl reload haspd\" ).\n"
          ".B hasp config diff\n"
          "prints what differs between a file and a running node.\n",
          out);
    for (size_t i = 0; config_key_describe(i, &key); i++) {
        if (strcmp(key.section, section) != 0) {
            section = key.section;
            fprintf(out, ".SH SECTION [%s]\n", section);
        }
        manual_put_key(out, &key);
    }
    fputs(".SH EXAMPLES\nThe first of three nodes, with TLS:\n.PP\n.nf\n.RS\n"
          "[node]\nid = 1\ndir = /var/lib/hasp/data\n"
          "[cluster]\nname = production\n"
          "member = 1 10.0.0.1:7421 10.0.0.1:7420\n"
          "member = 2 10.0.0.2:7421 10.0.0.2:7420\n"
          "member = 3 10.0.0.3:7421 10.0.0.3:7420\n"
          "[tls]\ndir = /etc/hasp/tls\nclient = require\npeer = require\n"
          ".RE\n.fi\n"
          ".SH SEE ALSO\n.BR haspd (8),\n.BR hasp (1)\n",
          out);
}

int daemon_manual_print(const char *section, FILE *out)
{
    if (strcmp(section, "8") == 0) {
        put_daemon(out);
    } else if (strcmp(section, "5") == 0) {
        put_configuration(out);
    } else {
        return HASP_EINVALID;
    }
    return 0;
}
