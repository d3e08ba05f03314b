# jailer: the two commands are `make run` and `make test`.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
# Go's own installer puts it where not every PATH looks.
GO ?= $(or $(shell command -v go),$(wildcard /usr/local/go/bin/go),go)
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
PREFIX ?= /usr/local

# netgo, osusergo: a static program without glibc's resolver and NSS plugins,
# which a hostile root could otherwise have loaded (CVE-2019-14271).
# runc_nocriu: without checkpointing, which nothing here does.
TAGS := seccomp runc_nocriu netgo osusergo
# -funcalign=1: 0.25 MB less of padding between functions.
LDFLAGS := -s -w -funcalign=1 -X main.version=$(VERSION) -linkmode external -extldflags "-static -Wl,--gc-sections"

# The program is copied into memory for each rootless jail, and does nothing hot
# outside the Go runtime: without inlining elsewhere it is 0.8 MB smaller.
GCFLAGS := -gcflags=all=-l -gcflags=runtime/...= -gcflags=internal/runtime/...=

PID1 := internal/pid1/pid1.bin
FILTERS := $(patsubst profiles/seccomp/%.json,seccomp/compiled/%.bpf,$(wildcard profiles/seccomp/*.json))
ARCH := $(shell $(GO) env GOARCH 2>/dev/null)

# Tests. The long figures are for `make test-long`.
export FUZZTIME ?= 2s
export RACETIME ?= 2s
export KILLS ?= 40
export RUNS ?= 200
export TESTTIME ?= 15m
LONG := FUZZTIME=20s RESOLVETIME=10m RACETIME=60s KILLS=400 RUNS=2000 TESTTIME=90m

# The guest of the test bed: trixie, or bookworm with its older kernel.
SUITE ?= trixie
# Part of test-vm alone, e.g. JAILER_VM_FLAGS='-way delegated -job test/run'.
JAILER_VM_FLAGS ?=
export TAGS

.PHONY: help build run test test-long test-tree test-vm shell-vm bench lint cross fuzz install clean deps deps-bench deps-vm generate

build: generate
	@mkdir -p bin
	CGO_ENABLED=1 $(GO) build -trimpath -tags '$(TAGS)' $(GCFLAGS) -ldflags '$(LDFLAGS)' -o bin/jailer ./cmd/jailer

help:
	@echo 'make run         install what is needed, build, run a real jail and show it'
	@echo 'make test        the whole suite (make test-long: with the long figures)'
	@echo 'make test-vm     its part in a guest with cgroup v2 and AppArmor (JAILER_NO_VM=1: not)'
	@echo 'test/vm/shell    that guest, with a console'
	@echo 'make build       bin/jailer'
	@echo 'make bench       a cold run beside crun, runc and bwrap'
	@echo 'make lint, fuzz, install (PREFIX, DESTDIR), clean'

generate: $(PID1) $(FILTERS)

$(PID1): $(wildcard internal/pid1/src/*) internal/pid1/build.sh
	sh internal/pid1/build.sh $@

seccomp/compiled/%.bpf: profiles/seccomp/%.json $(wildcard seccomp/*.go seccomp/bpf/*.go seccomp/bpf/gen/*.go)
	$(GO) run -tags '$(TAGS)' ./seccomp/bpf/gen -profile $* -arch $(ARCH) -o $@

# Debian's or Ubuntu's packages that the build needs; nothing if they are there.
deps:
	@GO='$(GO)' sh scripts/deps.sh build

deps-bench:
	@GO='$(GO)' sh scripts/deps.sh bench

deps-vm:
	@[ -n "$${JAILER_NO_VM:-}" ] || GO='$(GO)' sh scripts/deps.sh vm

# Installs what the build needs, builds, runs a real jail and shows it.
run: deps
	@$(MAKE) --no-print-directory build
	@sh scripts/demo.sh bin/jailer

# The whole suite; what CI runs.
test: deps
	@$(MAKE) --no-print-directory build lint test-tree fuzz
	@$(MAKE) --no-print-directory test-vm

test-tree:
	@GO='$(GO)' sh scripts/test.sh '$(TAGS)'

test-long: deps
	@$(MAKE) --no-print-directory build lint test-tree fuzz $(LONG)
	@JAILER_VM_ALL=1 $(MAKE) --no-print-directory test-vm
	@JAILER_VM_ALL=1 $(MAKE) --no-print-directory test-vm SUITE=bookworm

# The part of the suite that needs a kernel and a host of its own: made from
# Debian's packages, kept in the user's cache, booted under QEMU.
test-vm: deps deps-vm
	@$(MAKE) --no-print-directory build
	@GO='$(GO)' sh scripts/test-vm.sh '$(TAGS)' '$(SUITE)' $(JAILER_VM_FLAGS)

shell-vm: deps deps-vm
	@$(MAKE) --no-print-directory build
	@GO='$(GO)' $(GO) run ./test/vm shell -suite '$(SUITE)'

# Cold runs beside crun, runc and bwrap, as ratios of one interleaved run.
bench: deps deps-bench
	@$(MAKE) --no-print-directory build
	@GO='$(GO)' sh scripts/bench.sh '$(TAGS)'

TOOL := $(GO) tool -modfile=tools/go.mod

lint: generate
	@out=$$($(TOOL) gofumpt -l .); [ -z "$$out" ] || { echo "lint: not gofumpt'ed: $$out" >&2; exit 1; }
	$(GO) mod tidy -diff
	! grep -nE '^(replace|exclude|toolchain) ' go.mod
	$(GO) vet ./...
	$(GO) vet -tags '$(TAGS)' ./...
	CGO_ENABLED=0 $(GO) build . ./limits ./policy ./spec
	GOOS=darwin CGO_ENABLED=0 $(GO) vet . ./limits ./policy ./spec
	$(TOOL) staticcheck -tags '$(TAGS)' ./...
	@GO='$(GO)' sh scripts/cross.sh
	@sh scripts/check-files.sh

# Every fuzz target for FUZZTIME.
fuzz: generate
	@GO='$(GO)' sh scripts/fuzz.sh '$(TAGS)'

install: build
	install -D -m 0755 bin/jailer $(DESTDIR)$(PREFIX)/bin/jailer
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man5
	sed -f scripts/policy-man.sed docs/policy.md | $(TOOL) go-md2man -out $(DESTDIR)$(PREFIX)/share/man/man5/jailer-policy.5
	for p in docs/man/*.1.md; do \
		$(TOOL) go-md2man -in $$p -out $(DESTDIR)$(PREFIX)/share/man/man1/$$(basename $$p .md); \
	done
	for v in list:state list:delete start:ps start:logs start:stop start:kill fs:export fs:import; do \
		echo ".so man1/jailer-$${v%:*}.1" >$(DESTDIR)$(PREFIX)/share/man/man1/jailer-$${v#*:}.1; \
	done

clean:
	rm -rf bin $(PID1) internal/pid1/pid1.sum $(FILTERS) $(FILTERS:.bpf=.sum)
