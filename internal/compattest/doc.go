// Package compattest holds the node against the stock nomad: the commands that people and
// their scripts use, and job files, run on both.
//
// It is tests only, and must never know more of a node than its address. The stock binary is
// the operator's own, named by NOMAD_BIN, and is no part of the project: with it the
// commands are run (commands_test.go has the table), what they ask for is recorded in
// testdata/requests.txt, and the job files of testdata/jobs and testdata/around are run on
// both. Without it the recorded requests are sent, and what became of the job files is compared
// with what was recorded of Nomad in testdata/outcomes.txt and testdata/around.txt. Start reading at commands_test.go.
package compattest
