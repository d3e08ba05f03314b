package seed

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jailer-project/jailer/policy"
)

func TestLooksSecret(t *testing.T) {
	for _, name := range []string{
		".env", ".env.production", ".ENV", ".envrc", "id_rsa", "id_ed25519", "server.pem", "SERVER.KEY", "a.p12", ".netrc", ".git-credentials",
		"credentials", "credentials.json", ".aws", ".ssh", "api-token.txt", "GITHUB_TOKEN", "client_secret.json", "passwords.csv", ".npmrc", "x.keytab",
	} {
		if looksSecret(name, false) == "" {
			t.Errorf("%s looks like nothing", name)
		}
	}
	for _, name := range []string{
		"", ".", "main.py", ".env.example", ".env.sample", "id_rsa.pub", "key.go", "keys", "monkey", "environment", "tokenizer.json", "tokenize.py",
		"pem", ".envoy", "README.md", "secret.txt.template",
	} {
		if why := looksSecret(name, false); why != "" {
			t.Errorf("%s looks like %s", name, why)
		}
	}
	for name, want := range map[string]bool{".aws": true, ".ssh": true, "secretary": false, "token": false, "a.key": false} {
		if got := looksSecret(name, true) != ""; got != want {
			t.Errorf("directory %s: %v", name, got)
		}
	}
}

// TestWarnings: once for each name, with a place, and the files are put in.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	for _, f := range []string{"a/.env", "b/.env", "b/.env.example", "c/x.key", "main.go"} {
		file(t, tree, f, "hunter2", 0o644)
	}
	aws := file(t, dir, ".aws/config", "hunter2", 0o600)
	plain := file(t, dir, "plain", "hunter2", 0o600)
	s := new(Set)
	defer s.Close()
	for _, err := range []error{s.AddTree("src", tree), s.AddFile("config", aws), s.AddFile("id_rsa", plain)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n := plan()
	n.Files = []policy.File{{Path: "/tmp/deploy-token", Data: []byte("hunter2")}}
	j, err := s.Join(n)
	if err != nil {
		t.Fatal(err)
	}
	got := j.Warnings()
	want := [][2]string{{`".aws"`, "/workspace/config"}, {`".env"`, "/workspace/src/a/.env"}, {`"deploy-token"`, "/tmp/deploy-token"}, {`"id_rsa"`, "/workspace/id_rsa"}, {`"x.key"`, "/workspace/src/c/x.key"}}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i], w[0]+" ") || !strings.Contains(got[i], w[1]) || strings.Contains(got[i], "hunter2") {
			t.Errorf("got %s, want %s at %s", got[i], w[0], w[1])
		}
	}
	if len(s.Warnings()) != 4 {
		t.Errorf("the flags' own are %q", s.Warnings())
	}
	if !slices.ContainsFunc(frames(t, j), func(f frame) bool { return f.Path == "/workspace/src/b/.env" && f.Data == "hunter2" }) {
		t.Error("a suspect was left out")
	}
}

func TestWarningsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		file(t, dir, fmt.Sprintf("%02d.pem", i), "", 0o644)
	}
	s := new(Set)
	defer s.Close()
	if err := s.AddTree("d", dir); err != nil {
		t.Fatal(err)
	}
	got := s.Warnings()
	if len(got) != maxWarnings+1 || !strings.HasPrefix(got[maxWarnings], "34 more names") {
		t.Errorf("got %q", got)
	}
}
