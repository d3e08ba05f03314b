#!/bin/sh
# image.sh SUITE DIR: makes the guest of test/vm from Debian's packages of SUITE
# into DIR: root.img (ext4), vmlinuz, initrd. As root, or as a user with a range
# of subordinate ids. Nothing is installed here and no program of the guest runs
# outside a chroot.
set -eu

suite=$1
dir=$2
# Half a gigabyte of small files: in memory, where root may have them there.
if [ "$(id -u)" -eq 0 ] && [ -z "${BED_STAGE:-}" ] && [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -gt 6000000 ]; then
	export BED_STAGE=tmpfs
	mkdir "$dir/tmp"
	# shellcheck disable=SC2016 # for the inner shell
	exec unshare --mount --propagation private sh -euc '
		mount -t tmpfs -o size=4G,mode=1777 bed "$2/tmp"
		TMPDIR=$2/tmp sh "$0" "$1" "$2"' "$0" "$suite" "$dir"
fi
here=$(cd "$(dirname "$0")" && pwd)
umask 022
tar=$dir/tree.tar
[ ! -d "$dir/tmp" ] || tar=$dir/tmp/tree.tar

if [ "${BED_STAGE:-}" = root ]; then
	# The second half, with ids of its own: the tree, and a file system of it.
	tree=$(mktemp -d)
	trap 'rm -rf "$tree"' EXIT
	chmod 755 "$tree"
	tar -C "$tree" --numeric-owner --exclude='./dev/*' -xf "$tar"
	cp "$tree"/boot/vmlinuz-* "$dir/vmlinuz"
	cp "$tree/usr/local/lib/bed/initrd" "$dir/initrd"
	rm -rf "$tree"/boot/vmlinuz-* "$tree/usr/local/lib/bed/initrd"
	truncate -s 3G "$dir/root.img"
	/sbin/mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0 -d "$tree" "$dir/root.img"
	exit 0
fi

# dpkg's own path excludes would cost a filter in Python for each package.
# shellcheck disable=SC2016 # $1 is for the hook's shell
sh "$here/debian.sh" --variant=apt \
	--include=ca-certificates,systemd,systemd-sysv,kmod,xz-utils,cpio,busybox-static \
	--dpkgopt=force-unsafe-io \
	--customize-hook='mkdir -p "$1/usr/local/lib/bed"' \
	--customize-hook="copy-in '$here/provision.sh' '$here/offline.sh' '$here/initrd.sh' /usr/local/lib/bed" \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/provision.sh' \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/offline.sh' \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/initrd.sh' \
	--customize-hook='rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/usr/share/info/* "$1"/usr/share/locale/*' \
	"$suite" "$tar"

export BED_STAGE=root
if [ "$(id -u)" -eq 0 ]; then
	sh "$0" "$suite" "$dir"
else
	unshare --map-root-user --map-auto sh "$0" "$suite" "$dir"
fi
rm "$tar"
