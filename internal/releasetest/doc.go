// Package releasetest holds the tests of what is published: the three modules of the
// working tree, as users without a clone get them. They are published to a module
// proxy of files, at the versions that they require of each other.
package releasetest
