package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/jailer-project/jailer/internal/apparmor"
)

// TestScripts runs testdata/*.txtar with the real program: re-executing the test
// binary as jailer, as testscript likes to, would test another program, without
// the embedded filter.
//
// Verbs of ours:
//
//	status N CMD ARG…     run CMD and want this exit status
//	json FILE PATH VALUE  want a member of a JSON document, as JSON; a.0.b is a path
func TestScripts(t *testing.T) {
	bin := os.Getenv("JAILER_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin", "jailer")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Fatalf("%v: run `make build`", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(bin)+string(os.PathListSeparator)+e.Getenv("PATH"))
			// Root's jails pass through the state directory with an id of their own.
			for d := e.WorkDir; os.Geteuid() == 0 && len(d) > len(os.TempDir()); d = filepath.Dir(d) {
				if err := os.Chmod(d, 0o755); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": wantStatus,
			"json":   wantJSON,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "apparmor":
				return apparmor.Enabled(os.DirFS("/"))
			}
			return false, errors.New("unknown condition " + cond)
		},
	})
}

func wantStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N CMD ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func wantJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH VALUE")
	}
	var doc any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	for _, key := range strings.Split(args[1], ".") {
		switch at := doc.(type) {
		case map[string]any:
			doc = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) {
				ts.Fatalf("%s: no element %s of %d", args[1], key, len(at))
			}
			doc = at[i]
		default:
			doc = nil
		}
	}
	b, err := json.Marshal(doc)
	ts.Check(err)
	if (string(b) == args[2]) == neg {
		ts.Fatalf("%s is %s, want (unless negated) %s", args[1], b, args[2])
	}
}
