// Package config reads the agent's configuration: HCL files, in Nomad's spelling where
// Nomad has the same thing. It is strict: what it does not know is an error with file,
// line and a suggestion. It is plain data for the agent; defaults and the form of grants
// are those of the packages that it configures.
//
// Start reading at [Config], then [Load].
package config
