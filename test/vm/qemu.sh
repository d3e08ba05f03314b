#!/bin/sh
# qemu.sh DIR: unpacks QEMU of Debian trixie, with its libraries, into DIR. Nothing
# is installed: it runs with its own loader and libraries. Emulating a guest that
# starts many programs, QEMU 10 needs two thirds of the time of bookworm's 7.2,
# and every machine has the same one.
set -eu

dir=$1
# shellcheck disable=SC2016 # apt-get's format
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort -u | head -n 1)
mmdebstrap --quiet --variant=extract --format=tar \
	--keyring=/usr/share/keyrings/debian-archive-keyring.gpg \
	--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' \
	--include=qemu-system-x86 trixie "$dir/qemu.tar" ${mirror:+"$mirror"} </dev/null
tar -C "$dir" --no-same-owner -xf "$dir/qemu.tar" \
	./usr/bin/qemu-system-x86_64 ./usr/lib/x86_64-linux-gnu ./usr/share/qemu ./usr/share/seabios
rm "$dir/qemu.tar"
