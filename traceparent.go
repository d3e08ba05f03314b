package jailer

import "strings"

// maxTraceParent bounds a traceparent of a later version than 00, which may be longer.
const maxTraceParent = 256

// ValidTraceParent says whether s is a traceparent of W3C Trace Context: version,
// trace id, parent id and flags, in lower-case hex. Ids of zeros alone and version ff
// are invalid; one of a version later than 00 may go on after a dash
// (www.w3.org/TR/trace-context, 3.2.2 and 4.3).
func ValidTraceParent(s string) bool {
	const first = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if len(s) < len(first) || len(s) > maxTraceParent {
		return false
	}
	for i, c := range []byte(s) {
		switch hex := '0' <= c && c <= '9' || 'a' <= c && c <= 'f'; {
		case i < len(first) && first[i] == '-' || i == len(first):
			if c != '-' {
				return false
			}
		case i < len(first) && !hex, c <= ' ' || c > '~':
			return false
		}
	}
	version, trace, parent := s[:2], s[3:35], s[36:52]
	return version != "ff" && (version != "00" || len(s) == len(first)) &&
		strings.Trim(trace, "0") != "" && strings.Trim(parent, "0") != ""
}
