package main

import "testing"

func TestPrintable(t *testing.T) {
	const hostile = "a\x1b[31m\u009bé\n\t\u202e\u200b\u2028\u2029\ufeff\U000e0001\xff \u00a0"
	const common = "\\u202e\\u200b\\u2028\\u2029\\ufeff\\U000e0001\ufffd \\u00a0"
	if got, want := printable(hostile), "a\\x1b[31m\\u009bé\\n\\t"+common; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := escaped(hostile), "a\\x1b[31m\\u009bé\n\t"+common; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
