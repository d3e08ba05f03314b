#!/bin/sh
# fuzz.sh TAGS: runs every fuzz target of the tree for $FUZZTIME, and that which holds
# the promise of the policy for $RESOLVETIME, if that is given.
set -eu

tags=$1
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Go's fuzzing engine at times reports the end of its own time as a failure
# ("context deadline exceeded", with no input to blame): that one is run again.
fuzz() {
	time=${FUZZTIME:-2s}
	if [ "$2" = FuzzResolve ]; then
		time=${RESOLVETIME:-$time}
	fi
	for try in 1 2 3; do
		if $go test -tags "$tags" -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 10x "$1" >"$log" 2>&1; then
			echo "fuzz: ok $1 $2 $(grep -oE 'execs: [0-9]+' "$log" | tail -n 1)"
			return 0
		fi
		if grep -q 'Failing input' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
			break
		fi
		echo "fuzz: $1 $2: the engine's own deadline, try $try"
	done
	cat "$log"
	echo "fuzz: FAIL $1 $2"
	return 1
}

n=0
for pkg in $($go list -tags "$tags" ./...); do
	for target in $($go test -tags "$tags" -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		fuzz "$pkg" "$target"
		n=$((n + 1))
	done
done
echo "fuzz: $n targets for ${FUZZTIME:-2s} each"
[ "$n" -gt 0 ]
