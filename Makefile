# jailer: the two commands are `make run` and `make test`.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# netgo, osusergo: a static program without glibc's resolver and NSS plugins,
# which a hostile root could otherwise have loaded (CVE-2019-14271).
# runc_nocriu: no checkpointing, 2 MB less.
TAGS := seccomp runc_nocriu netgo osusergo
LDFLAGS := -s -w -X main.version=$(VERSION) -linkmode external -extldflags "-static"

# The program is copied into memory for each rootless jail, and does nothing hot
# outside the Go runtime: without inlining elsewhere it is 1 MB smaller.
GCFLAGS := -gcflags=all=-l -gcflags=runtime/...= -gcflags=internal/runtime/...=

PID1 := internal/pid1/pid1.bin
FILTER := seccomp/compiled/default.bpf
ARCH := $(shell $(GO) env GOARCH 2>/dev/null)

.PHONY: all build run test test-long test-vm bench lint fuzz install clean deps generate

all: build

build: generate
	CGO_ENABLED=1 $(GO) build -trimpath -tags '$(TAGS)' $(GCFLAGS) -ldflags '$(LDFLAGS)' -o bin/jailer ./cmd/jailer

generate: $(PID1) $(FILTER)

$(PID1): $(wildcard internal/pid1/src/*) internal/pid1/build.sh
	sh internal/pid1/build.sh $@

$(FILTER): profiles/seccomp/default.json $(wildcard seccomp/*.go seccomp/bpf/*.go seccomp/bpf/gen/*.go)
	$(GO) run -tags '$(TAGS)' ./seccomp/bpf/gen -profile default -arch $(ARCH) -o $@

clean:
	rm -rf bin $(PID1) internal/pid1/pid1.sum $(FILTER) seccomp/compiled/default.sum
