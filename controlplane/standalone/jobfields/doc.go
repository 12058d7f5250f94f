// Package jobfields knows what becomes of every field of a job: it is acted on, refused, or
// warned about. No field is ignored in silence: a field that is not in the table fails a
// test, as does one said to be acted on that no package reads.
//
// It knows nothing of what values mean, which is validation's. Start reading at [Check],
// then the table in table.go.
package jobfields
