#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Without these two lines a restart of the daemon would end every zone.
unit=$BUILD_DIR/conf/protect-daemon.service
[ -f "$unit" ] || { echo "$unit was not built"; exit 1; }
for line in KillMode=process Delegate=yes; do
	[ "$(sed -n '/^\[Service\]/,/^\[/p' "$unit" | grep -cx "$line")" = 1 ] || { echo "the unit has no line $line in [Service]"; exit 1; }
done
if command -v systemd-analyze >/dev/null; then
	# The programs it names are looked for where they get installed, which they are not here.
	systemd-analyze verify --man=no "$unit" 2>&1 | grep -F "$(basename "$unit")" | grep -vE 'is not executable|No such file' && exit 1
fi
exit 0
