#!/bin/sh
# test-vm.sh TAGS SUITE [FLAGS…]: makes the guest of SUITE if it is not there, shows
# that the harness turns red when it must, and runs the plan of test/vm in the
# guest, or what FLAGS say of it.
set -eu

tags=$1
suite=$2
shift 2
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
if [ "$suite" = trixie ] && [ $# -eq 0 ]; then
	echo "vm: the harness's own boots: a panic, a hang, failures of every kind, a shell"
	boots='TestPanic|TestHang|TestRed|TestShell'
	JAILER_BED=1 $go test -count=1 -v -parallel 4 -timeout 20m -tags "$tags" -run "^($boots)\$" ./test/vm >"$bin/log" 2>&1 || status=$?
	grep -vE '^=== ' "$bin/log"
	# In so many words: set -e overlooks what fails on the left of "&&".
	if [ "$status" -ne 0 ] || [ "$(grep -cE "^--- PASS: ($boots) " "$bin/log")" -ne 4 ]; then
		echo "vm: the harness can't be trusted: one of its own boots failed or is missing" >&2
		exit 1
	fi
fi
"$bin/vm" test -suite "$suite" "$@"
part=""
[ $# -eq 0 ] || part=" ONLY A PART, as asked for ($*):"
echo "vm:$part $suite done in $(($(date +%s) - began)) s"
