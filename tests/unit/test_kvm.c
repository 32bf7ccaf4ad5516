/* SPDX-License-Identifier: Apache-2.0 */
/* What libvirt is told: users' text cannot become XML, and what cannot be said is refused. */
#include <CUnit/Basic.h>

#include "../../plugins/kvm/kvm.h"

#include <stdlib.h>
#include <string.h>

static struct kvm kvm = { .machine = "pc", .emulator = "/usr/bin/qemu", .run_dir = "/run/edera", .owner = "urn:test" };
static struct edera_error err;

static struct edera_vm_spec spec(void)
{
	return (struct edera_vm_spec){
		.size = sizeof(struct edera_vm_spec), .id = "3a1cf1a4-5a55-4c80-8e5c-3f1e1d0a0001", .name = "web", .kernel = "/k/image",
		.initrd = "/k/initrd", .cmdline = "quiet", .memory_mib = 512, .vcpus = 2, .max_vcpus = 4, .uid = 61007, .run_dir = "/run/edera/zones/x",
	};
}

static char *describe(const struct edera_vm_spec *s)
{
	struct buf b = BUF_INIT;

	err = (struct edera_error)EDERA_ERROR_INIT;
	if (kvm_domain_xml(&kvm, s, &b, &err))
		return NULL;
	return buf_steal(&b);
}

static void says(const char *xml, const char *what)
{
	if (!xml || !strstr(xml, what)) {
		printf("\n  missing: %s\n  in: %s\n", what, xml ? xml : err.msg);
		CU_FAIL("not said");
	}
}

static void plain(void)
{
	struct edera_vm_spec s = spec();
	char *xml = describe(&s);

	says(xml, "<domain type='qemu'><name>zone-3a1cf1a4-5a55-4c80-8e5c-3f1e1d0a0001</name>");
	says(xml, "<memory unit='MiB'>512</memory><memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking><vcpu current='2'>4</vcpu>");
	says(xml, "<cmdline>quiet console=ttyS0 edera.agent=virtio:dev.edera.agent.0</cmdline>");
	says(xml, "<seclabel type='static' model='dac' relabel='no'><label>+61007:+61007</label></seclabel>");
	says(xml, "<protect:zone xmlns:protect='urn:test'/>");
	free(xml);
}

/* Everything that is there from the start is on the root bus itself; the bridge is for what comes later. */
static void q35(void)
{
	struct edera_share share = { .tag = "t", .path = "/" };
	struct edera_vm_spec s = spec();
	struct buf b = BUF_INIT;
	char *xml = describe(&s);

	CU_ASSERT_PTR_NULL(strstr(xml, "<address type='pci'"));
	free(xml);
	kvm.machine = "pc-q35-7.2";
	xml = describe(&s);
	kvm.machine = "pc";
	says(xml, "model='virtio-scsi'><address type='pci' domain='0' bus='0' slot='2' function='0'/></controller>");
	says(xml, "<controller type='virtio-serial' index='0'><address type='pci' domain='0' bus='0' slot='3' function='0'/></controller>");
	says(xml, "<controller type='pci' index='2' model='pci-bridge'>");
	free(xml);
	CU_ASSERT_EQUAL(kvm_share_xml(&share, "/s", 0, &b, &err), 0);
	CU_ASSERT_PTR_NULL(strstr((char *)b.data, "<address"));
	buf_clear(&b);
	CU_ASSERT_EQUAL(kvm_share_xml(&share, "/s", 31, &b, &err), 0);
	says((char *)b.data, "<address type='pci' domain='0x0000' bus='0x02' slot='0x1f' function='0x0'/></filesystem>");
	buf_free(&b);
}

