// Command gen compiles a built-in profile at build time and writes the filter
// with its checksum beside it (default.bpf, default.sum), which
// seccomp/compiled embeds:
//
//	go run -tags seccomp ./seccomp/bpf/gen -profile default -arch amd64 -o seccomp/compiled/default.bpf
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/jailer-project/jailer/seccomp"
	"github.com/jailer-project/jailer/seccomp/bpf"
)

func main() {
	name := flag.String("profile", "default", "built-in profile to compile")
	arch := flag.String("arch", runtime.GOARCH, "architecture, as GOARCH")
	out := flag.String("o", "", "file to write; its checksum goes to the same name with .sum")
	flag.Parse()
	if *out == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := generate(*name, *arch, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func generate(name, arch, out string) error {
	p, err := seccomp.Load(name)
	if err != nil {
		return err
	}
	code, err := bpf.Compile(p, arch)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(code)
	sumFile := strings.TrimSuffix(out, filepath.Ext(out)) + ".sum"
	if sumFile == out {
		return fmt.Errorf("%s: the filter's own name may not end in .sum", out)
	}
	if err := os.WriteFile(out, code, 0o644); err != nil {
		return err
	}
	return os.WriteFile(sumFile, []byte(hex.EncodeToString(sum[:])), 0o644)
}
