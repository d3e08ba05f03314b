// Package asuser does file work of root's as the user whose files they are, so that
// the kernel gives root no more there than that user has.
package asuser
