package apparmor

import (
	"fmt"
	"io"
	"os"
)

// accessFile answers what a loaded profile permits: a query is written, and the
// answer read through the same descriptor. Everybody may ask.
const accessFile = "/sys/kernel/security/apparmor/.access"

// Bits of an answer.
const (
	mayWrite = 0x2
	mayRead  = 0x4
)

// Ask gives what a loaded profile permits to do with a file, in the bits of the kernel.
type Ask func(profile, file string) (uint32, error)

// Allowed asks this kernel: aa_query_label(2) is the form of the query.
func Allowed(profile, file string) (uint32, error) {
	f, err := os.OpenFile(accessFile, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const classFile = "\x02"
	if _, err := f.WriteString("label\x00" + profile + "\x00" + classFile + file); err != nil {
		return 0, err
	}
	b, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return 0, err
	}
	return answer(string(b))
}

// answer is the first line of "allow 0x…\ndeny 0x…\naudit 0x…\nquiet 0x…\n".
func answer(text string) (uint32, error) {
	var allow, deny uint32
	if _, err := fmt.Sscanf(text, "allow 0x%x\ndeny 0x%x\n", &allow, &deny); err != nil {
		return 0, fmt.Errorf("%s says %.64q: %w", accessFile, text, err)
	}
	return allow &^ deny, nil
}

// foreign asks the rules of a loaded profile whether they come from this program's
// text. A profile of the same name that somebody else wrote, or another version's,
// would give its name to a jail that it doesn't hold.
func foreign(ask Ask, name string) *Reason {
	r := &Reason{ID: "apparmor.profile", Where: accessFile, Hint: LoadHint}
	allow, err := ask(name, Mark())
	switch {
	case err != nil:
		r.Unknown = true
		r.Text = fmt.Sprintf("it can't be told whether the AppArmor profile %s that is loaded is this program's: %v", name, err)
	case allow&(mayRead|mayWrite) != mayWrite:
		r.Text = fmt.Sprintf("the AppArmor profile %s that is loaded is not this program's, but of another text", name)
	default:
		return nil
	}
	return r
}
