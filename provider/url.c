/* SPDX-License-Identifier: Apache-2.0 */
#include "url.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <curl/curl.h>
#include <string.h>
#include <strings.h>

static void free_handle(CURLU **u) { curl_url_cleanup(*u); }
static void free_part(char **s) { curl_free(*s); }

#define _url_ _cleanup_(free_handle)
#define _part_ _cleanup_(free_part)

static bool has(CURLU *u, CURLUPart part)
{
	_part_ char *s = NULL;

	return curl_url_get(u, part, &s, 0) == CURLUE_OK;
}

char *url_join(const char *base, const char *reference)
{
	_url_ CURLU *u = curl_url();
	_part_ char *s = NULL;

	if (!u || strlen(reference) >= URL_MAX || curl_url_set(u, CURLUPART_URL, base, 0) || curl_url_set(u, CURLUPART_URL, reference, CURLU_URLENCODE) ||
	    has(u, CURLUPART_USER) || has(u, CURLUPART_PASSWORD) || curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) || curl_url_get(u, CURLUPART_URL, &s, 0))
		return NULL;
	if ((!text_starts(s, "http://") && !text_starts(s, "https://")) || strlen(s) >= URL_MAX)
		return NULL;
	return strdup(s);
}

bool url_same_origin(const char *a, const char *b)
{
	static const CURLUPart parts[] = { CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT };
	_url_ CURLU *u = curl_url(), *v = curl_url();

	if (!u || !v || curl_url_set(u, CURLUPART_URL, a, 0) || curl_url_set(v, CURLUPART_URL, b, 0))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		_part_ char *s = NULL, *t = NULL;

		if (curl_url_get(u, parts[i], &s, CURLU_DEFAULT_PORT) || curl_url_get(v, parts[i], &t, CURLU_DEFAULT_PORT) || strcasecmp(s, t))
			return false;
	}
	return true;
}

char *url_authority(const char *url)
{
	_url_ CURLU *u = curl_url();
	_part_ char *host = NULL, *port = NULL;
	char *s = NULL;

	if (!u || curl_url_set(u, CURLUPART_URL, url, 0) || curl_url_get(u, CURLUPART_HOST, &host, 0))
		return NULL;
	curl_url_get(u, CURLUPART_PORT, &port, 0);
	return asprintf(&s, "%s%s%s", host, port ? ":" : "", port ? port : "") < 0 ? NULL : s;
}
