package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/jailer-project/jailer"
)

// tokenFlag and dataFlag are flags of the verbs that have to do with such.
func (a *app) tokenFlag(fs *pflag.FlagSet) {
	fs.Var((*given)(&a.tokenFile), "token-file", "the token that the session or the workspace has is in `FILE`")
}

func (a *app) dataFlag(fs *pflag.FlagSet) {
	fs.Var((*given)(&a.dataDir), "data-dir", "keep persistent workspaces in `DIR` (absolute)")
}

// given is a string that is not empty: a variable that was not set must not mean "none".
type given string

func (g *given) String() string { return string(*g) }
func (g *given) Type() string   { return "" }

func (g *given) Set(s string) error {
	if s == "" {
		return errors.New("empty")
	}
	*g = given(s)
	return nil
}

// token reads what --token-file names; nil without the flag. A token is never an
// argument, which everybody on the host could read. The line end that an editor puts
// behind it is none of it.
func (a *app) token() ([]byte, error) {
	if a.tok != nil || a.tokenFile == "" { // a pipe can be read once
		return a.tok, nil
	}
	f, err := os.OpenFile(a.tokenFile, os.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, tokenError(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, tokenError(err)
	}
	if st.Mode().IsRegular() && st.Mode().Perm()&0o077 != 0 {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidRequest, Op: "token", Path: "--token-file", Message: "others than its owner may read or write it",
			Hint: "chmod 600 the file",
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, jailer.MaxTokenBytes+2))
	if err != nil {
		return nil, tokenError(err)
	}
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if len(b) < jailer.MinTokenBytes || len(b) > jailer.MaxTokenBytes {
		return nil, &jailer.Error{
			Code: jailer.CodeInvalidRequest, Op: "token", Path: "--token-file",
			Message: fmt.Sprintf("%d bytes given, a token has %d to %d", len(b), jailer.MinTokenBytes, jailer.MaxTokenBytes),
			Hint:    "make one: head -c 32 /dev/urandom | base64 > FILE",
		}
	}
	a.tok = b
	return b, nil
}

// tokenHash is what a session, or a workspace, keeps of its token.
func (a *app) tokenHash() ([]byte, error) {
	t, err := a.token()
	if t == nil || err != nil {
		return nil, err
	}
	h := sha256.Sum256(t)
	return h[:], nil
}

func tokenError(err error) error {
	return &jailer.Error{Code: jailer.CodeInvalidRequest, Op: "token", Path: "--token-file", Err: err}
}
