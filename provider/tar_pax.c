/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_pax.h"
#include "tar_header.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define XATTR "SCHILY.xattr."
#define XATTR_HEAD (sizeof(uint16_t) + sizeof(uint32_t))

int tar_meta_add_extent(struct tar_meta *m, uint64_t offset, uint64_t length, struct edera_error *err)
{
	if (m->n_extents == TAR_EXTENTS_MAX)
		return err_set(err, -E2BIG, "'%.200s': the sparse file has more than %u pieces", m->path, TAR_EXTENTS_MAX);
	if (m->n_extents == m->cap_extents) {
		size_t cap = m->cap_extents ? m->cap_extents * 2 : 16;
		struct tar_extent *more = realloc(m->extents, cap * sizeof *more);

		if (!more)
			return err_errno(err, -ENOMEM, "cannot read a sparse map");
		m->extents = more;
		m->cap_extents = cap;
	}
	m->extents[m->n_extents++] = (struct tar_extent){ offset, length };
	return 0;
}

int tar_meta_sparse_check(struct tar_meta *m, uint64_t stored, struct edera_error *err)
{
	uint64_t end = 0, sum = 0;

	for (size_t i = 0; i < m->n_extents; i++) {
		struct tar_extent *e = &m->extents[i];

		if (e->offset < end || e->length > m->real_size || e->offset > m->real_size - e->length)
			return err_set(err, -EBADMSG, "'%.200s': the pieces of the sparse file overlap or lie outside of it", m->path);
		end = e->offset + e->length;
		sum += e->length;
	}
	if (m->real_size > INT64_MAX || sum != stored)
		return err_set(err, -EBADMSG, "'%.200s': the pieces of the sparse file do not add up to what is stored", m->path);
	return 0;
}

int tar_meta_sparse_text(struct tar_meta *m, struct tar_map *map, const char *text, size_t len, bool *ret_complete, struct edera_error *err)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] >= '0' && text[i] <= '9') {
			if (map->number > INT64_MAX / 16)
				return err_set(err, -EBADMSG, "'%.200s': a number in the map of the sparse file is too large", m->path);
			map->number = map->number * 10 + (uint64_t)(text[i] - '0');
			map->digits = true;
			continue;
		}
		if (text[i] != '\n' || !map->digits)
			return err_set(err, -EBADMSG, "'%.200s': the map of the sparse file is not numbers", m->path);
		if (map->n == 0) {
			if (map->number > TAR_EXTENTS_MAX)
				return err_set(err, -E2BIG, "'%.200s': the sparse file has more than %u pieces", m->path, TAR_EXTENTS_MAX);
			map->want = map->number * 2;
		} else if (map->n & 1) {
			map->offset = map->number;
		} else {
			int r = tar_meta_add_extent(m, map->offset, map->number, err);

			if (r)
				return r;
		}
		if (map->n++ == map->want) {
			*ret_complete = true;
			return 0;
		}
		map->number = 0;
		map->digits = false;
	}
	return 0;
}

int tar_meta_sparse_map(struct tar_meta *m, const char *map, struct edera_error *err)
{
	const char *p = map;

	m->n_extents = 0;
	while (*p) {
		uint64_t v[2];

		for (int i = 0; i < 2; i++) {
			char *end;

			if (*p < '0' || *p > '9')
				return err_set(err, -EBADMSG, "the map of a sparse file is not numbers");
			errno = 0;
			v[i] = strtoull(p, &end, 10);
			if (errno || (*end && *end != ',') || (i == 0 && *end != ','))
				return err_set(err, -EBADMSG, "the map of a sparse file is not pairs of numbers");
			p = *end ? end + 1 : end;
		}
		if (tar_meta_add_extent(m, v[0], v[1], err))
			return -E2BIG;
	}
	return 0;
}

/* Host state that has no business in an image, and what squashfs has no place for. */
static bool xattr_kept(const char *name, size_t len)
{
	static const char *const kept[] = { "user.", "trusted.", "security." };
	static const char *const dropped[] = { "trusted.overlay.", "user.overlay.", "security.selinux" };

	for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
		if (text_starts(name, dropped[i]))
			return false;
	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (text_starts(name, kept[i]))
			return len > strlen(kept[i]);
	return false;
}

