package apparmor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jailer-project/jailer/profiles"
)

// Names are the profiles that can be loaded, each a file.
func Names() []string { return []string{Default, Launcher} }

// mark is what the text of Default has in place of its own mark.
const mark = "/" + Default + "/TEXT"

// Mark is the name of a file that isn't there, made from the text of Default: both
// of its profiles permit to write it and deny to read it, which no other text does,
// so the rules that are loaded can be asked which text they come from.
func Mark() string {
	b, err := profiles.FS.ReadFile("apparmor/" + Default)
	if err != nil {
		panic(err) // an embedded file
	}
	sum := sha256.Sum256(b)
	return "/" + Default + "/" + hex.EncodeToString(sum[:16])
}

// Text is a profile as it is loaded on this host. exe is where the program is
// installed: the launcher's profile is attached to that path alone. An AppArmor
// before 4.0 knows neither the newest feature set nor the rule for user namespaces;
// it restricts none, and for it both are taken out. An empty text is a profile that
// such an AppArmor has no use for.
func Text(root fs.FS, name, exe string) (string, error) {
	b, err := profiles.FS.ReadFile("apparmor/" + name)
	if err != nil {
		return "", err
	}
	text := string(b)
	if _, err := fs.Stat(root, "etc/apparmor.d/abi/4.0"); err != nil {
		if name == Launcher {
			return "", nil
		}
		text = strings.Replace(text, "abi/4.0", "abi/3.0", 1)
		text = strings.Replace(text, "\n  userns,\n", "\n", 1)
	}
	if name != Launcher {
		return strings.ReplaceAll(text, mark, Mark()), nil
	}
	if i := strings.IndexFunc(exe, func(r rune) bool { return !plain(r) }); i >= 0 || !strings.HasPrefix(exe, "/") {
		return "", fmt.Errorf("%q can't be written into a profile: install the program under a plain path", exe)
	}
	const at = "\n@{jailer} = /usr/bin/jailer\n"
	if !strings.Contains(text, at) {
		return "", fmt.Errorf("the profile %s says of no path that it is attached to it", name)
	}
	return strings.Replace(text, at, "\n@{jailer} = "+exe+"\n", 1), nil
}

// plain characters mean themselves in a profile's paths.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+", r)
}
