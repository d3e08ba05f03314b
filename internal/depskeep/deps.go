//go:build depskeep

package depskeep

import (
	_ "github.com/containerd/cgroups/v3/cgroup1"
	_ "github.com/containerd/cgroups/v3/cgroup2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/opencontainers/cgroups/devices"
	_ "github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter"
	_ "github.com/opencontainers/runc/libcontainer/specconv"
	_ "github.com/pelletier/go-toml/v2"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/seccomp/libseccomp-golang"
	_ "github.com/sirupsen/logrus"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/net/bpf"
	_ "golang.org/x/sys/unix"
)
