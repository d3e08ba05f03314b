#!/bin/sh
# test-vm.sh TAGS SUITE: makes the guest of SUITE if it is not there, shows that
# the harness turns red when it must, and runs the plan of test/vm in the guest.
set -eu

tags=$1
suite=$2
go=${GO:-go}
export TAGS="$tags"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT

began=$(date +%s)
$go build -o "$bin/vm" ./test/vm
status=0
"$bin/vm" image -suite "$suite" || status=$?
# 3: this host has no bed, and said so.
[ "$status" -ne 3 ] || exit 0
[ "$status" -eq 0 ] || exit "$status"
if [ "$suite" = trixie ]; then
	echo "vm: the harness's own boots: a panic, a hang, failures of every kind, a shell"
	JAILER_BED=1 $go test -count=1 -timeout 20m -tags "$tags" -run 'TestPanic|TestHang|TestRed|TestShell' ./test/vm
fi
"$bin/vm" test -suite "$suite"
echo "vm: $suite done in $(($(date +%s) - began)) s"
