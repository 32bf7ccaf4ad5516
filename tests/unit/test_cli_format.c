/* SPDX-License-Identifier: Apache-2.0 */
/* How messages are printed. The table is compared with a documented one; JSON is compared with Google's own elsewhere, here with what
 * the mapping's specification says. */
#include "base/cleanup.h"
#include "base/path.h"
#include "cli/format/format.h"
#include "cli/guard.h"
#include "protect/control/v1/control.pb-c.h"
#include "google/protobuf/struct.pb-c.h"

#include <CUnit/Basic.h>
#include <locale.h>
#include <string.h>

typedef Protect__Control__V1__KernelVariant Variant;

static void cell_name(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Variant *)m)->name);
}

static void cell_image(const void *m, const void *context, struct buf *b)
{
	buf_puts(b, ((const Variant *)m)->image);
}

static const struct column columns[] = { { .title = "variant", .cell = cell_name }, { .title = "image", .cell = cell_image, .missing = "n/a" } };
static const struct list_view view = { columns, ARRAY_SIZE(columns), NULL, 0, "no kernel variants are configured", NULL };

static Variant variant(const char *name, const char *image)
{
	Variant v = PROTECT__CONTROL__V1__KERNEL_VARIANT__INIT;

	v.name = (char *)name;
	v.image = (char *)image;
	return v;
}

static void printed(enum format format, const void *const *rows, size_t n, const char *expected)
{
	struct buf out _buf_ = BUF_INIT;

	format_list(&out, format, &view, rows, n, false);
	buf_puts(&out, "");
	CU_ASSERT_PTR_NOT_NULL_FATAL(out.data);
	if (strcmp((char *)out.data, expected))
		fprintf(stderr, "got:\n%sexpected:\n%s", out.data, expected);
	CU_ASSERT_STRING_EQUAL((char *)out.data, expected);
}

static void documented_table(void)
{
	Variant v = variant("nvidia", "ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02");
	const void *rows[] = { &v };
	struct buf expected _buf_ = BUF_INIT;
	char path[PATH_CAP];

	CU_ASSERT_EQUAL_FATAL(path_format(path, NULL, "%s/tests/unit/cli/kernel-variants.table", SRC_DIR), 0);
	CU_ASSERT_EQUAL_FATAL(path_read_file(path, 65536, &expected, NULL), 0);
	printed(FORMAT_TABLE, rows, 1, (char *)expected.data);
}

static void formats(void)
{
	Variant a = variant("nvidia", "ghcr.io/x/y:1"), b = variant("a \"b\"", "");
	const void *rows[] = { &a, &b };

	printed(FORMAT_JSON, rows, 2, "[{\"name\":\"nvidia\",\"image\":\"ghcr.io/x/y:1\"},{\"name\":\"a \\\"b\\\"\"}]\n");
	printed(FORMAT_JSONL, rows, 2, "{\"name\":\"nvidia\",\"image\":\"ghcr.io/x/y:1\"}\n{\"name\":\"a \\\"b\\\"\"}\n");
	printed(FORMAT_JSON_PRETTY, rows, 1, "[\n  {\n    \"name\": \"nvidia\",\n    \"image\": \"ghcr.io/x/y:1\"\n  }\n]\n");
	printed(FORMAT_YAML, rows, 2, "- name: nvidia\n  image: ghcr.io/x/y:1\n- name: a \"b\"\n");
	printed(FORMAT_KEY_VALUE, rows, 2, "name=\"nvidia\" image=\"ghcr.io/x/y:1\"\nname=\"a \\\"b\\\"\"\n");
	printed(FORMAT_SIMPLE, rows, 2, "nvidia\tghcr.io/x/y:1\na \"b\"\t\n");
	printed(FORMAT_JSON, rows, 0, "[]\n");
	printed(FORMAT_JSONL, rows, 0, "");
	printed(FORMAT_TABLE, rows, 0, "no kernel variants are configured\n");
}

