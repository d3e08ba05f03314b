#!/bin/sh
# fuzz.sh TAGS: runs every fuzz target of the tree for $FUZZTIME.
set -eu

tags=$1
go=${GO:-go}
n=0
for pkg in $($go list -tags "$tags" ./...); do
	for target in $($go test -tags "$tags" -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		echo "fuzz: $pkg $target ${FUZZTIME:-2s}"
		$go test -tags "$tags" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-2s}" -fuzzminimizetime 10x "$pkg"
		n=$((n + 1))
	done
done
echo "fuzz: $n targets"
[ "$n" -gt 0 ]
