#!/bin/sh
# qemu.sh DIR: unpacks QEMU of Debian trixie, with its libraries, into DIR. Nothing
# is installed: it runs with its own loader and libraries. Emulating a guest that
# starts many programs, QEMU 10 needs two thirds of the time of bookworm's 7.2,
# and every machine has the same one.
set -eu

dir=$1
sh "$(dirname "$0")/debian.sh" --variant=extract --include=qemu-system-x86 trixie "$dir/qemu.tar"
tar -C "$dir" --no-same-owner -xf "$dir/qemu.tar" \
	./usr/bin/qemu-system-x86_64 ./usr/lib/x86_64-linux-gnu ./usr/share/qemu ./usr/share/seabios
rm "$dir/qemu.tar"
