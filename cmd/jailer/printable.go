package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable is text of a stranger's in one line that drives no terminal and reads as what
// it is: control and format characters, a right-to-left override or an invisible space
// among them, are spelt out.
func printable(s string) string { return spelt(s, "") }

// escaped is printable, of lines and tabs.
func escaped(s string) string { return spelt(s, "\n\t") }

func spelt(s, kept string) string {
	var b strings.Builder
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if unicode.IsPrint(c) || strings.ContainsRune(kept, c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}
