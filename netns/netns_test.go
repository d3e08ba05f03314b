package netns

import "testing"

func TestFor(t *testing.T) {
	n, err := For(None)
	if err != nil || !n.New || len(n.Interfaces) != 1 || n.Interfaces[0] != "lo" {
		t.Errorf("For(None) = %+v, %v", n, err)
	}
	for _, m := range []Mode{"", "host", "None", "none ", "bridge"} {
		if n, err := For(m); err == nil {
			t.Errorf("For(%q) = %+v, want an error", m, n)
		}
	}
}
