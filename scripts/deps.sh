#!/bin/sh
# deps.sh build|bench|vm: installs Debian's or Ubuntu's packages that are missing.
set -eu

case "$1" in
build)
	# libseccomp compiles the filter, gcc PID 1 and libcontainer's C half. The
	# cross compiler is for the arm64 build in `make lint`.
	want="gcc libc6-dev libseccomp-dev linux-libc-dev pkg-config"
	extra="gcc-aarch64-linux-gnu libc6-dev-arm64-cross shellcheck uidmap python3 git util-linux"
	# The static one would push a dynamic one off the machine.
	command -v busybox >/dev/null || extra="$extra busybox-static"
	;;
bench)
	want="bubblewrap crun runc busybox-static"
	extra=""
	;;
vm)
	# What makes the guest of test/vm; QEMU comes with it. Without them test/vm
	# says what it can't do.
	want=""
	extra="mmdebstrap e2fsprogs debian-archive-keyring uidmap"
	;;
*)
	echo "usage: $0 build|bench|vm" >&2
	exit 2
	;;
esac

# Go is not installed from here: Debian's is often older than go.mod asks for.
# From 1.21 on it fetches the version that it needs by itself.
go=${GO:-go}
if ! command -v "$go" >/dev/null; then
	echo "deps: no Go found: install Go $(sed -n 's/^go //p' go.mod) or newer (https://go.dev/doc/install) and put it on PATH, or say GO=/path/to/go" >&2
	exit 1
fi
if ! "$go" version 2>/dev/null | grep -qE 'go1\.(2[1-9]|[3-9][0-9])'; then
	echo "deps: $("$go" version) is too old: Go 1.21 or newer is needed, which then fetches $(sed -n 's/^go //p' go.mod)" >&2
	exit 1
fi

missing() {
	for p in "$@"; do
		dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$p"
	done
}

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not Debian or Ubuntu: please install the equivalents of: $want" >&2
	exit 0
fi
# shellcheck disable=SC2086 # lists of names
need=$(missing $want)
# shellcheck disable=SC2086
more=$(missing $extra)
[ -n "$need$more" ] || exit 0

sudo=""
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "deps: missing: $need$more" >&2
		echo "deps: install them as root: apt-get install $need$more" >&2
		[ -z "$need" ] && exit 0 || exit 1
	fi
	sudo=sudo
fi
echo "deps: installing: $need$more" >&2
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
if [ -n "$need" ]; then
	# shellcheck disable=SC2086
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $need >&2
fi
# What only tests use may be missing: they say so.
for p in $more; do
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$p" >&2 ||
		echo "deps: $p is not available here" >&2
done
