#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The real agent as a local process in namespaces of its own, driven through the host's side of its protocol.
set -u
[ "$(id -u)" = 0 ] || { echo "only root can make namespaces"; exit 77; }
unshare --mount --pid --uts --ipc --net --fork true 2>/dev/null || { echo "this machine gives no namespaces"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/agent.XXXXXX")
agent=$BUILD_DIR/zone/protect-zone-agent
socket=$work/s
failed=0
trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; rm -rf "$work"' EXIT

start() {
	rm -f "$socket"
	unshare --mount --pid --uts --ipc --net --fork --kill-child "$agent" --no-init --channel "unix:$socket" --state-dir "$work/state" 2>"$work/log" &
	pid=$!
	for _ in $(seq 100); do [ -S "$socket" ] && return; sleep 0.05; done
	echo "the agent did not start"; cat "$work/log"; exit 1
}
drive() { timeout 120 "$BUILD_DIR/tests/integration/agent-drive" "$socket" "$@"; }
say() { printf '%s\n' "$*"; }
fail() { say "FAIL: $*"; failed=1; }
# is EXPECTED GOT WHAT
is() { [ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"; }

start

say "exec: streams, exit codes, environment, directory"
is "out" "$(drive exec -- sh -c 'echo out; echo err >&2' 2>"$work/err")" stdout
is "err" "$(cat "$work/err")" stderr
drive exec -- sh -c 'exit 7'; is 7 $? "exit code"
drive exec -- sh -c 'kill -9 $$'; is 137 $? "code of a signal"
drive exec -- /no/such/program 2>"$work/err"; is 125 $? "a program that is not there"
grep -q "cannot start '/no/such/program': No such file" "$work/err" || fail "what is said of it: $(cat "$work/err")"
drive exec --dir /no/such/dir -- true 2>"$work/err"; is 125 $? "a directory that is not there"
grep -q "in the directory .*/no/such/dir" "$work/err" || fail "what is said of it: $(cat "$work/err")"
is "3 /tmp" "$(drive exec --env A=3 --dir /tmp -- sh -c 'echo $A $PWD')" "environment and directory"
is 65534 "$(drive exec --user nobody -- id -u)" "user by name"
is 65534 "$(drive exec --user 65534 -- id -u)" "user by number"

say "stdin, and none"
is "hello" "$(echo hello | drive exec --stdin -- cat)" stdin
is "" "$(drive exec -- cat)" "no stdin"
head -c 9000000 /dev/urandom >"$work/random"
is "$(md5sum <"$work/random")" "$(drive exec --stdin -- cat <"$work/random" | md5sum)" "9 MB through cat"
is "$(md5sum <"$work/random")" "$(drive exec --stdin --slow -- cat <"$work/random" | md5sum)" "9 MB to a slow reader"
yes | head -c 30000000 | drive exec --stdin -- true; is 0 $? "stdin of a program that reads nothing"

say "a terminal"
is "/dev/pts/" "$(drive exec --tty -- tty | tr -d '\r' | sed 's/[0-9]*$//')" tty
is "24 80" "$(drive exec --tty -- stty size | tr -d '\r')" "terminal size"
is "x" "$(printf 'x\n' | drive exec --tty --stdin -- sh -c 'stty -echo; read a; echo $a; cat' | tr -d '\r' | grep -v '^x$' -c | sed 's/0/x/')" "terminal input and its end"

say "bursts: everything arrives before the end"
for _ in 1 2 3; do
	is 8388608 "$(drive exec -- sh -c 'head -c 8388608 /dev/zero' | wc -c)" "8 MiB, then exit"
done
is 8388608 "$(drive exec -- sh -c 'head -c 8388608 /dev/zero >&2' 2>&1 >/dev/null | wc -c)" "8 MiB on stderr"

say "what a process leaves behind does not hold its end"
time_before=$EPOCHSECONDS
is "done" "$(drive exec -- sh -c 'sleep 30 & echo done')" "a background child"
[ $((EPOCHSECONDS - time_before)) -lt 10 ] || fail "it waited for the background child"
drive exec -- pkill -f 'sleep 30'

say "100 at once"
drive exec --count 100 -- sh -c 'echo hi; exit 0'; is 0 $? "100 in parallel"
[ "$(drive list | grep -c ^process)" = 0 ] || fail "not all were released"

say "released while running: killed, its session too"
(exec timeout 1 "$BUILD_DIR/tests/integration/agent-drive" "$socket" exec held -- sh -c 'sleep 1234 & sleep 1235')
is 1 "$(drive list | grep -c '^process held-0')" "a process outlives its caller's connection"
drive release held-0
sleep 0.2
is 0 "$(drive exec -- sh -c 'ps -e -o args 2>/dev/null || ps' | grep -c 'sleep 123[45]')" "processes left"

say "orphans are reaped"
drive exec -- sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.05 &) ; done'
sleep 0.5
is 0 "$(drive exec -- sh -c 'cat /proc/[0-9]*/stat 2>/dev/null' | grep -c ') Z ')" zombies

say "the channel cut 200 times under load: nothing lost, nothing twice"
seq 400000 | sed 's/$/ of the output/' >"$work/lines"
is "$(md5sum <"$work/lines")" "$(drive exec --close 200 --close-every 5 -- sh -c "while :; do sleep 0.01; done & cat '$work/lines' | while read -r l; do echo \"\$l\"; done; kill \$!" 2>"$work/err" | md5sum)" "output over cuts"
grep -q "cut 200 times" "$work/err" || fail "not cut often enough: $(cat "$work/err")"
is "$(md5sum <"$work/random")" "$(drive exec --stdin --close 200 --close-every 1 -- sh -c 'cat' <"$work/random" 2>"$work/err" | md5sum)" "input and output over cuts"
say "$(cat "$work/err")"

say "workloads"
if command -v mksquashfs >/dev/null && [ -e /dev/loop-control ]; then
	. "$SRC_DIR/tests/integration/agent-workloads.sh"
else
	say "(no mksquashfs or no loop devices here: left out)"
fi

say "shutdown"
drive exec last -- true
drive shutdown || fail "shutdown was refused"
for _ in $(seq 60); do kill -0 "$pid" 2>/dev/null || break; sleep 0.05; done
! kill -0 "$pid" 2>/dev/null || fail "the agent still runs"
cat "$work/log"
! grep -q 'Sanitizer\|runtime error' "$work/log" || fail "the sanitizers have something to say"
exit $failed
