package pid1

import (
	"encoding/binary"
	"fmt"
)

// Setup is what PID 1 is told about itself.
type Setup struct {
	Flags        // RequirePDeathSig, Once
	Label string // AppArmor's, PID 1's own, as attr/current shows it: "NAME (MODE)"; "" if it has none
}

func (s *Setup) encode() ([]byte, error) {
	b := make([]byte, headerLen, 128)
	b = appendU32(b, tlvFlags, uint32(s.Flags))
	if s.Label != "" {
		var err error
		if b, err = appendString(b, tlvLabel, "AppArmor label", s.Label); err != nil {
			return nil, err
		}
	}
	n := len(b) - headerLen
	if n > setupMax {
		return nil, fmt.Errorf("pid1: setup of %d bytes is over %d", n, setupMax)
	}
	binary.LittleEndian.PutUint32(b[0:], magic)
	binary.LittleEndian.PutUint32(b[4:], version)
	binary.LittleEndian.PutUint32(b[8:], uint32(n))
	return b, nil
}
