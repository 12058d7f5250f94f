// Package jobdiff tells in what two versions of a job differ, in Nomad's form: fields,
// objects, groups and tasks, each added, deleted, edited or the same. It is a pure
// function of two jobs, with the same answer every time, and must never know what a
// difference leads to: who plans annotates.
//
// Start reading at [Differ.Jobs].
package jobdiff
