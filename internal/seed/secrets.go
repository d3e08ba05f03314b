package seed

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jailer-project/jailer/internal/jailpath"
)

// suspects are names that usually hold what their owner wouldn't show a stranger.
// It is a help for the eye and no guard: what was named is put in all the same. A
// name is compared without regard to case.
var suspects = []struct {
	because string
	exact   []string // a whole name, of a file or of a directory above it
	ends    []string
	holds   []string
	not     []string // what it holds then means something else
}{
	{
		because: "keys of ssh, GnuPG and TLS",
		exact:   []string{".ssh", ".gnupg", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk"},
		ends:    []string{".pem", ".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx", ".keytab"},
	},
	{
		because: "credentials of clouds, clusters and registries",
		exact:   []string{".aws", ".azure", ".kube", ".docker", ".dockercfg", "gcloud", "kubeconfig", "credentials", "credentials.json", "service-account.json"},
	},
	{
		because: "passwords and tokens of tools",
		exact:   []string{".netrc", "_netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".htpasswd"},
	},
	{
		because: "a service's variables",
		exact:   []string{".env", ".envrc"},
	},
	{
		because: "its own name says so",
		holds:   []string{"secret", "token", "password", "credential"},
		// Of a language model and of a parser, where a token is a word.
		not: []string{"tokeniz", "tokenis"},
	},
}

// templates are endings of what is published in the place of a secret; ".env." is
// the beginning of its variants.
var templates = []string{".example", ".sample", ".template", ".dist", ".pub"}

// looksSecret says why name, one element of a path, does; "" if it doesn't. A
// directory does by its whole name alone: what is in it is looked at by itself.
func looksSecret(name string, dir bool) string {
	n := strings.ToLower(name)
	is := func(f func(string, string) bool, list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return f(n, s) })
	}
	if is(strings.HasSuffix, templates) {
		return ""
	}
	if strings.HasPrefix(n, ".env.") {
		n = ".env"
	}
	for _, s := range suspects {
		if slices.Contains(s.exact, n) || !dir && (is(strings.HasSuffix, s.ends) || is(strings.Contains, s.holds) && !is(strings.Contains, s.not)) {
			return s.because
		}
	}
	return ""
}

// maxWarnings bounds what is said of a tree that is full of them.
const maxWarnings = 16

// secrets are the names that were met.
type secrets struct{ met map[string]suspect }

type suspect struct {
	because string
	at      string // the first path in the jail
}

// look goes through the elements of p, a host path or one in the jail, for what is
// put at abs.
func (s *secrets) look(p, abs string, dir bool) {
	above, name := path.Split(path.Clean(p))
	for a := range strings.SplitSeq(above, "/") {
		s.lookName(a, abs, true)
	}
	s.lookName(name, abs, dir)
}

func (s *secrets) lookName(name, abs string, dir bool) {
	because := looksSecret(name, dir)
	if because == "" {
		return
	}
	if s.met == nil {
		s.met = map[string]suspect{}
	}
	if _, ok := s.met[name]; !ok {
		s.met[name] = suspect{because, abs}
	}
}

func (s *secrets) clone() secrets { return secrets{maps.Clone(s.met)} }

func (s *secrets) warnings() (out []string) {
	for i, name := range slices.Sorted(maps.Keys(s.met)) {
		if i == maxWarnings {
			return append(out, fmt.Sprintf("%d more names of what is put into the jail look like secrets", len(s.met)-i))
		}
		out = append(out, fmt.Sprintf("%s looks like a secret (%s): it is put into the jail at %s, where the command can read it",
			jailpath.Quote(name), s.met[name].because, jailpath.Quote(s.met[name].at)))
	}
	return out
}
