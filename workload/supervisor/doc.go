// Package supervisor has workloads owned by a process of their own, so that they
// outlive the agent. A [Server] in that process offers a [workload.Runtime] on a
// unix socket; a [Client] in the agent is one, and starts the process when it is
// needed and not there.
//
// The protocol is HTTP with JSON: a request that is given up ends on the other side,
// and people can look at it with curl. Only the user that the supervisor runs as, and
// root, may talk to it.
//
// The package never knows what a workload is: its server is given a supervisor, and
// plugins do not run there.
//
// Start reading at [Server.Serve], then [Client].
package supervisor
