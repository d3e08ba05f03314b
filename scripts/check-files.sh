#!/bin/sh
# check-files.sh: looks at what is not Go: the shell scripts and the Vagrantfile.
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
