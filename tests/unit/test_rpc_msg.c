/* SPDX-License-Identifier: Apache-2.0 */
#include <CUnit/Basic.h>
#include <CUnit/CUnit.h>
#include <stdlib.h>
#include <string.h>
#include "base/buf.h"
#include "protect/control/v1/common.pb-c.h"
#include "rpc/msg.h"
#include "rpc/status.h"

#define ZONE (&protect__control__v1__zone__descriptor)
#define PROCESS (&protect__control__v1__process_spec__descriptor)
#define METRIC (&protect__control__v1__metric_node__descriptor)
#define USER (&protect__control__v1__id_or_name_value__descriptor)

/* ---- bytes by hand ---- */

static void put_varint(struct buf *b, uint64_t v)
{
	do {
		uint8_t byte = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);

		buf_append(b, &byte, 1);
	} while (v >>= 7);
}

static void put_bytes(struct buf *b, uint32_t field, const void *data, size_t len)
{
	put_varint(b, (uint64_t)field << 3 | 2);
	put_varint(b, len);
	buf_append(b, data, len);
}

static int check(const ProtobufCMessageDescriptor *d, const struct buf *b, struct edera_error *err)
{
	ProtobufCMessage *m = NULL;
	int r = rpc_msg_check(d, b->data, b->len, NULL, err), u = rpc_msg_unpack(d, b->data, b->len, NULL, &m, NULL);

	CU_ASSERT_EQUAL(r, u);
	CU_ASSERT((m != NULL) == !u);
	if (m)
		protobuf_c_message_free_unpacked(m, NULL);
	return r;
}

static int check_hex(const ProtobufCMessageDescriptor *d, const char *hex, struct edera_error *err)
{
	_buf_ struct buf b = BUF_INIT;

	for (; *hex; hex += *hex == ' ' ? 1 : 2) {
		char two[3] = { hex[0], hex[1], 0 };
		uint8_t byte = (uint8_t)strtoul(two, NULL, 16);

		if (*hex != ' ')
			buf_append(&b, &byte, 1);
	}
	return check(d, &b, err);
}

/* ---- what is taken ---- */

static void test_valid(void)
{
	_buf_ struct buf b = BUF_INIT;
	Protect__Control__V1__ProcessSpec p = PROTECT__CONTROL__V1__PROCESS_SPEC__INIT, *back;
	char *command[] = { (char *)"echo", (char *)"grüße ✓ 𝄞", (char *)"" };
	int64_t gids[] = { 1, -1, 1000000 };

	p.n_command = 3;
	p.command = command;
	p.n_additional_gids = 3;
	p.additional_gids = gids;
	buf_reserve(&b, protobuf_c_message_get_packed_size(&p.base));
	b.len = protobuf_c_message_pack(&p.base, b.data);
	CU_ASSERT_EQUAL_FATAL(rpc_msg_unpack(PROCESS, b.data, b.len, NULL, (ProtobufCMessage **)&back, NULL), 0);
	CU_ASSERT_EQUAL(back->n_command, 3);
	CU_ASSERT_STRING_EQUAL(back->command[1], command[1]);
	CU_ASSERT_EQUAL(back->n_additional_gids, 3);
	CU_ASSERT_EQUAL(back->additional_gids[1], -1);
	protobuf_c_message_free_unpacked(&back->base, NULL);
	CU_ASSERT_EQUAL(rpc_msg_unpack(PROCESS, NULL, 0, NULL, (ProtobufCMessage **)&back, NULL), 0); /* nothing is an empty message */
	protobuf_c_message_free_unpacked(&back->base, NULL);
}

static void test_packed_or_not(void)
{
	CU_ASSERT_EQUAL(check_hex(PROCESS, "6a 03 01 02 03", NULL), 0);    /* packed additional_gids */
	CU_ASSERT_EQUAL(check_hex(PROCESS, "68 01 68 02", NULL), 0);       /* the same field one by one */
	CU_ASSERT_EQUAL(check_hex(PROCESS, "6a 02 01 80", NULL), -EPROTO); /* ends within a number */
	CU_ASSERT_EQUAL(check_hex(PROCESS, "6a 00", NULL), 0);
}

static void test_unknown_fields(void)
{
	CU_ASSERT_EQUAL(check_hex(USER, "f8 01 05 fa 01 02 ff 00 fd 01 00 00 00 00 f9 01 00 00 00 00 00 00 00 00", NULL), 0);
	CU_ASSERT_EQUAL(check_hex(USER, "fa 01 05 00", NULL), -EPROTO); /* of an unknown field the length counts all the same */
}

/* ---- what is refused ---- */

