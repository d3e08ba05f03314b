#!/bin/sh
# cross.sh: builds for arm64 what can be built without arm64's libseccomp: PID 1
# and the untagged program. The arm64 filter is compiled and interpreted by the
# tests of seccomp/bpf.
set -eu

cc=aarch64-linux-gnu-gcc
if ! command -v $cc >/dev/null; then
	echo "cross: SKIPPED: no $cc (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross)" >&2
	case ",${JAILER_REQUIRE:-}," in *,cross,* | *,all,*) exit 1 ;; esac
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CC=$cc sh internal/pid1/build.sh "$dir/pid1.bin"
GOARCH=arm64 CGO_ENABLED=1 CC=$cc ${GO:-go} build -o "$dir/jailer" ./cmd/jailer
