package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Many who come at once get the places that there are, and no more; a dead one's place is
// free.
func TestAdmit(t *testing.T) {
	d := open(t)
	const places = 5
	var made, full atomic.Int32
	var mu sync.Mutex
	var sessions []*Session
	var work sync.WaitGroup
	for i := range 30 {
		work.Go(func() {
			r := Record{ID: fmt.Sprint("s", i), Tenant: "acme"}
			leave, err := d.Admit(t.Context(), r.Tenant, Most{Sessions: places})
			if f, ok := errors.AsType[*FullError](err); ok && f.Limit == places {
				full.Add(1)
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			defer leave()
			s, err := d.Create(r)
			if err != nil {
				t.Error(err)
				return
			}
			made.Add(1)
			mu.Lock()
			sessions = append(sessions, s)
			mu.Unlock()
		})
	}
	work.Wait()
	if made.Load() != places || full.Load() != 30-places {
		t.Fatalf("%d made, %d refused", made.Load(), full.Load())
	}
	admit := func(tenant string, m Most) error {
		leave, err := d.Admit(t.Context(), tenant, m)
		if err == nil {
			leave()
		}
		return err
	}
	sessions[0].Abandon() // killed, and not collected yet
	if err := admit("other", Most{Sessions: places}); err != nil {
		t.Error(err)
	}
	for _, row := range []struct {
		tenant string
		most   int
		full   bool
	}{{"acme", 4, true}, {"acme", 5, false}, {"other", 1, false}, {"", 1, false}} {
		if err := admit(row.tenant, Most{OfTenant: row.most}); (err != nil) != row.full {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// One who counts and doesn't come to an end keeps nobody for long.
func TestAdmitStopped(t *testing.T) {
	d := open(t)
	leave, err := d.Admit(t.Context(), "", Most{Sessions: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := d.Admit(t.Context(), "", Most{Sessions: 1}); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took < admissionWait {
		t.Errorf("after %v", took)
	}
	leave()
	if leave, err = d.Admit(t.Context(), "", Most{Sessions: 1}); err != nil {
		t.Fatal(err)
	}
	leave()
}