int tar_meta_xattr(struct tar_meta *m, const char *name, size_t name_len, const void *value, size_t len, struct edera_error *err)
{
	uint16_t n16 = (uint16_t)name_len;
	uint32_t n32 = (uint32_t)len;

	if (name_len == 0 || name_len > 255 || memchr(name, 0, name_len) || !xattr_kept(name, name_len)) {
		m->xattrs_dropped++;
		return 0;
	}
	if (len > TAR_XATTR_VALUE_MAX)
		return err_set(err, -E2BIG, "the attribute '%.*s' is larger than %u bytes", (int)name_len, name, TAR_XATTR_VALUE_MAX);
	buf_append(&m->xattrs, &n16, sizeof n16);
	buf_append(&m->xattrs, &n32, sizeof n32);
	buf_append(&m->xattrs, name, name_len);
	buf_append(&m->xattrs, value, len);
	m->n_xattrs++;
	return m->xattrs.failed ? err_errno(err, -ENOMEM, "cannot keep an attribute") : 0;
}

struct attribute {
	const uint8_t *at;
	uint16_t name_len;
	uint32_t size; /* all of it */
};

/* By name; of one name, the last one first. */
static int attribute_order(const void *a, const void *b)
{
	const struct attribute *x = a, *y = b;
	size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
	int r = memcmp(x->at + XATTR_HEAD, y->at + XATTR_HEAD, n);

	if (r)
		return r;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	return x->at > y->at ? -1 : 1;
}

static bool same_name(const struct attribute *a, const struct attribute *b)
{
	return a->name_len == b->name_len && memcmp(a->at + XATTR_HEAD, b->at + XATTR_HEAD, a->name_len) == 0;
}

/* In the order of names, each once: given twice, the last one counts. */
static int settle_xattrs(struct tar_meta *m, struct edera_error *err)
{
	_free_ struct attribute *list = calloc(m->n_xattrs + 1, sizeof *list);
	const uint8_t *p = m->xattrs.data, *end = p + m->xattrs.len;
	struct buf sorted = BUF_INIT;
	size_t n = 0, names = 0;

	if (!list)
		return err_errno(err, -ENOMEM, "cannot keep attributes");
	for (; p < end; p += list[n++].size) {
		uint32_t v;

		list[n].at = p;
		memcpy(&list[n].name_len, p, sizeof list[n].name_len);
		memcpy(&v, p + sizeof list[n].name_len, sizeof v);
		list[n].size = XATTR_HEAD + list[n].name_len + v;
	}
	qsort(list, n, sizeof *list, attribute_order);
	for (size_t i = 0; i < n; i++) {
		if (i && same_name(&list[i - 1], &list[i]))
			continue;
		names += list[i].name_len + 1u;
		buf_append(&sorted, list[i].at, list[i].size);
	}
	buf_free(&m->xattrs);
	m->xattrs = sorted;
	if (names > TAR_XATTR_NAMES_MAX)
		return err_set(err, -E2BIG, "the names of the attributes of a file take more than %u bytes", TAR_XATTR_NAMES_MAX);
	return sorted.failed ? err_errno(err, -ENOMEM, "cannot keep attributes") : 0;
}

static int text_value(const char *key, const char *value, size_t len, const char **ret, struct edera_error *err)
{
	if (strlen(value) != len)
		return err_set(err, -EBADMSG, "the PAX record '%s' holds a NUL byte", key);
	*ret = value;
	return 0;
}

/* Seconds before the point, rounded down: "-5.5" is -6. */
static int time_value(const char *value, int64_t *ret)
{
	bool negative = *value == '-';
	const char *p = value + negative;
	bool fraction = false;
	int64_t v = 0;

	if (*p < '0' || *p > '9')
		return -EBADMSG;
	for (; *p >= '0' && *p <= '9'; p++)
		if (v < INT64_MAX / 100)
			v = v * 10 + (*p - '0');
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++)
			fraction |= *p != '0';
	if (*p)
		return -EBADMSG;
	*ret = negative ? -v - fraction : v;
	return 0;
}

struct number_key {
	const char *key;
	unsigned bit;
	size_t offset;
};

static const struct number_key number_keys[] = {
	{ "size", PAX_SIZE, offsetof(struct tar_meta, pax_size) },
	{ "uid", PAX_UID, offsetof(struct tar_meta, pax_uid) },
	{ "gid", PAX_GID, offsetof(struct tar_meta, pax_gid) },
	{ "GNU.sparse.size", PAX_REAL_SIZE | PAX_SPARSE, offsetof(struct tar_meta, pax_real_size) },
	{ "GNU.sparse.realsize", PAX_REAL_SIZE | PAX_SPARSE, offsetof(struct tar_meta, pax_real_size) },
};