static void test_malformed(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	CU_ASSERT_EQUAL(check_hex(ZONE, "0a", NULL), -EPROTO);          /* no length */
	CU_ASSERT_EQUAL(check_hex(ZONE, "0a 05 61", NULL), -EPROTO);    /* too short */
	CU_ASSERT_EQUAL(check_hex(ZONE, "0a ff ff ff ff 0f", NULL), -EPROTO);
	CU_ASSERT_EQUAL(check_hex(ZONE, "0a ff ff ff ff ff ff ff ff ff 01", NULL), -EPROTO);
	CU_ASSERT_EQUAL(check_hex(ZONE, "00 00", NULL), -EPROTO);       /* field 0 */
	CU_ASSERT_EQUAL(check_hex(ZONE, "02 00", NULL), -EPROTO);
	CU_ASSERT_EQUAL(check_hex(ZONE, "80", NULL), -EPROTO);          /* half a tag */
	CU_ASSERT_EQUAL(check_hex(ZONE, "8a 80 80 80 80 00 00", NULL), -EPROTO); /* a tag of six bytes */
	CU_ASSERT_EQUAL(check_hex(ZONE, "7b 7c", NULL), -EPROTO);       /* a group */
	CU_ASSERT_EQUAL(check_hex(ZONE, "7e", NULL), -EPROTO);          /* wire type 6 */
	CU_ASSERT_EQUAL(check_hex(USER, "08 80 80 80 80 80 80 80 80 80 80 01", NULL), -EPROTO); /* a number of eleven bytes */
	CU_ASSERT_EQUAL(check_hex(USER, "0d 01 00 00 00", NULL), -EPROTO); /* id as fixed32 */
	CU_ASSERT_EQUAL(check_hex(ZONE, "08 01", &err), -EPROTO);       /* a number where text belongs */
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "protect.control.v1.Zone, field id"));
}

static void test_strings(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	CU_ASSERT_EQUAL(check_hex(USER, "12 03 61 00 62", &err), -EPROTO); /* would read as "a" */
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "field name"));
	CU_ASSERT_EQUAL(check_hex(USER, "12 01 ff", NULL), -EPROTO);
	CU_ASSERT_EQUAL(check_hex(USER, "12 02 c0 80", NULL), -EPROTO);       /* overlong */
	CU_ASSERT_EQUAL(check_hex(USER, "12 03 ed a0 80", NULL), -EPROTO);    /* surrogate */
	CU_ASSERT_EQUAL(check_hex(USER, "12 04 f4 90 80 80", NULL), -EPROTO); /* above U+10FFFF */
	CU_ASSERT_EQUAL(check_hex(USER, "12 02 c3", NULL), -EPROTO);
	CU_ASSERT_EQUAL(check_hex(USER, "12 03 e2 9c 93", NULL), 0);
	CU_ASSERT_EQUAL(check_hex(PROCESS, "12 01 61 12 01 80", NULL), -EPROTO); /* the second of a repeated one */
}

static void nest(struct buf *b, unsigned depth)
{
	for (unsigned i = 0; i < depth; i++) {
		_buf_ struct buf inner = *b;

		*b = (struct buf)BUF_INIT;
		put_bytes(b, 4, inner.data, inner.len);
	}
}

static void test_depth(void)
{
	_buf_ struct buf ok = BUF_INIT, deep = BUF_INIT, abyss = BUF_INIT;
	struct edera_error err = EDERA_ERROR_INIT;

	nest(&ok, 31);
	CU_ASSERT_EQUAL(check(METRIC, &ok, NULL), 0);
	nest(&deep, 32);
	CU_ASSERT_EQUAL(check(METRIC, &deep, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "too deep"));
	nest(&abyss, 10000); /* protobuf-c alone would take the stack with it */
	CU_ASSERT_EQUAL(check(METRIC, &abyss, NULL), -EPROTO);
}

static void test_elements(void)
{
	_buf_ struct buf children = BUF_INIT, packed = BUF_INIT, numbers = BUF_INIT, again = BUF_INIT, unknown = BUF_INIT;
	struct edera_error err = EDERA_ERROR_INIT;

	for (int i = 0; i < 65536; i++)
		put_bytes(&children, 4, "", 0);
	CU_ASSERT_EQUAL(check(METRIC, &children, NULL), 0);
	put_bytes(&children, 4, "", 0);
	CU_ASSERT_EQUAL(check(METRIC, &children, &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "too many"));

	for (int i = 0; i < 65537; i++)
		put_varint(&numbers, 1);
	put_bytes(&packed, 13, numbers.data, numbers.len);
	CU_ASSERT_EQUAL(check(PROCESS, &packed, NULL), -EPROTO);

	for (int i = 0; i < 100000; i++)
		buf_append(&again, "\x20\x01", 2); /* the unpacker would note each one */
	CU_ASSERT_EQUAL(check(PROCESS, &again, NULL), -EPROTO);
	for (int i = 0; i < 100000; i++)
		buf_append(&unknown, "\x78\x01", 2);
	CU_ASSERT_EQUAL(check(PROCESS, &unknown, NULL), -EPROTO);
}

