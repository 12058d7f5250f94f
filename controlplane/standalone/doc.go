// Package standalone is the embedded control plane for one machine: jobs in, allocations
// out. It keeps jobs with their versions, evaluations, allocations and nodes in its
// own bbolt file, decides with the pure function in controlplane/standalone/schedule, and
// tells a node through the interface node.ControlPlane what to run. It runs nothing itself.
//
// Every change is one transaction: the job, its evaluation and the allocations that
// follow from it become durable and visible together, or not at all. What was
// acknowledged survives a kill -9.
//
// Start reading at [Open], then [ControlPlane.RegisterJob]; write.go has the transaction,
// reads.go what can be asked, evaluate.go applies the scheduler's decisions.
package standalone
