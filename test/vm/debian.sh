#!/bin/sh
# debian.sh ARGS… SUITE TARGET: mmdebstrap with Debian's key, and from the mirror
# that this machine's own packages come from, if that is Debian.
set -eu

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if [ ! -e "$keyring" ]; then
	echo "no $keyring: apt-get install debian-archive-keyring" >&2
	exit 1
fi
# shellcheck disable=SC2016 # apt-get's own format
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sort -u | head -n 1)
exec mmdebstrap --quiet --format=tar --keyring="$keyring" \
	--aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' \
	"$@" ${mirror:+"$mirror"} </dev/null
