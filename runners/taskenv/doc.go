// Package taskenv makes the environment of a task: the NOMAD_ variables, the job's own,
// and what hooks add; and it replaces ${…} references in texts with what they name.
//
// It depends on structs and the job's types only. Start reading at [NewBuilder], then [Env].
package taskenv
