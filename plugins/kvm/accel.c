/* SPDX-License-Identifier: Apache-2.0 */
/* KVM or software emulation, and how libvirt is kept from stumbling over a /dev/kvm that is of no use. */
#include "kvm.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <linux/kvm.h>

/* The node being there says nothing: virtual machines without nested virtualization have it too, make a VM when asked, and hang
 * its first instructions. The CPU must have VMX or SVM. */
static bool cpu_can_virtualize(void)
{
	_fclose_ FILE *f = fopen("/proc/cpuinfo", "re");
	_free_ char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0)
		if (text_starts(line, "flags") && (strstr(line, " vmx") || strstr(line, " svm")))
			return true;
	return false;
}

/* 0, or the negative errno that stopped us: what QEMU would find. */
static int node_makes_vm(void)
{
	_close_ int fd = open(KVM_NODE, O_RDWR | O_CLOEXEC);
	_close_ int vm = -1;

	if (fd < 0)
		return -errno;
	if (ioctl(fd, KVM_GET_API_VERSION, 0) != KVM_API_VERSION)
		return -ENOTSUP;
	vm = ioctl(fd, KVM_CREATE_VM, 0);
	return vm < 0 ? -errno : 0;
}

int kvm_choose_accelerator(const char *choice, bool *ret_hardware, struct edera_error *err)
{
	int r = 0;

	if (strcmp(choice, "auto") && strcmp(choice, "kvm") && strcmp(choice, "tcg"))
		return err_set(err, -EINVAL, "plugin.kvm.accelerator is '%s', but must be auto, kvm or tcg", choice);
	if (!strcmp(choice, "kvm") && (r = node_makes_vm()))
		return err_errno(err, -ENODEV, "plugin.kvm.accelerator is kvm, but " KVM_NODE " cannot be used (%s); auto or tcg emulates", strerror(-r));
	*ret_hardware = !strcmp(choice, "kvm") || (!strcmp(choice, "auto") && cpu_can_virtualize() && node_makes_vm() == 0);
	return 0;
}

uint32_t kvm_group_of(const char *path, bool directory)
{
	mode_t others = directory ? S_IXOTH : S_IROTH | S_IWOTH;
	struct stat st;

	return stat(path, &st) == 0 && (st.st_mode & others) != others ? st.st_gid : 0;
}

/* libvirt keeps what it learned of QEMU only while two answers agree: a QEMU it starts for probing, with CAP_DAC_OVERRIDE, got
 * KVM, and its configured user may open the node. Where they differ (the node is 0600, or opens for nobody) it probes again
 * some twenty times at every domain start. Domains have users of their own, so that one can be chosen to make them agree. */
const char *kvm_probe_user(void)
{
	return node_makes_vm() == 0 ? "root" : "nobody";
}