/* Whatever a guest calls itself, a terminal sees text, and the frame stays straight. */
static void hostile_text(void)
{
	Variant v = variant("a\033[2J\n\tb\x7f\xff", "\xc2\x9b" "31m\xe2\x80\xae" "x\xe7\x8c\xab" "e\xcc\x81");
	const void *rows[] = { &v };

	printed(FORMAT_TABLE, rows, 1,
		"┌───────────────────────┬─────────────────────────┐\n"
		"│ variant               ┆ image                   │\n"
		"╞═══════════════════════╪═════════════════════════╡\n"
		"│ a\\x1b[2J\\n\\tb\\x7f\\xff ┆ \\u{009b}31m\\u{202e}x\xe7\x8c\xab" "e\xcc\x81 │\n"
		"└───────────────────────┴─────────────────────────┘\n");
	printed(FORMAT_SIMPLE, rows, 1, "a\\x1b[2J\\n\\tb\\x7f\\xff\t\\u{009b}31m\\u{202e}x\xe7\x8c\xab" "e\xcc\x81\n");
	v = variant("\033[2J", "\xc2\x9b" "x\xe2\x80\xae\x7f");
	printed(FORMAT_JSON, rows, 1, "[{\"name\":\"\\u001b[2J\",\"image\":\"\\u009bx\\u202e\\u007f\"}]\n");
	printed(FORMAT_KEY_VALUE, rows, 1, "name=\"\\x1b[2J\" image=\"\\u{009b}x\\u{202e}\\x7f\"\n");
	printed(FORMAT_YAML, rows, 1, "- name: \"\\e[2J\"\n  image: \"\\x9Bx\\u202E\\x7F\"\n");
}

static void yaml_strings(void)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "12", "'12'" }, { "1.5e3", "'1.5e3'" }, { "true", "'true'" }, { "No", "'No'" }, { "null", "'null'" }, { "~", "'~'" }, { "0x1f", "'0x1f'" },
		{ "2024-01-02T03:04:05Z", "'2024-01-02T03:04:05Z'" }, { "a: b", "'a: b'" }, { "- x", "'- x'" }, { "#x", "'#x'" }, { "two\nlines", "\"two\\nlines\"" },
		{ "1_000", "'1_000'" }, { "12:30", "'12:30'" },
		{ "49ba89d8-3567-4150-a18c-003d686fa618", "49ba89d8-3567-4150-a18c-003d686fa618" }, { "10.0.0.1/8", "10.0.0.1/8" }, { "6.18-nvidia", "6.18-nvidia" }, { "ZONE_STATE_READY", "ZONE_STATE_READY" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Variant v = variant(cases[i].in, "");
		const void *rows[] = { &v };
		struct buf expected _buf_ = BUF_INIT;

		buf_printf(&expected, "- name: %s\n", cases[i].out);
		printed(FORMAT_YAML, rows, 1, (char *)expected.data);
	}
}

static void json_is(const void *message, const char *expected)
{
	struct json_object *o = format_message(message);
	struct buf out _buf_ = BUF_INIT;

	format_json(&out, o, false);
	if (strcmp((char *)out.data, expected))
		fprintf(stderr, "got %s\nnot %s\n", out.data, expected);
	CU_ASSERT_STRING_EQUAL((char *)out.data, expected);
	json_object_put(o);
}

