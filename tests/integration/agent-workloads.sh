# SPDX-License-Identifier: Apache-2.0
# Read by agent-local.sh: containers, through crun, from a small image made here.
image=$work/image
mkdir -p "$image/bin" "$image/etc" "$image/tmp" "$image/data"
chmod 777 "$image/data"
cp "$(command -v busybox)" "$image/bin/busybox"
for applet in sh cat echo id env pwd sleep tty stty head tail ls touch grep hostname yes true kill seq ps mount; do ln -sf busybox "$image/bin/$applet"; done
printf 'root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n' >"$image/etc/passwd"
printf 'root:x:0:\napp:x:1000:\nextra:x:2000:app\n' >"$image/etc/group"
mkdir -p "$work/state/disks"
mksquashfs "$image" "$work/state/disks/image" -all-root -quiet -no-progress >/dev/null
cat >"$work/config.json" <<'JSON'
{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin","A=1"],"Entrypoint":["/bin/sh","-c"],"Cmd":["echo $A; id -u; pwd; exit 5"],"User":"app","WorkingDir":"/tmp"}}
JSON
create() { drive create --serial image --config "$work/config.json" "$@"; }

create w || fail "create"
create w || fail "create again: it is idempotent"
drive start w || fail "start"
is "1 1000 /tmp" "$(drive attach w | tr '\n' ' ' | sed 's/ $//')" "Entrypoint, Cmd, Env, User, WorkingDir"
drive attach w >/dev/null; is 5 $? "exit code of a workload"
is "workload w phase=4 code=5 oom=0" "$(drive list | grep '^workload')" "an ended workload"
drive delete w || fail delete
drive delete w || fail "delete again: it is idempotent"
is "" "$(drive list)" "nothing left"

create --tty --hostname box w -- /bin/sh -c 'tty; hostname; read x; echo "got $x"; exit 3' && drive start w
is "1000 box" "$(drive exec --workload w -- sh -c 'echo $(id -u) $(hostname)')" "exec in a workload"
is 0 "$(drive exec --workload w --user root -- id -u)" "exec as another user"
is "/dev/pts" "$(drive exec --workload w --tty -- tty | tr -d '\r' | sed 's,/[0-9]*$,,')" "exec with a terminal"
is "up" "$(echo up | drive exec --workload w --stdin -- cat)" "exec with stdin"
is 8388608 "$(drive exec --workload w -- head -c 8388608 /dev/zero | wc -c)" "8 MiB from an exec"
drive exec --workload w -- sh -c 'exit 9'; is 9 $? "exit code of an exec"
drive exec --workload w -- nothing 2>"$work/err"; is 125 $? "a program that is not there"
grep -q 'not found' "$work/err" || fail "what is said of it: $(cat "$work/err")"
is 12 "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do drive exec --workload w "p$i" -- echo x & done | grep -c x)" "execs at once"
is "got hello" "$(echo hello | drive attach --stdin w | tr -d '\r' | tail -n 1)" "a terminal's input"
drive attach w >/dev/null; is 3 $? "exit code with a terminal"
drive delete w

create --stdin w -- /bin/cat && drive start w
is "$(md5sum <"$work/random")" "$(drive attach --stdin --close 50 --close-every 2 w <"$work/random" 2>/dev/null | md5sum)" "9 MB through a workload, the channel cut meanwhile"
drive delete w
create --stdin w -- /bin/cat && drive start w
is "first" "$( (echo first; exec sleep 5) | timeout 0.7 "$BUILD_DIR/tests/integration/agent-drive" "$socket" attach --stdin w)" "a follower that goes away"
is "second" "$(echo second | drive attach --stdin w)" "the next one's input goes behind that of the first"
drive delete w
create w -- /bin/sh -c 'touch /data/x && ls /data; touch /proc/sys/kernel/x; echo $(ls /etc/hosts /etc/resolv.conf /etc/hostname)' && drive start w
is "x /etc/hostname /etc/hosts /etc/resolv.conf" "$(drive attach w 2>/dev/null | tr '\n' ' ' | sed 's/ $//')" "a writable root, files of the zone"
drive delete w
create --read-only w -- /bin/sh -c 'touch /data/x || echo refused' && drive start w
is "refused" "$(drive attach w 2>/dev/null)" "a read-only root"
drive delete w
echo content >"$work/file"
create --mount "$work/file:/data/one" w -- /bin/cat /data/one && drive start w
is "content" "$(drive attach w)" "a mounted file"
drive delete w
create w -- /bin/sleep 1000 && drive start w
drive exec --workload w -- sleep 1001 &
sleep 0.3
drive delete w || fail "delete a running one"
wait $!
is "" "$(drive list)" "its execs are gone"

sed 's/"User"/"StopSignal":"SIGUSR1",&/' "$work/config.json" >"$work/config2.json"
drive create --serial image --config "$work/config2.json" w -- /bin/sh -c 'trap "echo asked; exit 6" USR1; touch /data/ready; while :; do sleep 0.05; done' && drive start w
until drive exec --workload w -- ls /data/ready >/dev/null 2>&1; do sleep 0.05; done
drive signal --count 0 w
is "asked" "$(drive attach w)" "the signal its image wants to be stopped with"
drive delete w

drive create --serial image w -- /no/such 2>"$work/err"; is 125 $? "a workload without its program"
grep -q 'not found' "$work/err" || fail "what is said of it: $(cat "$work/err")"
drive create --serial image --user nobody w -- /bin/id 2>"$work/err"
grep -q "no user 'nobody'" "$work/err" || fail "an unknown user: $(cat "$work/err")"
drive create --serial image w 2>"$work/err"
grep -q 'nothing to run' "$work/err" || fail "no command: $(cat "$work/err")"
is "" "$(drive list)" "nothing is left of those that failed"
is 0 "$(drive exec -- cat /proc/mounts | grep -c "$work/state/workloads")" "mounts left"
is "" "$(ls "$work/state/workloads")" "directories left"
