// Package docs is the documentation for people. Its tests keep it true: every link
// leads somewhere, and every command of a console block is run, in order, against
// a real node.
package docs
