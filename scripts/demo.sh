#!/bin/sh
# demo.sh JAILER: one real jail, to look at. Without a cgroup of its own (a user
# on a host without delegation) it says so and shows best effort.
set -eu

jailer=$1
policy=""
if ! out=$("$jailer" run -- true 2>&1); then
	printf '%s\n' "$out"
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	printf 'version = 1\nextends = "builtin"\n[limits]\nenforce = "best-effort"\n' >"$dir/policy.toml"
	policy="--policy $dir/policy.toml"
	echo "demo: this caller has no cgroup to set limits in; going on with best effort"
fi
# shellcheck disable=SC2016 # for the shell inside the jail
script='
echo "identity:  $(id)"
set -- /proc/[0-9]*
echo "processes: $#, the first of them jailer'"'"'s own"
echo "network:   $(cat /proc/net/dev | tail -n +3 | cut -d: -f1 | xargs)"
echo "root:      $(touch /usr/x 2>&1)"
echo "workspace: $(df -h /workspace | tail -n 1)"
grep -E "^(CapEff|NoNewPrivs|Seccomp):" /proc/self/status
'
# shellcheck disable=SC2086
"$jailer" run $policy -- sh -c "$script"
echo "\$ jailer run --memory 64M --timeout 5s --json -- sh -c 'echo hello; exit 7'"
code=0
# shellcheck disable=SC2086
"$jailer" run $policy --memory 64M --timeout 5s --json -- sh -c 'echo hello; exit 7' || code=$?
echo "exit status $code"
[ "$code" -eq 7 ]
