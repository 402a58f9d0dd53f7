/* SPDX-License-Identifier: MIT */

#include "tests/unit/tls_world.h"

#include <dirent.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "net/tls_context.h"

#define DAY_S (24 * 60 * 60)

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    if (value == NULL) {
        return;
    }
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    CHECK(extension != NULL);
    CHECK(X509_add_ext(certificate, extension, -1) == 1);
    X509_EXTENSION_free(extension);
}

static void write_paper(struct tls_world *world, const char *name,
                        struct tls_paper *paper)
{
    snprintf(paper->certificate_path, sizeof paper->certificate_path,
             "%s/%s.crt", world->folder, name);
    snprintf(paper->key_path, sizeof paper->key_path, "%s/%s.key",
             world->folder, name);
    FILE *file = fopen(paper->certificate_path, "w");
    CHECK(file != NULL && PEM_write_X509(file, paper->certificate) == 1);
    CHECK(fclose(file) == 0);
    file = fopen(paper->key_path, "w");
    CHECK(file != NULL && PEM_write_PrivateKey(file, paper->key, NULL, NULL, 0,
                                               NULL, NULL) == 1);
    CHECK(fclose(file) == 0 && chmod(paper->key_path, 0600) == 0);
}

void tls_world_make(struct tls_world *world, const struct tls_wish *wish,
                    const struct tls_paper *ca, struct tls_paper *ret_paper)
{
    struct tls_paper paper = {.key = EVP_EC_gen("P-256"),
                              .certificate = X509_new()};
    X509 *certificate = paper.certificate;
    CHECK(paper.key != NULL && certificate != NULL);
    const X509 *issuer = ca != NULL ? ca->certificate : certificate;
    static long serial = 1;
    CHECK(X509_set_version(certificate, X509_VERSION_3) == 1);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate),
                    wish->from_s != 0 ? wish->from_s : -DAY_S);
    X509_gmtime_adj(X509_getm_notAfter(certificate),
                    wish->until_s != 0 ? wish->until_s : DAY_S);
    X509_NAME *name = X509_NAME_new();
    CHECK(name != NULL &&
          X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                     (const unsigned char *)wish->file, -1, -1,
                                     0) == 1);
    CHECK(X509_set_subject_name(certificate, name) == 1);
    CHECK(X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) ==
          1);
    X509_NAME_free(name);
    CHECK(X509_set_pubkey(certificate, paper.key) == 1);
    X509 *signer = ca != NULL ? ca->certificate : certificate;
    extend(certificate, signer, NID_basic_constraints,
           wish->is_ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    extend(certificate, signer, NID_subject_alt_name, wish->names);
    if (!wish->is_ca) {
        extend(certificate, signer, NID_ext_key_usage,
               wish->usage != NULL ? wish->usage : "serverAuth,clientAuth");
    }
    CHECK(X509_sign(certificate, ca != NULL ? ca->key : paper.key,
                    EVP_sha256()) > 0);
    write_paper(world, wish->file, &paper);
    *ret_paper = paper;
}

void tls_paper_done(struct tls_paper *paper)
{
    EVP_PKEY_free(paper->key);
    X509_free(paper->certificate);
    *paper = (struct tls_paper){0};
}

void tls_world_init(struct tls_world *world)
{
    *world = (struct tls_world){.folder = "/tmp/hasp-tls-XXXXXX"};
    CHECK(mkdtemp(world->folder) != NULL);
    tls_world_make(world,
                   &(struct tls_wish){.file = "ca",
                                      .names = "URI:hasp://production",
                                      .is_ca = true},
                   NULL, &world->ca);
}

void tls_world_done(struct tls_world *world)
{
    DIR *folder = opendir(world->folder);
    CHECK(folder != NULL);
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", world->folder, entry->d_name);
        (void)unlink(path); /* Not "." and "..". */
    }
    closedir(folder);
    CHECK(rmdir(world->folder) == 0);
    tls_paper_done(&world->ca);
}

void tls_world_node(struct tls_world *world, uint64_t id,
                    struct tls_paper *ret_paper)
{
    char file[32], names[80];
    snprintf(file, sizeof file, "node-%u", (unsigned)id);
    snprintf(names, sizeof names, "URI:hasp://production/node/%u",
             (unsigned)id);
    tls_world_make(world, &(struct tls_wish){.file = file, .names = names},
                   &world->ca, ret_paper);
}

void tls_world_user(struct tls_world *world, const char *name,
                    struct tls_paper *ret_paper)
{
    char file[64], names[128];
    snprintf(file, sizeof file, "user-%s", name);
    snprintf(names, sizeof names, "URI:hasp://production/user/%s", name);
    tls_world_make(
        world,
        &(struct tls_wish){.file = file, .names = names, .usage = "clientAuth"},
        &world->ca, ret_paper);
}

struct tls_context *tls_world_context(struct tls_world *world, enum tls_use use,
                                      const struct tls_paper *paper)
{
    struct tls_files files = {
        .ca = world->ca.certificate_path,
        .certificate = paper != NULL ? paper->certificate_path : NULL,
        .key = paper != NULL ? paper->key_path : NULL};
    struct tls_context *context;
    char why[HASP_WHY_SIZE] = "";
    int rv = tls_context_load(&files, use, "production", 0, &context, why);
    if (rv != 0) {
        fprintf(stderr, "tls_world: %s\n", why);
    }
    CHECK(rv == 0);
    return context;
}

struct tls_context *tls_world_liar(struct tls_world *world, enum tls_use use,
                                   const struct tls_paper *paper)
{
    struct tls_context *context = tls_world_context(world, TLS_AS_CLIENT, NULL);
    context->use = use;
    CHECK(SSL_CTX_use_certificate(context->ssl, paper->certificate) == 1 &&
          SSL_CTX_use_PrivateKey(context->ssl, paper->key) == 1);
    return context;
}

/* One piece of the output of 'from'; true if there was any. */
static bool carry(struct tls *from, struct tls *to, size_t step, int *ret_error)
{
    struct buffer *out = tls_output(from);
    size_t size = out->size < step ? out->size : step;
    if (size == 0) {
        return false;
    }
    /* A copy of exactly this size: a read beyond it is detected. */
    uint8_t *piece = memory_copy(out->data, size);
    buffer_consume(out, size);
    int error = tls_feed(to, bytes_of(piece, size));
    if (error == 0) {
        error = tls_handshake(to);
    }
    if (error == 0) {
        uint8_t byte;
        size_t got;
        error = tls_read(to, &byte, 1, &got);
        CHECK(error != 0); /* Neither end has sent anything. */
    }
    free(piece);
    *ret_error = error == HASP_EMORE ? 0 : error;
    return true;
}

int tls_world_talk(struct tls *client, struct tls *server, size_t step,
                   struct tls **ret_failed)
{
    int error = tls_handshake(client);
    CHECK(error == 0 || error == HASP_EMORE);
    bool goes_on = true;
    while (goes_on) {
        goes_on = carry(client, server, step, &error);
        if (error != 0) {
            *ret_failed = server;
            return error;
        }
        goes_on = carry(server, client, step, &error) || goes_on;
        if (error != 0) {
            *ret_failed = client;
            return error;
        }
    }
    return 0;
}
