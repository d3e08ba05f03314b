#!/bin/sh
# build.sh OUT.bin: builds the jail's PID 1, static and without a C library, and
# writes OUT.sum beside it: the lower-case SHA-256 that the Go side checks each time
# it hands the program out. CC chooses the compiler (aarch64-linux-gnu-gcc crosses);
# it needs the kernel's headers (linux-libc-dev) and nothing else.
set -eu

out=${1:?usage: build.sh OUT.bin}
src=$(dirname "$0")/src
cc=${CC:-cc}

# -fno-tree-loop-distribute-patterns: else memcpy is compiled to a call of memcpy.
# -no-pie: nothing here relocates a program without a libc.
# $cc unquoted: CC may carry options.
$cc -std=gnu11 -Os -static -no-pie -nostdlib -ffreestanding \
	-Wall -Wextra -Werror -Wconversion -Wshadow -Wno-sign-conversion \
	-fno-pie -fno-stack-protector -fno-asynchronous-unwind-tables -fno-unwind-tables \
	-fno-tree-loop-distribute-patterns -fno-ident -fwrapv -fno-strict-aliasing \
	-Wl,-z,noexecstack -Wl,-z,noseparate-code -Wl,--build-id=none -Wl,--gc-sections -s \
	-o "$out.tmp" "$src"/*.c
chmod 0755 "$out.tmp"
printf %s "$(sha256sum <"$out.tmp" | cut -d' ' -f1)" >"${out%.bin}.sum"
mv "$out.tmp" "$out"
