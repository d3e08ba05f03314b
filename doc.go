// Package jailer runs commands that nobody trusts, each in a jail of its own,
// through the jailer program.
//
// The package is pure Go and holds no isolation code: a Client starts the
// program by absolute path, hands it a Request on a descriptor and reads the
// Result from another, so that a worker that embeds the package pays for
// neither cgo nor a copy of its own binary per jail. The outcome in a Result is
// what the kernel and the program saw, never what the command said.
//
// The documents (Request, Result, Error) are versioned JSON. Requests are read
// strictly: what is unknown, given twice or out of range is refused. Results
// and errors are read leniently, so that an older caller understands a newer
// program.
package jailer

// ProtocolVersion is the "v" of every document. A program that speaks another
// version is refused by the Client.
const ProtocolVersion = 1
