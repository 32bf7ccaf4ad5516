/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `protect`: parsing against the real tree. */
#include "cli/args.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/tree.h"

#include <CUnit/Basic.h>
#include <string.h>

/* Splits at blanks; "" stands for nothing. Returns args_parse's answer. */
static int parse(const char *line, struct parsed *p, struct edera_error *err)
{
	static char copy[512];
	const char *argv[32];
	int argc = 0;

	snprintf(copy, sizeof copy, "%s", line);
	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	argv[argc] = NULL;
	*err = (struct edera_error)EDERA_ERROR_INIT;
	return args_parse(&root_command, argc, argv, p, err);
}

static const void *value(const struct parsed *p, const char *name)
{
	const struct opt *o = args_find_long(p->path[p->depth - 1], name, strlen(name));

	CU_ASSERT_PTR_NOT_NULL_FATAL(o);
	return (const char *)p->args + o->offset;
}

#define STRING(name) (*(const char *const *)value(&p, name))
#define NUMBER(type, name) (*(const type *)value(&p, name))

static void accepts(const char *line, const char *path, size_t n_operands)
{
	struct edera_error err;
	struct parsed p;
	char got[128];
	int r = parse(line, &p, &err);

	args_path(&p, got, sizeof got);
	if (r || strcmp(got, path) || p.operands.n != n_operands)
		fprintf(stderr, "'%s' gave %d, '%s', %zu operands: %s\n", line, r, got, p.operands.n, err.msg);
	CU_ASSERT_EQUAL(r, 0);
	CU_ASSERT_STRING_EQUAL(got, path);
	CU_ASSERT_EQUAL(p.operands.n, n_operands);
	parsed_free(&p);
}

static void refuses(const char *line, const char *sentence)
{
	struct edera_error err;
	struct parsed p;
	int r = parse(line, &p, &err);

	if (r != -EINVAL || !strstr(err.msg, sentence))
		fprintf(stderr, "'%s' gave %d: %s\n", line, r, err.msg);
	CU_ASSERT_EQUAL(r, -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, sentence));
	parsed_free(&p);
}

/* Every command line that is documented for users of this command. */
static void documented(void)
{
	accepts("protect zone launch -n web --wait", "protect zone launch", 0);
	accepts("protect zone launch --name zone-gpu --kernel-variant nvidia", "protect zone launch", 0);
	accepts("protect zone launch --name zone-test --kernel ghcr.io/edera-dev/zone-kernel:latest", "protect zone launch", 0);
	accepts("protect zone launch -n test-zone --min-cpus 1 -C 2 -c 2 --wait", "protect zone launch", 0);
	accepts("protect zone launch --name zone-gpu --device gpu0 --kernel-verbose --target-memory 2048 --resource-adjustment-policy static --kernel-variant nvidia "
		"--pull-overwrite-cache", "protect zone launch", 0);
	accepts("protect zone launch -n x --create-scratch-disk 1024 --network-backend none -V pvh", "protect zone launch", 0);
	accepts("protect zone list", "protect zone list", 0);
	accepts("protect zone list web", "protect zone list", 1);
	accepts("protect zone list --output json-pretty", "protect zone list", 0);
	accepts("protect zone list --selector status.state=failed", "protect zone list", 0);
	accepts("protect zone watch", "protect zone watch", 0);
	accepts("protect zone logs web --follow", "protect zone logs", 1);
	accepts("protect zone logs -f web", "protect zone logs", 1);
	accepts("protect zone destroy web", "protect zone destroy", 1);
	accepts("protect zone destroy -A", "protect zone destroy", 0);
	accepts("protect zone update-resources -m 4096 web -p static", "protect zone update-resources", 1);
	accepts("protect workload launch --zone z --name w -t -a -m script:/agent.sh img sh -c true", "protect workload launch", 4);
	accepts("protect workload launch --zone z --name w -- img sh -t", "protect workload launch", 3);
	accepts("protect workload launch --zone z --name w img -- sh -t", "protect workload launch", 3);
	accepts("protect workload launch --wait --privileged --zone z --name w img", "protect workload launch", 1);
	accepts("protect workload exec --tty w sh -c id", "protect workload exec", 4);
	accepts("protect workload exec w -- cat --help", "protect workload exec", 3);
	accepts("protect workload list --output yaml --selector status.state=running", "protect workload list", 0);
	accepts("protect workload destroy w --wait", "protect workload destroy", 1);
	accepts("protect image list --output table", "protect image list", 0);
	accepts("protect image list-kernel-variants --output json-pretty", "protect image list-kernel-variants", 0);
	accepts("protect image pull --overwrite-cache img", "protect image pull", 1);
	accepts("protect image remove sha256:00", "protect image remove", 1);
	accepts("protect host hv-console", "protect host hv-console", 0);
	accepts("protect host hv-debug-info", "protect host hv-debug-info", 0);
	accepts("protect network reservation list -f json", "protect network reservation list", 0);
	accepts("protect --connection unix:///x zone list", "protect zone list", 0);
	accepts("protect zone list --connection=/x", "protect zone list", 0);
}

