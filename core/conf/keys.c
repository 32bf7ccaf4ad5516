/* SPDX-License-Identifier: Apache-2.0 */
/* Are the keys that a plugin declares sound? Apart from the rest, for who checks plugins without a configuration. */
#include "conf/value.h"
#include "base/error.h"

#include <string.h>

int conf_check_keys(const struct edera_conf_key *keys, struct edera_error *err)
{
	for (const struct edera_conf_key *k = keys; k && k->name; k++) {
		struct value v = { .spec = spec_of_key(k) };
		size_t n = strlen(k->name);
		int r;

		if (n < 1 || n > 63 || strspn(k->name, "abcdefghijklmnopqrstuvwxyz0123456789-") != n)
			return err_set(err, -EINVAL, "the configuration key '%.63s' has a bad name: expected lower-case letters, digits and '-'", k->name);
		if (k->type < EDERA_CONF_STRING || k->type > EDERA_CONF_LIST)
			return err_set(err, -EINVAL, "the configuration key %s has an unknown type (%u)", k->name, k->type);
		for (const struct edera_conf_key *before = keys; before != k; before++)
			if (!strcmp(before->name, k->name))
				return err_set(err, -EINVAL, "the configuration key %s is declared twice", k->name);
		r = value_set_default(&v, err);
		value_free(&v);
		if (r)
			return err_wrap(err, "the configuration key %s has the bad default '%.100s'", k->name, k->def);
	}
	return 0;
}
