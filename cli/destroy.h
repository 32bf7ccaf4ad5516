/* SPDX-License-Identifier: Apache-2.0 */
/* What `zone destroy` and `workload destroy` have in common: which ones, and that one failure does not save the others. */
#ifndef CLI_DESTROY_H
#define CLI_DESTROY_H

#include "cli/cli.h"
#include "cli/wait.h"

struct destroyable {
	const char *noun;
	const ProtobufCMessageDescriptor *type;
	int (*resolve)(struct cli *, const char *name, char **ret_id, struct edera_error *);
	int (*collect)(struct cli *, struct replies *, struct list *, struct edera_error *);
	const char *(*id)(const void *row);
	const char *(*name)(const void *row);
	int (*destroy)(struct cli *, struct waiter *, const char *id, struct edera_error *); /* waits unless its waiter is NULL */
};

/* Those named, or, if none is, those selected. */
int destroy_run(struct cli *, const struct destroyable *, bool wait, const struct strings *names, const struct strings *selectors, struct edera_error *);

#endif