static void values(void)
{
	struct edera_error err;
	struct parsed p;

	CU_ASSERT_EQUAL(parse("protect zone launch -C4 -c=2 -M 512 --target-memory=300 -Wn web -A a=b --annotation c=d=e --name last", &p, &err), 0);
	CU_ASSERT_EQUAL(NUMBER(uint32_t, "max-cpus"), 4);
	CU_ASSERT_EQUAL(NUMBER(uint32_t, "target-cpus"), 2);
	CU_ASSERT_EQUAL(NUMBER(uint64_t, "max-memory"), 512);
	CU_ASSERT_EQUAL(NUMBER(uint64_t, "target-memory"), 300);
	CU_ASSERT_EQUAL(NUMBER(uint64_t, "min-memory"), 0);
	CU_ASSERT_TRUE(NUMBER(bool, "wait"));
	CU_ASSERT_STRING_EQUAL(STRING("name"), "last");
	CU_ASSERT_EQUAL(NUMBER(struct strings, "annotation").n, 2);
	CU_ASSERT_STRING_EQUAL(NUMBER(struct strings, "annotation").v[1], "c=d=e");
	parsed_free(&p);

	CU_ASSERT_EQUAL(parse("protect zone list", &p, &err), 0);
	CU_ASSERT_STRING_EQUAL(STRING("output"), "table");
	parsed_free(&p);
	CU_ASSERT_EQUAL(parse("protect zone list -f yaml", &p, &err), 0);
	CU_ASSERT_STRING_EQUAL(STRING("output"), "yaml");
	parsed_free(&p);
	CU_ASSERT_EQUAL(parse("protect zone list --format=jsonl", &p, &err), 0);
	CU_ASSERT_STRING_EQUAL(STRING("output"), "jsonl");
	parsed_free(&p);
}

/* Behind the image everything is the command's, whatever it looks like. */
static void commands(void)
{
	static const char *const expected[] = { "img", "sh", "-t", "--name", "x", "--", "-a" };
	struct edera_error err;
	struct parsed p;

	CU_ASSERT_EQUAL(parse("protect workload launch --zone z --name w -ta img sh -t --name x -- -a", &p, &err), 0);
	CU_ASSERT_EQUAL_FATAL(p.operands.n, ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		CU_ASSERT_STRING_EQUAL(p.operands.v[i], expected[i]);
	CU_ASSERT_TRUE(NUMBER(bool, "tty"));
	CU_ASSERT_TRUE(NUMBER(bool, "attach"));
	CU_ASSERT_STRING_EQUAL(STRING("name"), "w");
	parsed_free(&p);

	/* Help asked of the command to run is not ours. */
	CU_ASSERT_EQUAL(parse("protect zone exec web ls --help", &p, &err), 0);
	CU_ASSERT_FALSE(p.global.help);
	parsed_free(&p);
}

static void mistakes(void)
{
	refuses("protect zone lanch", "did you mean 'protect zone launch'?");
	refuses("protect zones list", "did you mean 'protect zone'?");
	refuses("protect zone list --selctor a=b", "did you mean '--selector'?");
	refuses("protect zone launch -n x --kernel-varient nvidia", "did you mean '--kernel-variant'?");
	refuses("protect zone list --frobnicate", "has no option '--frobnicate'; 'protect zone list --help'");
	refuses("protect zone list -x", "has no option '-x'");
	refuses("protect zone list --output tabel", "takes one of: table, json");
	refuses("protect zone launch -n x -C two", "--max-cpus takes a whole number, not 'two'");
	refuses("protect zone launch -n x -C 4294967296", "a whole number up to 4294967295, not");
	refuses("protect zone launch -n x -C -1", "needs a value before '-1'");
	refuses("protect zone launch -n", "--name needs a value");
	refuses("protect zone launch --name --wait", "needs a value before '--wait'");
	refuses("protect zone launch --wait=yes -n x", "--wait takes no value");
	refuses("protect zone launch", "needs --name NAME");
	refuses("protect zone exec web", "needs more operands");
	refuses("protect zone logs", "needs ZONE");
	refuses("protect zone list a b", "has no use for 'b'");
	refuses("protect zone", "needs a command");
	refuses("protect", "needs a command");
}

/* Walks the tree: each command has help that names it and each of its options; no name or letter means two things. */
static void help_of(const struct parsed *p)
{
	const struct command *c = p->path[p->depth - 1];
	char *text = NULL, path[128];
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	args_path(p, path, sizeof path);
	help_print(f, p, 80);
	fclose(f);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, path));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, c->summary));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!text_starts(line, "  protect ") && !text_starts(line, "Usage:"))
			CU_ASSERT(strlen(line) <= 80);
	for (size_t i = 0; i < c->n_options; i++) {
		const struct opt *o = &c->options[i];

		CU_ASSERT_PTR_EQUAL(args_find_long(c, o->name, strlen(o->name)), o);
		if (o->letter)
			CU_ASSERT_PTR_EQUAL(args_find_letter(c, o->letter), o);
		CU_ASSERT_EQUAL(o->type == OPT_FLAG, !o->meta);
		CU_ASSERT_FALSE(text_ends(o->help, "."));
	}
	free(text);
}

static void walk(struct parsed *p)
{
	const struct command *c = p->path[p->depth - 1];

	help_of(p);
	CU_ASSERT_EQUAL(!c->sub, !!c->run);
	CU_ASSERT_TRUE(!c->n_options || c->args_size);
	for (size_t i = 0; c->sub && c->sub[i]; i++) {
		p->path[p->depth++] = c->sub[i];
		walk(p);
		p->depth--;
	}
}

static void tree(void)
{
	struct parsed p = { .path = { &root_command }, .depth = 1 };

	walk(&p);
}

static void help_anywhere(void)
{
	static const char *const lines[] = { "protect --help", "protect zone -h", "protect zone launch --help", "protect zone --help launch", "protect zone launch -n x -Wh",
					     "protect zone help launch", "protect zone exec --help" };

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct edera_error err;
		struct parsed p;

		CU_ASSERT_EQUAL(parse(lines[i], &p, &err), 0);
		CU_ASSERT_TRUE(p.global.help);
		parsed_free(&p);
	}
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "documented command lines", documented }, { "values", values }, { "commands to run", commands }, { "mistakes", mistakes },
		{ "tree and help", tree }, { "help anywhere", help_anywhere }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "cli arguments", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