static void test_size(void)
{
	_buf_ struct buf b = BUF_INIT, big = BUF_INIT;
	const struct rpc_msg_limits small = { .max_bytes = 10, .max_depth = 2, .max_fields = 1 };

	put_bytes(&b, 2, "0123456789", 10);
	CU_ASSERT_EQUAL(rpc_msg_check(USER, b.data, b.len, &small, NULL), -EPROTO);
	CU_ASSERT_EQUAL(rpc_msg_check(USER, b.data, b.len, NULL, NULL), 0);
	buf_reserve(&big, 4u << 20);
	memset(big.data, 'a', 4u << 20);
	buf_clear(&b);
	put_bytes(&b, 2, big.data, (4u << 20) - 5);
	CU_ASSERT_EQUAL(b.len, 4u << 20);
	CU_ASSERT_EQUAL(check(USER, &b, NULL), 0);
	buf_clear(&b);
	put_bytes(&b, 2, big.data, (4u << 20) - 4);
	CU_ASSERT_EQUAL(check(USER, &b, NULL), -EPROTO);
}

/* protobuf-c 1.4.1 cannot merge two that hold a oneof which neither sets. */
static void test_twice(void)
{
	struct edera_error err = EDERA_ERROR_INIT;

	CU_ASSERT_EQUAL(check_hex(&protect__control__v1__workload__descriptor, "12 00 12 00", &err), -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "field spec: given more than once"));
	CU_ASSERT_EQUAL(check_hex(USER, "08 01 08 02 12 01 61 12 01 62 08 03", NULL), 0); /* of numbers and text the last one holds */
}

/* ---- what we send ---- */

static void test_force_utf8(void)
{
	char bad[] = "a\xff\xfe" "b", fine[] = "ü", name[] = "\xc3", deep[] = "\x80x";
	char *command[] = { bad, fine };
	Protect__Control__V1__ProcessSpec p = PROTECT__CONTROL__V1__PROCESS_SPEC__INIT;
	Protect__Control__V1__IdOrNameValue user = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__INIT, group = user;
	Protect__Control__V1__EnvironmentVariableSpec env = PROTECT__CONTROL__V1__ENVIRONMENT_VARIABLE_SPEC__INIT, *envs[] = { &env };
	_buf_ struct buf b = BUF_INIT;

	p.n_command = 2;
	p.command = command;
	p.user = &user;
	p.group = &group;
	user.id_or_name_case = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_NAME;
	user.name = name;
	group.id_or_name_case = PROTECT__CONTROL__V1__ID_OR_NAME_VALUE__ID_OR_NAME_ID;
	group.id = 0xffffffff; /* must not be taken for a pointer */
	p.n_environment = 1;
	p.environment = envs;
	env.key = deep;
	rpc_msg_force_utf8(&p.base);
	CU_ASSERT_STRING_EQUAL(bad, "a??b");
	CU_ASSERT_STRING_EQUAL(fine, "ü");
	CU_ASSERT_STRING_EQUAL(name, "?");
	CU_ASSERT_STRING_EQUAL(deep, "?x");
	buf_reserve(&b, protobuf_c_message_get_packed_size(&p.base));
	b.len = protobuf_c_message_pack(&p.base, b.data);
	CU_ASSERT_EQUAL(check(PROCESS, &b, NULL), 0);
}

static void test_status(void)
{
	CU_ASSERT_EQUAL(rpc_status_of_errno(-ENOENT), RPC_NOT_FOUND);
	CU_ASSERT_EQUAL(rpc_status_of_errno(0), RPC_OK);
	CU_ASSERT_EQUAL(rpc_status_of_errno(-EKEYREVOKED), RPC_UNKNOWN);
	CU_ASSERT_EQUAL(rpc_errno_of_status((enum rpc_status)99), -EIO);
	for (int i = 0; i <= RPC_UNAUTHENTICATED; i++)
		CU_ASSERT_EQUAL(rpc_status_of_errno(rpc_errno_of_status((enum rpc_status)i)), i);
	CU_ASSERT_STRING_EQUAL(rpc_status_name(RPC_DATA_LOSS), "DATA_LOSS");
	CU_ASSERT_STRING_EQUAL(rpc_status_name((enum rpc_status)-1), "UNKNOWN");
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "valid", test_valid }, { "packed or not", test_packed_or_not }, { "unknown fields", test_unknown_fields },
		{ "malformed", test_malformed }, { "strings", test_strings }, { "depth", test_depth }, { "elements", test_elements },
		{ "size", test_size }, { "twice", test_twice }, { "force UTF-8", test_force_utf8 }, { "status", test_status },
		CU_TEST_INFO_NULL,
	};
	static CU_SuiteInfo suites[] = { { .pName = "rpc messages", .pTests = tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