/* With KVM the group is the one that may open /dev/kvm; the user stays the VM's own. */
static void hardware(void)
{
	struct edera_vm_spec s = spec();
	char *xml;

	kvm.hardware = true;
	kvm.qemu_gid = 108;
	xml = describe(&s);
	kvm.hardware = false;
	kvm.qemu_gid = 0;
	says(xml, "<domain type='kvm'>");
	says(xml, "<label>+61007:+108</label>");
	free(xml);
}

static void hostile_text(void)
{
	struct edera_vm_spec s = spec();
	char *xml;

	s.name = "</title><devices>\n&\x01";
	s.cmdline = "a=\"1\" b='2' <cmdline> ]]>";
	s.kernel = "/k/it's & <image>";
	xml = describe(&s);
	says(xml, "<title>&lt;/title&gt;&lt;devices&gt; &amp; </title>");
	says(xml, "<cmdline>a=&quot;1&quot; b=&apos;2&apos; &lt;cmdline&gt; ]]&gt; console=");
	says(xml, "<kernel>/k/it&apos;s &amp; &lt;image&gt;</kernel>");
	free(xml);
}

static void refused(void)
{
	static const char *const paths[] = { "relative", "/a\nb", "/\x7f", "/\xff", "" };
	struct edera_vm_spec s = spec();

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		s.initrd = paths[i];
		CU_ASSERT_PTR_NULL(describe(&s));
		CU_ASSERT_EQUAL(err.code, -EINVAL);
	}
}

static void disks(void)
{
	static const char *const bad[] = { "", "UPPER", "a/b", "a'b", "123456789012345678901" };
	struct edera_disk d = { "image-1", "/dev/null", EDERA_DISK_READONLY, 0 };
	struct buf b = BUF_INIT;
	char name[8];

	CU_ASSERT_EQUAL(kvm_disk_xml(&d, 0, &b, &err), -EINVAL); /* neither file nor block device */
	d.path = "/proc/self/exe";
	CU_ASSERT_EQUAL(kvm_disk_xml(&d, 27, &b, &err), 0);
	says((char *)b.data, "<target dev='sdab' bus='scsi'/><readonly/><serial>image-1</serial><alias name='ua-image-1'/>");
	says((char *)b.data, "target='27' unit='0'");
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		d.serial = bad[i];
		CU_ASSERT_EQUAL(kvm_disk_xml(&d, 0, &b, &err), -EINVAL);
	}
	d.serial = "x";
	CU_ASSERT_EQUAL(kvm_disk_xml(&d, KVM_MAX_DISKS, &b, &err), -ENOSPC);
	d.path = "/nonexistent";
	CU_ASSERT_EQUAL(kvm_disk_xml(&d, 0, &b, &err), -ENOENT);
	buf_free(&b);
	kvm_disk_target(25, name);
	CU_ASSERT_STRING_EQUAL(name, "sdz");
	kvm_disk_target(KVM_MAX_DISKS - 1, name);
	CU_ASSERT_STRING_EQUAL(name, "sdgr");
}

static void accelerator(void)
{
	bool hardware = true;

	CU_ASSERT_EQUAL(kvm_choose_accelerator("tcg", &hardware, &err), 0);
	CU_ASSERT_FALSE(hardware);
	CU_ASSERT_EQUAL(kvm_choose_accelerator("xen", &hardware, &err), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.msg, "auto, kvm or tcg"));
}

int main(void)
{
	static CU_TestInfo tests[] = {
		{ "plain", plain }, { "q35", q35 }, { "hardware", hardware }, { "hostile text", hostile_text }, { "refused", refused }, { "disks", disks },
		{ "accelerator", accelerator }, CU_TEST_INFO_NULL,
	};
	CU_SuiteInfo suites[] = { { "kvm", NULL, NULL, NULL, NULL, tests }, CU_SUITE_INFO_NULL };
	unsigned failed;

	if (CU_initialize_registry() || CU_register_suites(suites))
		return 99;
	CU_basic_set_mode(CU_BRM_VERBOSE);
	CU_basic_run_tests();
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed ? 1 : 0;
}
