/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and keys for talking to registries: found sound before anybody is talked to. */
#include "registry.h"
#include "io.h"
#include "base/cleanup.h"
#include "base/path.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#define SYSTEM_CA "/etc/ssl/certs/ca-certificates.crt"
#define PEM_MAX (4u << 20)

static int read_pem(const char *file, int fd, const char *what, struct buf *ret, struct edera_error *err)
{
	return fd >= 0 ? io_read_all(fd, PEM_MAX, ret, what, err) : file ? path_read_file(file, PEM_MAX, ret, err) : 0;
}

/* How a sentence names it. */
static void name_of(const char *file, const char *what, char ret[400])
{
	if (file)
		snprintf(ret, 400, "'%.300s'", file);
	else
		snprintf(ret, 400, "%s", what);
}

/* Nobody is asked for a password. */
static int no_password(char *buffer, int size, int writing, void *user) { return -1; }

static int check_pair(const struct options *o, const struct http_options *h, struct edera_error *err)
{
	const struct buf *k = h->key.len ? &h->key : &h->cert; /* one file may hold both */
	char cert_name[400], key_name[400];
	BIO *cert_bio = BIO_new_mem_buf(h->cert.data, (int)h->cert.len), *key_bio = BIO_new_mem_buf(k->data, (int)k->len);
	X509 *cert = cert_bio ? PEM_read_bio_X509(cert_bio, NULL, no_password, NULL) : NULL;
	EVP_PKEY *key = key_bio ? PEM_read_bio_PrivateKey(key_bio, NULL, no_password, NULL) : NULL;
	int r = 0;

	name_of(o->cert, "the client certificate", cert_name);
	name_of(o->key ? o->key : k == &h->cert ? o->cert : NULL, k == &h->cert ? "the client certificate" : "the client key", key_name);
	if (!cert)
		r = err_set(err, -EINVAL, "%s holds no certificate in PEM form", cert_name);
	else if (!key)
		r = err_set(err, -EINVAL, "%s holds no private key in PEM form without a password%s", key_name, k == &h->cert ? "; it is named with --key" : "");
	else if (X509_check_private_key(cert, key) != 1)
		r = err_set(err, -EINVAL, "the key in %s does not belong to the certificate in %s", key_name, cert_name);
	X509_free(cert);
	EVP_PKEY_free(key);
	BIO_free(cert_bio);
	BIO_free(key_bio);
	ERR_clear_error();
	return r;
}

int registry_read_tls(const struct options *o, struct http_options *h, struct edera_error *err)
{
	_buf_ struct buf named = BUF_INIT, given = BUF_INIT;
	int rc = read_pem(o->ca, -1, NULL, &named, err);

	if (!rc && o->ca && !strstr((char *)named.data, "-----BEGIN "))
		rc = err_set(err, -EINVAL, "'%.300s' holds no certificate in PEM form", o->ca);
	if (!rc)
		rc = read_pem(NULL, o->ca_fd, "the certificate authorities", &given, err);
	if (!rc && (named.len || given.len)) {
		if (path_read_file(SYSTEM_CA, PEM_MAX, &h->ca, NULL))
			h->ca = (struct buf)BUF_INIT;
		buf_puts(&h->ca, "\n");
		buf_append(&h->ca, named.data, named.len);
		buf_puts(&h->ca, "\n");
		buf_append(&h->ca, given.data, given.len);
	}
	if (!rc)
		rc = read_pem(o->cert, o->cert_fd, "the client certificate", &h->cert, err);
	if (!rc)
		rc = read_pem(o->key, o->key_fd, "the client key", &h->key, err);
	if (!rc && (o->cert || o->cert_fd >= 0))
		rc = check_pair(o, h, err);
	return rc;
}
