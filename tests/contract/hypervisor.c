/* SPDX-License-Identifier: Apache-2.0 */
/* The hypervisor kind: which tests run, and what a process does that is to be killed. */
#include "vm.h"

#include <stdio.h>

void test_hypervisor(const struct options *o, const struct edera_provide *p, void *instance)
{
	opt = o;
	ops = p->ops;
	caps = p->caps;
	inst = instance;
	run_tests(o, life_tests, n_life_tests, caps);
	run_tests(o, io_tests, n_io_tests, caps);
}

int hypervisor_leave_vm(const struct options *o, const struct edera_provide *p, void *instance, const char *id)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct edera_vm_info info = { .size = sizeof info };
	struct vm v;
	int r;

	opt = o;
	ops = p->ops;
	inst = instance;
	if (vm_prepare(&v, id))
		return -1;
	r = ops->vm_create(inst, CALL, &v.spec, &info, &err);
	if (!r)
		r = ops->vm_start(inst, CALL, id, &err);
	if (r)
		fprintf(stderr, "contract: %s\n", err.msg);
	return r;
}
