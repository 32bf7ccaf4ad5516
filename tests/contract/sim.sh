#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The hypervisor contract on the sim plugin: the zone agent as a local process.
. "$SRC_DIR/tests/contract/hypervisor.bash"
[ "$(id -u)" = 0 ] || { echo "only root can make namespaces"; exit 77; }

contract_run "$BUILD_DIR/tests/plugins/sim/.libs/sim.so" --rounds 20 --agent \
	--set vmm="$BUILD_DIR/tests/plugins/sim/sim-vmm" --set agent="$BUILD_DIR/zone/protect-zone-agent"
