package launch

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/host"
)

// rangeSize is how many subordinate ids a jail with ids = "range" has.
const rangeSize = host.RangeSize

// subordinateIDs takes the caller's first range of /etc/subuid and /etc/subgid
// (subuid(5)). newuidmap checks it again; it is read here to say what is missing.
func (j *Jail) subordinateIDs() error {
	uid, err := firstRange("/etc/subuid")
	if err != nil {
		return err
	}
	gid, err := firstRange("/etc/subgid")
	if err != nil {
		return err
	}
	if f := host.Here().Helpers(); f.State != host.Yes {
		return refusal(&f)
	}
	j.ids.subUID, j.ids.subGID, j.ids.n = uid, gid, rangeSize
	return nil
}

func firstRange(path string) (uint32, error) {
	id := strconv.Itoa(os.Geteuid())
	name := id
	if u, err := user.LookupId(id); err == nil {
		name = u.Username
	}
	missing := &jailer.Error{
		Code: jailer.CodeIsolationUnavailable, Reason: "ids.subuid", Path: path,
		Message: fmt.Sprintf("no range of at least %d ids for %s", rangeSize, name),
		Hint:    fmt.Sprintf(`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s, or set ids = "single"`, name),
	}
	text, err := os.ReadFile(path)
	if err != nil {
		missing.Err = err
		return 0, missing
	}
	first, ok := host.SubordinateRange(string(text), name, id)
	if !ok {
		return 0, missing
	}
	return first, nil
}
