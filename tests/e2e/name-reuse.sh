#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A name is free the moment its zone is destroyed.
. "$SRC_DIR/tests/e2e/lib.bash"
registry_start
config_write
daemon_start || exit

# Every other time the launch does not wait for the destruction to be over.
times=()
for round in 1 2 3 4 5 6 7 8 9 10; do
	works "launch $round" launch again || break
	same "zone $round answers" "$((round + 1))" "$(in_zone again expr "$round" + 1)"
	wait=(--wait)
	[ $((round % 2)) = 0 ] || wait=()
	start=$(milliseconds)
	works "destroy $round" protect zone destroy "${wait[@]}" again
	[ ${#wait[@]} = 0 ] || times+=($(($(milliseconds) - start)))
done
half=$(median "${times[@]}")
if [ "$half" -lt 500 ]; then ok "destroy takes $half ms at the median (${times[*]})"; else bad "destroy takes $half ms at the median (${times[*]})"; fi
works "no virtual machine is left" wait_until 5 eval '[ -z "$(machines)" ]'
works "no zone is listed" wait_until 5 eval '[ -z "$(zone_names)" ]'

works "two zones at once" eval 'launch a & first=$!; launch b && wait $first'
works "both answer" eval '[ "$(in_zone a echo x)$(in_zone b echo y)" = xy ]'
refused "a name that is taken" "a.*(exists|taken|in use)|already" protect zone launch --name a --kernel-variant debian --wait
same "domids are unique and above 0" 2 "$(protect zone list --output json | jq '[.[].status.domid | tonumber | select(. > 0 and . < 4294967295)] | unique | length')"
refused "destroy of an unknown zone" "nonesuch" protect zone destroy nonesuch
refused "resolve of an unknown zone" "nonesuch" protect zone resolve nonesuch
