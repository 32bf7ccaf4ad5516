/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"
#include "base/error.h"
#include "base/reference.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

void settings_free(struct settings *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_repositories; i++) {
		free(s->repositories[i].name);
		catalog_free(&s->repositories[i].catalog);
	}
	for (size_t i = 0; i < s->n_tags; i++)
		free(s->tags[i]);
	free(s->repositories);
	free(s->tags);
	free(s);
}

/* "90s", "30m", "1h", "7d". */
static int parse_age(const char *text, int64_t *ret)
{
	static const char units[] = "smhd";
	static const int64_t seconds[] = { 1, 60, 3600, 86400 };
	size_t digits = strspn(text, "0123456789");
	const char *unit = text[digits] ? strchr(units, text[digits]) : NULL;

	if (digits < 1 || digits > 6 || !unit || text[digits + 1])
		return -EINVAL;
	*ret = strtoll(text, NULL, 10) * seconds[unit - units];
	return 0;
}

static int copy_repositories(const char *const *names, size_t n, struct settings *s, struct edera_error *err)
{
	struct reference ref;

	s->repositories = calloc(n + 1, sizeof *s->repositories);
	if (!s->repositories)
		return err_errno(err, -ENOMEM, "cannot keep plugin.registry.repositories");
	for (; s->n_repositories < n; s->n_repositories++) {
		if (reference_parse_repository(names[s->n_repositories], &ref, err))
			return err_wrap(err, "plugin.registry.repositories");
		s->repositories[s->n_repositories].name = strdup(names[s->n_repositories]);
		if (!s->repositories[s->n_repositories].name)
			return err_errno(err, -ENOMEM, "cannot keep plugin.registry.repositories");
	}
	return 0;
}

static int copy_tags(const char *const *tags, size_t n, struct settings *s, struct edera_error *err)
{
	s->tags = calloc(n + 1, sizeof *s->tags);
	for (; s->tags && s->n_tags < n; s->n_tags++)
		if (!(s->tags[s->n_tags] = strdup(tags[s->n_tags])))
			break;
	return s->n_tags < n || !s->tags ? err_errno(err, -ENOMEM, "cannot keep plugin.registry.tags") : 0;
}

int settings_read(const struct edera_host *host, const struct edera_conf *conf, struct settings **ret, struct edera_error *err)
{
	int64_t max_tags = host->conf_int(conf, "max-tags");
	struct settings *s = calloc(1, sizeof *s);
	const char *const *items;
	size_t n;
	int r = 0;

	if (!s)
		return err_errno(err, -ENOMEM, "cannot keep the section plugin.registry");
	if (max_tags < 1 || max_tags > MAX_TAGS)
		r = err_set(err, -EINVAL, "plugin.registry.max-tags = %lld: expected a number from 1 to %d", (long long)max_tags, MAX_TAGS);
	else if (parse_age(host->conf_str(conf, "refresh"), &s->refresh))
		r = err_set(err, -EINVAL, "plugin.registry.refresh = \"%.40s\": expected an age as in \"30m\", \"1h\" or \"7d\"", host->conf_str(conf, "refresh"));
	s->max_tags = (size_t)max_tags;
	if (!r) {
		n = host->conf_list(conf, "repositories", &items);
		r = copy_repositories(items, n, s, err);
	}
	if (!r) {
		n = host->conf_list(conf, "tags", &items);
		r = copy_tags(items, n, s, err);
	}
	if (r)
		settings_free(s);
	else
		*ret = s;
	return r;
}

bool settings_wants_tag(const struct settings *s, const char *tag)
{
	if (!strncmp(tag, "sha256-", 7)) /* signatures and attestations that tools keep beside an image */
		return false;
	for (size_t i = 0; i < s->n_tags; i++)
		if (!fnmatch(s->tags[i], tag, 0))
			return true;
	return false;
}
