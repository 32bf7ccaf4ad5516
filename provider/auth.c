/* SPDX-License-Identifier: Apache-2.0 */
#include "auth.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void wipe(char *s)
{
	if (s)
		OPENSSL_cleanse(s, strlen(s));
	free(s);
}

void credentials_free(struct credentials *c)
{
	wipe(c->user);
	wipe(c->password);
	wipe(c->identity_token);
	wipe(c->registry_token);
	*c = (struct credentials){ 0 };
}

void auth_key_host(const char *key, char *dst, size_t cap)
{
	size_t n;

	if (text_starts(key, "https://"))
		key += 8;
	else if (text_starts(key, "http://"))
		key += 7;
	n = strcspn(key, "/");
	if (n >= cap)
		n = 0;
	memcpy(dst, key, n);
	dst[n] = 0;
	if (!strcmp(dst, "index.docker.io") || !strcmp(dst, "registry-1.docker.io"))
		snprintf(dst, cap, "docker.io");
}

/* How well a key fits: 0 not, else the more of the path it names the higher. Docker's own keys end in /v1/ or /v2/. */
static size_t key_fit(const char *key, const char *host, const char *path)
{
	char of[300];
	const char *slash;
	size_t n;

	auth_key_host(key, of, sizeof of);
	if (strcasecmp(of, host))
		return 0;
	if (text_starts(key, "https://") || text_starts(key, "http://"))
		return 1;
	slash = strchr(key, '/');
	if (!slash || !slash[1] || !strcmp(slash, "/v1/") || !strcmp(slash, "/v2/"))
		return 1;
	n = strlen(slash + 1);
	if (slash[n] == '/') /* "host/path/" */
		n--;
	if (strncmp(path, slash + 1, n) || (path[n] && path[n] != '/'))
		return 0;
	return 1 + n;
}

/* base64 of "user:password" */
static int decode_pair(const char *text, struct credentials *c)
{
	size_t n = strlen(text), pad = 0;
	_free_ uint8_t *raw = malloc(n / 4 * 3 + 4);
	int got;
	char *colon;

	while (n > pad && text[n - 1 - pad] == '=')
		pad++;
	got = raw && n % 4 == 0 && pad < 3 ? EVP_DecodeBlock(raw, (const uint8_t *)text, (int)n) : -1;
	if (got < 0)
		return -EINVAL;
	raw[(size_t)got - pad] = 0;
	colon = strchr((char *)raw, ':');
	if (!colon)
		return -EINVAL;
	*colon = 0;
	c->user = strdup((char *)raw);
	c->password = strdup(colon + 1);
	OPENSSL_cleanse(raw, (size_t)got);
	return c->user && c->password ? 0 : -ENOMEM;
}

static char *dup_member(json_object *o, const char *key)
{
	const char *s = json_text(o, key);

	return s && *s ? strdup(s) : NULL;
}

int auth_lookup(json_object *file, const char *host, const char *path, struct credentials *ret, struct edera_error *err)
{
	json_object *auths = json_member(file, "auths", json_type_object), *best = NULL;
	const char *pair;
	size_t best_fit = 0;

	*ret = (struct credentials){ 0 };
	if (!auths)
		return 0;
	json_object_object_foreach(auths, key, value)
	{
		size_t fit = json_object_is_type(value, json_type_object) ? key_fit(key, host, path) : 0;

		if (fit > best_fit) {
			best = value;
			best_fit = fit;
		}
	}
	if (!best)
		return 0;
	ret->identity_token = dup_member(best, "identitytoken");
	ret->registry_token = dup_member(best, "registrytoken");
	pair = json_text(best, "auth");
	if (pair && *pair) {
		if (decode_pair(pair, ret)) {
			credentials_free(ret);
			return err_set(err, -EINVAL, "the credentials for '%.100s' in the auth file are not base64 of 'user:password'", host);
		}
	} else {
		ret->user = dup_member(best, "username");
		ret->password = dup_member(best, "password");
	}
	return 0;
}

char *auth_basic(const struct credentials *c)
{
	size_t n;
	_free_ char *plain = NULL;
	char *out;

	if (!c->user || !c->password || asprintf(&plain, "%s:%s", c->user, c->password) < 0)
		return NULL;
	n = strlen(plain);
	out = malloc(n / 3 * 4 + 5);
	if (out)
		EVP_EncodeBlock((uint8_t *)out, (uint8_t *)plain, (int)n);
	OPENSSL_cleanse(plain, n);
	return out;
}

static bool token_char(char c) { return (c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?={}", c)); }

/* A value, quoted or not; what does not fit dst is dropped whole. */
static const char *parameter_value(const char *p, const char *end, char *dst, size_t cap)
{
	size_t n = 0;
	bool fits = true;

	if (p < end && *p == '"') {
		for (p++; p < end && *p != '"'; p++) {
			if (*p == '\\' && p + 1 < end)
				p++;
			if (n + 1 < cap)
				dst[n++] = *p;
			else
				fits = false;
		}
		p += p < end;
	} else {
		for (; p < end && *p != ',' && *p != ' ' && *p != '\t'; p++) {
			if (n + 1 < cap)
				dst[n++] = *p;
			else
				fits = false;
		}
	}
	dst[fits ? n : 0] = 0;
	return p;
}

static void parse_line(const char *p, const char *end, struct challenge *ret)
{
	bool bearer = false;
	char value[1024];

	while (p < end) {
		const char *name = p;
		size_t n;

		if (*p == ',' || *p == ' ' || *p == '\t') {
			p++;
			continue;
		}
		while (p < end && token_char(*p))
			p++;
		n = (size_t)(p - name);
		if (n == 0) { /* nothing that could be parsed: on to the next comma */
			while (p < end && *p != ',')
				p++;
			continue;
		}
		const char *q = p;

		while (q < end && (*q == ' ' || *q == '\t'))
			q++;
		if (q == end || *q != '=') { /* a scheme */
			bearer = n == 6 && !strncasecmp(name, "bearer", 6) && !ret->bearer;
			ret->bearer |= bearer;
			ret->basic |= n == 5 && !strncasecmp(name, "basic", 5);
			continue;
		}
		for (q++; q < end && (*q == ' ' || *q == '\t'); q++)
			;
		p = parameter_value(q, end, value, sizeof value);
		if (!bearer)
			continue;
		if (n == 5 && !strncasecmp(name, "realm", 5))
			snprintf(ret->realm, sizeof ret->realm, "%s", value);
		else if (n == 7 && !strncasecmp(name, "service", 7) && strlen(value) < sizeof ret->service)
			strcpy(ret->service, value);
		else if (n == 5 && !strncasecmp(name, "scope", 5))
			snprintf(ret->scope, sizeof ret->scope, "%s", value);
	}
}

void challenge_parse(const char *lines, size_t len, struct challenge *ret)
{
	const char *end = lines + len;

	*ret = (struct challenge){ 0 };
	while (lines && lines < end) {
		const char *stop = memchr(lines, '\n', (size_t)(end - lines));

		if (!stop)
			stop = end;
		parse_line(lines, stop, ret);
		lines = stop + 1;
	}
	ret->bearer &= ret->realm[0] != 0;
}
