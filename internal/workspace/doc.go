// Package workspace keeps persistent workspaces on disk: a directory of files for each
// name, of one owner, that one jail writes to at a time.
//
// Who has a workspace is told by a lock of the kernel's, which dies with its holder.
// What the records beside it say explains, and decides nothing.
package workspace
