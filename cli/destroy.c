/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/destroy.h"
#include "base/cleanup.h"

static int destroy_named(struct cli *cli, const struct destroyable *d, struct waiter *w, const struct strings *names, struct edera_error *err)
{
	int failed = 0;

	for (size_t i = 0; i < names->n; i++) {
		struct edera_error one = EDERA_ERROR_INIT;
		_free_ char *id = NULL;
		int r = d->resolve(cli, names->v[i], &id, &one);

		if (!r)
			r = d->destroy(cli, w, id, &one);
		if (!r)
			continue;
		if (names->n == 1) {
			*err = one;
			return r;
		}
		cli_warn("%s", one.msg);
		failed = 1;
	}
	return failed;
}

static int destroy_selected(struct cli *cli, const struct destroyable *d, struct waiter *w, const struct strings *selectors, struct edera_error *err)
{
	struct replies replies _replies_ = { 0 };
	struct list list _list_ = { 0 };
	int r = d->collect(cli, &replies, &list, err), failed = 0;

	if (!r)
		r = list_select(&list, selectors, d->type);
	if (r)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		struct edera_error one = EDERA_ERROR_INIT;

		if (d->destroy(cli, w, d->id(list.rows[i]), &one)) {
			cli_warn("%s '%s': %s", d->noun, d->name(list.rows[i]), one.msg);
			failed = 1;
		}
	}
	return failed;
}

int destroy_run(struct cli *cli, const struct destroyable *d, bool wait, const struct strings *names, const struct strings *selectors, struct edera_error *err)
{
	struct waiter *w = wait ? wait_open(cli, err) : NULL;
	int r;

	if (wait && !w)
		return -EIO;
	r = names->n ? destroy_named(cli, d, w, names, err) : destroy_selected(cli, d, w, selectors, err);
	wait_close(w);
	return r;
}
