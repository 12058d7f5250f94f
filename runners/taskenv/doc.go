// Package taskenv makes the environment of a task: the NOMAD_ variables, the job's own,
// and what hooks add; and it replaces ${…} references in texts with what they name.
//
// It knows structs and the job specification only, so that drivers' authors can use it
// too. Start reading at [NewBuilder], then [Env].
package taskenv
