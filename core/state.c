/* SPDX-License-Identifier: Apache-2.0 */
#include "state.h"
#include "rpc/msg.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct state {
	sqlite3 *db;
	char *path;
};

/* Each entry takes the schema from its index to the next; PRAGMA user_version says where a database stands. */
static const char *const migrations[] = {
	"CREATE TABLE zone (id TEXT PRIMARY KEY, uid INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE workload (id TEXT PRIMARY KEY, zone_id TEXT NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;",
};
#define SCHEMA ((int)(sizeof migrations / sizeof migrations[0]))

static int fail(struct state *s, struct edera_error *err, const char *what)
{
	int code = sqlite3_errcode(s->db) == SQLITE_FULL ? -ENOSPC : -EIO;

	return err_set(err, code, "cannot %s the state database '%s': %s", what, s->path, sqlite3_errmsg(s->db));
}

static int migrate(struct state *s, struct edera_error *err)
{
	sqlite3_stmt *q;
	char set[64];
	int at = 0;

	if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) != SQLITE_OK)
		return fail(s, err, "read");
	if (sqlite3_step(q) == SQLITE_ROW)
		at = sqlite3_column_int(q, 0);
	if (sqlite3_finalize(q) != SQLITE_OK)
		return fail(s, err, "read");
	if (at > SCHEMA)
		return err_set(err, -ENOTSUP, "the state database '%s' has schema %d and this daemon knows up to %d: a newer protect-daemon wrote it; install that version, or move the file away (running zones are then ended)",
			       s->path, at, SCHEMA);
	for (; at < SCHEMA; at++) {
		snprintf(set, sizeof set, "PRAGMA user_version = %d", at + 1);
		if (sqlite3_exec(s->db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK || sqlite3_exec(s->db, migrations[at], NULL, NULL, NULL) != SQLITE_OK ||
		    sqlite3_exec(s->db, set, NULL, NULL, NULL) != SQLITE_OK || sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
			return fail(s, err, "update");
	}
	return 0;
}

struct state *state_open(const char *path, struct edera_error *err)
{
	struct state *s = pb_xcalloc(1, sizeof *s);

	s->path = strdup(path);
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
		fail(s, err, "open");
		state_close(s);
		return NULL;
	}
	sqlite3_busy_timeout(s->db, 2000);
	if (sqlite3_exec(s->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256;", NULL, NULL, NULL) != SQLITE_OK) {
		fail(s, err, "open");
		state_close(s);
		return NULL;
	}
	if (migrate(s, err)) {
		state_close(s);
		return NULL;
	}
	return s;
}

void state_close(struct state *s)
{
	if (!s)
		return;
	sqlite3_close(s->db);
	free(s->path);
	free(s);
}

static int put(struct state *s, const char *sql, const char *id, const char *text, int64_t number, const void *message, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;
	sqlite3_stmt *q;
	int r;

	pb_pack(message, &b);
	if (b.failed)
		return err_errno(err, -ENOMEM, "cannot write the state database '%s'", s->path);
	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
		return fail(s, err, "write");
	sqlite3_bind_text(q, 1, id, -1, SQLITE_STATIC);
	if (text)
		sqlite3_bind_text(q, 2, text, -1, SQLITE_STATIC);
	else
		sqlite3_bind_int64(q, 2, number);
	sqlite3_bind_blob(q, 3, b.data, (int)b.len, SQLITE_STATIC);
	r = sqlite3_step(q) == SQLITE_DONE ? 0 : fail(s, err, "write");
	sqlite3_finalize(q);
	return r;
}

static int delete_row(struct state *s, const char *sql, const char *id, struct edera_error *err)
{
	sqlite3_stmt *q;
	int r;

	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
		return fail(s, err, "write");
	sqlite3_bind_text(q, 1, id, -1, SQLITE_STATIC);
	r = sqlite3_step(q) == SQLITE_DONE ? 0 : fail(s, err, "write");
	sqlite3_finalize(q);
	return r;
}

int state_put_zone(struct state *s, const PbZone *z, uint32_t uid, struct edera_error *err)
{
	return put(s, "INSERT OR REPLACE INTO zone (id, uid, record) VALUES (?, ?, ?)", z->id, NULL, uid, z, err);
}

int state_delete_zone(struct state *s, const char *id, struct edera_error *err)
{
	return delete_row(s, "DELETE FROM zone WHERE id = ?", id, err);
}

int state_put_workload(struct state *s, const PbWorkload *w, struct edera_error *err)
{
	return put(s, "INSERT OR REPLACE INTO workload (id, zone_id, record) VALUES (?, ?, ?)", w->id, w->spec->zone_id, 0, w, err);
}

int state_delete_workload(struct state *s, const char *id, struct edera_error *err)
{
	return delete_row(s, "DELETE FROM workload WHERE id = ?", id, err);
}

/* Rows of an unreadable record are an error: dropping one would orphan a VM. */
static int each(struct state *s, const char *sql, const ProtobufCMessageDescriptor *d, int (*cb)(void *, void *, int64_t), void *user, struct edera_error *err)
{
	sqlite3_stmt *q;
	int r = 0, step;

	if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) != SQLITE_OK)
		return fail(s, err, "read");
	while (r == 0 && (step = sqlite3_step(q)) != SQLITE_DONE) {
		ProtobufCMessage *m;

		if (step != SQLITE_ROW) {
			r = fail(s, err, "read");
			break;
		}
		r = rpc_msg_unpack(d, sqlite3_column_blob(q, 1), (size_t)sqlite3_column_bytes(q, 1), NULL, &m, err);
		if (r)
			err_wrap(err, "the state database '%s' holds a record that cannot be read", s->path);
		else
			r = cb(user, m, sqlite3_column_int64(q, 0));
	}
	sqlite3_finalize(q);
	return r;
}

struct each_zone { int (*cb)(void *, PbZone *, uint32_t); void *user; };

static int one_zone(void *user, void *m, int64_t uid)
{
	struct each_zone *e = user;

	return e->cb(e->user, m, (uint32_t)uid);
}

int state_each_zone(struct state *s, int (*cb)(void *, PbZone *, uint32_t), void *user, struct edera_error *err)
{
	struct each_zone e = { cb, user };

	return each(s, "SELECT uid, record FROM zone ORDER BY id", PB_DESC(zone), one_zone, &e, err);
}

struct each_workload { int (*cb)(void *, PbWorkload *); void *user; };

static int one_workload(void *user, void *m, int64_t zero)
{
	struct each_workload *e = user;

	(void)zero;
	return e->cb(e->user, m);
}

int state_each_workload(struct state *s, int (*cb)(void *, PbWorkload *), void *user, struct edera_error *err)
{
	struct each_workload e = { cb, user };

	return each(s, "SELECT 0, record FROM workload ORDER BY id", PB_DESC(workload), one_workload, &e, err);
}
