package session

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/jailer-project/jailer"
	"github.com/jailer-project/jailer/internal/wire"
)

// authorized refuses whoever doesn't present the session's token. All of the session's
// user's processes may speak to it: the token tells the handle's holder from them.
func (s *Server) authorized(m *wire.Message) error {
	if s.o.Token == nil {
		return nil
	}
	// Hashes of one length, compared in constant time: how long it takes says nothing
	// of the token.
	given := sha256.Sum256(m.Token)
	if m.Token != nil && subtle.ConstantTimeCompare(given[:], s.o.Token) == 1 {
		return nil
	}
	e := &jailer.Error{Code: jailer.CodeUnauthorized, Op: "session.token", Message: "the session has a token, and this is not it", Hint: "name the file that has it: --token-file"}
	if m.Token == nil {
		e.Message = "the session has a token, and none was given"
	}
	return e
}
