package jailer

import (
	"context"
	"fmt"
	"slices"
)

// Restrict gives another handle of the session, which uses these capabilities alone, and
// those alone that this one uses. It can't end the session. It is for code that is handed
// a part of a session, and is held by this library: who has the session's token can open
// it anew.
func (s *Session) Restrict(capabilities ...string) *Session {
	r := *s
	r.only = []string{}
	for _, c := range capabilities {
		if s.only == nil || slices.Contains(s.only, c) {
			r.only = append(r.only, c)
		}
	}
	return &r
}

// may is the one place where a handle's verbs are checked.
func (s *Session) may(ctx context.Context, op Operation) error {
	if s.only != nil {
		for _, c := range op.Capabilities {
			if !slices.Contains(s.only, c) {
				return &Error{Code: CodePolicyDenied, Op: "session.restrict", Path: "capabilities", Message: fmt.Sprintf("this handle of the session has no %q", c)}
			}
		}
		if op.Name == "close" {
			return &Error{Code: CodePolicyDenied, Op: "session.restrict", Message: "a restricted handle can't end the session"}
		}
	}
	op.SessionID, op.Profile, op.Tenant, op.Labels = s.ID, s.profile, s.tenant, s.labels
	return s.c.may(ctx, op)
}
