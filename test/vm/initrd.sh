#!/bin/sh
# initrd.sh: makes /usr/local/lib/bed/initrd, in a chroot of the future guest:
# busybox, and the modules without which there is no disk and no way out for the
# results, in the order in which they depend on each other.
#
# "bed=" on the kernel's command line stops it before the disk, for the tests of
# the harness and the probe of KVM.
set -eu

dir=$(mktemp -d)
mkdir -p "$dir/bin" "$dir/mod" "$dir/proc" "$dir/dev" "$dir/root"
cp /bin/busybox "$dir/bin/busybox"
version=$(basename /lib/modules/*)
n=10
for m in virtio_pci virtio_blk virtio_console ext4; do
	for ko in $(modprobe --set-version "$version" --show-depends "$m" | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
		to=$(basename "$ko" .xz)
		ls "$dir"/mod/*-"$to" >/dev/null 2>&1 && continue
		case $ko in
		*.xz) xz -dc "$ko" >"$dir/mod/$n-$to" ;;
		*) cp "$ko" "$dir/mod/$n-$to" ;;
		esac
		n=$((n + 1))
	done
done
cat >"$dir/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs none /dev
/bin/busybox mount -t proc none /proc
case " $(/bin/busybox cat /proc/cmdline) " in
*" bed=probe "*)
	echo BED-PROBE-OK
	/bin/busybox poweroff -f
	;;
*" bed=panic "*) exit 1 ;;
*" bed=hang "*) while :; do /bin/busybox sleep 1000; done ;;
esac
for m in /mod/*.ko; do
	/bin/busybox insmod "$m" || echo "bed: insmod $m failed"
done
for i in 1 2 3 4 5 6 7 8 9 10; do
	[ -b /dev/vda ] && break
	/bin/busybox sleep 0.2
done
/bin/busybox mount -t ext4 /dev/vda /root || echo "bed: no root file system"
/bin/busybox mount --move /dev /root/dev
/bin/busybox umount /proc
exec /bin/busybox switch_root /root /sbin/init
EOF
chmod 755 "$dir/init"
(cd "$dir" && find . | cpio --quiet -o -H newc >/usr/local/lib/bed/initrd)
rm -rf "$dir"
