package jailer

import "os"

// Bounds of a token, in bytes. What is shorter could be guessed.
const (
	MinTokenBytes = 16
	MaxTokenBytes = 1024
)

// tokenPipe is a pipe that the token can be read from, nil without one: arguments and
// environment of a process are not secret enough.
func (c *Client) tokenPipe() (*os.File, error) {
	if c.Token == nil {
		return nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(c.Token) // far less than a pipe takes
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}
