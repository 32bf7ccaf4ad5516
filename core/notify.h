/* SPDX-License-Identifier: Apache-2.0 */
/* Telling systemd how the service stands (the NOTIFY_SOCKET protocol); without systemd nothing happens. */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

void notify(const char *state); /* "READY=1" */

#endif
