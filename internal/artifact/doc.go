// Package artifact moves files out of a workspace and into one, as a tar of nothing but
// regular files and directories.
//
// What is in a workspace, and what is in a tar, is a stranger's: both are bounded before
// they are read, and what a reader on the other side could be misled by (links, modes,
// owners, attributes, names that lead elsewhere) is left out or refused.
package artifact
