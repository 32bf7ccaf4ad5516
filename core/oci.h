/* SPDX-License-Identifier: Apache-2.0 */
/* Running protect-oci-provider, the only program that talks to registries, as its unprivileged user. The core adds what [oci]
 * configures and the credentials of the one registry that is named; nothing a registry sent is parsed here. */
#ifndef CORE_OCI_H
#define CORE_OCI_H

#include "conf/conf.h"

/* Blocks until the provider ended, or until call's deadline or cancellation (it is then killed). Lines of its stdout go to
 * run->line as they come. On failure err holds the provider's sentence and its errno. */
int oci_run(const struct conf *, const char *data_dir, const struct edera_call *, const struct edera_oci_run *, struct edera_error *);

#endif
