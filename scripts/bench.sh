#!/bin/sh
# bench.sh TAGS: the benchmarks of test/bench. crun refuses a host that mounts
# cgroup v1 beside v2; as root it is shown, in a mount namespace of its own, v2
# alone. Elsewhere it says that it can't run. There jailer could hold no session's
# limits, so the one to exec in is made before.
set -eu

run="${GO:-go} test -tags '$1' -run '^\$' -bench . -benchtime 1x -timeout 30m ./test/bench"
if [ "$(id -u)" -eq 0 ] && [ -d /sys/fs/cgroup/unified ]; then
	dir=$(mktemp -d)
	chmod 711 "$dir"
	bin/jailer --state-dir "$dir/state" create --id bench --ttl 30m --idle 30m >/dev/null
	trap 'bin/jailer --state-dir "$dir/state" delete bench; rm -rf "$dir"' EXIT
	export JAILER_BENCH_SESSION="$dir/state/bench"
	unshare -m --propagation private sh -euc "
		for d in /sys/fs/cgroup/*/; do umount \"\$d\"; done
		umount /sys/fs/cgroup
		mount -t cgroup2 none /sys/fs/cgroup
		$run"
	exit
fi
exec sh -euc "$run"
