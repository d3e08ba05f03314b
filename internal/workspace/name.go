package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jailer-project/jailer"
)

// A Name is a tenant's resource.
type Name struct{ Tenant, Resource string }

// ParseName reads TENANT/RESOURCE, as jailer.ParseWorkspace does.
func ParseName(s string) (Name, error) {
	t, r, err := jailer.ParseWorkspace(s)
	return Name{t, r}, err
}

func (n Name) String() string { return n.Tenant + "/" + n.Resource }

// dir is the name of its directory. The lengths make one encoding of one name: no two
// names are one text, whatever they have in them.
func (n Name) dir() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "jailer workspace 1\n%d %s\n%d %s\n", len(n.Tenant), n.Tenant, len(n.Resource), n.Resource))
	return hex.EncodeToString(sum[:])
}
