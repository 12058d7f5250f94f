// Package template renders a task's template blocks: Go's text/template with a subset of
// consul-template's functions, those that need no service. What needs Consul, Vault or
// Nomad is refused by name. Rendering is bounded in time and memory whatever a template
// says, reads no file outside the task's directories, and writes none there.
//
// It knows nothing of tasks' life cycles, of when to render and what to do on a change; the
// task runner's hook does. Start reading at [New].
package template
