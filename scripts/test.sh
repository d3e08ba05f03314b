#!/bin/sh
# test.sh TAGS: runs every Go test with the race detector, and lists loudly what
# was skipped and why. The tests of the API alone run once more without cgo.
set -eu

tags=$1
go=${GO:-go}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "test: as $(id -un), $(nproc) CPUs, kernel $(uname -r)"
status=0
$go test -race -count=1 -timeout "${TESTTIME:-15m}" -tags "$tags" -v -p 2 ./... >"$log" 2>&1 || status=$?

# Quiet when green: the package lines and the failures.
grep -E '^(ok|FAIL|\?|panic|---? FAIL|\s+--- FAIL)' "$log" | grep -v 'no test files' || true
if [ "$status" -ne 0 ]; then
	echo "test: ---------------- output of what failed"
	# -v prints a test's lines where they arise, under the "===" line that names it.
	awk 'NR == FNR { if ($1 == "---" && $2 == "FAIL:") failed[$3]; next }
		$1 == "===" { mine = $3 in failed; next }
		/^(panic: |WARNING: DATA RACE|fatal error: )/ { mine = 1 }
		$1 == "FAIL" || $1 == "ok" { mine = 0 }
		mine && $1 != "---" || /^# |: \[(build|setup) failed\]|^[^ ]+\.go:[0-9]+:[0-9]+: /' "$log" "$log" | tail -n 800
fi
skips=$(grep -cE '^\s*--- SKIP' "$log" || true)
if [ "$skips" -gt 0 ]; then
	echo "test: SKIPPED $skips, because this host can't show them (JAILER_REQUIRE=name,… or =all makes that a failure):"
	grep -E 'SKIPPED \(needs ' "$log" | sed -E 's/^[[:space:]]*[a-z_A-Z0-9]+\.go:[0-9]+: //' | sort | uniq -c
fi
pass=$(grep -cE '^\s*--- PASS' "$log" || true)
fail=$(grep -cE '^\s*--- FAIL' "$log" || true)
echo "$pass passed, $fail failed, $skips skipped"
[ "$status" -eq 0 ] || exit "$status"
CGO_ENABLED=0 $go test -count=1 . ./limits