static void json_mapping(void)
{
	Protect__Control__V1__GetHostStatusReply status = PROTECT__CONTROL__V1__GET_HOST_STATUS_REPLY__INIT;
	Protect__Control__V1__GetHostResourcesReply resources = PROTECT__CONTROL__V1__GET_HOST_RESOURCES_REPLY__INIT;
	Protect__Control__V1__OciImageMetadata metadata = PROTECT__CONTROL__V1__OCI_IMAGE_METADATA__INIT;
	Protect__Control__V1__ZoneStatus zone = PROTECT__CONTROL__V1__ZONE_STATUS__INIT;
	Google__Protobuf__Timestamp t = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
	Protect__Control__V1__ZoneKernelThreadInfo info = PROTECT__CONTROL__V1__ZONE_KERNEL_THREAD_INFO__INIT;
	Protect__Control__V1__ZoneKernelThreadInfo__FdlistEntry entry = PROTECT__CONTROL__V1__ZONE_KERNEL_THREAD_INFO__FDLIST_ENTRY__INIT;
	Protect__Control__V1__ZoneKernelFdInfo fd = PROTECT__CONTROL__V1__ZONE_KERNEL_FD_INFO__INIT;
	Protect__Control__V1__ZoneKernelThreadInfo__FdlistEntry *entries[] = { &entry };

	json_is(&status, "{}");
	/* Presence is kept: a zero that was said is printed. */
	status._hyp_free_mem_case = PROTECT__CONTROL__V1__GET_HOST_STATUS_REPLY___HYP_FREE_MEM_HYP_FREE_MEM;
	status.host_domid = 4294967295;
	json_is(&status, "{\"hostDomid\":4294967295,\"hypFreeMem\":\"0\"}");

	resources.hypervisor_total_memory = 18446744073709551615ull;
	resources.hypervisor_cpu_usage = 0.1;
	resources.host_cpu_usage = 100;
	resources.hypervisor_cpu_total_time = 1;
	json_is(&resources, "{\"hypervisorTotalMemory\":\"18446744073709551615\",\"hypervisorCpuUsage\":0.1,\"hypervisorCpuTotalTime\":\"1\",\"hostCpuUsage\":100.0}");

	metadata.manifest = (ProtobufCBinaryData){ 1, (uint8_t *)"\xff" };
	metadata.config = (ProtobufCBinaryData){ 5, (uint8_t *)"hello" };
	json_is(&metadata, "{\"manifest\":\"/w==\",\"config\":\"aGVsbG8=\"}");

	zone.state = PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_READY;
	zone.created_at = &t;
	t.seconds = 1700000000;
	json_is(&zone, "{\"state\":\"ZONE_STATE_READY\",\"createdAt\":\"2023-11-14T22:13:20Z\"}");
	t.nanos = 120000000;
	json_is(&zone, "{\"state\":\"ZONE_STATE_READY\",\"createdAt\":\"2023-11-14T22:13:20.120Z\"}");
	t.nanos = 1;
	zone.state = (Protect__Control__V1__ZoneState)99;
	json_is(&zone, "{\"state\":99,\"createdAt\":\"2023-11-14T22:13:20.000000001Z\"}");

	entry.key = 7;
	entry.value = &fd;
	info.fdlist = entries;
	info.n_fdlist = 1;
	json_is(&info, "{\"fdlist\":{\"7\":{}}}");
}

static void reals(void)
{
	static const struct { double v; const char *json; } cases[] = {
		{ 1, "1.0" }, { -0.5, "-0.5" }, { 1234.5678, "1234.5678" }, { 1e15, "1000000000000000.0" }, { 1e16, "1e+16" }, { 1.0 / 3, "0.3333333333333333" },
		{ 0.0001, "0.0001" }, { 0.00001, "1e-05" }, { 5e-324, "5e-324" }, { 99.99, "99.99" }, { 1 / 0.0, "\"Infinity\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Google__Protobuf__Value v = GOOGLE__PROTOBUF__VALUE__INIT;

		v.kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE;
		v.number_value = cases[i].v;
		json_is(&v, cases[i].json);
	}
}

static bool selects(const char *text, const void *message)
{
	struct edera_error err = EDERA_ERROR_INIT;
	struct selector *s = NULL;
	bool match;

	if (selector_new(text, &protect__control__v1__zone__descriptor, &s, &err)) {
		fprintf(stderr, "%s\n", err.msg);
		CU_FAIL("selector refused");
		return false;
	}
	match = selector_match(s, message);
	selector_free(s);
	return match;
}

static void selectors(void)
{
	Protect__Control__V1__Zone zone = PROTECT__CONTROL__V1__ZONE__INIT, bare = PROTECT__CONTROL__V1__ZONE__INIT;
	Protect__Control__V1__ZoneStatus status = PROTECT__CONTROL__V1__ZONE_STATUS__INIT;
	Protect__Control__V1__ZoneSpec spec = PROTECT__CONTROL__V1__ZONE_SPEC__INIT;
	static const char *const bad[] = { "status.state", "=x", "status=x", "status.stat=x", "spec.annotations=x", "status.state.x=y", ".=x", "status..state=x" };

	status.state = PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_READY;
	status.domid = 7;
	spec.name = (char *)"web";
	zone.status = &status;
	zone.spec = &spec;
	CU_ASSERT_TRUE(selects("status.state=ready", &zone));
	CU_ASSERT_TRUE(selects("status.state=READY", &zone));
	CU_ASSERT_TRUE(selects("status.state==ZONE_STATE_READY", &zone));
	CU_ASSERT_FALSE(selects("status.state=failed", &zone));
	CU_ASSERT_TRUE(selects("status.state!=failed", &zone));
	CU_ASSERT_TRUE(selects("status.domid=7", &zone));
	CU_ASSERT_TRUE(selects("spec.name=web", &zone));
	CU_ASSERT_FALSE(selects("spec.name=we", &zone));
	CU_ASSERT_TRUE(selects("spec.fork_parent_zone_id=", &zone));
	CU_ASSERT_TRUE(selects("spec.forkParentZoneId=", &zone));
	CU_ASSERT_TRUE(selects("status.state=unknown", &bare));
	CU_ASSERT_TRUE(selects("spec.name=", &bare));
	CU_ASSERT_FALSE(selects("status.exit_status.code=1", &zone));
	CU_ASSERT_TRUE(selects("status.exit_status.code=0", &bare));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct edera_error err = EDERA_ERROR_INIT;
		struct selector *s = NULL;

		CU_ASSERT_EQUAL(selector_new(bad[i], &protect__control__v1__zone__descriptor, &s, &err), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "selector"));
		CU_ASSERT_PTR_NULL(s);
	}
}

