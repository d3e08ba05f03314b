package launch

import (
	"errors"
	"testing"

	"github.com/jailer-project/jailer"
)

// TestLeakAfterFailure: the first failure is the one that is told, but a leak
// after it still keeps the record, without which gc could not find what is left.
func TestLeakAfterFailure(t *testing.T) {
	r := newJail(t.Context(), Options{})
	c := r.newCommand(t.Context(), Command{})
	r.only = c
	if r.leaked() {
		t.Fatal("leaked before anything was done")
	}
	first := &jailer.Error{Code: jailer.CodeInternal, Op: "stream"}
	c.fail(first)
	if r.leaked() {
		t.Error("a failure alone is no leak")
	}
	c.leak(errors.New("still there"))
	if !r.leaked() || c.failure != first {
		t.Errorf("leaked %v, failure %v", r.leaked(), c.failure)
	}
}
