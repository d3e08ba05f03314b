#!/bin/sh
# image.sh SUITE DIR: makes the guest of test/vm from Debian's packages of SUITE
# into DIR: root.img (ext4), vmlinuz, initrd. As root, or as a user with a range
# of subordinate ids. Nothing is installed here and no program of the guest runs
# outside a chroot.
set -eu

suite=$1
dir=$2
here=$(cd "$(dirname "$0")" && pwd)
umask 022

if [ "${BED_STAGE:-}" = root ]; then
	# The second half, with ids of its own: the tree, and a file system of it.
	rm -rf "$dir/tree"
	mkdir "$dir/tree"
	trap 'rm -rf "$dir/tree"' EXIT
	tar -C "$dir/tree" --numeric-owner --exclude='./dev/*' -xf "$dir/tree.tar"
	cp "$dir"/tree/boot/vmlinuz-* "$dir/vmlinuz"
	cp "$dir/tree/usr/local/lib/bed/initrd" "$dir/initrd"
	rm -rf "$dir"/tree/boot/vmlinuz-* "$dir/tree/usr/local/lib/bed/initrd"
	truncate -s 3G "$dir/root.img"
	/sbin/mke2fs -q -t ext4 -E lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0 -d "$dir/tree" "$dir/root.img"
	exit 0
fi

# The path excludes save a third of the size.
# shellcheck disable=SC2016 # $1 is for the hook's shell
sh "$here/debian.sh" --variant=apt \
	--include=ca-certificates,systemd,systemd-sysv,kmod,xz-utils,cpio,busybox-static \
	--dpkgopt=force-unsafe-io \
	--dpkgopt='path-exclude=/usr/share/doc/*' \
	--dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--dpkgopt='path-exclude=/usr/share/info/*' \
	--customize-hook='mkdir -p "$1/usr/local/lib/bed"' \
	--customize-hook="copy-in '$here/provision.sh' '$here/offline.sh' '$here/initrd.sh' /usr/local/lib/bed" \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/provision.sh' \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/offline.sh' \
	--customize-hook='chroot "$1" sh /usr/local/lib/bed/initrd.sh' \
	"$suite" "$dir/tree.tar"

export BED_STAGE=root
if [ "$(id -u)" -eq 0 ]; then
	sh "$0" "$suite" "$dir"
else
	unshare --map-root-user --map-auto sh "$0" "$suite" "$dir"
fi
rm "$dir/tree.tar"