static void words(void)
{
	struct buf b _buf_ = BUF_INIT;

	format_enum_word(&b, &protect__control__v1__zone_state__descriptor, PROTECT__CONTROL__V1__ZONE_STATE__ZONE_STATE_CREATING);
	buf_puts(&b, " ");
	format_enum_word(&b, &protect__control__v1__workload_state__descriptor, PROTECT__CONTROL__V1__WORKLOAD_STATE__WORKLOAD_STATE_OOMKILLED);
	buf_puts(&b, " ");
	format_enum_word(&b, &protect__control__v1__zone_state__descriptor, 1000);
	CU_ASSERT_STRING_EQUAL((char *)b.data, "creating oomkilled 1000");
}

/* A log may be cut anywhere: fed whole and byte by byte, the result is the same. */
static void guarded(void)
{
	static const struct { const char *in, *out; } cases[] = {
		{ "plain\r\n\ttext \xc3\xa9\n", "plain\r\n\ttext \xc3\xa9\n" },
		{ "\033[1;31mred\033[0m \033[m", "\033[1;31mred\033[0m \033[m" },
		{ "\033[2Jx\033]0;title\a", "\\x1b[2Jx\\x1b]0;title\\x07" },
		{ "\033\033[31m", "\\x1b\033[31m" },
		{ "\033[31\033[32m", "\\x1b[31\033[32m" },
		{ "\xc2\x9b" "31m\xc2\xa9\x7f", "\\xc2\\x9b31m\xc2\xa9\\x7f" },
		{ "\033[1111111111111111111111111111111m", "\\x1b[1111111111111111111111111111111m" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf whole _buf_ = BUF_INIT, pieces _buf_ = BUF_INIT;
		struct guard a = { 0 }, b = { 0 };

		guard_filter(&a, cases[i].in, strlen(cases[i].in), &whole);
		for (const char *c = cases[i].in; *c; c++)
			guard_filter(&b, c, 1, &pieces);
		CU_ASSERT_STRING_EQUAL((char *)whole.data, cases[i].out);
		CU_ASSERT_STRING_EQUAL((char *)pieces.data, cases[i].out);
	}
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "the documented table", documented_table }, { "all formats", formats }, { "hostile text", hostile_text }, { "strings in YAML", yaml_strings },
		{ "JSON mapping", json_mapping }, { "real numbers", reals }, { "selectors", selectors }, { "words for enums", words }, { "guarded logs", guarded }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "cli formats", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	setlocale(LC_CTYPE, "C.UTF-8");
	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
