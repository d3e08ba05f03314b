#!/bin/sh
# check-files.sh: looks at what is not Go: the shell scripts, the Vagrantfile and the
# AppArmor profiles.
set -eu

if command -v shellcheck >/dev/null; then
	shellcheck scripts/*.sh internal/pid1/build.sh test/vm/*.sh test/vm/shell .ci/run
else
	echo "lint: SKIPPED: no shellcheck" >&2
fi
if command -v vagrant >/dev/null; then
	# Without a provider plain `validate` fails; -p leaves the providers out.
	vagrant validate || vagrant validate -p
else
	echo "lint: SKIPPED: no vagrant, so that the Vagrantfile was not validated" >&2
fi

parser=/usr/sbin/apparmor_parser
if [ -x $parser ]; then
	# An older one gets what internal/apparmor makes of a profile for it.
	abi=4.0
	[ -e /etc/apparmor.d/abi/4.0 ] || abi=3.0
	for f in profiles/apparmor/*; do
		case $abi in
		3.0) sed -e 's,abi/4\.0,abi/3.0,' -e '/^  userns,$/d' "$f" ;;
		*) cat "$f" ;;
		esac | $parser --skip-kernel-load --skip-cache --quiet --kernel-features /etc/apparmor.d/abi/$abi || {
			echo "lint: $f: refused by apparmor_parser" >&2
			exit 1
		}
	done
else
	echo "lint: SKIPPED: no $parser, so that the AppArmor profiles were not parsed" >&2
fi
