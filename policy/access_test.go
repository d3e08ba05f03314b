package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jailer-project/jailer"
)

const accessHead = "version = 1\nextends = \"builtin\"\n"

func TestAccess(t *testing.T) {
	p, err := Parse("p", []byte(accessHead+`
[[owners]]
uid = 1001
tenants = ["acme"]
profiles = ["default"]
[[owners]]
uid = 0
tenants = ["*"]
profiles = ["*"]
[[owners]]
uid = 1002
profiles = ["*"]
[authorize]
command = ["/usr/local/bin/may", "-x"]
[approve]
command = ["/usr/local/bin/ask"]
timeout = "90s"
rules = [{ argv = ["git", "push"] }]
[sessions]
max_sessions = 64
max_sessions_per_tenant = 16
`))
	if err != nil {
		t.Fatal(err)
	}
	a := p.Access
	if len(a.Owners) != 3 || !slices.Equal(a.Authorize.Command, []string{"/usr/local/bin/may", "-x"}) || a.Authorize.Timeout != 5*time.Second ||
		a.Approve.Timeout != 90*time.Second || len(a.Rules) != 1 || a.MaxSessions != 64 || a.MaxPerTenant != 16 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		uid             uint32
		tenant, profile string
		field           string // "" is permitted
	}{
		{1001, "acme", "default", ""},
		{1001, "acme", "", ""}, // a workspace alone
		{1001, "other", "default", "tenant"},
		{1001, "", "default", "tenant"},
		{1001, "acme", "other", "profile"},
		{0, "", "x", ""},
		{0, "y", "x", ""},
		{1002, "", "x", ""},
		{1002, "acme", "x", "tenant"},
		{1003, "acme", "default", "owners"},
	} {
		err := p.Permits(c.uid, c.tenant, c.profile)
		e, _ := errors.AsType[*jailer.Error](err)
		switch {
		case c.field == "" && err != nil:
			t.Errorf("%+v: %v", c, err)
		case c.field != "" && (e == nil || e.Code != jailer.CodeUnauthorized || e.Path != c.field):
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := Builtin().Permits(4242, "any", "any"); err != nil {
		t.Errorf("without a list: %v", err)
	}
	p, err = Parse("p", []byte(accessHead+"owners = []\n"))
	if err != nil || p.Permits(0, "", "default") == nil {
		t.Errorf("an empty list permits somebody, or %v", err)
	}
}

func TestAccessRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[[owners]]\nprofiles = [\"*\"]", "uid is missing"},
		{"[[owners]]\nuid = -1\nprofiles = [\"*\"]", "is no user"},
		{"[[owners]]\nuid = 4294967295\nprofiles = [\"*\"]", "is no user"},
		{"[[owners]]\nuid = 1", "profiles is missing"},
		{"[[owners]]\nuid = 1\nprofiles = [\"nope\"]", "no profile"},
		{"[[owners]]\nuid = 1\nprofiles = [\"*\"]\ntenants = [\"A\"]", "no tenant"},
		{"[[owners]]\nuid = 1\nprofiles = [\"*\"]\n[[owners]]\nuid = 1\nprofiles = [\"*\"]", "twice"},
		{"[[owners]]\nuid = 1\nprofiles = [\"*\"]\nname = \"x\"", "unknown key"},
		{"[authorize]\ncommand = []", "is empty"},
		{"[authorize]\ncommand = [\"may\"]", "not absolute"},
		{"[authorize]\ncommand = [\"/a/../may\"]", "not clean"},
		{"[authorize]\ntimeout = \"1s\"", "without command"},
		{"[authorize]\ncommand = [\"/a\"]\ntimeout = \"1m\"", "at most"},
		{"[approve]\ncommand = [\"/a\"]", "rules: is missing"},
		{"[approve]\ncommand = [\"/a\"]\ntimeout = \"0s\"\nrules = [{ argv = [\"a\"] }]", "must be positive"},
		{"[approve]\nrules = [{}]", "want one of"},
		{"[approve]\nrules = [{ argv = [\"a\"], paths = [\"b\"] }]", "want one of"},
		{"[approve]\nrules = [{ argv = [] }]", "matches nothing"},
		{"[approve]\nrules = [{ argv = [\"\"] }]", "matches nothing"},
		{"[approve]\nrules = [{ argv = [\"/\"] }]", "names no program"},
		{"[approve]\nrules = [{ paths = [\"a/../b\"] }]", "no clean path"},
		{"[approve]\nrules = [{ paths = [\"[\"] }]", "paths"},
		{"[approve]\nrules = [{ capabilities = [\"all\"] }]", "is none"},
		{"[approve]\nrules = [{ words = [\"a\"] }]", "unknown key"},
		{"[sessions]\nmax_sessions = 0", "want 1 to"},
		{"[sessions]\nmax_sessions_per_tenant = 99999999", "want 1 to"},
	} {
		_, err := Parse("p", []byte(accessHead+c.text+"\n"))
		e, _ := errors.AsType[*jailer.Error](err)
		if e == nil || e.Code != jailer.CodeInvalidPolicy || !strings.Contains(e.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}
