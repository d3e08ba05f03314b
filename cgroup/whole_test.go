package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

// The files and values of both versions; a limit that did not take is an error.
func TestLimitMemory(t *testing.T) {
	const memory, swap = 64 << 20, 16 << 20
	for name, c := range map[string]struct {
		v2    bool
		files map[string]string // and what they must say then
	}{
		"v2":                  {true, map[string]string{"memory.max": "67108864", "memory.swap.max": "16777216"}},
		"v2, swap not there":  {true, map[string]string{"memory.max": "67108864"}},
		"v1":                  {false, map[string]string{"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "83886080"}},
		"v1, memsw not there": {false, map[string]string{"memory.limit_in_bytes": "67108864"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f := range c.files {
				if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			j := &Jail{base: &Base{o: Options{}.withDefaults()}, places: []place{
				{dir: t.TempDir(), ctls: []string{"pids"}},
				{dir: dir, ctls: []string{"memory"}, mount: Mount{V2: c.v2}},
			}}
			if err := j.LimitMemory(memory, swap); err != nil {
				t.Fatal(err)
			}
			for f, want := range c.files {
				if got, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v, want %s", f, got, err, want)
				}
			}
			j.base.o.write = func(string, string) error { return nil }
			if err := j.LimitMemory(memory*2, swap); err == nil {
				t.Error("a limit that did not take is no error")
			}
			if err := (&Jail{base: j.base, places: j.places[:1]}).LimitMemory(memory, swap); err != nil {
				t.Errorf("without a memory controller: %v", err)
			}
		})
	}
}