/* PAX 0.0 gives offset and numbytes in turn, as records of the same names again and again. */
static int sparse_record(struct tar_meta *m, const char *key, const char *value, uint64_t *offset, struct edera_error *err)
{
	uint64_t v;

	if (!strcmp(key, "GNU.sparse.map")) {
		m->has |= PAX_SPARSE;
		return tar_meta_sparse_map(m, value, err);
	}
	if (!strcmp(key, "GNU.sparse.major")) {
		if (!strcmp(value, "1"))
			m->has |= PAX_SPARSE | PAX_SPARSE_IN_DATA;
		return 0;
	}
	if (strcmp(key, "GNU.sparse.offset") && strcmp(key, "GNU.sparse.numbytes"))
		return 0;
	if (text_parse_u64(value, 0, INT64_MAX, &v))
		return err_set(err, -EBADMSG, "the PAX record '%s' is not a number", key);
	m->has |= PAX_SPARSE;
	if (!strcmp(key, "GNU.sparse.offset")) {
		*offset = v;
		return 0;
	}
	return tar_meta_add_extent(m, *offset, v, err);
}

static int record(struct tar_meta *m, const char *key, const char *value, size_t len, uint64_t *offset, struct edera_error *err)
{
	int r = 0;

	if (text_starts(key, XATTR))
		return tar_meta_xattr(m, key + strlen(XATTR), strlen(key + strlen(XATTR)), value, len, err);
	for (size_t i = 0; i < sizeof number_keys / sizeof *number_keys; i++) {
		const struct number_key *k = &number_keys[i];

		if (strcmp(key, k->key))
			continue;
		if (len == 0) { /* as if it had not been given */
			m->has &= ~k->bit;
			return 0;
		}
		if (text_parse_u64(value, 0, INT64_MAX, (uint64_t *)((char *)m + k->offset)))
			return err_set(err, -EBADMSG, "the PAX record '%s' is not a number in range", key);
		m->has |= k->bit;
		return 0;
	}
	if (!strcmp(key, "path")) {
		r = text_value(key, value, len, &m->pax_path, err);
		m->has = len ? m->has | PAX_PATH : m->has & ~PAX_PATH;
	} else if (!strcmp(key, "linkpath")) {
		r = text_value(key, value, len, &m->pax_link, err);
		m->has = len ? m->has | PAX_LINK : m->has & ~PAX_LINK;
	} else if (!strcmp(key, "GNU.sparse.name")) {
		r = text_value(key, value, len, &m->pax_sparse_name, err);
		m->has |= PAX_SPARSE_NAME;
	} else if (!strcmp(key, "mtime")) {
		if (len == 0) {
			m->has &= ~PAX_MTIME;
			return 0;
		}
		if (time_value(value, &m->pax_mtime))
			return err_set(err, -EBADMSG, "the PAX record 'mtime' is not a time");
		m->has |= PAX_MTIME;
	} else if (text_starts(key, "GNU.sparse.")) {
		r = sparse_record(m, key, value, offset, err);
	}
	return r;
}

int tar_meta_pax(struct tar_meta *m, struct edera_error *err)
{
	char *p = (char *)m->pax_text.data, *end = p + m->pax_text.len;
	uint64_t offset = 0;

	/* A second extended header replaces the first. */
	m->has = 0;
	m->n_extents = 0;
	m->n_xattrs = 0;
	buf_clear(&m->xattrs);
	while (p < end) {
		char *key, *value, *stop = p;
		size_t n = 0;
		int r;

		while (stop < end && *stop >= '0' && *stop <= '9' && n <= TAR_SPECIAL_MAX)
			n = n * 10 + (size_t)(*stop++ - '0');
		if (stop == p || stop == end || *stop != ' ' || n > (size_t)(end - p) || n < (size_t)(stop - p) + 3 || p[n - 1] != '\n')
			return err_set(err, -EBADMSG, "a PAX header record has a wrong length");
		key = stop + 1;
		p += n;
		p[-1] = 0;
		value = memchr(key, '=', (size_t)(p - 1 - key));
		if (!value || value == key || memchr(key, 0, (size_t)(value - key)))
			return err_set(err, -EBADMSG, "a PAX header record is not 'key=value'");
		*value++ = 0;
		r = record(m, key, value, (size_t)(p - 1 - value), &offset, err);
		if (r)
			return r;
	}
	return m->n_xattrs > 1 ? settle_xattrs(m, err) : 0;
}
